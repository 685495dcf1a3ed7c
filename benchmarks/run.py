"""Run every benchmark, print one table, and keep it in RESULTS.md.

``make bench``, or ``python benchmarks/run.py``. Each benchmark is a script of its own and runs as one;
what fails is named and the others go on. With ``--quick`` nothing is kept. `RESULTS.md` says with
which versions, on what machine, at which commit and under what load the numbers were taken, and
ends with what stays short and why, which is written by hand in ``shortfalls.md``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from measure import ROOT, Row, line, number, peer_states, peer_versions

HERE = Path(__file__).resolve().parent
BENCHMARKS = {
    "request_overhead_langchain": "CPU added to a LangChain request, on the request's path",
    "request_overhead_llama_index": "CPU added to a LlamaIndex request, on the request's path",
    "live_latency": "Latency of an application at a fixed request rate",
    "deterministic_metrics": "Metrics without a judge: time by size, equal results",
    "judged_metrics": "Judged metrics: calls, prompt tokens, wall time",
    "meter_capacity": "Capacity and memory of the meter",
    "footprint": "Import time and installed size",
}
SHOWN = ("ragmeter", "langchain-core", "langgraph", "llama-index-core", "opentelemetry-sdk", "pydantic",
         "rapidfuzz", "openai")  # fmt: skip
PEERS_SHOWN = (
    "continuous-eval", "deepeval", "langfuse", "langchain-core", "langgraph", "llama-index-core",
    "llama-index-observability-otel", "openinference-instrumentation-langchain",
    "openinference-instrumentation-llama-index", "opentelemetry-instrumentation-genai-langchain",
    "opentelemetry-instrumentation-langchain", "opentelemetry-instrumentation-llamaindex", "ragas",
    "rouge-score", "trulens-feedback",
)  # fmt: skip


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], check=False, capture_output=True, text=True, cwd=ROOT
    )
    return done.stdout.strip()


def memory_gb() -> float | None:
    """Return the machine's memory, where the system tells it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return None


def load() -> str:
    """Return the load average over a minute, where the system tells it."""
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except OSError:
        return "unknown"


def run_one(name: str, options: list[str]) -> tuple[list[Row], str | None]:
    """Run one benchmark; return its rows, and what went wrong if it did."""
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), "--json", *options],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return [], (done.stderr.strip().splitlines() or ["no message"])[-1]
    return [
        Row(**json.loads(text)) for text in done.stdout.splitlines() if text.startswith("{")
    ], None


def versions() -> dict[str, str]:
    """Return the versions of what matters here, as far as it is installed."""
    found = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    return {name: found[name] for name in SHOWN if name in found}


def table(rows: list[Row], *, full: bool) -> list[str]:
    """Write rows as Markdown: with targets first, or everything with spread and notes."""
    head = "| what | ours | peer | ratio | target | met |"
    lines = [f"{head} spread | note |" if full else head, "|---" * (8 if full else 6) + "|"]
    for row in rows:
        ours = f"{number(row.ours)} {row.unit}".strip()
        peer = "–" if row.peer is None else f"{number(row.peer)} ({row.peer_name})"
        met = {True: "yes", False: "**no**", None: "–"}[row.met]
        cells = [row.what, ours, peer, number(row.ratio), row.target or "–", met]
        if full:
            cells += [row.spread or "–", row.note or ""]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def report(rows: list[Row], problems: dict[str, str], loads: list[str], peers_dir: Path) -> str:
    """Return RESULTS.md."""
    today = dt.datetime.now(dt.timezone.utc).date()
    memory = memory_gb()
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB" if memory else f"{os.cpu_count()} cores"
    changed = (
        " with uncommitted changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    )
    aimed = [row for row in rows if row.target is not None]
    out = [
        "# Results",
        "",
        "Written by `python benchmarks/run.py`; do not edit. How to read and repeat it: [README.md](README.md).",
        "",
        f"- date {today}, commit {git('rev-parse', '--short', 'HEAD')}{changed}",
        f"- machine: {machine}, {platform.system()} {platform.machine()}",
        f"- Python {platform.python_version()}; load average while running {' → '.join(loads)}",
        "- ours: " + ", ".join(f"{name} {version}" for name, version in versions().items()),
    ]
    envs = sorted(
        path.name.removeprefix(".venv-bench-") for path in peers_dir.glob(".venv-bench-*")
    )
    for env in envs:
        found = peer_versions(env, peers_dir)
        shown = ", ".join(f"{name} {found[name]}" for name in PEERS_SHOWN if name in found)
        out.append(f"- peers in `{env}`: {shown}")
        out += [
            f"  - {peer}: {state}"
            for peer, state in peer_states(env, peers_dir).items()
            if state != "ok"
        ]
    out += [f"- `{name}` did not run: {why}" for name, why in problems.items()]
    met = sum(row.met is True for row in aimed)
    judged = sum(row.met is not None for row in aimed)
    out += ["", f"## Targets: {met} of {judged} met", "", *table(aimed, full=False)]
    shortfalls = HERE / "shortfalls.md"
    if shortfalls.exists():
        out += ["", shortfalls.read_text().strip()]
    for name, title in BENCHMARKS.items():
        own = [row for row in rows if row.benchmark == name]
        if own:
            out += ["", f"## {title}", "", f"`{name}.py`", "", *table(own, full=True)]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="smoke run; nothing is kept")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers-dir", type=Path, default=ROOT)
    parser.add_argument(
        "--rows", type=Path, default=ROOT / ".benchmarks", help="keeps raw rows here"
    )
    chosen = parser.parse_args()
    options = ["--peers-dir", str(chosen.peers_dir)]
    options += ["--quick"] if chosen.quick else []
    options += ["--no-peers"] if chosen.no_peers else []
    chosen.rows.mkdir(exist_ok=True)
    rows: list[Row] = []
    problems: dict[str, str] = {}
    loads = [load()]
    for name in BENCHMARKS:
        kept = chosen.rows / f"{name}.jsonl"
        if chosen.only and name not in chosen.only:
            # Rows of an earlier run of the same day's work: a part can be repeated by itself.
            if kept.exists() and not chosen.quick:
                rows += [Row(**json.loads(text)) for text in kept.read_text().splitlines()]
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        own, problem = run_one(name, options)
        loads.append(load())
        if problem is not None:
            problems[name] = problem
        elif not chosen.quick:
            from dataclasses import asdict

            kept.write_text("".join(json.dumps(asdict(row)) + "\n" for row in own))
        rows += own
    for row in rows:
        if row.target is not None or chosen.quick:
            print(line(row))
    for name, why in problems.items():
        print(f"{name} did not run: {why}")
    if not chosen.quick:
        (HERE / "RESULTS.md").write_text(report(rows, problems, loads, chosen.peers_dir))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
