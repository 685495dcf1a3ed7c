"""Create the environments of the peers that ragmeter is compared with.

Run by hand or by ``make bench-setup``, before the benchmarks: ``python benchmarks/setup_peers.py``. Reads
``peers.toml``, creates one virtual environment ``.venv-bench-<env>`` for each table of ``[envs]``, and writes
into each the installed packages and the importable peers. A peer that does not install is named and left out;
the others are still measured. It must not change the environment it runs in.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from pathlib import Path

import tomllib
from environments import QUIET, ROOT, env_dir, env_python

REPORT = "bench-peers.json"


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


def install(python: Path, requirements: list[str]) -> str | None:
    """Install `requirements`; return pip's last error line, or None on success."""
    if not requirements:
        return None
    done = run([str(python), "-m", "pip", "install", "-q", *requirements])
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return errors[-1] if errors else done.stderr.strip()[-300:]


def ragmeter_requirements() -> list[str]:
    """Return ragmeter's own base dependencies, for environments in which it is measured, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def _requirements(entry: dict) -> list[str]:
    """Return the requirements in a peer's table: one requirement, or a list of them."""
    asked = entry["requirement"]
    return [asked] if isinstance(asked, str) else list(asked)


def versions(python: Path) -> dict[str, str]:
    done = run([str(python), "-m", "pip", "list", "--format=json"])
    return {item["name"].lower(): item["version"] for item in json.loads(done.stdout or "[]")}


def make_env(name: str, table: dict, peers: dict[str, dict], into: Path) -> dict[str, str]:
    """Create one environment; return, for each of its peers, ``ok`` or the reason why it is not usable."""
    home = env_dir(name, into)
    if not env_python(name, into).exists():
        venv.create(home, with_pip=True)
    python = env_python(name, into)
    base = [*table.get("requirements", ())]
    if table.get("with_ragmeter"):
        base += ragmeter_requirements()
    asked = {peer: _requirements(entry) for peer, entry in peers.items()}
    wanted = [one for requirements in asked.values() for one in requirements]
    failures: dict[str, str] = {}
    if install(python, [*base, *wanted]) is not None:
        # They do not install together: one by one, to name the conflicting one.
        install(python, base)
        for peer, requirements in asked.items():
            problem = install(python, [*base, *requirements])
            if problem is not None:
                failures[peer] = problem
    states: dict[str, str] = {}
    for peer, entry in peers.items():
        if peer in failures:
            states[peer] = f"does not install: {failures[peer]}"
            continue
        done = run([str(python), "-c", f"import {entry['check']}"], env={**QUIET})
        error = (done.stderr.strip().splitlines() or ["no message"])[-1]
        states[peer] = "ok" if done.returncode == 0 else f"does not import: {error}"
    report = {"peers": states, "versions": versions(python)}
    (home / REPORT).write_text(json.dumps(report, indent=1, sort_keys=True))
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", help="environments to make; default: all")
    parser.add_argument("--into", type=Path, default=ROOT, help="directory for .venv-bench-*")
    chosen = parser.parse_args()
    plan = tomllib.loads((ROOT / "benchmarks" / "peers.toml").read_text())
    for name, table in plan["envs"].items():
        if chosen.envs and name not in chosen.envs:
            continue
        peers = {key: peer for key, peer in plan["peers"].items() if peer["env"] == name}
        for peer, state in make_env(name, table, peers, chosen.into).items():
            print(f"{name:18} {peer:28} {state}", flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
