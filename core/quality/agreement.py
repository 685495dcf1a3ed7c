"""Measure the agreement of people with a judge and with each other: κ, α, errors, and the value of labels.

Called by `ragmeter agreement` and pages of labels. Pure functions, whose random draws have a fixed seed.

Sources: Cohen (1960, 1968) for κ and its weights; Fleiss, Cohen, Everitt, "Large sample standard errors of
kappa and weighted kappa" (1969); Krippendorff, *Content Analysis* (2004), chapter 11, for α.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragmeter.metrics._display.mean_interval import NORMAL_QUANTILE, wilson_interval

KappaWeights = Literal["none", "linear", "quadratic"]
"""Weight of a disagreement: the same for each, by its distance, or by the square of its distance."""
AlphaLevel = Literal["nominal", "ordinal", "interval"]
"""Level of measurement of ratings: words, an order, or numbers."""

DRAWS = 1_000
"""Number of random tables, or samples of requests, for an interval."""
SEED = 20261122
EXACT_LEVELS = 3
"""Most levels of a table whose interval comes from random tables; larger ones get the large-sample one."""
LEAST_FOR_CORRELATION = 3
LEAST_LABELS = 30
"""With fewer labels the interval is Wilson's, whatever the judge says."""


class AgreementValue(NamedTuple):
    """A measure of agreement with its 95 % interval."""

    value: float | None
    """1: perfect, 0: as by chance; None: undefined, because all ratings are the same."""
    lower: float
    upper: float
    n: int
    """Number of requests it was computed from."""
    standard_error: float | None = None
    """The large-sample standard error, where a formula exists."""


def table_of(first: Sequence[int], second: Sequence[int], levels: int) -> list[list[int]]:
    """Return how often each pair of levels occurs: rows by `first`, columns by `second`.

    Args:
        first: Levels from 0 to `levels` - 1, one for each request.
        second: Another rater's labels of the same requests.
        levels: Number of levels.
    """
    table = [[0] * levels for _ in range(levels)]
    for row, column in zip(first, second, strict=True):
        table[row][column] += 1
    return table


def kappa(table: Sequence[Sequence[int]], weights: KappaWeights = "none") -> AgreementValue:
    """Return Cohen's κ of two raters: their agreement beyond chance, given their base rates.

    The interval comes from random tables, Dirichlet with ½ in each cell, for two and three levels: it
    holds the truth more often than the large-sample one, and is narrower. For more levels it is
    value ± 1.96 standard errors.

    Args:
        table: The frequency of each pair of levels, see `table_of`; square.
        weights: Weight of a disagreement.
    """
    levels = len(table)
    n = sum(map(sum, table))
    if not n:
        return AgreementValue(None, -1.0, 1.0, 0)
    share = [[count / n for count in row] for row in table]
    found = _kappa(share, weights)
    if found is None:
        return AgreementValue(None, -1.0, 1.0, n)
    value, spread = found
    error = math.sqrt(spread / n)
    if levels > EXACT_LEVELS:
        half = NORMAL_QUANTILE * error
        lower, upper = value - half, value + half
    else:
        lower, upper = _of_random_tables(table, weights)
        lower, upper = min(lower, value), max(upper, value)
    return AgreementValue(value, max(-1.0, lower), min(1.0, upper), n, error)


def _kappa(share: Sequence[Sequence[float]], weights: KappaWeights) -> tuple[float, float] | None:
    """Return κ of a table of shares and n times its large-sample variance; None: undefined."""
    levels = range(len(share))
    longest = max(1, len(share) - 1)

    def weight(row: int, column: int) -> float:
        gap = abs(row - column) / longest
        if weights == "none":
            return 1.0 if row == column else 0.0
        return 1.0 - (gap if weights == "linear" else gap * gap)

    w = [[weight(row, column) for column in levels] for row in levels]
    rows = [sum(share[row]) for row in levels]
    columns = [sum(share[row][column] for row in levels) for column in levels]
    seen = sum(w[i][j] * share[i][j] for i in levels for j in levels)
    chance = sum(w[i][j] * rows[i] * columns[j] for i in levels for j in levels)
    if chance >= 1.0 - 1e-12:
        return None
    of_row = [sum(w[i][j] * columns[j] for j in levels) for i in levels]
    of_column = [sum(w[i][j] * rows[i] for i in levels) for j in levels]
    squares = sum(
        share[i][j] * (w[i][j] * (1 - chance) - (of_row[i] + of_column[j]) * (1 - seen)) ** 2
        for i in levels
        for j in levels
    )
    spread = max(0.0, squares - (seen * chance - 2 * chance + seen) ** 2) / (1 - chance) ** 4
    return (seen - chance) / (1 - chance), spread


