"""The overview: from what the store says to what the template draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from markupsafe import Markup

from ragmeter.metrics import ScoreDirection
from ragmeter.quality.estimates import Estimate
from ragmeter.serve.store import Group, Overview, ScoreSummary
from ragmeter.serve.store import TrendPoint as StoredPoint

from ._drawings import Scale, TrendPoint, trend
from ._news import Fallen
from ._numbers import clock, count, number, on_scale
from ._words import Words

__all__ = [
    "GroupRow",
    "ScoreRow",
    "columns",
    "direction",
    "group_rows",
    "measured_by",
    "score_rows",
    "segment_name",
]

MOST_COLUMNS = 4
"""Scores shown beside each workflow and each request."""
_TOLD_FIRST = (
    "context_sufficiency",
    "lexical_context_relevance",
    "faithfulness",
    "lexical_groundedness",
    "id_recall",
    "context_recall",
    "context_precision",
    "judged_precision",
    "lexical_query_coverage",
    "semantic_context_relevance",
    "answer_relevancy",
)
"""Which scores stand beside a request where there is room for few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A mean in a table."""

    text: str
    """The mean, or a dash."""
    title: str
    """The interval and what it rests on."""
    drawing: Markup
    """On its scale."""
    fell: bool
    """Whether a detector says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A workflow or a part of one."""

    workflow: str
    segment: str
    value: str
    """What the part is called; empty for the whole."""
    requests: int
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One score of the overview."""

    name: str
    by: str
    """Which judge, or which formula, where there are several; else empty."""
    direction: ScoreDirection
    usual: str
    """The usual range, written out; empty: not known."""
    mean: str
    interval: str
    drawing: Markup | None
    n: int
    statuses: tuple[tuple[str, int], ...]
    """Those without a value, the commonest first."""
    trend: Markup | None
    fell: bool


def columns(overview: Overview, fallen: Fallen) -> tuple[str, ...]:
    """Return the scores that are shown where there is room for few: what fell, then the telling ones."""
    usable = [
        one.name for one in overview.scores if one.estimate is not None and one.direction != "none"
    ]
    fell = sorted({score for _, _, score in fallen})
    wished = dict.fromkeys([*fell, *_TOLD_FIRST, *usable])
    return tuple([name for name in wished if name in usable][:MOST_COLUMNS])


def direction(name: str | None) -> ScoreDirection:
    """Return a stored direction; one that was never told is taken as ``higher``, the metrics' default."""
    return "lower" if name == "lower" else "none" if name == "none" else "higher"


def segment_name(name: str, among: Collection[str]) -> str:
    """Return what a segment is called: metadata by its key alone, unless another one is called so."""
    short = name.removeprefix("metadata.")
    return name if short in among else short


def group_rows(
    overview: Overview, names: Sequence[str], by: str, fallen: Fallen, words: Words
) -> list[GroupRow]:
    """Return the workflows, each followed by its parts by the segment `by`."""
    scores = {one.name: one for one in overview.scores}
    whose = {(one.name, one.measurement): measured_by(one, overview) for one in overview.measured}
    rows: list[GroupRow] = []
    for group in overview.groups:
        if group.segment and not group.segment.startswith(f"{by}:"):
            continue
        rows.append(
            GroupRow(
                workflow=group.workflow,
                segment=group.segment,
                value=group.segment.removeprefix(f"{by}:"),
                requests=group.requests,
                cells=tuple(_cell(group, scores[name], fallen, whose, words) for name in names),
            )
        )
    return rows


def _cell(
    group: Group,
    score: ScoreSummary,
    fallen: Fallen,
    whose: Mapping[tuple[str, str], str],
    words: Words,
) -> Cell | None:
    estimate = group.estimates.get(score.name)
    if estimate is None:
        return None
    change = fallen.get((group.workflow, group.segment, score.name))
    before = None if change is None else on_scale(change.before, score.range)
    mean, lower, upper = on_scale(estimate, score.range)
    return Cell(
        text=words("few") if mean is None else number(mean),
        title=" · ".join(
            part
            for part in (
                _interval(estimate, lower, upper),
                _few_conversations(estimate, words),
                whose.get((score.name, group.measurements.get(score.name, "")), ""),
            )
            if part
        ),
        drawing=_scale(score, estimate, None if before is None else before[1:]).svg(64),
        fell=change is not None,
    )


