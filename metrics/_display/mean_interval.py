"""The 95 % interval of a mean: one formula for data sets, processes and fleets.

`interval_of_mean` is the last step of `ragmeter.quality.estimate`, for any kind of mean; `interval_of_sums`
is the same for equally weighted values that were all measured, for which three sums are enough. Imports only
`math`.

Sources: Student's t by Fisher's expansion (Abramowitz, Stegun, 26.7.5); Wilson (1927) for few values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

NORMAL_QUANTILE = 1.959963984540054
"""Quantile of the standard normal distribution at 97.5 %."""
LEAST_FOR_MEAN = 5
"""With fewer values only the interval of a mean is shown."""
LEAST_FOR_STUDENT = 30.0
"""With fewer effective values the interval is Wilson's."""
LEAST_EACH_SIDE = 5.0
"""Least number of effective values away from 0, and away from 1; with fewer, it is Wilson's, too."""
PSEUDO_RESIDUAL = 0.5
"""Squared residuals of size 1 added to the observed ones: ten equal values do not prove zero variance."""


def clip_to_unit(value: float) -> float:
    """Return `value`, or the nearer of 0 and 1 if it is not between them."""
    return min(1.0, max(0.0, value))


def scale_to_unit(value: float, lowest: float | None, highest: float | None) -> float:
    """Return the position of `value` in a range, 0 to 1.

    Raises:
        ValueError: The range is open or empty, or the value is not finite.
    """
    if lowest is None or highest is None or not lowest < highest or not math.isfinite(value):
        raise ValueError(f"{value!r} has no position from {lowest!r} to {highest!r}")
    return clip_to_unit((value - lowest) / (highest - lowest))


def student_quantile(degrees: float, normal: float = NORMAL_QUANTILE) -> float:
    """Return a quantile of Student's t: exact for one and two degrees, else by Fisher's expansion in 1/degrees.

    At 97.5 % it is within 0.2 % from five degrees on, and within 1 % at three; at 99 % within 0.4 % and 3 %.
    Source: Abramowitz, Stegun, 26.7.5.

    Args:
        degrees: Degrees of freedom; fewer than 1 count as 1.
        normal: The same quantile of the standard normal distribution; default: that at 97.5 %.
    """
    z, v = normal, max(degrees, 1.0)
    if v in (1.0, 2.0):  # two or three values: where the expansion is worst
        middle = math.erf(z / math.sqrt(2.0))
        return math.tan(math.pi * middle / 2) if v == 1.0 else middle * math.sqrt(2 / (1 - middle * middle))
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def wilson_interval(mean: float, n: float, quantile: float = NORMAL_QUANTILE) -> tuple[float, float]:
    """Return Wilson's interval of a mean of `n` values.

    Made for shares, and safe for any values between 0 and 1: their variance is at most mean (1 - mean).

    Args:
        mean: The mean, 0 to 1.
        n: Number of values, or of effective values; above 0.
        quantile: Of the normal distribution, or of Student's; default: for an interval of 95 %.
    """
    z2 = quantile**2
    centre = mean + z2 / (2 * n)
    half = quantile * math.sqrt(mean * (1 - mean) / n + z2 / (4 * n * n))
    lower, upper = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    # At 0 and at 1 one end is the mean itself, except for rounding.
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
        k_eff: Number of equally weighted values with the same information; above 0.
        measured: The mean of the measured values, before any correction, for Wilson's interval.
        used: Degrees of freedom used by the mean.
        effect: Ratio of the variance to that of independent values.
        clusters: Number of groups of similar values; None: all are independent. With groups the interval is
            Wilson's with Student's quantile, for the number of values with this variance.
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
    """Return the variance of the mean of `n` values from 0 to 1, guarded against too few values.

    Args:
        n: Number of values; above 0.
        total: Their sum.
        squares: The sum of their squares.
    """
    return (max(0.0, squares - total * total / n) + PSEUDO_RESIDUAL) / (n * max(1.0, n - 1.0))


def interval_of_sums(
    n: int, total: float, squares: float, ends: tuple[float | None, float | None]
) -> tuple[float, float] | None:
    """Return the interval of the mean of measured values, on their own scale; None for fewer than two.

    With a range of two ends it is that of live requests; otherwise Student's, cut off at an existing end: no
    mean of counts is below 0.

    Args:
        n: Number of values.
        total: Their sum.
        squares: The sum of their squares.
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
    unit = scale_to_unit(mean, lowest, highest)
    variance = variance_of_mean(
        n, (total - n * lowest) / width, (squares - 2 * lowest * total + n * lowest * lowest) / width**2
    )
    lower, upper, _ = interval_of_mean(unit, variance, n, measured=unit, used=1.0)
    return lowest + lower * width, lowest + upper * width


def mean_interval(
    values: Sequence[float], ends: tuple[float | None, float | None]
) -> tuple[float, float] | None:
    """Return the interval of the mean of these values, as `interval_of_sums` computes it."""
    return interval_of_sums(len(values), math.fsum(values), math.fsum(value * value for value in values), ends)
