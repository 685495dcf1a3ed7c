"""The recent values of one score, sorted, for positions and quantiles.

Used for stream positions and for the choice of the worst requests. Not locked: the owner's lock, or its only
thread, protects it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort


class RecentValues:
    """The last values, at 16 bytes each, ordered by age and by size."""

    __slots__ = ("_by_age", "_next", "_sorted", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._by_age = array("d")
        self._sorted = array("d")
        self._next = 0

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, value: float) -> None:
        """Add a value, and drop the oldest one beyond the window."""
        insort(self._sorted, value)
        if len(self._by_age) < self._window:
            self._by_age.append(value)
            return
        oldest = self._by_age[self._next]
        self._by_age[self._next] = value
        self._next = (self._next + 1) % self._window
        del self._sorted[bisect_left(self._sorted, oldest)]

    def quantile(self, share: float) -> float:
        """Return the value that `share` of all are below or equal to; there must be at least one."""
        return self._sorted[min(int(len(self._sorted) * share), len(self._sorted) - 1)]

    def mid_rank(self, value: float) -> float:
        """Return the share of the values below `value`, equal ones counting half; there must be at least one.

        Its mean over values with the same distribution as before is .5, on any scale.
        """
        below = bisect_left(self._sorted, value)
        return (below + bisect_right(self._sorted, value)) / (2 * len(self._sorted))
