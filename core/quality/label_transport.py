"""Estimate the current share of good requests from labels of another time: `transport_share`.

Labels correct a judge by regression only if they come from the traffic of the estimate: the meaning of a
verdict changes with the share of good requests, and after a fall such an interval misses the truth nearly
always. What remains constant, as long as judge and kind of questions do, is the judge's error rate on good
requests and on bad ones; this module uses only these. Imports `math` and the formulas; pure.

Sources: Rogan, Gladen, "Estimating prevalence from the results of a screening test" (1978); Lang, Reiczigel,
"Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity" (2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ragmeter.metrics._display.mean_interval import NORMAL_QUANTILE, clip_to_unit

from .agreement import Confusion

LEAST_LABELS = 100
"""Least number of labels for an estimate,"""
LEAST_OF_EACH = 30
"""and least number of good, and of bad, requests."""
LEAST_YOUDEN = 0.1
"""Sensitivity + specificity - 1 below which a judge is hardly better than a coin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportedShare:
    """The share of good requests according to people, with a 95 % interval."""

    share: float | None
    """0 to 1; None: unknown, see `status`."""
    lower: float
    """Lower end of the interval."""
    upper: float
    """Upper end of the interval; it is 0 to 1 when nothing is known."""
    status: Literal["ok", "few_labels", "judge_tells_nothing", "nothing_judged"]
    """``few_labels``: fewer than 100, or fewer than 30 of good or of bad requests. ``judge_tells_nothing``:
    it calls good and bad requests good nearly equally often."""
    n_labelled: int
    """Number of labels from which the judge's errors were estimated."""


def transport_share(judge_good: float, k_eff: float, errors: Confusion) -> TransportedShare:
    """Return the current share of good requests, from the judge's current share and its known error rates.

    (p + specificity - 1) / (sensitivity + specificity - 1), with the interval of Lang and Reiczigel: two good
    and two bad requests, in effect, are added to the judged ones, one success and one failure to the labels
    of each kind. It is a share even for graded scores, whose threshold belongs to the labels. Assumes that
    the judge errs as it did when the labels were given.

    Args:
        judge_good: The share of requests that the judge calls good now, 0 to 1.
        k_eff: Effective number of equally weighted requests behind that share.
        errors: Verdicts of people and the same judge on the same requests at another time.
    """
    good = errors.good_good + errors.good_bad
    bad = errors.bad_good + errors.bad_bad
    n = good + bad

    def nothing(status: Literal["few_labels", "judge_tells_nothing", "nothing_judged"]) -> TransportedShare:
        return TransportedShare(share=None, lower=0.0, upper=1.0, status=status, n_labelled=n)

    if k_eff <= 0:
        return nothing("nothing_judged")
    if n < LEAST_LABELS or min(good, bad) < LEAST_OF_EACH:
        return nothing("few_labels")
    z2 = NORMAL_QUANTILE**2
    judged = k_eff + z2
    p = (judge_good * k_eff + z2 / 2) / judged
    sensitivity = (errors.good_good + 1) / (good + 2)
    specificity = (errors.bad_bad + 1) / (bad + 2)
    youden = sensitivity + specificity - 1
    if youden <= LEAST_YOUDEN:
        return nothing("judge_tells_nothing")
    share = (p + specificity - 1) / youden
    of_good = sensitivity * (1 - sensitivity) / (good + 2)
    of_bad = specificity * (1 - specificity) / (bad + 2)
    shift = 2 * z2 * (share * of_good - (1 - share) * of_bad)
    spread = p * (1 - p) / judged + share**2 * of_good + (1 - share) ** 2 * of_bad
    half = NORMAL_QUANTILE * math.sqrt(spread) / youden
    inside = clip_to_unit(share)
    return TransportedShare(
        share=inside,
        lower=min(inside, clip_to_unit(share + shift - half)),
        upper=max(inside, clip_to_unit(share + shift + half)),
        status="ok",
        n_labelled=n,
    )
