"""What is kept of a run: RESULTS.md, with versions, machine, date, commit and load, and the plot.

``run.py`` calls this when a run is not a quick one. Each part says under what conditions it was taken,
because parts can be repeated by themselves. What stays short and why is written by hand in
``shortfalls.md`` and copied. Nothing here measures.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import tomllib
from environments import ROOT, canonical, env_dir, peer_states, peer_versions
from growth_plot import draw
from measure import Row, number

HERE = Path(__file__).resolve().parent
BENCHMARKS = {
    "request_overhead_langchain": "CPU added to a LangChain request, on the request's path",
    "request_overhead_llama_index": "CPU added to a LlamaIndex request, on the request's path",
    "rivals": "Twenty ways to retrieve: what others capture, and what they add to a request",
    "live_latency": "Latency of an application at a fixed request rate",
    "waking_up": "How late a thread wakes up beside scoring",
    "deterministic_metrics": "Metrics without a judge: time by size, equal results",
    "judged_metrics": "Judged metrics: calls, prompt tokens, wall time",
    "judged_throughput": "Judged throughput against concurrency / latency",
    "meter_capacity": "Capacity and memory of the meter",
    "spans": "Spans of others: received ones a second, the processor beside OpenInference",
    "receiving": "What the server takes over HTTP, with and without a spool",
    "publishing": "Requests that another process scores",
    "shared_budget": "A judge's budget that processes share, in Redis",
    "storing": "What the store keeps of ragmeter's telemetry, and the page of 50,000 requests",
    "archive": "Archives: memory and rows a second of ragmeter evaluate",
    "footprint": "Import time and installed size",
    "estimates": "Means of quality: do intervals hold the truth, and what do they cost",
    "alarms": "Alarms about quality: how often for nothing, how soon",
    "alarm_rules": "The shipped Prometheus rules: how often for nothing, how soon",
}
SHOWN = ("ragmeter-otel", "langchain-core", "langgraph", "llama-index-core", "opentelemetry-sdk", "pydantic",
         "rapidfuzz", "openai")  # fmt: skip
PEERS_SHOWN = (
    "continuous-eval", "deepeval", "langfuse", "langchain-core", "langgraph", "llama-index-core",
    "llama-index-observability-otel", "mlflow", "openlit", "openinference-instrumentation-langchain",
    "openinference-instrumentation-llama-index", "opentelemetry-instrumentation-genai-langchain",
    "opentelemetry-instrumentation-langchain", "opentelemetry-instrumentation-llamaindex", "ragas",
    "rouge-score", "trulens-feedback",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """What one benchmark gave, and when."""

    name: str
    rows: list[Row]
    conditions: dict[str, str]
    problem: str | None
    """Why there are no rows; None: there are."""


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], check=False, capture_output=True, text=True, cwd=ROOT
    )
    return done.stdout.strip()


def load() -> str:
    """Return the load average over a minute, where the system tells it."""
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except OSError:
        return "unknown"


def conditions() -> dict[str, str]:
    """Return date, commit and load as of now."""
    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "date": f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "commit": git("rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "load_before": load(),
    }


def machine() -> str:
    """Return the machine in words, as far as the system tells."""
    told = [f"{os.cpu_count()} cores"]
    try:
        bytes_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        told.append(f"{bytes_ / 2**30:.0f} GiB")
    except (ValueError, OSError, AttributeError):
        pass
    info = Path("/proc/cpuinfo")
    names = [
        text.partition(":")[2].strip()
        for text in (info.read_text().splitlines() if info.exists() else ())
        if text.startswith("model name")
    ]
    told += names[:1]
    return f"{', '.join(told)}; {platform.system()} {platform.release()} {platform.machine()}"


def peers(peers_dir: Path) -> list[str]:
    """Say which peers were there in which version, and which were not and why."""
    plan = tomllib.loads((HERE / "peers.toml").read_text())
    out = []
    for env in plan["envs"]:
        wanted = [name for name, peer in plan["peers"].items() if peer["env"] == env]
        if not env_dir(env, peers_dir).exists():
            out.append(f"- peers in `{env}`: not set up ({', '.join(wanted)})")
            continue
        found, states = peer_versions(env, peers_dir), peer_states(env, peers_dir)
        shown = ", ".join(f"{name} {found[name]}" for name in PEERS_SHOWN if name in found)
        out.append(f"- peers in `{env}`: {shown}")
        missing = {name: states.get(name, "not set up") for name in wanted}
        out += [f"  - {name}: {state}" for name, state in missing.items() if state != "ok"]
    return out


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
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return lines


def report(parts: list[Part], peers_dir: Path, *, plot: bool) -> str:
    """Return RESULTS.md; `plot`: there is one to point to."""
    installed = importlib.metadata.distributions()
    found = {canonical(dist.metadata["Name"]): dist.version for dist in installed}
    ours = ", ".join(f"{name} {found[name]}" for name in SHOWN if name in found)
    aimed = [row for part in parts for row in part.rows if row.target is not None]
    out = [
        "# Results",
        "",
        "Written by `python benchmarks/run.py`; do not edit. How to read and repeat it: [README.md](README.md).",
        "",
        f"- machine: {machine()}",
        f"- Python {platform.python_version()}; ours: {ours}",
        *peers(peers_dir),
    ]
    took = {part.name: part for part in parts}
    for name in BENCHMARKS:
        part = took.get(name)
        if part is None or part.problem is not None:
            out.append(f"- `{name}` did not run: {part.problem if part else 'not asked for'}")
    decided = [row for row in aimed if row.met is not None]
    met = sum(row.met is True for row in decided)
    open_ = len(aimed) - len(decided)
    title = f"## Targets: {met} of {len(decided)} met" + (f", {open_} not decided" if open_ else "")
    out += ["", title, "", *table(aimed, full=False)]
    shortfalls = HERE / "shortfalls.md"
    if shortfalls.exists():
        out += ["", shortfalls.read_text().strip()]
    for name, title in BENCHMARKS.items():
        part = took.get(name)
        if part is None or not part.rows:
            continue
        when = part.conditions
        out += ["", f"## {title}", ""]
        out.append(
            f"`{name}.py`, {when['date']}, commit {when['commit']}, "
            f"load {when['load_before']} → {when['load_after']}"
        )
        if name == "deterministic_metrics" and plot:
            out += ["", "![CPU by words and by chunks, ours and continuous-eval's](growth.svg)"]
        out += ["", *table(part.rows, full=True)]
    return "\n".join(out) + "\n"


def write(parts: list[Part], peers_dir: Path, into: Path = HERE) -> None:
    """Write RESULTS.md and growth.svg."""
    rows = [row for part in parts for row in part.rows if part.name == "deterministic_metrics"]
    plot = draw(rows) if rows else None
    if plot is not None:
        (into / "growth.svg").write_text(plot)
    (into / "RESULTS.md").write_text(report(parts, peers_dir, plot=plot is not None))
