"""Learn a score's baseline: its usual mean per hour, its own movement, and the design effect.

Learned from half-hourly sums of fourteen days, for each hour of workdays and of weekends. Called by
`ragmeter.watch.change`; pure functions without a clock.

Sources: empirical Bayes shrinkage after Efron, Morris (1975); the rest is plain moments, see `learn`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, NamedTuple

from pydantic import Field

from ragmeter.metrics._display.mean_interval import student_quantile
from ragmeter.quality.sums_by_time import Floats

from .evidence import Block

HOURS_OF_WEEK = 48
"""Twenty-four of workdays, then twenty-four of Saturdays and Sundays."""
BASELINE_DAYS = 14
"""Days in a baseline;"""
LAG_DAYS = 7
"""and the number of later days left out of it, so that a slow fall does not become its own baseline."""
LEAST_SCORES = 500
"""Least number of scores for a baseline,"""
LEAST_DAYS = 3
"""and of days: fewer do not show how days differ."""
HALF_HOURS = 48
"""Half hours in a day."""
TOLERANCE = 0.03
"""A smaller fall is ignored, however certain it is."""
WANDER_HOURS = (1, 6, 24)
"""Lengths of blocks, in hours, over which the mean's own movement is measured."""
LEAST_BLOCKS = 8
"""Least number of blocks of one length,"""
LEAST_IN_BLOCK = 5
"""and of scores in each."""
QUANTILE_95 = 1.6448536269514722
"""Quantile of the standard normal distribution: larger movements of the mean are more than chance;"""
QUANTILE_99 = 2.3263478740408408
"""and the floor is lower by this many standard deviations, enlarged by Student's factor for few days."""
SMALLEST_EFFECT = 1.15
"""A smaller design effect counts as 1: two weeks of data cannot distinguish the two."""
ACROSS = 4 / 3
"""Correction for sessions across the end of a half hour: for sessions within ten minutes, neighbouring half
hours show three quarters of what their requests have in common."""
SMALLEST_VARIANCE = 1e-4
"""Scores that have always been equal may still differ."""
_NOTHING = Block(0.0, 0.0, 0.0)


@dataclass(slots=True)
class Day:
    """The scores of one local day, by half hours."""

    number: int
    """The day's ordinal, as `datetime.date.toordinal` counts."""
    sums: Annotated[Floats, Field(min_length=3 * HALF_HOURS, max_length=3 * HALF_HOURS)] = field(
        default_factory=lambda: array("d", bytes(24 * HALF_HOURS))
    )
    """Number, sum and sum of squares of the scores of each half hour."""

    def add(self, half: int, block: Block) -> None:
        """Add the scores of a half hour."""
        for place, value in enumerate(block, 3 * half):
            self.sums[place] += value

    def halves(self) -> Iterator[tuple[int, Block]]:
        """Return the half hours that have scores."""
        sums = self.sums
        for half in range(HALF_HOURS):
            if sums[3 * half] > 0:
                yield half, Block(*sums[3 * half : 3 * half + 3])

    @property
    def weekend(self) -> bool:
        """Whether it is a Saturday or a Sunday."""
        return (self.number + 6) % 7 >= 5

    def hour_of_week(self, half: int) -> int:
        """Return the hour of the day; those of weekends follow those of workdays."""
        return half // 2 + (24 if self.weekend else 0)


@dataclass(slots=True)
class ScoreHistory:
    """The most recent days of a score that have requests; days without requests are not stored."""

    days: list[Day] = field(default_factory=list)

    def add(self, number: int, half: int, block: Block) -> None:
        """Add scores; those of a day before the last one are ignored as too late."""
        days = self.days
        if not days or days[-1].number < number:
            days.append(Day(number))
            del days[: -(BASELINE_DAYS + LAG_DAYS + 1)]
        if days[-1].number == number:
            days[-1].add(half, block)

    def before(self, number: int) -> Sequence[Day]:
        """Return the days of the baseline for day `number`: the oldest ones before it."""
        return [day for day in self.days if day.number < number][:BASELINE_DAYS]

    def split(self, number: int, half: int) -> ScoreHistory:
        """Remove and return the sums from a half hour of a day on."""
        later = ScoreHistory()
        earlier = []
        for day in self.days:
            if day.number < number:
                earlier.append(day)
            elif day.number > number:
                later.days.append(day)
            else:
                at = 3 * half
                if any(day.sums[:at]):
                    earlier.append(Day(number, array("d", [*day.sums[:at], *bytes(3 * HALF_HOURS - at)])))
                later.days.append(Day(number, array("d", [*bytes(at), *day.sums[at:]])))
        self.days = earlier
        return later


@dataclass(frozen=True, slots=True)
class Baseline:
    """The usual level of a score."""

    expected: Annotated[tuple[float | None, ...], Field(min_length=HOURS_OF_WEEK, max_length=HOURS_OF_WEEK)]
    """The mean by hour of the week; None: no request was ever seen in that hour."""
    tolerance: float
    """How far below that the mean moves without a change of quality; see `learn`."""
    error: float
    """Error of `expected`, at 99 %."""
    design_effect: float
    """Variance of half-hourly sums relative to that of independent requests; at least 1."""
    scores: float
    """Number of scores it was learned from."""

    @property
    def allowance(self) -> float:
        """Distance of the floor below `expected`."""
        return self.tolerance + self.error


