"""The values of one score in bounded memory: all values while they are few, then a histogram.

The result does not depend on the order of the values, so a data set scored in pieces has the same summary as
one scored at once.  Used by `summary`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

EXACT = 50_000
"""Most values that are stored exactly; beyond that, a histogram is used."""
_GRID = 4096
"""Bins between the ends of a range. Without two ends, a value is rounded to as many parts of its own power of
two."""
_UNIT = 1 << 40
"""Sums are integer multiples of this fraction, so their order makes no difference."""


class ScoreValues:
    """Collects values, and returns them as a short ascending list with the frequency of each."""

    def __init__(self, ends: tuple[float | None, float | None], *, exact: int | None = None) -> None:
        lowest, highest = ends
        self._low = lowest
        self._width = None if lowest is None or highest is None or lowest >= highest else highest - lowest
        self._most = EXACT if exact is None else exact
        self._exact = array("d")
        self._is_exact = True
        # A count for each bin of the range; by value for others, and for ranges without an end.
        self._grid = array("Q")
        self._places: Counter[float] = Counter()
        self._sum = self._squares = 0
        self.count = 0

    def add(self, values: Sequence[float]) -> None:
        """Add some values."""
        self.count += len(values)
        if self._is_exact:
            self._exact.extend(values)
            if self.count <= self._most:
                return
            values, self._exact = self._exact, array("d")
            self._is_exact = False
            if self._width is not None:
                self._grid = array("Q", bytes(8 * (_GRID + 1)))
        for value in values:
            self._count(value)
            scaled = round(value * _UNIT)
            self._sum += scaled
            self._squares += scaled * scaled

    def _count(self, value: float) -> None:
        if self._width is None or self._low is None:
            part, power = math.frexp(value)
            self._places[math.ldexp(round(part * _GRID) / _GRID, power)] += 1
            return
        number = round((value - self._low) / self._width * _GRID)
        if 0 <= number <= _GRID:
            self._grid[number] += 1
        else:
            self._places[self._place(number)] += 1

    def _place(self, number: int) -> float:
        return (self._low or 0.0) + number / _GRID * (self._width or 0.0)

    def values(self) -> tuple[float, ...]:
        """Return the values, or the non-empty bins, ascending."""
        return tuple(sorted(self._exact) if self._is_exact else (place for place, _ in self._counts_by_value()))

    def counts(self) -> tuple[int, ...]:
        """Return the frequency of each value or bin; empty if every value is listed."""
        return () if self._is_exact else tuple(count for _, count in self._counts_by_value())

    def _counts_by_value(self) -> list[tuple[float, int]]:
        within = [(self._place(number), count) for number, count in enumerate(self._grid) if count]
        return sorted([*within, *self._places.items()]) if self._places else within

    def moments(self) -> tuple[int, float, float] | None:
        """Return the number, the sum and the sum of squares; None if every value is listed."""
        if self._is_exact:
            return None
        return self.count, self._sum / _UNIT, self._squares / _UNIT**2
