"""The sums of one score: of all time, of the last three hours by five minutes, of the last day by hours.

`ragmeter.quality.sums` keeps one `Series` for each score of a workflow and locks them.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Generic, TypeVar

from ragmeter.metrics import ScoreDirection

from .moments import FreeMoments, JudgedMoments, Moments

__all__ = ["SLOTS_PER_HOUR", "SLOT_S", "Family", "Series"]

SLOT_S = 300.0
"""Sums are kept by so many seconds,"""
FINE_SLOTS = 36
"""for so many of them, the last three hours;"""
SLOTS_PER_HOUR = 12
COARSE_HOURS = 25
"""and by hours for so many hours: a day, and the hour that has begun."""
LEAST_NEIGHBOURS = 12
"""Pairs of neighbouring slots that a design effect must be seen in."""
LARGEST_EFFECT = 10.0

M = TypeVar("M", FreeMoments, JudgedMoments)


class Series(Generic[M]):
    """The sums of one score of one workflow."""

    __slots__ = (
        "closed",
        "coarse",
        "current",
        "design_effect",
        "direction",
        "fine",
        "judge",
        "measurement",
        "range",
        "slot",
    )

    def __init__(
        self, made: M, slot: int, judge: str, direction: ScoreDirection, measurement: str = ""
    ) -> None:
        self.current: M = made
        self.slot = slot
        self.judge = judge
        self.measurement = measurement or judge
        self.direction: ScoreDirection = direction
        self.range = (0.0, 1.0)
        self.closed = made.values()
        self.fine: deque[tuple[int, array[float]]] = deque()
        self.coarse: deque[tuple[int, array[float]]] = deque()
        self.design_effect = 1.0

    def roll(self, slot: int) -> None:
        """Begin the slot `slot`: put away what was counted before it."""
        values = self.current.values()
        _add(self.closed, values)
        self.fine.append((self.slot, values))
        # Once in five minutes: too much work for every time that it is asked for.
        self.design_effect = self._design_effect()
        self.current = type(self.current)()
        self.slot = slot
        while self.fine[0][0] <= slot - FINE_SLOTS:
            earlier, sums = self.fine.popleft()
            hour = earlier // SLOTS_PER_HOUR
            if self.coarse and self.coarse[-1][0] == hour:
                _add(self.coarse[-1][1], sums)
            else:
                self.coarse.append((hour, sums))
            if not self.fine:
                break
        while self.coarse and self.coarse[0][0] <= slot // SLOTS_PER_HOUR - COARSE_HOURS:
            self.coarse.popleft()

    def totals(self) -> dict[str, float]:
        """Return everything that was counted, by the sums' names."""
        totals = array("d", self.closed)
        _add(totals, self.current.values())
        return dict(zip(self.current.names, totals, strict=True))

    def slots(self, first: int, last: int) -> Iterable[tuple[int, dict[str, float]]]:
        """Return what was counted in each of the slots `first` to `last`, of those of the last three hours."""
        for slot, sums in self.fine:
            if first <= slot <= last:
                yield slot, dict(zip(self.current.names, sums, strict=True))
        if first <= self.slot <= last:
            yield self.slot, dict(zip(self.current.names, self.current.values(), strict=True))

    def add_since(self, first: int, to: Moments) -> None:
        """Add what was counted from slot `first` on."""
        for hour, sums in self.coarse:
            if (hour + 1) * SLOTS_PER_HOUR > first:
                to.add(sums)
        for slot, sums in self.fine:
            if slot >= first:
                to.add(sums)
        if self.slot >= first:
            to.add(self.current.values())

    def _design_effect(self) -> float:
        """Return how much more neighbouring slots differ than independent requests would; at least 1.

        Σ (R' - R)² / Σ (S' + S) over neighbouring slots, R being the sum of a slot's weighted
        residuals and S that of their squares.  Requests of one session resemble each other and come
        together, so a slot's sum varies more than its terms.  1 where that is within what chance does.
        """
        if len(self.fine) <= LEAST_NEIGHBOURS:
            return 1.0
        slots = [type(self.current)(sums).measured_values() for _, sums in self.fine]
        weight, total = sum(one.weight for one in slots), sum(one.total for one in slots)
        if not weight:
            return 1.0
        mean = total / weight
        parts = [
            (each.total - mean * each.weight, each.squares(mean)) for each in slots if each.weight
        ]
        expected = chance = excess = 0.0
        for (left, left_squares), (right, right_squares) in pairwise(parts):
            alone = left_squares + right_squares
            more = (right - left) ** 2 - alone
            expected += alone
            excess += more
            chance += 1.5 * more * more  # neighbouring pairs share a slot: half as much again
        if len(parts) <= LEAST_NEIGHBOURS or not expected or excess < 2.0 * math.sqrt(chance):
            return 1.0
        return min(LARGEST_EFFECT, 1.0 + excess / expected)


class Family:
    """The series of one workflow, or of a part of it."""

    __slots__ = ("free", "is_part", "judged")

    def __init__(self, *, is_part: bool = False) -> None:
        self.is_part = is_part
        self.free: dict[str, Series[FreeMoments]] = {}
        self.judged: dict[str, Series[JudgedMoments]] = {}

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.free) + len(self.judged)

    def series(self) -> Iterable[tuple[str, Series[FreeMoments] | Series[JudgedMoments]]]:
        """Return them all, with the scores' names."""
        yield from self.free.items()
        yield from self.judged.items()


def _add(to: array[float], values: Iterable[float]) -> None:
    for place, value in enumerate(values):
        to[place] += value