def learn(days: Sequence[Day]) -> Baseline | None:
    """Return the baseline of `days`; None: fewer than 500 scores or three days.

    - *Expected*: the mean of each hour of workdays and of weekends, drawn towards the mean of its kind of days
      by τ²n / (τ²n + s²), with s² the variance of a score and τ² that of the hours beyond chance; the mean of
      a kind is drawn towards the mean of all in the same way.
    - *Error*: Student's quantile at 99 % for the number of days times the standard error of the mean,
      from the daily sums of residuals. Few or unlike days make it large.
    - *Tolerance*: 0.03 plus the same quantile times the wander, the mean's own movement. Its square is the
      variance of the means of 1, 6 or 24 hours beyond that of as many scores, the largest of the three, less
      1.64 of its standard errors.
    - *Design effect*: the squared differences between sums of residuals of neighbouring half hours, divided by
      what independent scores would give; the excess over 1 is raised by a third. Sessions with similar
        questions make it large.
    """
    scores = sum(sums.n for day in days for _, sums in day.halves())
    if scores < LEAST_SCORES or len(days) < LEAST_DAYS:
        return None
    expected = _forecast(days, scores)
    variance = max(_variance(days, expected) / scores, SMALLEST_VARIANCE)
    residuals = [_residuals(day, expected) for day in days]
    effect = _design_effect(days, residuals, variance)
    daily = math.fsum(sum(one.total for one in day) ** 2 for day in residuals)
    error = math.sqrt(daily * len(days) / (len(days) - 1)) / scores
    far = student_quantile(len(days) - 1, QUANTILE_99)
    return Baseline(
        expected=tuple(expected),
        tolerance=TOLERANCE + far * _wander(residuals, variance * effect),
        error=far * error,
        design_effect=effect,
        scores=scores,
    )


class _Residuals(NamedTuple):
    """Of half an hour: the number of scores, and their sum less the expected sum."""

    n: float
    total: float


def _forecast(days: Sequence[Day], scores: float) -> list[float | None]:
    by_hour = [_NOTHING] * HOURS_OF_WEEK
    for day in days:
        for half, sums in day.halves():
            at = day.hour_of_week(half)
            by_hour[at] = _together((by_hour[at], sums))
    whole = _together(by_hour)
    mean = whole.total / scores
    variance = max(whole.squares / scores - mean * mean, SMALLEST_VARIANCE)
    # Hours of a weekend that has just begun resemble each other more than those of workdays.
    kinds = [_together(by_hour[at : at + 24]) for at in (0, 24)]
    usual = [mean if one is None else one for one in _drawn(kinds, [mean] * 2, variance)]
    within = whole.squares - sum(one.total * one.total / one.n for one in kinds if one.n)
    variance = max(within / scores, SMALLEST_VARIANCE)
    return _drawn(by_hour, [usual[at // 24] for at in range(HOURS_OF_WEEK)], variance)


def _together(blocks: Iterable[Block]) -> Block:
    return Block(*map(sum, zip(*blocks, strict=True)))


def _drawn(blocks: Sequence[Block], towards: Sequence[float], variance: float) -> list[float | None]:
    """Return the means of blocks, each drawn towards another mean; None: without a score."""
    pairs = [(one, middle) for one, middle in zip(blocks, towards, strict=True) if one.n]
    scores = sum(one.n for one, _ in pairs)
    between = math.fsum(one.n * (one.total / one.n - middle) ** 2 for one, middle in pairs) / scores
    spread = max(0.0, between - len(pairs) * variance / scores)
    return [
        middle + spread * one.n / (spread * one.n + variance) * (one.total / one.n - middle) if one.n else None
        for one, middle in zip(blocks, towards, strict=True)
    ]


def _variance(days: Sequence[Day], expected: Sequence[float | None]) -> float:
    """Return the sum of the squared residuals."""
    squares = 0.0
    for day in days:
        for half, sums in day.halves():
            usual = expected[day.hour_of_week(half)] or 0.0
            squares += sums.squares - 2 * usual * sums.total + usual * usual * sums.n
    return squares


def _residuals(day: Day, expected: Sequence[float | None]) -> list[_Residuals]:
    found = [_Residuals(0.0, 0.0)] * HALF_HOURS
    for half, sums in day.halves():
        usual = expected[day.hour_of_week(half)] or 0.0
        found[half] = _Residuals(sums.n, sums.total - sums.n * usual)
    return found


def _design_effect(days: Sequence[Day], residuals: Sequence[Sequence[_Residuals]], variance: float) -> float:
    differences = values = 0.0
    pairs = [pair for halves in residuals for pair in pairwise(halves)]
    pairs += [
        (residuals[at][-1], residuals[at + 1][0])
        for at, (day, following) in enumerate(pairwise(days))
        if following.number == day.number + 1
    ]
    for one, after in pairs:
        if one.n and after.n:
            differences += (after.total - one.total) ** 2
            values += after.n + one.n
    effect = differences / (values * variance) if values else 1.0
    return 1.0 + ACROSS * (effect - 1.0) if effect >= SMALLEST_EFFECT else 1.0


def _wander(residuals: Sequence[Sequence[_Residuals]], variance: float) -> float:
    """Return the standard deviation of the mean's own movement beyond chance."""
    largest = 0.0
    for hours in WANDER_HOURS:
        size = 2 * hours
        blocks = [
            _Residuals(sum(one.n for one in block), math.fsum(one.total for one in block))
            for day in residuals
            for block in (day[start : start + size] for start in range(0, HALF_HOURS, size))
        ]
        blocks = [one for one in blocks if one.n >= LEAST_IN_BLOCK]
        if len(blocks) < LEAST_BLOCKS:
            continue
        excess = [(one.total**2 - one.n * variance) / one.n**2 for one in blocks]
        middle = math.fsum(excess) / len(excess)
        error = math.sqrt(math.fsum((one - middle) ** 2 for one in excess)) / len(excess)
        weighted = math.fsum(one.n * moved for one, moved in zip(blocks, excess, strict=True))
        found = weighted / math.fsum(one.n for one in blocks) - QUANTILE_95 * error
        largest = max(largest, found)
    return math.sqrt(largest)
