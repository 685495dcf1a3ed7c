"""What a data set's verdicts amount to: how many of each word and code, and the first bad rows.

Filled while rows are scored, read by the reports.  It keeps counts and a few rows, however long the data
set is.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from ragmeter.metrics import VERDICT_CODES, Verdict, VerdictWord
from ragmeter.metrics._samples import Row

__all__ = ["BadVerdict", "Verdicts"]

SHOWN = 20
"""Bad rows that are kept for the page."""


@dataclass(frozen=True, slots=True)
class BadVerdict:
    """A row that was found bad."""

    row: Row
    """The row."""
    verdict: Verdict
    """The verdict, with its reasons."""


@dataclass(slots=True)
class Verdicts:
    """Counts verdicts and keeps the first bad rows of the file."""

    words: Counter[str] = field(default_factory=Counter)
    """Rows by word; those without a verdict are not among them."""
    codes: Counter[str] = field(default_factory=Counter)
    """Rows by code; a row with several codes counts for each."""
    unjudged: int = 0
    """Rows of which nothing was measured that a verdict could rest on."""
    _bad: list[tuple[int, int, BadVerdict]] = field(default_factory=list)

    def add(self, row: Row, verdict: Verdict | None) -> None:
        """Take in the verdict on a row. Rows come in any order."""
        if verdict is None:
            self.unjudged += 1
            return
        self.words[verdict.word] += 1
        self.codes.update(verdict.codes)
        if verdict.word == "bad":
            self.keep(BadVerdict(row, verdict))

    def keep(self, found: BadVerdict) -> None:
        """Keep a bad row, if it is among the first; it is counted already."""
        entry = (-found.row.line, len(self._bad), found)
        if len(self._bad) < SHOWN:
            heapq.heappush(self._bad, entry)
        elif entry[0] > self._bad[0][0]:
            heapq.heapreplace(self._bad, entry)

    @property
    def bad(self) -> Sequence[BadVerdict]:
        """The first bad rows, in the order of the file."""
        return [found for *_, found in sorted(self._bad, key=lambda entry: -entry[0])]

    def by_word(self) -> list[tuple[str, int]]:
        """Return the words with their counts, the good one first; nothing when no row was judged."""
        return [(word, self.words[word]) for word in get_args(VerdictWord)] if self.words else []

    def by_code(self) -> list[tuple[str, int]]:
        """Return the codes that occurred with their counts, the strongest first."""
        return [(code, self.codes[code]) for code in VERDICT_CODES if self.codes[code]]

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON-ready fields."""
        return {
            "words": dict(self.by_word()),
            "codes": dict(self.by_code()),
            "without_verdict": self.unjudged,
        }