def _of_random_tables(table: Sequence[Sequence[int]], weights: KappaWeights) -> tuple[float, float]:
    chance = random.Random(SEED)
    found = []
    for _ in range(DRAWS):
        cells = [[chance.gammavariate(count + 0.5, 1.0) for count in row] for row in table]
        total = sum(map(sum, cells))
        drawn = _kappa([[cell / total for cell in row] for row in cells], weights)
        if drawn is not None:
            found.append(drawn[0])
    return _middle(found)


def alpha(ratings: Sequence[Sequence[float]], level: AlphaLevel = "ordinal") -> float | None:
    """Return Krippendorff's α: 1 less the ratio of observed to expected disagreement.

    Takes any number of raters, who need not all have rated everything.

    Args:
        ratings: The ratings of each request; requests with fewer than two ratings are ignored.
        level: Their level of measurement. The distance of two ordinal ratings is the number of ratings
            between them.

    Returns:
        α, at most 1; None: no two ratings of one request, or all ratings are the same.
    """
    return _alpha([unit for unit in ratings if len(unit) > 1], level)


def alpha_interval(
    ratings: Sequence[Sequence[float]], level: AlphaLevel = "ordinal", *, draws: int = DRAWS
) -> AgreementValue:
    """Return Krippendorff's α with its 95 % interval, from samples of the requests drawn with a fixed seed.

    Args:
        ratings: As `alpha` takes them.
        level: As above.
        draws: Number of samples.
    """
    units = [unit for unit in ratings if len(unit) > 1]
    value = _alpha(units, level)
    if value is None:
        return AgreementValue(None, -1.0, 1.0, len(units))
    chance = random.Random(SEED)
    if level == "interval":
        found = _drawn_interval_alphas(units, chance, draws)
    else:
        found = [_alpha(chance.choices(units, k=len(units)), level) for _ in range(draws)]
    lower, upper = _middle([one for one in found if one is not None])
    return AgreementValue(value, min(lower, value), max(upper, value), len(units))


def _alpha(units: Sequence[Sequence[float]], level: AlphaLevel) -> float | None:
    counts = Counter(rating for unit in units for rating in unit)
    n = sum(counts.values())
    if len(counts) < 2:
        return None
    if level == "nominal":
        seen = sum(
            (len(unit) ** 2 - sum(same * same for same in Counter(unit).values())) / (len(unit) - 1)
            for unit in units
        )
        expected = float(n * n - sum(same * same for same in counts.values()))
    else:
        place = _mid_ranks(counts) if level == "ordinal" else {one: one for one in counts}
        # For differences of positions, the sums of squares are sufficient.
        seen = math.fsum(_squared_gaps([place[rating] for rating in unit]) / (len(unit) - 1) for unit in units)
        mean = math.fsum(place[rating] * count for rating, count in counts.items()) / n
        expected = 2 * n * math.fsum(count * (place[one] - mean) ** 2 for one, count in counts.items())
    return 1.0 - (n - 1) * seen / expected


def _drawn_interval_alphas(
    units: Sequence[Sequence[float]], chance: random.Random, draws: int
) -> list[float | None]:
    """Return α of samples of the requests, from four sums of each request instead of its ratings."""
    n = sum(map(len, units))
    middle = math.fsum(rating for unit in units for rating in unit) / n
    parts = []
    for unit in units:
        away = [rating - middle for rating in unit]
        squares = sum(one * one for one in away)
        parts.append((len(unit), sum(away), squares, _squared_gaps(unit) / (len(unit) - 1)))
    found: list[float | None] = []
    for _ in range(draws):
        counts, totals, squares_of, seen = map(sum, zip(*chance.choices(parts, k=len(parts)), strict=True))
        expected = 2 * (counts * squares_of - totals * totals)
        found.append(None if expected <= 1e-12 else 1.0 - (counts - 1) * seen / expected)
    return found


def _mid_ranks(counts: Counter[float]) -> dict[float, float]:
    """Return the mid-rank of each rating.

    The ordinal distance, the ratings between two and half of their own, is the difference of these.
    """
    ranks: dict[float, float] = {}
    below = 0
    for rating in sorted(counts):
        ranks[rating] = below + counts[rating] / 2
        below += counts[rating]
    return ranks


def _squared_gaps(places: Sequence[float]) -> float:
    """Return the sum of the squared differences of all ordered pairs."""
    mean = math.fsum(places) / len(places)
    return 2 * len(places) * math.fsum((place - mean) ** 2 for place in places)


