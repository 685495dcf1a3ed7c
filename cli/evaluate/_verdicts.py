"""Counts a data set's verdicts by word and by code.

Filled while rows are scored, read by the reports.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, get_args

from ragmeter.metrics import VERDICT_CODES, Verdict, VerdictWord


@dataclass(slots=True)
class Verdicts:
    """Counts verdicts."""

    words: Counter[str] = field(default_factory=Counter)
    """Number of rows by word, without rows that have no verdict."""
    codes: Counter[str] = field(default_factory=Counter)
    """Number of rows by code; a row with several codes counts for each."""
    unjudged: int = 0
    """Number of rows without any score that a verdict could be based on."""

    def add(self, verdict: Verdict | None) -> None:
        """Count the verdict on a row."""
        if verdict is None:
            self.unjudged += 1
            return
        self.words[verdict.word] += 1
        self.codes.update(verdict.codes)

    def by_word(self) -> list[tuple[str, int]]:
        """Return the words with their counts, the good one first; empty if no row has a verdict."""
        return [(word, self.words[word]) for word in get_args(VerdictWord)] if self.words else []

    def by_code(self) -> list[tuple[str, int]]:
        """Return the codes that occurred with their counts, the strongest first."""
        return [(code, self.codes[code]) for code in VERDICT_CODES if self.codes[code]]

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON-ready fields."""
        return {"words": dict(self.by_word()), "codes": dict(self.by_code()), "without_verdict": self.unjudged}
