"""The 95 % interval of a mean: one formula for data sets, processes and fleets.

`interval_of_mean` is what `ragmeter.quality.estimate` ends in, whatever the mean was made of;
`interval_of_sums` is the same for values that were all measured and weigh the same, of which three sums are
enough.  Imports `math` alone.

Sources: Student's t by Fisher's expansion (Abramowitz, Stegun, 26.7.5); Wilson (1927) for few values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

NORMAL_QUANTILE = 1.959963984540054
"""Of the standard normal distribution, at 97.5 %."""
LEAST_FOR_MEAN = 5
"""Values below which a mean says nothing, and only its interval is shown."""
LEAST_FOR_STUDENT = 30.0
"""Values, in effect, below which the interval is Wilson's."""
LEAST_EACH_SIDE = 5.0
"""So many of them, in effect, must lie away from 0, and away from 1; else it is Wilson's, too."""
PSEUDO_RESIDUAL = 0.5
"""Squared residuals of size 1 added to those seen: ten equal values are no proof of no spread."""


def student_quantile(degrees: float, normal: float = NORMAL_QUANTILE) -> float:
    """Return a quantile of Student's t: exact for one and two degrees, else by Fisher's expansion in 1/degrees.

    At 97.5 % it is within 0.2 % from five degrees on, and within 1 % at three; at 99 % within 0.4 % and 3 %.
    Source: Abramowitz, Stegun, 26.7.5.

    Args:
        degrees: Degrees of freedom; fewer than 1 count as 1.
        normal: The same quantile of the standard normal distribution; default: that at 97.5 %.
    """
    z, v = normal, max(degrees, 1.0)
    if v in (1.0, 2.0):  # two values, or three: where the expansion is worst
        middle = math.erf(z / math.sqrt(2.0))
        return (
            math.tan(math.pi * middle / 2)
            if v == 1.0
            else middle * math.sqrt(2 / (1 - middle * middle))
        )
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def wilson_interval(
    mean: float, n: float, quantile: float = NORMAL_QUANTILE
) -> tuple[float, float]:
    """Return Wilson's interval of a mean of `n` values.

    Made for shares, and safe for any values between 0 and 1: their variance is at most mean (1 - mean).

    Args:
        mean: The mean, 0 to 1.
        n: How many values there are, or are in effect; above 0.
        quantile: Of the normal distribution, or of Student's; default: 95 % of intervals hold the truth.
    """
    z2 = quantile**2
    centre = mean + z2 / (2 * n)
    half = quantile * math.sqrt(mean * (1 - mean) / n + z2 / (4 * n * n))
    lower, upper = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    # At 0 and at 1 an end is the mean itself, but for rounding.
    return max(0.0, min(lower, mean)), min(1.0, max(upper, mean))


def interval_of_mean(
    mean: float,
    variance: float,
    k_eff: float,
    *,
    measured: float,
    used: float,
    effect: float = 1.0,
    clusters: float | None = None,
) -> tuple[float, float, bool]:
    """Return the ends of the interval, and whether it is Wilson's.

    Args:
        mean: The mean, 0 to 1.
        variance: Of the mean, of independent values.
        k_eff: How many equally weighted values would say as much; above 0.
        measured: The mean of what was measured, before any correction: Wilson's interval is around it.
        used: Degrees of freedom that the mean has used up.
        effect: How much larger the variance is than if values were independent.
        clusters: How many groups of values there are, those of a group being alike; None: each is by itself.
            The interval then is Wilson's with Student's quantile, on as many values as have this variance.
    """
    if clusters is not None:
        quantile = student_quantile(clusters - 1)
        n = k_eff / effect
        if n >= LEAST_FOR_STUDENT and n * min(measured, 1 - measured) >= LEAST_EACH_SIDE:
            n_eff = mean * (1 - mean) / (variance * effect)
            return *wilson_interval(mean, n_eff, quantile), False
        return *wilson_interval(measured, n, quantile), True
    if k_eff >= LEAST_FOR_STUDENT and k_eff * min(measured, 1 - measured) >= LEAST_EACH_SIDE:
        half = student_quantile(k_eff - used) * math.sqrt(variance * effect)
        return max(0.0, mean - half), min(1.0, mean + half), False
    return *wilson_interval(measured, k_eff / effect), True


def variance_of_mean(n: float, total: float, squares: float) -> float:
    """Return the variance of the mean of `n` values from 0 to 1, guarded against too few of them.

    Args:
        n: How many; above 0.
        total: What they add up to.
        squares: What their squares add up to.
    """
    return (max(0.0, squares - total * total / n) + PSEUDO_RESIDUAL) / (n * max(1.0, n - 1.0))


def interval_of_sums(
    n: int, total: float, squares: float, ends: tuple[float | None, float | None]
) -> tuple[float, float] | None:
    """Return the interval of the mean of measured values, on their own scale; None for fewer than two.

    Where their range has two ends it is that of live requests; where it has not, Student's, cut off at the
    end that there is: no mean of counts is below 0.

    Args:
        n: How many values there are.
        total: What they add up to.
        squares: What their squares add up to.
        ends: Smallest and largest possible value; None: no bound.
    """
    if n < 2:
        return None
    lowest, highest = ends
    mean = total / n
    if lowest is None or highest is None or lowest >= highest:
        variance = max(0.0, squares - total * mean) / (n - 1)
        half = student_quantile(n - 1) * math.sqrt(variance / n)
        return (
            mean - half if lowest is None else max(lowest, mean - half),
            mean + half if highest is None else min(highest, mean + half),
        )
    width = highest - lowest
    unit = min(1.0, max(0.0, (mean - lowest) / width))
    variance = variance_of_mean(
        n,
        (total - n * lowest) / width,
        (squares - 2 * lowest * total + n * lowest * lowest) / width**2,
    )
    lower, upper, _ = interval_of_mean(unit, variance, n, measured=unit, used=1.0)
    return lowest + lower * width, lowest + upper * width


def mean_interval(
    values: Sequence[float], ends: tuple[float | None, float | None]
) -> tuple[float, float] | None:
    """Return the interval of the mean of these values, as `interval_of_sums` of their sums."""
    return interval_of_sums(
        len(values), math.fsum(values), math.fsum(value * value for value in values), ends
    )
