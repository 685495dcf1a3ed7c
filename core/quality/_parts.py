"""Choose the values of a segment that have separate sums, if there are too many: `Parts`.

At most twenty values of a name count at a time in one workflow: those with the most traffic. A large value
that arrives late replaces the smallest one, whose sums remain, since counters never fall, and whose further
requests count as `OTHER`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ._series import SLOTS_PER_HOUR, SeriesFamily
from .segments import OTHER

MOST_VALUES = 20
"""Values of one name, in one workflow, that are counted separately."""
MOST_REMEMBERED = 500
"""Values whose traffic is tracked."""
LEAST_TRAFFIC = 20.0
"""Least number of requests in about the last hour for a value to replace another one,"""
ADVANTAGE = 2.0
"""and the least ratio of its traffic to the other's: two similar values do not alternate."""
FORGOTTEN = 0.5


class Parts:
    """The series of one segment name of one workflow, by value, from a five-minute slot on."""

    __slots__ = ("_counting", "_families", "_slot", "_traffic")

    def __init__(self, slot: int) -> None:
        self._families: dict[str, SeriesFamily] = {}
        self._counting: set[str] = set()
        self._traffic: dict[str, float] = {}
        self._slot = slot

    def families(self) -> Iterable[tuple[str, SeriesFamily]]:
        """Return all values with their series, including replaced values."""
        return self._families.items()

    def place(self, value: str, slot: int, has_room: Callable[[], bool]) -> str:
        """Add a request; return the value it counts under. One more value may have series if `has_room`."""
        if slot != self._slot:
            self._turn(slot, has_room)
        if value in self._traffic or len(self._traffic) < MOST_REMEMBERED:
            self._traffic[value] = self._traffic.get(value, 0.0) + 1.0
        else:
            # Misra and Gries: a frequent value is never lost.
            self._traffic = {one: count - 1.0 for one, count in self._traffic.items() if count > 1.0}
        if value in self._counting or value == OTHER:
            return value
        if len(self._counting) < MOST_VALUES and (value in self._families or has_room()):
            self._counting.add(value)
            return value
        return OTHER

    def family(self, value: str) -> SeriesFamily:
        """Return the series of a value that `place` returned."""
        found = self._families.get(value)
        if found is None:
            found = self._families[value] = SeriesFamily(is_part=True)
        return found

    def _turn(self, slot: int, has_room: Callable[[], bool]) -> None:
        """Every five minutes: decay old counts, and admit values that have become large."""
        faded = 0.5 ** ((slot - self._slot) / SLOTS_PER_HOUR)
        self._slot = slot
        # Compares the counts before decay: after a quiet night all have decayed alike.
        waiting = sorted(
            (
                (count, value)
                for value, count in self._traffic.items()
                if value not in self._counting and value != OTHER and count >= LEAST_TRAFFIC
            ),
            reverse=True,
        )
        for count, value in waiting if self._counting else ():
            smallest = min(self._counting, key=lambda one: (self._traffic.get(one, 0.0), one))
            if count < ADVANTAGE * self._traffic.get(smallest, 0.0):
                break
            if value in self._families or has_room():
                self._counting.remove(smallest)
                self._counting.add(value)
        self._traffic = {
            value: count * faded for value, count in self._traffic.items() if count * faded >= FORGOTTEN
        }
