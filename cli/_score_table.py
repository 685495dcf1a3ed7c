"""The appearance of scores on a terminal: colours, widths and the table of means and percentiles.

Used by the reports of `demo` and `evaluate`.  It renders; it computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from ragmeter.metrics import Score
from ragmeter.metrics._display.summary import ScoreSummary, Standing, standing, valued_first
from ragmeter.metrics._display.wording import SHORT_STATUSES, STATUS_MEANINGS, value_text


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


VERDICT_STYLES: Mapping[str, str] = {"good": "green", "suspect": "yellow", "bad": "red"}
STANDINGS: Mapping[Standing, tuple[str, str]] = {
    "worst": ("red", "among the worst tenth of its column"),
    "low": ("yellow", "among the worst quarter"),
}
"""The style of a cell by the rank of its value among the others, and the words for it."""


def score_cell(score: Score | None, usual: ScoreSummary | None = None) -> Text:
    """Return one cell, coloured if conspicuously bad among the `usual` values.

    A score without a value shows the reason, never a zero.
    """
    if score is None:
        return Text("·", style="dim")
    if score.value is None:
        return Text(SHORT_STATUSES.get(score.status, score.status), style="dim")
    place = None if usual is None else standing(usual, score.value)
    style = "" if place is None else STANDINGS[place][0]
    return Text(value_text(score.value, score.range), style=style)


def legend(cells: Iterable[Text], *, colours: bool) -> str:
    """Return the meaning of the words in `cells` and, if colours are shown, of their styles."""
    seen = list(cells)
    plain = {cell.plain for cell in seen}
    styles = {str(cell.style) for cell in seen if colours}
    words = [f"{sign}: {meaning}" for sign, meaning in STATUS_MEANINGS.items() if sign in plain]
    words += [f"{style}: {meaning}" for style, meaning in STANDINGS.values() if style in styles]
    return "; ".join(words)


NARROW = 72
"""Columns below which a table shows only the mean, with its interval."""
NARROWEST = 56
"""Columns below which it shows only the mean."""
WIDE = 100
"""Columns below which the reasons for missing values replace the outer percentiles."""


def summary_table(summaries: Sequence[ScoreSummary], *, intervals: bool, width: int = 80) -> Table:
    """Return one row per score name: count, mean, percentiles, and number of missing values.

    Args:
        summaries: The summaries to show; those without any value come last.
        intervals: Whether to show the mean's 95 % interval.
        width: Columns of the terminal; a narrow one gets no percentiles, the narrowest no intervals.
    """
    table = new_table("Scores over all requests")
    summaries = valued_first(summaries)
    if width < NARROW:
        intervals = intervals and width >= NARROWEST
        table.add_column("score", overflow="fold")
        for heading in ("n", "mean", "95 % CI") if intervals else ("n", "mean"):
            table.add_column(heading, justify="right", no_wrap=True)
        for one in summaries:
            ends = (interval_cell(one),) if intervals else ()
            table.add_row(one.name, str(one.count), number_cell(one.mean), *ends)
        return table
    table.add_column("score", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("mean", justify="right")
    if intervals:
        table.add_column("95 % CI", justify="right", no_wrap=True)
    crowded = intervals and width < WIDE and any(one.without_value for one in summaries)
    for heading in ("p50",) if crowded else ("p10", "p50", "p90"):
        table.add_column(heading, justify="right")
    table.add_column("no value", overflow="fold")
    for one in summaries:
        cells: list[Text | str] = [one.name, str(one.count), number_cell(one.mean)]
        if intervals:
            cells.append(interval_cell(one))
        cells += [number_cell(value) for value in (one.p10, one.p50, one.p90)]
        cells.append(
            Text(", ".join(f"{count} {status}" for status, count in one.without_value.items()), style="dim")
        )
        if crowded:
            *cells, _, median, _, reasons = cells
            cells += [median, reasons]
        table.add_row(*cells)
    return table


def summary_caption(summaries: Sequence[ScoreSummary], *, width: int = 80) -> str:
    """Return the meaning of the words in `summary_table` with intervals, and the missing inputs."""
    said = ["95 % CI: interval of the mean."] if width >= NARROWEST else []
    if width >= NARROW:
        said.append("no value: by status, never counted as 0.")
    lacking = sorted({name for one in summaries for name in one.lacking})
    if lacking:
        said.append(f"Not given: {', '.join(lacking)}.")
    return " ".join(said)


def number_cell(value: float | None) -> Text:
    """Return a number with two decimals, or a dash for None."""
    if value is None:
        return Text("–", style="dim")
    return Text(f"{value:.2f}")


def interval_cell(summary: ScoreSummary) -> Text:
    """Return the ends of the mean's interval."""
    if summary.mean_low is None or summary.mean_high is None:
        return Text("–", style="dim")
    return Text(f"{summary.mean_low:.2f}–{summary.mean_high:.2f}")
