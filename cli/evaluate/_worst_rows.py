"""Which rows of a data set scored worst: the few that a report shows. Only these stay in memory."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from ragmeter.metrics import Score
from ragmeter.metrics._samples import Row

__all__ = ["WorstRow", "WorstRows"]

SHOWN = 5
"""Rows kept per score."""


@dataclass(frozen=True, slots=True)
class WorstRow:
    """A row and the score it did badly in."""

    row: Row
    """The row."""
    score: Score
    """The score, with its evidence."""


class WorstRows:
    """The worst rows of every score from 0.0 to 1.0 that has a better end. A perfect row is never bad."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[tuple[float, int, WorstRow]]] = {}

    def add(self, row: Row, scores: Mapping[str, Score]) -> None:
        """Keep `row` wherever it is among the worst so far; of equally bad ones the earlier."""
        for name, score in scores.items():
            if score.value is None or score.range != (0.0, 1.0) or score.direction == "none":
                continue
            badness = score.value if score.direction == "lower" else 1.0 - score.value
            heap = self._heaps.setdefault(name, [])
            entry = (badness, -row.line, WorstRow(row, score))
            if badness > 0.0 and len(heap) < SHOWN:
                heapq.heappush(heap, entry)
            elif badness > 0.0 and entry[:2] > heap[0][:2]:
                heapq.heapreplace(heap, entry)

    def by_score(self) -> dict[str, list[WorstRow]]:
        """Return the rows kept, worst first."""
        return {
            name: [found for *_, found in sorted(heap, key=lambda entry: entry[:2], reverse=True)]
            for name, heap in self._heaps.items()
        }
