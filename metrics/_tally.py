"""The values of one score, however many: all of them while they are few, then how many lie where.

What is known at the end does not depend on the order in which values came, so that a data set scored in
pieces has the summary of one scored at once.  Used by `_summary`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

__all__ = ["EXACT", "Tally"]

EXACT = 50_000
"""Values that are kept as they are; beyond, places are counted."""
_GRID = 4096
"""Places between the ends of a range. Without two ends, a value is rounded to as many parts of its own
power of two."""
_UNIT = 1 << 40
"""Sums are whole numbers of this part of 1: their order then makes no difference."""


class Tally:
    """Takes values, and returns them as a short ascending list with how often each occurred.

    Args:
        ends: The score's range.
    """

    def __init__(self, ends: tuple[float | None, float | None]) -> None:
        lowest, highest = ends
        self._low = lowest
        self._width = (
            None if lowest is None or highest is None or lowest >= highest else highest - lowest
        )
        self._exact = array("d")
        self._places: Counter[float] | None = None
        self._sum = self._squares = 0
        self.count = 0

    def add(self, values: Sequence[float]) -> None:
        """Take in some values."""
        self.count += len(values)
        if self._places is None:
            self._exact.extend(values)
            if self.count <= EXACT:
                return
            values, self._exact = self._exact, array("d")
            self._places = Counter()
        self._places.update(map(self._place, values))
        for value in values:
            scaled = round(value * _UNIT)
            self._sum += scaled
            self._squares += scaled * scaled

    def _place(self, value: float) -> float:
        if self._width is not None and self._low is not None:
            return (
                self._low + round((value - self._low) / self._width * _GRID) / _GRID * self._width
            )
        part, power = math.frexp(value)
        return math.ldexp(round(part * _GRID) / _GRID, power)

    def values(self) -> tuple[float, ...]:
        """Return the values, or the places at which there are some, ascending."""
        return tuple(sorted(self._exact if self._places is None else self._places))

    def counts(self) -> tuple[int, ...]:
        """Return how many values there are at each place; empty where every value is there itself."""
        return () if self._places is None else tuple(self._places[at] for at in self.values())

    def moments(self) -> tuple[int, float, float] | None:
        """Return the number, the sum and the sum of squares; None where the values are there themselves."""
        if self._places is None:
            return None
        return self.count, self._sum / _UNIT, self._squares / _UNIT**2
