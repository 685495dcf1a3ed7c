"""Keeps the worst rows of a data set, for the report. Only these stay in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ragmeter.metrics import Score, Verdict
from ragmeter.metrics._display.ranking import Badness, badness_of
from ragmeter.metrics._files.samples import Row

SHOWN = 30
"""Most questions of which a row is kept."""
MAX_COUNTED = 10_000
"""Most questions whose rows are counted, the first ones."""


@dataclass(frozen=True, slots=True)
class WorstRow:
    """A row with its scores and verdict."""

    row: Row
    scores: Mapping[str, Score]
    """Its scores, with their evidence."""
    verdict: Verdict | None
    """The verdict from all scores, or None."""
    times: int = 1
    """Number of rows with this question and a fault, including this one."""


def place_of(row: Row) -> str:
    """Return file and line of a row; of a data set of one file, only the line."""
    return f"{row.file}:{row.line}" if row.file else f"line {row.line}"


class WorstRows:
    """Keeps the `SHOWN` worst rows, one for each question, in the order of `ragmeter.metrics._display.ranking`.

    Of equally bad rows the earlier is kept. A row without a verdict, or a good one, is left out if all its
    scores have their best possible values.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Badness, int, str, WorstRow]] = []
        self._times: dict[str, int] = {}

    def add(
        self,
        row: Row,
        scores: Mapping[str, Score],
        verdict: Verdict | None,
        question: str,
        place: int,
        in_full: Callable[[], tuple[Mapping[str, Score], Verdict | None]] | None = None,
    ) -> None:
        """Keep a row if it is among the worst so far, as `EvaluationSums.add` gives it; in any order."""
        badness = badness_of(scores.values(), None if verdict is None else verdict.word)
        if badness.is_perfect:
            return
        if question in self._times or len(self._times) < MAX_COUNTED:
            self._times[question] = self._times.get(question, 0) + 1
        rank = (badness, -place)
        if len(self._kept) == SHOWN and rank <= self._kept[0][:2]:
            return
        same = next((one for one in self._kept if one[2] == question), None)
        if same is not None and rank <= same[:2]:
            return
        found = (scores, verdict) if in_full is None else in_full()
        if same is not None or len(self._kept) == SHOWN:
            self._kept.remove(same or self._kept[0])
        self._kept.append((*rank, question, WorstRow(row, *found)))
        self._kept.sort(key=lambda entry: entry[:2])

    def put_texts(self, row: Row) -> None:
        """Replace a row without texts by the same row with texts."""
        self._kept = [
            (*entry[:3], replace(entry[3], row=row))
            if (entry[3].row.file, entry[3].row.line) == (row.file, row.line)
            else entry
            for entry in self._kept
        ]

    def all(self) -> list[WorstRow]:
        """Return the stored rows, the worst first."""
        return [
            replace(row, times=self._times.get(question, 1)) for _, _, question, row in reversed(self._kept)
        ]
