"""Compute a mean of quality with its confidence interval: an `Estimate`.

One estimator serves a process, a fleet and a file: it needs only the sums of `ragmeter.quality.moments`.
Judged scores of a sample are corrected to all requests by the free scores of all; labels of people, if any,
correct the judge in the same way. The shipped Prometheus rules compute the same from the same sums. Imports
`math`, sums and intervals.

Sources: Särndal, Swensson, Wretman, *Model Assisted Survey Sampling* (1992), for the regression
estimator of a ratio under sampling with known probabilities; Angelopoulos, Duchi, Zrnic, *PPI++: Efficient
Prediction-Powered Inference* (2023), which it equals; Wilson (1927) for the interval of few values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ragmeter.metrics._display.mean_interval import (
    LEAST_FOR_MEAN,
    PSEUDO_RESIDUAL,
    clip_to_unit,
    interval_of_mean,
    student_quantile,
    variance_of_mean,
)

from .estimates import Estimate, EstimateMethod
from .moments import Clustering, FreeMoments, JudgedMoments, Moments

MISSES = 0.05
"""Accepted share of intervals that miss the truth."""
SHARPEST_AT = 200
"""Number of values at which an always-valid interval is narrowest."""
PSEUDO_SPREAD = 1.0 / 16.0
"""Ridge added to the variance of the free score: the slope shrinks when little is judged."""


class _CorrectedMean(NamedTuple):
    """A mean over all requests, with its error."""

    mean: float
    variance: float
    measured: float
    """The uncorrected mean of the measured values."""
    k_eff: float
    """Number of equally weighted values with the same information."""
    gain: float = 1.0


def estimate(moments: Moments, labels: JudgedMoments | None = None, *, design_effect: float = 1.0) -> Estimate:
    """Return the mean with its interval.

    Args:
        moments: Sums of a free or of a judged score.
        labels: Sums of people's labels of judged requests, drawn among them with known probability: the
            judge's score takes the place of the free score, people's labels that of the judge. The estimate
            is then one of people's labels.
        design_effect: Factor of the variance; at least 1.
    """
    effect = max(1.0, design_effect)
    if (alike := moments.clustering()) is not None:
        effect = max(effect, alike.design_effect)
    if isinstance(moments, JudgedMoments):
        return _estimate_judged(moments, labels, effect, alike)
    if not isinstance(moments, FreeMoments):
        raise TypeError(f"sums are FreeMoments or JudgedMoments, not {type(moments).__name__}")
    return _estimate_free(moments, effect, alike)


def difference_interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences and the ends of its 95 % interval.

    Student's interval, with half a squared residual of the largest size, 2, added to the observed ones:
    thirty pairs without any difference do not prove that there is none.

    Args:
        differences: Of scores from 0 to 1, new less old, each of one request; at least one.
    """
    n = len(differences)
    mean = math.fsum(differences) / n
    squares = math.fsum((one - mean) ** 2 for one in differences) + 4.0 * PSEUDO_RESIDUAL
    if n < LEAST_FOR_MEAN:
        return mean, -1.0, 1.0
    half = student_quantile(n - 1) * math.sqrt(squares / (n * (n - 1)))
    return mean, max(-1.0, mean - half), min(1.0, mean + half)


def always_valid_half(variance: float, n: float, alpha: float = MISSES) -> float:
    """Return the half width of an always-valid interval, of 95 % by default.

    For people who watch one number and decide when to stop: an ordinary interval that is checked often enough
    almost surely misses the truth at some time. About half as wide again, narrowest near 200 values; for few
    values the observed variance is sometimes too small, so it is reliable from 30 values on.

    The asymptotic confidence sequence of Waudby-Smith and others, *Time-uniform central limit theory
    and asymptotic confidence sequences* (2024).

    Args:
        variance: Of one value; 0 to 0.25 for values from 0 to 1.
        n: Number of values, above 0.
        alpha: Probability that the interval ever misses the truth.
    """
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / SHARPEST_AT
    a = n * rho2 + 1
    return math.sqrt(variance * 2 * a / (n * n * rho2) * math.log(math.sqrt(a) / alpha))


def _estimate_free(m: FreeMoments, effect: float, alike: Clustering | None) -> Estimate:
    bounds = None
    if m.wb:
        bounds = clip_to_unit(m.x / m.wb), clip_to_unit((m.x + m.wb - m.kd) / m.wb)
    found: _CorrectedMean | None = None
    if m.kd:
        mean = clip_to_unit(m.x / m.kd)
        found = _CorrectedMean(mean, variance_of_mean(m.kd, m.x, m.xx), mean, m.kd)
    return replace(
        _with_interval(found, m.kd, 1.0, effect, "all", alike),
        n_requests=round(m.n),
        n_judged=round(m.n),
        unscored=(m.wb - m.kd) / m.n if m.n else 0.0,
        undefined=(m.n - m.wb) / m.n if m.n else 0.0,
        bounds=bounds,
    )


