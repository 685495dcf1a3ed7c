"""How scores look on a terminal: colours, widths and the table of means and percentiles.

Used by the reports of `demo` and `evaluate`.  It renders; it computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from ragmeter.metrics import Score

from ._summary import Grade, ScoreSummary, grade

__all__ = ["new_table", "score_cell", "summary_table"]

_NO_VALUE = {
    "missing_input": "n/a",
    "undefined": "–",
    "skipped": "skip",
    "judge_error": "err",
    "metric_error": "err",
    "timeout": "time",
    "partial": "part",
}
"""What stands in a cell without a value, by status."""


def new_table(title: str | None = None, *, caption: str | None = None) -> Table:
    """Return an empty table in the style of every report."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


_STYLES: Mapping[Grade | None, str] = {"good": "green", "fair": "yellow", "poor": "red", None: ""}


def format_value(value: float, value_range: tuple[float | None, float | None]) -> str:
    """Write a value with two decimals, a whole number of a count without."""
    if value_range != (0.0, 1.0) and value == int(value):
        return str(int(value))
    return f"{value:.2f}"


def score_cell(score: Score | None) -> Text:
    """Return one coloured cell; a score without a value shows why, never a zero."""
    if score is None:
        return Text("·", style="dim")
    if score.value is None:
        return Text(_NO_VALUE.get(score.status, score.status), style="dim")
    return Text(
        format_value(score.value, score.range),
        style=_STYLES[grade(score, score.value)],
    )


def summary_table(summaries: Sequence[ScoreSummary], *, intervals: bool) -> Table:
    """Return one row per score name: how many, mean, percentiles, and how many had no value.

    Args:
        summaries: What to show.
        intervals: Whether to show the mean's 95 % interval.
    """
    table = new_table("Scores over all requests")
    table.add_column("score", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("mean", justify="right")
    if intervals:
        table.add_column("95 % CI", justify="right", no_wrap=True)
    for heading in ("p10", "p50", "p90"):
        table.add_column(heading, justify="right")
    table.add_column("no value", overflow="fold")
    for one in summaries:
        cells: list[Text | str] = [one.name, str(one.count), _number(one, one.mean)]
        if intervals:
            cells.append(_interval(one))
        cells += [_number(one, value) for value in (one.p10, one.p50, one.p90)]
        cells.append(
            Text(
                ", ".join(f"{count} {status}" for status, count in one.without_value.items()),
                style="dim",
            )
        )
        table.add_row(*cells)
    return table


def _number(summary: ScoreSummary, value: float | None) -> Text:
    if value is None:
        return Text("–", style="dim")
    return Text(f"{value:.2f}", style=_STYLES[grade(summary, value)])


def _interval(summary: ScoreSummary) -> Text:
    if summary.mean_low is None or summary.mean_high is None:
        return Text("–", style="dim")
    return Text(f"{summary.mean_low:.2f}–{summary.mean_high:.2f}")
