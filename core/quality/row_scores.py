"""Store the scores of a run's rows by question on disk, to compare runs of any length."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from ragmeter.metrics._files.scratch_database import scratch_database
from ragmeter.metrics._ungrounded import GROUNDEDNESS

from .manner import parts_of

LACKING = ("judge_error", "timeout", "metric_error", "partial")
"""Statuses of scores for which a value exists in principle."""
_CACHE_KIB = 8 * 1024


class RowScore(NamedTuple):
    """A score of one row: its measurement, and its value, if any."""

    measurement: str
    value: float | None
    status: str
    summary: str | None = None
    """As `Score.summary`: that of `lexical_groundedness` has the kinds of the missing words."""

    @property
    def is_lacking(self) -> bool:
        """Whether the value is missing although one exists in principle."""
        return self.value is None and self.status in LACKING


class RowScores:
    """Stores the scores of rows, and returns those of one name by question. In a private file."""

    def __init__(self) -> None:
        self._database = scratch_database(self)
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._database.execute(
            "CREATE TABLE scores (name TEXT, question TEXT, place INTEGER, measurement TEXT, value REAL,"
            " status TEXT)"
        )

    def add(self, place: int, question: str | None, scores: Mapping[str, RowScore]) -> None:
        """Add a row.

        Args:
            place: Its index in the data set.
            question: The key of its question, see `key_of_question`.
            scores: The measured scores, by name.
        """
        known = dict(scores)
        if (groundedness := scores.get(GROUNDEDNESS)) is not None:
            # The kinds of the answer's words that occur in no chunk, if known.
            for name, share in parts_of(groundedness.summary, groundedness.value).items():
                known[name] = RowScore(groundedness.measurement, share, "ok")
        self._database.executemany(
            "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?)",
            ((name, question, place, *score[:3]) for name, score in known.items()),
        )

    def __len__(self) -> int:
        """Return the number of scores."""
        return int(self._database.execute("SELECT count(*) FROM scores").fetchone()[0])

    def of(self, name: str) -> Iterator[tuple[str | None, Sequence[RowScore]]]:
        """Yield the scores of one name by question, sorted by question, the rows of each in order."""
        self._database.execute("CREATE INDEX IF NOT EXISTS by_name ON scores (name, question, place)")
        rows = self._database.execute(
            "SELECT question, measurement, value, status FROM scores WHERE name = ? ORDER BY question, place",
            (name,),
        )
        for question, group in groupby(rows, key=lambda row: row[0]):
            yield question, [RowScore(*row[1:]) for row in group]

    def pairs(
        self, later: RowScores, name: str
    ) -> Iterator[tuple[str | None, Sequence[RowScore], Sequence[RowScore]]]:
        """Yield for each question of either run its scores in this and in the later run."""
        both = heapq.merge(self._sorted(name, 0), later._sorted(name, 1))
        for (is_known, question), group in groupby(both, key=lambda one: one[:2]):
            sides: list[Sequence[RowScore]] = [(), ()]
            for *_, run, scores in group:
                sides[run] = scores
            yield question if is_known else None, sides[0], sides[1]

    def _sorted(self, name: str, run: int) -> Iterator[tuple[bool, str, int, Sequence[RowScore]]]:
        """Yield the scores of one name in SQLite's order of questions, unknown ones first."""
        return ((question is not None, question or "", run, scores) for question, scores in self.of(name))
