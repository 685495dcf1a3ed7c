"""Is a new version worse than the one before? Said on its first day, long before it is known what is usual.

The mean after is compared with the mean before within the cells that both have, of a language and a workflow
each, weighted as after: so other questions are no fall.  The interval holds at every look (Waudby-Smith and
others, 2024, asymptotic), and all comparisons share one error rate, however many deployments there will be.
It says *since*, never *because of*: what else is new at the same moment belongs beside it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

from ragmeter.quality.estimate import always_valid_half

__all__ = [
    "ERROR_RATE",
    "LEAST_VALUES",
    "NEW_KEYS",
    "ComparedValue",
    "VersionComparison",
    "compare_versions",
    "detectable_fall",
    "error_share",
    "is_version_key",
]

ERROR_RATE = 0.05
"""Probability that any comparison ever says something though no deployment changed anything."""
LEAST_VALUES = 30
"""Values on each side from which on something is said."""
LEAST_IN_CELL = (5, 3)
"""Values before and after from which on a cell counts."""
NEW_KEYS = ("service.version", "index_version", "prompt_version", "model", "tenant")
"""What is new with its first value beside an earlier one; and all that begins with ``deployment.``."""
_LEAST_SQUARES = 0.25
"""Added to the squares of each cell: a few values that are all alike do not say that all are."""


class ComparedValue(NamedTuple):
    """A value of one request, on 0 to 1, more being better."""

    cell: Hashable
    """What it is compared within, e.g. language and workflow."""
    unit: Hashable
    """What makes values alike: those of one conversation count once."""
    value: float


class VersionComparison(NamedTuple):
    """What a deployment did to a mean."""

    before: float
    """The mean before, over the cells as they are after."""
    after: float
    lower: float
    """Lower end of the interval of `difference`."""
    upper: float
    n_before: int
    """Values that it rests on: conversations, where there are some."""
    n_after: int

    @property
    def difference(self) -> float:
        """After less before."""
        return self.after - self.before

    @property
    def effect(self) -> Literal["worse", "better", "none"]:
        """What can be said of it; ``none``: no difference beyond chance."""
        return "worse" if self.upper < 0 else "better" if self.lower > 0 else "none"


def is_version_key(name: str) -> bool:
    """Return whether a new value of this metadata is a deployment."""
    if name.startswith("deployment."):
        return not name.startswith("deployment.environment")
    return name in NEW_KEYS


def error_share(number: int, rate: float = ERROR_RATE) -> float:
    """Return the share of an error rate that the `number`-th comparison may use up, counted from 1.

    All shares, of however many there will be, add up to `rate`.
    """
    return rate * 6 / (math.pi * number) ** 2


def compare_versions(
    before: Iterable[ComparedValue], after: Iterable[ComparedValue], alpha: float
) -> VersionComparison | None:
    """Compare the values of two versions; None: there are too few of either.

    Args:
        before: Of the version before. A conversation that has some of both counts here.
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


def detectable_fall(
    n: int, squares: float, alpha: float = ERROR_RATE, after: int = 100
) -> float | None:
    """Return the least fall that is found within so many values; None: too little is known.

    Args:
        n: Values so far.
        squares: Their variance.
        alpha: As `compare_versions`.
        after: Values of the new version.
    """
    if n < LEAST_VALUES:
        return None
    # Half of the time an estimate lies below the truth: as much again finds nearly all.
    return 2 * always_valid_half(squares, 1 / (1 / n + 1 / after), alpha)


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
        cell: {unit: sum(some) / len(some) for unit, some in units.items()}
        for cell, units in found.items()
    }


def _squares(values: list[float]) -> float:
    """Return the squared distances from their mean, added up."""
    mean = sum(values) / len(values)
    return sum((one - mean) ** 2 for one in values)
