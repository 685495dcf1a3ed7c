"""Compare a new version with the one before on its first day, before a baseline is learned.

Means are compared within cells of language and workflow that both versions have, weighted as after the
deployment, so that other questions are not a fall. The interval is valid at every look (Waudby-Smith and
others, 2024, asymptotic), and all comparisons share one error rate, however many deployments there are. The
result says *since*, never *because of*: other changes at the same moment are listed with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

from ragmeter.quality.estimate import always_valid_half

ERROR_RATE = 0.05
"""Probability of any false result over all comparisons, if no deployment changed anything."""
LEAST_VALUES = 30
"""Least number of values on each side."""
LEAST_IN_CELL = (5, 3)
"""Least number of values of a cell before and after."""
NEW_KEYS = ("service.version", "index_version", "prompt_version", "model", "tenant")
"""Metadata whose new value marks a deployment; also every name that begins with ``deployment.``."""
_LEAST_SQUARES = 0.25
"""Added to the squared deviations of each cell: a few equal values do not prove zero variance."""


class ComparedValue(NamedTuple):
    """A value of one request, 0 to 1; higher is better."""

    cell: Hashable
    """The stratum it is compared within, e.g. language and workflow."""
    unit: Hashable
    """The cluster: values of one conversation count once."""
    value: float


class VersionComparison(NamedTuple):
    """The effect of a deployment on a mean."""

    before: float
    """The mean before, weighted by the cells after."""
    after: float
    lower: float
    """Lower end of the interval of `difference`."""
    upper: float
    n_before: int
    """Number of values; a conversation counts as one."""
    n_after: int

    @property
    def difference(self) -> float:
        """After less before."""
        return self.after - self.before

    @property
    def effect(self) -> Literal["worse", "better", "none"]:
        """``worse``, ``better``, or ``none``: no difference beyond chance."""
        return "worse" if self.upper < 0 else "better" if self.lower > 0 else "none"


def is_version_key(name: str) -> bool:
    """Return whether a new value of this metadata marks a deployment."""
    if name.startswith("deployment."):
        return not name.startswith("deployment.environment")
    return name in NEW_KEYS


def error_share(number: int) -> float:
    """Return the error rate of the `number`-th comparison, counted from 1; all together: `ERROR_RATE`."""
    return ERROR_RATE * 6 / (math.pi * number) ** 2


def compare_versions(
    before: Iterable[ComparedValue], after: Iterable[ComparedValue], alpha: float
) -> VersionComparison | None:
    """Compare the values of two versions; None: too few of either.

    Args:
        before: Of the version before. A conversation with values of both counts here.
        after: Of the new one.
        alpha: Probability that the interval ever leaves out the true difference; see `error_share`.
    """
    old = _thin(before, ())
    new = _thin(after, {unit for cell in old.values() for unit in cell})
    cells = [
        (list(old[cell].values()), list(values.values()))
        for cell, values in new.items()
        if len(old.get(cell, ())) >= LEAST_IN_CELL[0] and len(values) >= LEAST_IN_CELL[1]
    ]
    n_before, n_after = (sum(len(cell[side]) for cell in cells) for side in (0, 1))
    if min(n_before, n_after) < LEAST_VALUES:
        return None
    was = now = variance = 0.0
    squares = _LEAST_SQUARES
    for earlier, later in cells:
        weight = len(later) / n_after
        was += weight * sum(earlier) / len(earlier)
        now += weight * sum(later) / len(later)
        variance += weight**2 * (_squares(earlier) + _LEAST_SQUARES) / len(earlier) ** 2
        squares += _squares(later)
    variance += squares / (n_after - len(cells)) / n_after
    n = 1 / (1 / n_before + 1 / n_after)
    half = always_valid_half(variance * n, n, alpha)
    difference = now - was
    return VersionComparison(
        was, now, max(-1.0, difference - half), min(1.0, difference + half), n_before, n_after
    )


def detectable_fall(n: int, variance: float) -> float | None:
    """Return the smallest fall that a hundred values can detect; None: too little data.

    Args:
        n: Values so far.
        variance: Their variance.
    """
    if n < LEAST_VALUES:
        return None
    # An estimate is below the truth half of the time: twice the interval detects nearly all falls.
    return 2 * always_valid_half(variance, 1 / (1 / n + 1 / 100), ERROR_RATE)


def _thin(
    values: Iterable[ComparedValue], left_out: Iterable[Hashable]
) -> dict[Hashable, dict[Hashable, float]]:
    """Return the mean of each unit, by cell."""
    others = frozenset(left_out)
    found: dict[Hashable, dict[Hashable, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in values:
        if one.unit not in others:
            found[one.cell][one.unit].append(one.value)
    return {
        cell: {unit: sum(some) / len(some) for unit, some in units.items()} for cell, units in found.items()
    }


def _squares(values: list[float]) -> float:
    """Return the sum of squared deviations from the mean."""
    mean = sum(values) / len(values)
    return sum((one - mean) ** 2 for one in values)
