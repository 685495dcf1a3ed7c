"""The record of a run, RESULTS.md, with versions, machine, date, commit and load, and the plot.

``run.py`` calls this when a run is not a quick one. Each part states its conditions, because parts can be
repeated separately. A part that was not repeated stays as it was written: only the table itself is stored,
because raw rows are on one machine only. The shortfalls and their reasons are written by hand in
``shortfalls.md`` and copied. Nothing here measures.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import tomllib
from environments import ROOT, canonical, env_dir, peer_states, peer_versions
from growth_plot import draw
from measure import Row, number

HERE = Path(__file__).resolve().parent
BENCHMARKS = {
    "request_overhead_langchain": "CPU added to a LangChain request, on the request's path",
    "request_overhead_llama_index": "CPU added to a LlamaIndex request, on the request's path",
    "calls": "Python calls of one LangChain request, by thread",
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
    "first_paint": "First paint of the page of 1,500 requests, in a real browser",
    "archive": "Archives: memory and rows a second of ragmeter evaluate",
    "footprint": "Import time and installed size",
    "estimates": "Means of quality: do intervals hold the truth, and what do they cost",
    "shadow": "A shadow retriever: is its interval ever wrong, do words name a wrong winner",
    "traffic_views": "What gaps, chunks, conversations, shadows and looks cost a request",
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


HEAD = ["what", "ours", "peer", "ratio", "target", "met", "spread", "note"]
SHORT = HEAD.index("met") + 1
"""Columns of the table of targets."""
TARGET = HEAD.index("target")
NONE = "–"
MET = {True: "yes", False: "**no**", None: NONE}
HOST = ("- machine: ", "- Python ")
"""Beginnings of the lines with machine and versions."""
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Part:
    """The result of one benchmark, and its date."""

    name: str
    rows: list[Row]
    conditions: dict[str, str]
    problem: str | None
    """The reason for the absence of rows, or None."""
    written: tuple[str, ...] = ()
    """The lines below the title as an earlier run wrote them, in place of `rows` and `conditions`."""

    @property
    def aimed(self) -> list[list[str]]:
        """The cells, up to "met", of the rows that have a target."""
        if not self.rows:
            found = [line.strip("| ").split(" | ") for line in self.written if _is_row(line)]
        else:
            found = [cells(row) for row in self.rows]
        return [one[:SHORT] for one in found if one[TARGET] != NONE]

    @property
    def date(self) -> str:
        """Its date; "" if unknown. Later ones are greater."""
        said = self.conditions.get("date") or " ".join(self.written[:1])
        found = DATE.search(said)
        return found[0] if found else ""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=False, capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip()


def load() -> str:
    """Return the load average over a minute, if the system reports it."""
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except OSError:
        return "unknown"


def conditions() -> dict[str, str]:
    """Return the current date, commit and load."""
    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "date": f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "commit": git("rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "load_before": load(),
    }


def machine() -> str:
    """Return a description of the machine, as far as the system reports it."""
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


def peers(peers_dir: Path, earlier: str = "") -> list[str]:
    """Return the present peers with their versions, and the absent ones with the reason, as text.

    For an environment that is not on this machine, the text is RESULTS.md's `earlier` one, to which its rows
    belong.
    """
    plan = tomllib.loads((HERE / "peers.toml").read_text())
    out = []
    for env in plan["envs"]:
        wanted = [name for name, peer in plan["peers"].items() if peer["env"] == env]
        if not env_dir(env, peers_dir).exists():
            said = re.search(rf"^- peers in `{env}`: (?!not set up).*(\n  - .*)*", earlier, re.MULTILINE)
            if said is not None:
                out += said[0].splitlines()
                continue
            out.append(f"- peers in `{env}`: not set up ({', '.join(wanted)})")
            continue
        found, states = peer_versions(env, peers_dir), peer_states(env, peers_dir)
        shown = ", ".join(f"{name} {found[name]}" for name in PEERS_SHOWN if name in found)
        out.append(f"- peers in `{env}`: {shown}")
        missing = {name: states.get(name, "not set up") for name in wanted}
        out += [f"  - {name}: {state}" for name, state in missing.items() if state != "ok"]
    return out


def cells(row: Row) -> list[str]:
    """Return the cells of a row under the columns of `HEAD`."""
    ours = f"{number(row.ours)} {row.unit}".strip()
    peer = NONE if row.peer is None else f"{number(row.peer)} ({row.peer_name})"
    found = [row.what, ours, peer, number(row.ratio), row.target or NONE, MET[row.met],
             row.spread or NONE, row.note or ""]  # fmt: skip
    return [cell.replace("|", "/") for cell in found]


def table(rows: list[list[str]], columns: int) -> list[str]:
    """Return cells as Markdown, under the first columns of `HEAD`."""
    lines = [HEAD[:columns], ["---"] * columns, *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _is_row(line: str) -> bool:
    return line.startswith("| ") and not line.startswith(("| what |", "| ---", "|---"))


def written(text: str) -> dict[str, Part]:
    """Return the parts of RESULTS.md, unchanged, by name."""
    found: dict[str, Part] = {}
    for section in text.split("\n## ")[1:]:
        below = section.split("\n")[1:]
        lines = [line for line in below if line and not line.startswith("![")]
        name = re.match(r"`(\w+)\.py`, ", lines[0]) if lines else None
        if name is not None:
            found[name[1]] = Part(name[1], [], {}, None, tuple(lines))
    return found


def together(parts: list[Part], earlier: str, now: list[str]) -> list[Part]:
    """Return `parts`, and those of the earlier RESULTS.md that are not among them or are newer.

    An earlier part states its machine and versions if these are no longer the ones at the top.

    Args:
        parts: Those of this run, and of raw rows that still exist.
        earlier: The text of RESULTS.md, "" if there is none.
        now: The lines at its top with machine and versions, as of this run.
    """
    took = {part.name: part for part in parts}
    out = list(parts)
    then = [line.removeprefix("- ") for line in earlier.splitlines() if line.startswith(HOST)]
    moved = "" if [f"- {line}" for line in then] == now or not then else "; then: " + "; ".join(then)
    for name, old in written(earlier).items():
        part = took.get(name)
        if part is not None and part.problem is None and part.date >= old.date:
            continue
        first = old.written[0] if "; then: " in old.written[0] else old.written[0] + moved
        kept = replace(old, problem=part.problem if part else None, written=(first, *old.written[1:]))
        out = [one for one in out if one.name != name] + [kept]
    return out


def host() -> list[str]:
    """Return the lines with machine and versions."""
    installed = importlib.metadata.distributions()
    found = {canonical(dist.metadata["Name"]): dist.version for dist in installed}
    ours = ", ".join(f"{name} {found[name]}" for name in SHOWN if name in found)
    return [f"{HOST[0]}{machine()}", f"{HOST[1]}{platform.python_version()}; ours: {ours}"]


def report(parts: list[Part], peers_dir: Path, *, plot: bool, earlier: str = "") -> str:
    """Return the text of RESULTS.md; `plot`: whether there is one to link; `earlier`: its previous text."""
    now = host()
    parts = together(parts, earlier, now)
    took = {part.name: part for part in parts}
    aimed = [row for name in BENCHMARKS if name in took for row in took[name].aimed]
    out = [
        "# Results",
        "",
        "Written by `python benchmarks/run.py`; do not edit. How to read and repeat it: [README.md](README.md).",
        "",
        *now,
        *peers(peers_dir, earlier),
    ]
    for name in BENCHMARKS:
        part = took.get(name)
        if part is None:
            out.append(f"- `{name}` did not run: not asked for")
        elif part.problem is not None:
            stands = "; below stands an earlier run" if part.written else ""
            out.append(f"- `{name}` did not run: {part.problem}{stands}")
    decided = [row for row in aimed if row[-1] != NONE]
    met = sum(row[-1] == MET[True] for row in decided)
    open_ = len(aimed) - len(decided)
    title = f"## Targets: {met} of {len(decided)} met" + (f", {open_} not decided" if open_ else "")
    out += ["", title, "", *table(aimed, SHORT)]
    shortfalls = HERE / "shortfalls.md"
    if shortfalls.exists():
        out += ["", shortfalls.read_text().strip()]
    for name, title in BENCHMARKS.items():
        part = took.get(name)
        if part is None or not (part.rows or part.written):
            continue
        if part.rows:
            when = part.conditions
            taken = (
                f"{when['date']}, commit {when['commit']}, load {when['load_before']} → {when['load_after']}"
            )
            lines = [f"`{name}.py`, {taken}", *table([cells(row) for row in part.rows], len(HEAD))]
        else:
            lines = list(part.written)
        out += ["", f"## {title}", "", lines[0]]
        if name == "deterministic_metrics" and plot:
            out += ["", "![CPU by words and by chunks, ours and continuous-eval's](growth.svg)"]
        out += ["", *lines[1:]]
    return "\n".join(out) + "\n"


def write(parts: list[Part], peers_dir: Path, into: Path = HERE) -> None:
    """Write RESULTS.md and growth.svg."""
    rows = [row for part in parts for row in part.rows if part.name == "deterministic_metrics"]
    plot, picture, file = draw(rows) if rows else None, into / "growth.svg", into / "RESULTS.md"
    earlier = file.read_text("utf-8") if file.exists() else ""
    if plot is not None:
        picture.write_text(plot)
    file.write_text(report(parts, peers_dir, plot=picture.exists(), earlier=earlier))
