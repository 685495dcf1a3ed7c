"""A mean of quality with its confidence interval: `Estimate`, and the display of one or many.

`RagMeter.quality()` returns them; the formulas are in `estimate`. A prompt shows a table of text, a notebook
one of HTML, and `to_pandas` returns a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

EstimateMethod = Literal["all", "regression", "wilson", "none"]
"""Method of an interval; see `Estimate.method`."""

FEW_CONVERSATIONS = 30
"""With fewer conversations each has so much influence that an interval may contain the truth in only 89 of
100 cases."""
_NUMBERS = ("mean", "lower", "upper", "unscored", "undefined", "design_effect")
_COUNTS = ("n_requests", "n_judged", "n_labelled", "method")
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean of one score with a 95 % interval, for traffic like the observed one.

    All numbers are on the score's range scaled to 0 … 1; for nearly all scores that is the score itself.
    """

    mean: float | None
    """The estimated mean, 0 to 1; None: fewer than five values are known, see the interval."""
    lower: float
    """Lower end of the 95 % interval."""
    upper: float
    """Upper end of the interval; it is 0 to 1 when nothing is known."""
    n_requests: int
    """Requests with the inputs of the score, judged or not."""
    n_judged: int
    """Those of them that were measured; for a free score, all."""
    n_labelled: int = 0
    """Those of them that people labelled."""
    method: EstimateMethod
    """``all``: the score is measured for every request; ``regression``: judged requests corrected to all
    requests; ``wilson``: Wilson's interval, for few values; ``none``: no value."""
    unscored: float = 0.0
    """Share of the measured requests without a value although one exists: errors, timeouts, an empty budget."""
    undefined: float = 0.0
    """Share of the measured requests for which the score is undefined; they do not count in the mean."""
    bounds: tuple[float, float] | None = None
    """The mean if every missing value were the lowest, and the highest, possible; None: nothing measured.
    Sampling error is in `lower` and `upper` only."""
    gain: float = 1.0
    """The variance without the correction by free scores, or by the judge for labels of people, divided by
    the one with it. 2.0: as good as twice as many judged requests."""
    design_effect: float = 1.0
    """Ratio of the variance to that of independent requests; 1.0: not known to be larger."""
    n_conversations: int | None = None
    """Number of conversations of the measured requests, where a request without one counts as one; None: no
    two requests are known to be related. Below `FEW_CONVERSATIONS` the interval may miss too often."""
    objective: float | None = None
    """Good threshold of a single request, from its objective; None: no objective, or different ones in
    several workflows. A mean above it does not imply that the objective is met."""
    objective_share: float | None = None
    """Share of the requests to reach it; None: as `objective`."""

    @property
    def has_few_conversations(self) -> bool:
        """Whether there are so few conversations that the interval may miss more often than stated."""
        return self.n_conversations is not None and self.n_conversations < FEW_CONVERSATIONS

    def __str__(self) -> str:
        """Return a small table, for people."""
        return estimates_table({"": self})

    def to_pandas(self) -> Any:
        """Return a pandas frame of one row, with the estimate's fields.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return _frame_of([(None, self)])

    def _repr_html_(self) -> str:
        return _html_of([(None, self)])


class QualityKey(NamedTuple):
    """Score, workflow and segment of an estimate."""

    score: str
    """Name of the score."""
    workflow: str
    """Name of the chain, engine or workflow; empty: unnamed."""
    segment: str = ""
    """Segment of its requests, e.g. ``language:zh``; empty: all of them."""


class Estimates(dict[QualityKey, Estimate]):
    """Estimates by score, workflow and segment; printed as a table."""

    def __str__(self) -> str:
        """Return the table."""
        return estimates_table({" · ".join(filter(None, key)): self[key] for key in sorted(self)})

    def __repr__(self) -> str:
        """Return the same table, for the prompt."""
        return str(self) if self else "{}"

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per estimate: ``score``, ``workflow``, ``segment``, then its fields.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return _frame_of(self.items())

    def _repr_html_(self) -> str:
        return _html_of(self.items())


def _frame_of(found: Iterable[tuple[QualityKey | None, Estimate]]) -> Any:
    """Return a pandas frame, a row per estimate; without keys it has only their fields."""
    from ragmeter.metrics._display import data_frames as frames  # noqa: PLC0415 -- only for who looks

    listed = list(found)
    keys = [key for key, _ in listed if key is not None]
    columns: dict[str, list[Any]] = {
        name: [getattr(key, name) for key in keys]
        for name in (QualityKey._fields if len(keys) == len(listed) else ())
    }
    columns |= {name: [getattr(one, name) for _, one in listed] for name in _COUNTS}
    return frames.frame_of_fields(
        columns, {name: [getattr(one, name) for _, one in listed] for name in _NUMBERS}
    )


def _html_of(found: Iterable[tuple[QualityKey | None, Estimate]]) -> str:
    """Return an HTML table of estimates for a notebook: key, mean, interval, and numbers of values."""
    from ragmeter.metrics._display import html  # noqa: PLC0415 -- likewise
    from ragmeter.metrics._display.wording import percent  # noqa: PLC0415

    rows = []
    for key, one in found:
        under = "" if key is None else ", ".join(name for name in (key.workflow, key.segment) if name)
        rows.append(
            (
                ("" if key is None else f"<b>{html.text(key.score)}</b>")
                + (f"<small>{html.text(under)}</small>" if under else ""),
                "–" if one.mean is None else f"<b>{one.mean:.2f}</b>",
                f"{one.lower:.2f} – {one.upper:.2f}",
                f"{one.n_judged} of {one.n_requests}",
                percent(one.unscored) if one.unscored else "–",
                one.method,
            )
        )
    return html.fragment(
        html.table(("score", "mean", "95 % interval", "measured requests", "without a value", "method"), rows)
    )


def estimates_table(estimates: Mapping[str, Estimate]) -> str:
    """Return a text table of estimates by label; an empty label is not shown."""
    headings = (
        "",
        "mean",
        "95 % interval",
        "requests",
        "judged",
        "conversations",
        "labelled",
        "unscored",
        "good from",
        "method",
    )
    rows = [headings, *(_row(name, one) for name, one in estimates.items())]
    # Columns without any known value are omitted; the mean and the number of requests are always shown.
    always = {1, 2, 3, 4, 9}
    kept = [
        place
        for place in range(len(headings))
        if place in always or any(row[place] not in ("", _UNKNOWN) for row in rows[1:])
    ]
    widths = {place: max(len(row[place]) for row in rows) for place in kept}
    lines = (
        "  ".join(
            row[place].ljust(widths[place]) if place in (0, 9) else row[place].rjust(widths[place])
            for place in kept
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def _row(name: str, one: Estimate) -> tuple[str, ...]:
    return (
        name,
        _UNKNOWN if one.mean is None else f"{one.mean:.3f}",
        f"{one.lower:.3f} … {one.upper:.3f}",
        str(one.n_requests),
        str(one.n_judged),
        _UNKNOWN
        if one.n_conversations is None
        else f"{'few: ' * one.has_few_conversations}{one.n_conversations}",
        str(one.n_labelled) if one.n_labelled else _UNKNOWN,
        f"{one.unscored:.1%}" if one.unscored else _UNKNOWN,
        _UNKNOWN if one.objective is None else f"{one.objective:g}",
        one.method,
    )
