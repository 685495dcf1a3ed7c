"""``ragmeter metrics``: every metric, what it needs, how it works and what it costs.

Built from the metrics themselves, so that it cannot differ from them.  Called by `app`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from ragmeter.metrics import Metric
from ragmeter.metrics.registry import known_metrics, resolve_metrics

from ._console import Console
from ._score_table import new_table

_COST = re.compile(r"^\s*Cost:\s*(.+?)(?=\n\s*\n|\n\s*[A-Z][A-Za-z ]*:|\Z)", re.DOTALL | re.MULTILINE)


class MetricFacts(NamedTuple):
    """The properties of a metric, as in the listing."""

    name: str
    """The metric's name in ``--metrics`` and ``RagMeter(metrics=[...])``."""
    question: str
    """The question that the metric answers: the first sentence of its docstring."""
    scores: tuple[str, ...]
    needs: tuple[str, ...]
    """Fields of the sample that the metric reads."""
    method: str
    """``exact``, ``rouge``, ``lexical`` or ``llm``."""
    cost: str
    """``free``, or the number of judge calls."""
    ranges: Mapping[str, tuple[float | None, float | None]]
    """Smallest and largest possible value of each score; None: no bound."""
    target: str
    """The measured part: ``retrieval`` or ``answer``."""
    definition: str


def list_metrics() -> list[MetricFacts]:
    """Return every metric that has a name on the command line, built-ins first."""
    return [_facts(name, resolve_metrics([name])[0]) for name in known_metrics()]


def _facts(name: str, metric: Metric) -> MetricFacts:
    docstring = inspect.getdoc(type(metric)) or ""
    return MetricFacts(
        name=name,
        question=docstring.split("\n", 1)[0].strip(),
        scores=metric.score_names,
        needs=metric.needs,
        method=metric.method,
        cost=_cost(metric, docstring),
        ranges={name: metric.range_of(name) for name in metric.score_names},
        target=metric.target,
        definition=metric.definition,
    )


def _cost(metric: Metric, docstring: str) -> str:
    if not metric.judged:
        return "free"
    found = _COST.search(docstring)
    return " ".join(found.group(1).replace("`", "").split()) if found else "asks the judge"


def _range_column(facts: MetricFacts) -> str:
    ends = [["" if end is None else f"{end:g}" for end in ends] for ends in facts.ranges.values()]
    texts = [" – ".join(two).strip() for two in ends]
    return texts[0] if len(set(texts)) == 1 else "\n".join(("", *texts))


def _short(cost: str) -> str:
    """Return the first clause; exceptions and options are in the JSON and in docs/metrics.md."""
    return re.split(r"[;.]", cost, maxsplit=1)[0]


TABLE_WIDTH = 90
"""Columns of the table; a narrower terminal gets a list."""


def print_metrics(console: Console) -> None:
    """Print the listing, as a table if there is room."""
    if console.width < TABLE_WIDTH:
        _print_list(console)
    else:
        _print_table(console)
    console.print(
        Text(
            "needs: without them a score is missing_input, never 0. "
            "cost: in the usual case; exceptions: --json. One metric explained: ragmeter metrics NAME.",
            style="dim",
        )
    )


def _print_list(console: Console) -> None:
    for facts in list_metrics():
        console.print(Text(facts.name, style="bold"))
        lines = [
            f"needs {', '.join(need.replace('|', ' or ') for need in facts.needs) or 'nothing'}",
            f"{facts.method}, {_short(facts.cost)}",
        ]
        if facts.scores != (facts.name,):
            lines.insert(0, "\n".join(facts.scores))
        for line in lines:
            console.print_indented(line)


def _print_table(console: Console) -> None:
    table: Table = new_table()
    table.add_column("metric and its scores", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    table.add_column("method")
    table.add_column("cost", overflow="fold")
    table.add_column("range", no_wrap=True)
    for facts in list_metrics():
        names = Text(facts.name, style="bold")
        if facts.scores != (facts.name,):
            for score in facts.scores:
                names.append(f"\n  {score}", style="not bold")
        table.add_row(
            names,
            "\n".join(need.replace("|", " or\n") for need in facts.needs) or "–",
            facts.method,
            Text(_short(facts.cost), style="green" if facts.cost == "free" else ""),
            _range_column(facts),
        )
    console.print(table)
