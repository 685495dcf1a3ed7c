"""Store the sums of one score: total, by five minutes for three hours, and by hours for a day.

`ragmeter.quality.sums` has one `Series` for each score of a workflow and locks them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ragmeter.metrics import ScoreDirection

from .moments import FreeMoments, JudgedMoments, Moments
from .sums_by_time import SLOT_S, SumsByTime, add_to

SLOTS_PER_HOUR = 12
_HOUR_S = 3600.0
PRIOR_PAIRS = 10.0
"""Weight of the prior design effect of 1, in pairs of neighbouring hours: chance alone widens no interval by
more than a twentieth."""
LARGEST_EFFECT = 10.0

M = TypeVar("M", FreeMoments, JudgedMoments)


@dataclass(slots=True)
class _LastDay(SumsByTime):
    """Sums by five minutes for three hours, then by hours for a day and the current hour."""

    LIMITS = ((SLOT_S, 3 * _HOUR_S), (_HOUR_S, 25 * _HOUR_S))


@dataclass(slots=True)
class Series(Generic[M]):
    """The sums of one score of one workflow: of the current slot, and of earlier ones."""

    current: M
    slot: int
    judge: str
    direction: ScoreDirection
    measurement: str
    range: tuple[float, float]
    place: int
    """Its index among the scores of its family."""
    design_effect: float = 1.0
    closed: array[float] = field(init=False)
    """The counts of all earlier slots."""
    earlier: _LastDay = field(default_factory=_LastDay)

    def __post_init__(self) -> None:
        self.closed = self.current.values()

    def roll(self, slot: int) -> None:
        """Begin slot `slot`: store the counts of the one before."""
        values = self.current.values()
        add_to(self.closed, values)
        self.earlier.add(self.slot * SLOT_S, values)
        if slot // SLOTS_PER_HOUR != self.slot // SLOTS_PER_HOUR:
            self.design_effect = self._design_effect()
        self.earlier.age(slot * SLOT_S)
        self.current = type(self.current)()
        self.slot = slot

    def totals(self) -> dict[str, float]:
        """Return all sums since the start, by name."""
        totals = array("d", self.closed)
        add_to(totals, self.current.values())
        return dict(zip(self.current.names, totals, strict=True))

    def slots(self, first: int, last: int) -> Iterable[tuple[int, dict[str, float]]]:
        """Return the counts of the slots `first` to `last`, within the last three hours."""
        for start, sums in self.earlier.intervals[0]:
            slot = int(start // SLOT_S)
            if first <= slot <= last:
                yield slot, dict(zip(self.current.names, sums, strict=True))
        if first <= self.slot <= last:
            yield self.slot, dict(zip(self.current.names, self.current.values(), strict=True))

    def add_since(self, first: int, to: Moments) -> None:
        """Add the counts from slot `first` on."""
        for _, end, sums in self.earlier.all():
            if end > first * SLOT_S:
                to.add(sums)
        if self.slot >= first:
            to.add(self.current.values())

    def _design_effect(self) -> float:
        """Return how much more neighbouring hours differ than with independent requests; at least 1.

        Σ (R' - R)² / Σ (S' + S) over neighbouring hours, R being the sum of an hour's weighted residuals and
        S that of their squares, and `PRIOR_PAIRS` pairs with the value 1. Requests of one session resemble
        each other and arrive together, so an hour's sum varies more than its terms. 1 if conversations are
        known, as their sums are a better measure (`Moments.clustering`).
        """
        hours: dict[int, array[float]] = {}
        for start, _, sums in self.earlier.all():
            add_to(hours.setdefault(int(start // _HOUR_S), array("d", bytes(8 * len(sums)))), sums)
        moments = {hour: type(self.current)(sums) for hour, sums in hours.items()}
        if any(one.r for one in moments.values()):
            return 1.0
        values = {hour: one.measured_values() for hour, one in moments.items()}
        weight = sum(one.weight for one in values.values())
        if not weight:
            return 1.0
        mean = sum(one.total for one in values.values()) / weight
        parts = {
            hour: (each.total - mean * each.weight, each.squares(mean))
            for hour, each in values.items()
            if each.weight
        }
        pairs = [(parts[hour], parts[hour + 1]) for hour in parts if hour + 1 in parts]
        alone = sum(left[1] + right[1] for left, right in pairs)
        if not alone:
            return 1.0
        seen = sum((right[0] - left[0]) ** 2 for left, right in pairs) / alone
        share = len(pairs) / (len(pairs) + PRIOR_PAIRS)
        return min(LARGEST_EFFECT, max(1.0, 1.0 + share * (seen - 1.0)))


@dataclass(slots=True, eq=False)
class SeriesFamily:
    """The series of one workflow, or of one of its segments."""

    is_part: bool = False
    free: dict[str, Series[FreeMoments]] = field(default_factory=dict)
    judged: dict[str, Series[JudgedMoments]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of series."""
        return len(self.free) + len(self.judged)

    def series(self) -> Iterable[tuple[str, Series[FreeMoments] | Series[JudgedMoments]]]:
        """Return all series with the scores' names."""
        yield from self.free.items()
        yield from self.judged.items()
