"""The recent values of one score, sorted, for positions and quantiles.

Stream positions and the choice of the worst requests are built on it.  Not locked: its owner's lock, or
its owner's only thread, covers it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort

__all__ = ["RecentValues"]


class RecentValues:
    """The last values, by age and by size.

    Args:
        window: How many are kept, at 16 bytes each.
    """

    __slots__ = ("_by_age", "_next", "_sorted", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._by_age = array("d")
        self._sorted = array("d")
        self._next = 0

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, value: float) -> None:
        """Take a value in, and forget the oldest beyond the window."""
        insort(self._sorted, value)
        if len(self._by_age) < self._window:
            self._by_age.append(value)
            return
        oldest = self._by_age[self._next]
        self._by_age[self._next] = value
        self._next = (self._next + 1) % self._window
        del self._sorted[bisect_left(self._sorted, oldest)]

    def quantile(self, share: float) -> float:
        """Return the value that `share` of all are below or equal to; there must be one."""
        return self._sorted[min(int(len(self._sorted) * share), len(self._sorted) - 1)]

    def mid_rank(self, value: float) -> float:
        """Return the share of the values below `value`, equal ones counting half; there must be one.

        Its mean over values like those before is .5, whatever their scale.
        """
        below = bisect_left(self._sorted, value)
        return (below + bisect_right(self._sorted, value)) / (2 * len(self._sorted))
