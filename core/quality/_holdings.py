"""Store a bounded number of series of one service, by workflow and segment.

`ragmeter.quality.sums` has one of these for each service and locks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ._parts import Parts
from ._series import Series, SeriesFamily
from .moments import FreeMoments, JudgedMoments
from .segments import OTHER, segment_text

AnySeries: TypeAlias = "Series[FreeMoments] | Series[JudgedMoments]"


VALUES_SHARE = 2 / 3
"""Share of the room in which new segment values may begin: the rest is reserved for later workflows,"""
PARTS_SHARE = 5 / 6
"""and, up to this share, for new scores of known values, and for the remaining requests."""


class Room:
    """The largest and the current number of series.

    Args:
        most: Largest number of series.
        around: The room that contains this one, whose limit applies as well.
    """

    __slots__ = ("_around", "_most", "_used")

    def __init__(self, most: int, around: Room | None = None) -> None:
        self._most = most
        self._used = 0
        self._around = around

    def has(self, count: int, share: float = 1.0) -> bool:
        """Return whether there is room for `count` more series within this share of it."""
        around = self._around is None or self._around.has(count, share)
        return around and self._used + count <= self._most * share

    def take(self) -> None:
        """Reserve room for one series."""
        self._used += 1
        if self._around is not None:
            self._around.take()


@dataclass(slots=True)
class _Workflow:
    """The series of one workflow."""

    name: str
    whole: SeriesFamily = field(default_factory=SeriesFamily)
    parts: dict[str, Parts] = field(default_factory=dict)


class HeldSeries(NamedTuple):
    """One series and its key."""

    workflow: str
    segment: str
    score: str
    series: AnySeries


class Holdings:
    """The series of one service, which its resource identifies; no resource: of this process."""

    def __init__(self, resource: Mapping[str, str], room: Room, most_workflows: int) -> None:
        self.resource = resource
        self.room = room
        self._most_workflows = most_workflows
        self._workflows: dict[str, _Workflow] = {}
        self._is_full = False
        self._largest = 0

    def families(
        self, name: str, segments: Sequence[tuple[str, str]], slot: int, expected: int
    ) -> tuple[str, tuple[SeriesFamily, ...]]:
        """Return the workflow that a request counts under, and the families of series that count it.

        These are the whole workflow, and one part of it for each segment that there is room for.

        Args:
            name: Workflow of the request.
            segments: Name and value of the request's segments.
            slot: The current five-minute slot.
            expected: Most series that its scores need.
        """
        workflow = self._workflows.get(name)
        if workflow is None:
            # Once one workflow was rejected, all later ones are, even if a smaller one would still have fitted.
            is_full = not self.room.has(expected) or len(self._workflows) >= self._most_workflows
            self._is_full = self._is_full or is_full
            name = OTHER if self._is_full else name
            workflow = self._workflows.setdefault(name, _Workflow(name))
        if not segments:
            return workflow.name, (workflow.whole,)
        # A part may come to need as many series as its whole has. For the first request only the number of
        # scores is known, and not every score has a mean.
        self._largest = max(self._largest, workflow.whole.size)
        largest = self._largest or expected
        found = [workflow.whole]
        for segment, value in segments:
            parts = workflow.parts.get(segment)
            if parts is None:
                if not self.room.has(2 * largest, VALUES_SHARE):
                    continue  # room for this value and for `OTHER`
                parts = workflow.parts[segment] = Parts(slot)
            placed = parts.place(value, slot, lambda: self.room.has(largest, VALUES_SHARE))
            found.append(parts.family(placed))
        return workflow.name, tuple(found)

    def entries(self) -> Iterator[HeldSeries]:
        """Return every series with its key."""
        for name, workflow in self._workflows.items():
            for score, series in workflow.whole.series():
                yield HeldSeries(name, "", score, series)
            for segment, parts in workflow.parts.items():
                for value, family in parts.families():
                    for score, series in family.series():
                        yield HeldSeries(name, segment_text(segment, value), score, series)
