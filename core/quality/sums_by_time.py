"""Sums in intervals of time that become coarser with age: `SumsByTime`.

`ragmeter.quality.sums` has one for the last day of each score, and `ragmeter.watch.history` one for two weeks.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from pydantic import PlainSerializer, PlainValidator

if TYPE_CHECKING:
    _Array: TypeAlias = array[float]
else:
    _Array = array

Floats = Annotated[_Array, PlainValidator(lambda given: array("d", map(float, given))), PlainSerializer(list)]
"""An array of floats: in JSON a list."""
SLOT_S = 300.0
"""Width of the narrowest intervals, the slots, in seconds."""


def add_to(sums: Floats, values: Iterable[float]) -> None:
    """Add each value to the sum at its place."""
    for place, value in enumerate(values):
        sums[place] += value


@dataclass(slots=True)
class SumsByTime:
    """Sums of intervals: the newest in the narrowest, older ones together in wider ones. Not thread-safe."""

    LIMITS: ClassVar[Sequence[tuple[float, float]]]
    """Width of the intervals of each kind, and how long these are kept, in seconds; the narrowest first."""

    intervals: list[deque[tuple[float, Floats]]] = field(default_factory=list)
    """Start (unix seconds) and sums of the intervals of each kind, oldest first."""

    def __post_init__(self) -> None:
        self.intervals = self.intervals or [deque() for _ in self.LIMITS]

    def add(self, at: float, values: Iterable[float], kind: int = 0) -> None:
        """Add the sums of the time from `at` on, to the interval of a kind; times come in order."""
        start = at // self.LIMITS[kind][0] * self.LIMITS[kind][0]
        held = self.intervals[kind]
        if held and held[-1][0] == start:
            add_to(held[-1][1], values)
        else:
            held.append((start, array("d", values)))

    def age(self, now: float) -> None:
        """Combine sums that have become older, and drop the oldest."""
        for kind, (_, kept_s) in enumerate(self.LIMITS):
            held = self.intervals[kind]
            while held and held[0][0] <= now - kept_s:
                start, sums = held.popleft()
                if kind + 1 < len(self.LIMITS):
                    self.add(start, sums, kind + 1)

    def all(self) -> Iterator[tuple[float, float, Floats]]:
        """Yield start, end and sums of each interval, the widest and oldest first."""
        for (width_s, _), held in reversed([*zip(self.LIMITS, self.intervals, strict=True)]):
            for start, sums in held:
                yield start, start + width_s, sums
