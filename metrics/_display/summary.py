"""Summarizes scores by name: mean, interval, percentiles, and numbers of missing values.

For `evaluate` in Python and on the command line, for tables, JSON, data frames and HTML. Pure arithmetic: it
prints nothing and reads nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, Literal

from .mean_interval import interval_of_sums, mean_interval
from .score_values import ScoreValues

if TYPE_CHECKING:
    from ragmeter.metrics.score import Score, ScoreDirection

Standing = Literal["worst", "low"]
"""The rank of a value among all values of its score, which determines colours: values that are usual for one
application are bad for another, and no fixed threshold fits two scores."""
WORST = 0.10
"""``worst``: at most this share of the values is as bad or worse, equal ones counting half."""
LOW = 0.25
"""``low``: likewise."""
FEWEST = 10
"""Least number of values for such a rank."""


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """All scores of one name."""

    name: str
    """The score's name."""
    count: int
    """Number of scores with a value."""
    without_value: Mapping[str, int]
    """Number of scores without a value, by status."""
    mean: float | None
    """Arithmetic mean of the values; None without values."""
    p10: float | None
    """10th percentile, linearly interpolated; likewise p50 (the median) and p90."""
    p50: float | None
    p90: float | None
    mean_low: float | None
    """Lower end of the mean's 95 % interval, see `interval_of_sums`; None with fewer than two values."""
    mean_high: float | None
    """Upper end."""
    range: tuple[float | None, float | None]
    """Smallest and largest possible value."""
    direction: ScoreDirection = "higher"
    """The better direction."""
    values: tuple[float, ...] = field(default=(), repr=False)
    """The values, ascending; for very many, the non-empty bins."""
    counts: tuple[int, ...] = field(default=(), repr=False)
    """Number of values in each of those bins; empty: one each."""
    sums: tuple[float, float] | None = field(default=None, repr=False)
    """Of very many values: their number, sum and sum of squares."""
    lacking: tuple[str, ...] = ()
    """The inputs that requests lacked whose score is ``missing_input``, e.g. ``reference.answer``."""

    def interval(self, missing: int = 0, end: float = 0.0) -> tuple[float, float] | None:
        """Return the mean's 95 % interval with `missing` more values, each `end`; None with fewer than two.

        See `interval_of_sums`.
        """
        if self.sums is None:
            return mean_interval([*self.values, *[end] * missing], self.range)
        total, squares = self.sums
        return interval_of_sums(
            self.count + missing, total + missing * end, squares + missing * end * end, self.range
        )

    def histogram(self, bins: int) -> tuple[list[int], float, float]:
        """Count the values in `bins` equal bins; return the counts and the ends of the axis.

        The axis is the score's range; without a bound, it ends at the outermost value.
        """
        lower, upper = self.range
        low = lower if lower is not None else min(self.values, default=0.0)
        high = upper if upper is not None else max(self.values, default=low + 1.0)
        width = (high - low) or 1.0
        counts = [0] * bins
        for value, count in zip(self.values, self.counts or repeat(1)):  # noqa: B905 -- endless
            counts[min(bins - 1, max(0, int((value - low) / width * bins)))] += count
        return counts, low, low + width

    @property
    def interval95(self) -> tuple[float, float] | None:
        """The mean's 95 % interval; None with fewer than two values."""
        if self.mean_low is None or self.mean_high is None:
            return None
        return self.mean_low, self.mean_high

    def as_json(self) -> dict[str, Any]:
        """Return the summary as JSON-ready fields."""
        return {
            "count": self.count,
            "without_value": dict(self.without_value),
            "mean": self.mean,
            "p10": self.p10,
            "p50": self.p50,
            "p90": self.p90,
            "mean_ci95": None if self.mean_low is None else [self.mean_low, self.mean_high],
        }


