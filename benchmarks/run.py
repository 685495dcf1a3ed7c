"""Run every benchmark, print one table, and store it in RESULTS.md.

``make bench``, or ``python benchmarks/run.py``. Each benchmark is a separate script and runs as one; one that
fails or hangs is named and the others continue. With ``--quick`` nothing is stored. `results.py` writes the
results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from environments import ROOT
from measure import Row, line
from results import BENCHMARKS, Part, conditions, load, write

HERE = Path(__file__).resolve().parent


def run_one(name: str, options: list[str], timeout_s: float) -> Part:
    """Run one benchmark; return its rows and conditions, or the problem."""
    print(f"{name} …", file=sys.stderr, flush=True)
    taken = conditions()
    problem: str | None = None
    rows: list[Row] = []
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / f"{name}.py"), "--json", *options],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        said = [text for text in done.stdout.splitlines() if text.startswith("{")]
        rows = [Row(**json.loads(text)) for text in said]
        if done.returncode != 0:
            problem = (done.stderr.strip().splitlines() or ["no message"])[-1]
        elif not rows:
            problem = "it said nothing"
    except subprocess.TimeoutExpired:
        problem = f"not done after {timeout_s:g} s"
    return Part(name, [] if problem else rows, {**taken, "load_after": load()}, problem)


def kept(name: str, folder: Path) -> Part | None:
    """Return the part that an earlier run stored of a benchmark, or None."""
    file = folder / f"{name}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text())
    return Part(name, [Row(**row) for row in found["rows"]], found["conditions"], None)


def keep(part: Part, folder: Path) -> None:
    """Store the rows of `part`, so that other parts can be repeated without it."""
    folder.mkdir(exist_ok=True)
    found = {"conditions": part.conditions, "rows": [asdict(row) for row in part.rows]}
    (folder / f"{part.name}.json").write_text(json.dumps(found, ensure_ascii=False, indent=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="smoke run; nothing is kept")
    parser.add_argument("--no-peers", action="store_true", help="measure ragmeter alone")
    parser.add_argument("--peers-dir", type=Path, default=ROOT, help="where .venv-bench-* are")
    parser.add_argument("--rows", type=Path, default=ROOT / ".benchmarks", help="keeps raw rows here")
    parser.add_argument(
        "--timeout", type=float, default=3600.0, help="seconds after which a benchmark is given up"
    )
    chosen = parser.parse_args()
    unknown = set(chosen.only) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    options = ["--peers-dir", str(chosen.peers_dir.resolve())]
    options += ["--quick"] if chosen.quick else []
    options += ["--no-peers"] if chosen.no_peers else []
    parts: list[Part] = []
    for name in BENCHMARKS:
        if not chosen.only or name in chosen.only:
            parts.append(run_one(name, options, chosen.timeout))
            if not chosen.quick and parts[-1].problem is None:
                keep(parts[-1], chosen.rows)
        elif not chosen.quick and (earlier := kept(name, chosen.rows)) is not None:
            parts.append(earlier)
    for row in (row for part in parts for row in part.rows):
        if row.target is not None or chosen.quick:
            print(line(row))
    failed = [part for part in parts if part.problem is not None]
    for part in failed:
        print(f"{part.name} did not run: {part.problem}")
    if not chosen.quick:
        write(parts, chosen.peers_dir)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