def _estimate_judged(
    m: JudgedMoments, labels: JudgedMoments | None, effect: float, alike: Clustering | None
) -> Estimate:
    found = _correct_mean(m, m.x / m.n if m.n else None)
    shown = _with_interval(found, m.kd, 2.0, effect, "regression", alike)
    if labels is not None and labels.k and found is not None:
        # People's labels are used without correction if there are too few to correct the judge.
        corrected = (
            _correct_mean(labels, found.mean, found.variance)
            if shown.method == "regression"
            else _correct_mean(labels, None)
        )
        shown = replace(
            _with_interval(corrected, labels.kd, 2.0, effect, "regression"),
            n_labelled=round(labels.k),
            n_conversations=shown.n_conversations,
        )
    return replace(
        shown,
        n_requests=round(m.n),
        n_judged=round(m.k),
        unscored=max(0.0, m.wb - m.wd) / m.w if m.w else 0.0,
        undefined=max(0.0, m.w - m.wb) / m.w if m.w else 0.0,
        bounds=(clip_to_unit(m.wl / m.wb), clip_to_unit(m.wu / m.wb)) if m.wb else None,
    )


def _correct_mean(
    m: JudgedMoments, target: float | None, target_variance: float | None = None
) -> _CorrectedMean | None:
    """Return the regression estimate of the mean of y over all requests for which it is defined.

    Which unjudged requests are undefined is unknown, so the judged mean is a ratio, Σ w d y / Σ w d, and the
    residuals are those of a ratio.

    Args:
        m: The sums.
        target: The mean of x over all requests; None: unknown, no correction.
        target_variance: The variance of `target`, where it is an estimate; None: it is the mean of the `m.n`
            observed requests.
    """
    if not m.kd:
        return None
    mean_y, mean_x, share = m.wy / m.wd, m.wx / m.w, m.wd / m.w
    unit = m.q / m.k  # the mean square of a weight
    see = max(0.0, m.qyy - 2 * mean_y * m.qy + mean_y**2 * m.qd) / share**2
    sxx = max(0.0, m.qxx - 2 * mean_x * m.qx + mean_x**2 * m.q)
    sex = (m.qxy - mean_x * m.qy - mean_y * m.qxd + mean_y * mean_x * m.qd) / share
    spread = sxx + PSEUDO_SPREAD * unit
    slope = 0.0 if target is None else sex / spread
    suu = max(0.0, see - 2 * slope * sex + slope**2 * sxx)
    k_eff = m.wd**2 / m.qd
    guard = PSEUDO_RESIDUAL * unit
    variance = k_eff / max(1.0, k_eff - 2.0) * (suu + guard) / m.w**2
    distance = 0.0 if target is None else target - mean_x
    if target_variance is None:
        variance += max(0.0, see - suu) / (m.q * m.n) if m.n else 0.0
    else:
        # The slope is an estimate, too, which matters if the labelled requests, as the judge sees them,
        # differ from all requests.
        variance *= 1.0 + distance**2 * m.q / spread
        variance += slope**2 * target_variance
    plain = k_eff / max(1.0, k_eff - 1.0) * (see + guard) / m.w**2
    mean = clip_to_unit(mean_y + slope * distance)
    return _CorrectedMean(mean, variance, clip_to_unit(mean_y), k_eff, plain / variance)


def _with_interval(
    found: _CorrectedMean | None,
    values: float,
    used: float,
    effect: float,
    method: EstimateMethod,
    alike: Clustering | None = None,
) -> Estimate:
    """Return an estimate of no requests with a mean and its interval, Wilson's for few values.

    Args:
        found: The mean and its variance; None: no value.
        values: Number of values.
        used: Degrees of freedom used by the mean.
        effect: The design effect.
        method: Method of the mean of many values.
        alike: Its conversations; None: all values are independent.
    """
    mean, lower, upper, gain = None, 0.0, 1.0, 1.0
    if found is None:
        method = "none"
    else:
        mean, gain = found.mean, found.gain
        lower, upper, wilson = interval_of_mean(
            mean,
            found.variance,
            found.k_eff,
            measured=found.measured,
            used=used,
            effect=effect,
            clusters=None if alike is None else alike.conversations,
        )
        if wilson:
            mean, gain, method = found.measured if values >= LEAST_FOR_MEAN else None, 1.0, "wilson"
    return Estimate(
        mean=mean,
        lower=lower,
        upper=upper,
        n_requests=0,
        n_judged=0,
        method=method,
        gain=gain,
        design_effect=effect,
        n_conversations=None if alike is None else round(alike.conversations),
    )