def _middle(found: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the drawn values."""
    if not found:
        return -1.0, 1.0
    ordered = sorted(found)
    last = len(ordered) - 1
    return ordered[round(0.025 * last)], ordered[round(0.975 * last)]


@dataclass(frozen=True, slots=True)
class Confusion:
    """A judge's verdicts on good and bad requests, with people's labels as the truth."""

    good_good: int
    """Requests that people and judge call good."""
    good_bad: int
    """People call them good, the judge bad."""
    bad_good: int
    """People call them bad, the judge good."""
    bad_bad: int
    """Both call them bad."""

    @property
    def n(self) -> int:
        """Total number of requests."""
        return self.good_good + self.good_bad + self.bad_good + self.bad_bad

    @property
    def agreement(self) -> float | None:
        """The share with the same verdict of both: high by chance if nearly all requests are good."""
        return (self.good_good + self.bad_bad) / self.n if self.n else None

    @property
    def people_good(self) -> float | None:
        """The share that people call good."""
        return (self.good_good + self.good_bad) / self.n if self.n else None

    @property
    def judge_good(self) -> float | None:
        """The share that the judge calls good."""
        return (self.good_good + self.bad_good) / self.n if self.n else None

    @property
    def sensitivity(self) -> AgreementValue:
        """The share of the good requests that the judge calls good, with Wilson's interval."""
        return _share(self.good_good, self.good_good + self.good_bad)

    @property
    def specificity(self) -> AgreementValue:
        """The share of the bad requests that the judge calls bad, with Wilson's interval."""
        return _share(self.bad_bad, self.bad_good + self.bad_bad)

    @property
    def table(self) -> list[list[int]]:
        """The counts as a table for `kappa`: rows by people, columns by judge, bad first."""
        return [[self.bad_bad, self.bad_good], [self.good_bad, self.good_good]]


def binary_confusion(
    people: Sequence[float],
    judge: Sequence[float],
    *,
    is_good: Callable[[float], bool],
    judged_good: Callable[[float], bool] | None = None,
) -> Confusion:
    """Return the counts of requests by people's and the judge's division into good and bad.

    Args:
        people: People's labels, one number for each request.
        judge: The judge's scores of the same requests.
        is_good: Whether a number means good.
        judged_good: The same for the judge's numbers, if different.
    """
    says_good = judged_good or is_good
    counts = Counter((is_good(label), says_good(judged)) for label, judged in zip(people, judge, strict=True))
    return Confusion(
        good_good=counts[True, True],
        good_bad=counts[True, False],
        bad_good=counts[False, True],
        bad_bad=counts[False, False],
    )


def _share(part: int, n: int) -> AgreementValue:
    if not n:
        return AgreementValue(None, 0.0, 1.0, 0)
    lower, upper = wilson_interval(part / n, n)
    return AgreementValue(part / n, lower, upper, n)


def correlation(first: Sequence[float], second: Sequence[float]) -> AgreementValue:
    """Return Pearson's r with its 95 % interval, Fisher's.

    Args:
        first: One number for each request.
        second: Others of the same requests; with the *mean* of several raters it is more informative about a
            judge than with one of them.
    """
    n = len(first)
    if n < LEAST_FOR_CORRELATION or min(len(set(first)), len(set(second))) < 2:
        return AgreementValue(None, -1.0, 1.0, n)
    r = max(-1.0, min(1.0, statistics.correlation(first, second)))
    if n <= LEAST_FOR_CORRELATION:
        return AgreementValue(r, -1.0, 1.0, n)
    if abs(r) == 1.0:
        return AgreementValue(r, r, r, n)
    middle, half = math.atanh(r), NORMAL_QUANTILE / math.sqrt(n - 3)
    return AgreementValue(r, math.tanh(middle - half), math.tanh(middle + half), n)


def label_worth(r: float, n: int) -> float:
    """Return the number of unassisted labels that `n` labels of judged requests are worth.

    n / (1 - r²), with r² reduced by its expected value under chance for as many pairs; at least `n`.

    Args:
        r: The correlation of the judge with the labels.
        n: Number of labels.
    """
    if n < LEAST_FOR_CORRELATION:
        return float(n)
    unexplained = (1.0 - r * r) * (n - 1) / (n - 2)
    return n / min(1.0, max(1.0 / n, unexplained))


def labels_needed(width: float, variance: float, r: float = 0.0) -> int:
    """Return the number of labels for an interval of about `width` around people's mean.

    (1 - r²) · 4 · 1.96² · variance / width², and at least 30: with fewer, intervals are wide whatever the
    judge says. Assumes that all requests are judged.

    Args:
        width: Target width of the 95 % interval: upper less lower end, above 0.
        variance: Of the labels, from 0 to 0.25.
        r: The correlation of the judge with the labels; 0: no judge.
    """
    wanted = (1.0 - r * r) * 4.0 * NORMAL_QUANTILE**2 * variance / (width * width)
    return max(LEAST_LABELS, math.ceil(wanted))
