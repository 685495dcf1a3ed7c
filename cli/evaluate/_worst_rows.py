"""Which rows of a data set to look at first: the few that a report shows. Only these stay in memory."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from ragmeter.metrics import Score, Verdict
from ragmeter.metrics._display.ranking import Badness, badness_of
from ragmeter.metrics._files.samples import Row, key_of_question

__all__ = ["SHOWN", "WorstOf", "WorstRow", "WorstRows"]

SHOWN = 30
"""Questions of which a row is kept."""
MAX_COUNTED = 10_000
"""Questions whose rows are counted; the first ones that come."""
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
    times: int = 1
    """Rows of the same question that there is something to look at in, this one included."""


class RankedRow(NamedTuple, Generic[T]):
    """One of the worst."""

    place: int
    """Where it stands in the data set."""
    key: str
    """Its row's key."""
    found: T
    """What was kept of it."""
    times: int
    """Rows of the same question that are not perfect, this one included."""


class WorstOf(Generic[T]):
    """Keeps the `SHOWN` worst of many, one for each question; of equally bad ones the earlier.

    A row without a verdict, or good, whose scores are all at their better ends is never among them.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Badness, int, str, str, T]] = []
        self._times: dict[str, int] = {}

    def count(self, question: str, rows: int = 1) -> None:
        """Count rows of a question in which there is something to look at.

        Args:
            question: Equal for equal questions.
            rows: How many.
        """
        if question in self._times or len(self._times) < MAX_COUNTED:
            self._times[question] = self._times.get(question, 0) + rows

    def takes(self, badness: Badness, place: int) -> bool:
        """Return whether a row would be among the worst so far.

        Args:
            badness: How bad it is.
            place: Where it stands in the data set, ascending.
        """
        if badness.is_perfect:
            return False
        return len(self._heap) < SHOWN or (badness, -place) > self._heap[0][:2]

    def add(self, badness: Badness, place: int, question: str, key: str, found: T) -> None:
        """Keep a row that `takes` has admitted, unless a worse one of the same question is there.

        Args:
            badness: As of `takes`.
            place: Likewise.
            question: Equal for equal questions.
            key: The row's key.
            found: What is kept.
        """
        entry = (badness, -place, question, key, found)
        for number, other in enumerate(self._heap):
            if other[2] == question:
                if entry[:2] > other[:2]:  # rows end in any order: the earlier one is shown
                    self._heap[number] = entry
                    heapq.heapify(self._heap)
                return
        if len(self._heap) < SHOWN:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heapreplace(self._heap, entry)

    def all(self) -> list[RankedRow[T]]:
        """Return what was kept, worst first."""
        return [
            RankedRow(-place, key, found, self._times.get(question, 1))
            for _, place, question, key, found in sorted(
                self._heap, key=lambda entry: entry[:2], reverse=True
            )
        ]


class WorstRows:
    """The worst rows of a data set, see `WorstOf`, in the order of `ragmeter.metrics._display.ranking`."""

    def __init__(self) -> None:
        self._worst: WorstOf[WorstRow] = WorstOf()

    def add(self, row: Row, scores: Mapping[str, Score], verdict: Verdict | None) -> None:
        """Keep `row` if it is among the worst so far. Rows come in any order."""
        badness = badness_of(scores.values(), None if verdict is None else verdict.word)
        asked = row.sample.question
        question = row.key if asked is None else key_of_question(asked)
        if not badness.is_perfect:
            self._worst.count(question)
        if self._worst.takes(badness, row.line):
            found = WorstRow(row, scores, verdict)
            self._worst.add(badness, row.line, question, row.key, found)

    def all(self) -> list[WorstRow]:
        """Return the rows kept, worst first."""
        return [replace(one.found, times=one.times) for one in self._worst.all()]