def standing(usual: ScoreSummary, value: float) -> Standing | None:
    """Return whether `value` is among the worst or low ones of its score; None: usual, or unknown.

    Scores without a better direction have none.
    """
    values = usual.values
    if usual.direction == "none" or usual.count < FEWEST:
        return None
    below, up_to = bisect_left(values, value), bisect_right(values, value)
    if usual.counts:
        below, up_to = sum(usual.counts[:below]), sum(usual.counts[:up_to])
    worse = below if usual.direction == "higher" else usual.count - up_to
    position = (worse + (up_to - below) / 2) / usual.count
    return "worst" if position < WORST else "low" if position < LOW else None


def percentile(values: Sequence[float], share: float, counts: Sequence[int] = ()) -> float | None:
    """Return the value below which `share` (0.0 to 1.0) of ascending values lies, linearly interpolated.

    `counts` are their frequencies; empty: one each.
    """
    if not values:
        return None
    ends = list(accumulate(counts)) or range(1, len(values) + 1)
    place = share * (ends[-1] - 1)
    below = math.floor(place)
    low = values[bisect_right(ends, below)]
    high = values[bisect_right(ends, min(below + 1, ends[-1] - 1))]
    return low + (high - low) * (place - below)


class Summarizer:
    """Aggregates scores request by request, in bounded memory: some thousand numbers for each name.

    Args:
        exact: Most values of a score that are stored exactly; None: as `ScoreValues`.
    """

    def __init__(self, *, exact: int | None = None) -> None:
        self._exact = exact
        self._values: dict[str, ScoreValues] = {}
        self._missing: dict[str, Counter[str]] = {}
        self._lacking: dict[str, set[str]] = {}
        self._described: dict[str, Score] = {}

    def add(self, scores: Mapping[str, Score]) -> None:
        """Add the scores of one request."""
        for name, score in scores.items():
            found = self._values.get(name)
            if found is None:
                found = self._values[name] = ScoreValues(score.range, exact=self._exact)
                # Only range and direction are read; stored evidence would waste memory.
                self._described[name] = score.model_copy(update={"items": (), "explanation": None})
            if score.value is not None:
                found.add((score.value,))
                continue
            self._missing.setdefault(name, Counter())[score.status] += 1
            if score.missing is not None:
                self._lacking.setdefault(name, set()).add(score.missing)

    def summaries(self, *, interval: bool = True, order: Sequence[str] = ()) -> list[ScoreSummary]:
        """Return the summaries by name: first those in `order`, the others in order of first appearance."""
        names = [name for name in dict.fromkeys((*order, *self._values)) if name in self._values]
        return [self._summary(name, self._values[name], interval=interval) for name in names]

    def _summary(self, name: str, found: ScoreValues, *, interval: bool) -> ScoreSummary:
        # Sorted: rows that are scored at the same time end in any order, and the random draws of the interval
        # depend on it.
        described, values, counts = self._described[name], found.values(), found.counts()
        moments = found.moments()
        total = math.fsum(values) if moments is None else moments[1]
        p10, p50, p90 = (percentile(values, share, counts) for share in (0.1, 0.5, 0.9))
        summary = ScoreSummary(
            name=name,
            count=found.count,
            without_value=dict(self._missing.get(name, {})),
            mean=total / found.count if found.count else None,
            p10=p10,
            p50=p50,
            p90=p90,
            mean_low=None,
            mean_high=None,
            range=described.range,
            direction=described.direction,
            values=values,
            counts=counts,
            sums=None if moments is None else moments[1:],
            lacking=tuple(sorted(self._lacking.get(name, ()))),
        )
        low_high = summary.interval() if interval else None
        if low_high is None:
            return summary
        return replace(summary, mean_low=low_high[0], mean_high=low_high[1])


def summarize(results: Iterable[Mapping[str, Score]], *, interval: bool = True) -> list[ScoreSummary]:
    """Summarize the scores of many requests by name, in order of first appearance."""
    summarizer = Summarizer()
    for scores in results:
        summarizer.add(scores)
    return summarizer.summaries(interval=interval)


def valued_first(summaries: Iterable[ScoreSummary]) -> list[ScoreSummary]:
    """Return the summaries with a value before those without, each in order."""
    return sorted(summaries, key=lambda one: one.count == 0)
