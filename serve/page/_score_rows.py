"""The scores of a period, by service, each with mean and trend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ragmeter.metrics import ScoreDirection
from ragmeter.quality.verdict_shares import VERDICT_BAD, VERDICT_NOT_GOOD
from ragmeter.serve.store.views import Overview, ScoreSummary
from ragmeter.serve.store.views import TrendPoint as StoredPoint

from ._drawings import Scale, TrendPoint, trend
from ._news import Fallen
from ._numbers import clock, ends_of, number, on_scale
from ._words import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One score of a service."""

    score: ScoreSummary
    by: str
    """The judge or formula, if there are several; else empty."""
    direction: ScoreDirection
    usual: str
    """The usual range as text; empty: unknown."""
    mean: str
    interval: str
    drawing: Markup | None
    n: int
    statuses: tuple[tuple[str, int], ...]
    """Requests without a value by status, the most frequent first."""
    trend: Markup | None
    fell: bool

    @property
    def parameters(self) -> Mapping[str, str]:
        """Parameters of the list of its requests; shares of verdicts are in no request, and sort none."""
        name = self.score.name
        shares = {VERDICT_BAD: {"verdict": "bad"}, VERDICT_NOT_GOOD: {"sort": ""}}
        return shares.get(name, {"sort": name})


def direction(name: str | None) -> ScoreDirection:
    """Return a stored direction; an unknown one counts as ``higher``, the metrics' default."""
    return "lower" if name == "lower" else "none" if name == "none" else "higher"


def score_rows(
    overview: Overview,
    fallen: Fallen,
    others: Mapping[tuple[str, str, str], Sequence[StoredPoint]],
    change_ms: int | None,
    words: Words,
) -> list[ScoreRow]:
    """Return the scores by service: those that fell first, then by target, then by name.

    `others` are trends of the segment at fault, by service, score and measurement.
    """
    services = list(overview.services)
    order = sorted(
        overview.measured,
        key=lambda one: (
            services.index(one.service), (one.service, one.name) not in fallen, one.estimate is None,
            one.direction == "none", one.target != "retrieval", one.name,
        ),
    )  # fmt: skip
    return [_score_row(one, overview, fallen, others, change_ms, words) for one in order]


def _measured_by(score: ScoreSummary, overview: Overview) -> str:
    """Return what distinguishes a measurement from others of its score: judge, formula or both; else ""."""
    alike = [one for one in overview.measured if (one.service, one.name) == (score.service, score.name)]
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
    fallen: Fallen,
    others: Mapping[tuple[str, str, str], Sequence[StoredPoint]],
    change_ms: int | None,
    words: Words,
) -> ScoreRow:
    estimate, fell = score.estimate, (score.service, score.name) in fallen
    known = score.statuses.get("ok", 0) + score.statuses.get("partial", 0)
    lacking = [(one, n) for one, n in score.statuses.items() if one != "ok" and n]
    mean, interval, drawing = "–", "", None
    if estimate is not None and known:
        middle, lower, upper = on_scale(estimate, score.range)
        mean, interval = number(middle), f"{number(lower)} – {number(upper)}"
        if estimate.has_few_conversations:
            interval += f", {words('few_conversations', n=estimate.n_conversations)}"
        value = (lower + upper) / 2 if middle is None else middle
        scale = Scale(
            value, lower, upper, score.usual, direction(score.direction), *ends_of(score.range), coloured=fell
        )
        drawing = scale.svg()
    return ScoreRow(
        score=score,
        by=_measured_by(score, overview),
        direction=direction(score.direction),
        usual="" if score.usual is None else f"{number(score.usual[0])} – {number(score.usual[1])}",
        mean=mean,
        interval=interval,
        drawing=drawing,
        n=known,
        statuses=tuple(sorted(lacking, key=lambda one: (-one[1], one[0]))),
        trend=_trend(
            score, overview, others.get((score.service, score.name, score.measurement), ()), change_ms, words
        ),
        fell=fell,
    )


def _trend(
    score: ScoreSummary, overview: Overview, other: Sequence[StoredPoint], change_ms: int | None, words: Words
) -> Markup | None:
    points = _points(score.trend, score)
    low, high = ends_of(score.range)
    return labelled_trend(
        points,
        score.name,
        overview,
        words,
        low=low,
        high=high,
        change_at=change_ms,
        other=_points(other, score),
    )


def labelled_trend(
    points: Sequence[TrendPoint],
    name: str,
    overview: Overview,
    words: Words,
    *,
    low: float,
    high: float,
    change_at: int | None,
    other: Sequence[TrendPoint] = (),
) -> Markup | None:
    """Return the trend of a score in the period of an overview, as `trend`; None: no mean is known."""
    known = [one.mean for one in points if one.mean is not None]
    if not known:
        return None
    start, end = overview.from_ms, overview.until_ms
    label = words(
        "trend_label", score=name, start=clock(start), end=clock(end), first=number(known[0]),
        last=number(known[-1]), n=sum(one.n for one in points),
    )  # fmt: skip
    return trend(points, start, end, label=label, low=low, high=high, change_at=change_at, other=other)


def _points(stored: Sequence[StoredPoint], score: ScoreSummary) -> list[TrendPoint]:
    """Return the bins to draw, with an empty one wherever nothing was stored, so that gaps remain visible."""
    points: list[TrendPoint] = []
    for one in stored:
        if points and one.from_ms > points[-1].end:
            points.append(TrendPoint(points[-1].end, one.from_ms, None, 0.0, 0.0, 0))
        mean, lower, upper = on_scale(one.estimate, score.range)
        points.append(TrendPoint(one.from_ms, one.until_ms, mean, lower, upper, one.estimate.n_judged))
    return points
