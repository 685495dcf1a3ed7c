"""Which rows of a data set to look at first: the few that a report shows. Only these stay in memory."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ragmeter.metrics import Score, Verdict
from ragmeter.metrics._badness import Badness, badness_of
from ragmeter.metrics._samples import Row

__all__ = ["SHOWN", "WorstOf", "WorstRow", "WorstRows"]

SHOWN = 30
"""Rows that are kept."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorstRow:
    """A row, and what was found out about it."""

    row: Row
    """The row."""
    scores: Mapping[str, Score]
    """Its scores, with their evidence."""
    verdict: Verdict | None
    """What they say together; None: nothing."""


class WorstOf(Generic[T]):
    """Keeps the `SHOWN` worst of many, each once; of equally bad ones the earlier.

    A row without a verdict, or good, whose scores are all at their better ends is never among them.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Badness, int, str, T]] = []

    def takes(self, badness: Badness, place: int) -> bool:
        """Return whether a row would be among the worst so far.

        Args:
            badness: How bad it is.
            place: Where it stands in the data set, ascending.
        """
        if badness.is_perfect:
            return False
        return len(self._heap) < SHOWN or (badness, -place) > self._heap[0][:2]

    def add(self, badness: Badness, place: int, key: str, found: T) -> None:
        """Keep a row that `takes` has admitted, unless an equal one is there.

        Args:
            badness: As of `takes`.
            place: Likewise.
            key: Equal for equal rows.
            found: What is kept.
        """
        entry = (badness, -place, key, found)
        for number, other in enumerate(self._heap):
            if other[2] == key:
                if entry[:2] > other[:2]:  # rows end in any order: the earlier one is shown
                    self._heap[number] = entry
                    heapq.heapify(self._heap)
                return
        if len(self._heap) < SHOWN:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heapreplace(self._heap, entry)

    def all(self) -> list[tuple[int, str, T]]:
        """Return place, key and what was kept of each, worst first."""
        return [
            (-place, key, found)
            for _, place, key, found in sorted(
                self._heap, key=lambda entry: entry[:2], reverse=True
            )
        ]


class WorstRows:
    """The worst rows of a data set, see `WorstOf`, in the order of `ragmeter.metrics._badness`."""

    def __init__(self) -> None:
        self._worst: WorstOf[WorstRow] = WorstOf()

    def add(self, row: Row, scores: Mapping[str, Score], verdict: Verdict | None) -> None:
        """Keep `row` if it is among the worst so far. Rows come in any order."""
        badness = badness_of(scores.values(), None if verdict is None else verdict.word)
        if self._worst.takes(badness, row.line):
            self._worst.add(badness, row.line, row.key, WorstRow(row, scores, verdict))

    def all(self) -> list[WorstRow]:
        """Return the rows kept, worst first."""
        return [found for *_, found in self._worst.all()]