def score_rows(
    overview: Overview,
    fallen: Fallen,
    others: Mapping[tuple[str, str], Sequence[StoredPoint]],
    change_ms: int | None,
    words: Words,
) -> list[ScoreRow]:
    """Return the scores: those that fell first, then by what they judge, then by name.

    Args:
        overview: What the store says.
        fallen: The falls that are on.
        others: Trends of the part at fault, by score and measurement.
        change_ms: When it began; None: nothing did.
        words: Of the page's language.
    """
    fell = {score for _, _, score in fallen}
    order = sorted(
        overview.measured,
        key=lambda one: (
            one.name not in fell, one.estimate is None, one.direction == "none",
            one.target != "retrieval", one.name,
        ),
    )  # fmt: skip
    return [_score_row(one, overview, fell, others, change_ms, words) for one in order]


def measured_by(score: ScoreSummary, overview: Overview) -> str:
    """Return what tells a measurement from the others of its score: judge, formula, or both; empty: nothing.

    Args:
        score: One of the overview's.
        overview: All of them.
    """
    alike = [one for one in overview.measured if one.name == score.name]
    if len(alike) < 2:
        return ""
    parts = [
        getattr(score, name) or "?"
        for name in ("judge", "definition")
        if len({getattr(one, name) for one in alike}) > 1
    ]
    return " · ".join(parts)


def _score_row(
    score: ScoreSummary,
    overview: Overview,
    fell: AbstractSet[str],
    others: Mapping[tuple[str, str], Sequence[StoredPoint]],
    change_ms: int | None,
    words: Words,
) -> ScoreRow:
    estimate = score.estimate
    known = score.statuses.get("ok", 0) + score.statuses.get("partial", 0)
    lacking = [(one, n) for one, n in score.statuses.items() if one != "ok" and n]
    mean, interval, drawing = "–", "", None
    if estimate is not None and known:
        middle, lower, upper = on_scale(estimate, score.range)
        mean, interval = number(middle), f"{number(lower)} – {number(upper)}"
        if few := _few_conversations(estimate, words):
            interval = f"{interval}, {few}"
        drawing = _scale(score, estimate, score.usual, fell=score.name in fell).svg()
    return ScoreRow(
        name=score.name,
        by=measured_by(score, overview),
        direction=direction(score.direction),
        usual="" if score.usual is None else f"{number(score.usual[0])} – {number(score.usual[1])}",
        mean=mean,
        interval=interval,
        drawing=drawing,
        n=known,
        statuses=tuple(sorted(lacking, key=lambda one: (-one[1], one[0]))),
        trend=_trend(
            score, overview, others.get((score.name, score.measurement), ()), change_ms, words
        ),
        fell=score.name in fell,
    )


def _scale(
    score: ScoreSummary,
    estimate: Estimate,
    usual: tuple[float, float] | None,
    *,
    fell: bool = True,
) -> Scale:
    mean, lower, upper = on_scale(estimate, score.range)
    low, high = _ends(score)
    value = (lower + upper) / 2 if mean is None else mean
    return Scale(value, lower, upper, usual, direction(score.direction), low, high, coloured=fell)


def _ends(score: ScoreSummary) -> tuple[float, float]:
    low = 0.0 if score.range[0] is None else score.range[0]
    return low, low + 1.0 if score.range[1] is None else score.range[1]


def _trend(
    score: ScoreSummary,
    overview: Overview,
    other: Sequence[StoredPoint],
    change_ms: int | None,
    words: Words,
) -> Markup | None:
    points = _points(score.trend, score)
    known = [one for one in points if one.mean is not None]
    if not known:
        return None
    low, high = _ends(score)
    label = words(
        "trend_label",
        score=score.name,
        start=clock(overview.from_ms),
        end=clock(overview.until_ms),
        first=number(known[0].mean),
        last=number(known[-1].mean),
        n=count(sum(one.n for one in points)),
    )
    return trend(
        points,
        overview.from_ms,
        overview.until_ms,
        label=label,
        low=low,
        high=high,
        change_at=change_ms,
        other=_points(other, score),
    )


def _points(stored: Sequence[StoredPoint], score: ScoreSummary) -> list[TrendPoint]:
    """Return the bins to draw, with one without a mean wherever nothing was stored: a gap stays a gap."""
    points: list[TrendPoint] = []
    for one in stored:
        if points and one.from_ms > points[-1].end:
            points.append(TrendPoint(points[-1].end, one.from_ms, None, 0.0, 0.0, 0))
        mean, lower, upper = on_scale(one.estimate, score.range)
        points.append(
            TrendPoint(one.from_ms, one.until_ms, mean, lower, upper, one.estimate.n_judged)
        )
    return points


def _few_conversations(estimate: Estimate, words: Words) -> str:
    """Return how few conversations a mean rests on; empty where there are enough, or none is known."""
    if not estimate.has_few_conversations:
        return ""
    return words("few_conversations", n=str(estimate.n_conversations))


def _interval(estimate: Estimate, lower: float, upper: float) -> str:
    return f"{number(lower)} – {number(upper)}, n = {count(estimate.n_judged)}"
