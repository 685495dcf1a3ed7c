"""Counts failed scores by kind, with one example of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragmeter.metrics.score import Score

FAILED = ("judge_error", "timeout", "metric_error")
"""Statuses of scores that are missing because judge or metric failed."""
_KINDS = 20


class _Example(NamedTuple):
    name: str
    place: str
    explanation: str | None


@dataclass(slots=True)
class Failures:
    """Counts failed scores."""

    counts: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Counts by status and class of error."""
    _examples: dict[tuple[str, str | None], _Example] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, score: Score, place: str, count: int = 1) -> None:
        """Count a score if it failed: one for each of the `count` rows that it represents."""
        if score.status in FAILED:
            kind = (score.status, score.error_type)
            self.counts[kind] += count
            if len(self._examples) < _KINDS:
                self._examples.setdefault(kind, _Example(score.name, place, score.explanation or score.summary))

    @property
    def by_status(self) -> dict[str, int]:
        """Number of failures, by status."""
        found: Counter[str] = Counter()
        for (status, _), count in self.counts.items():
            found[status] += count
        return dict(found)

    def lines(self) -> list[str]:
        """Return a line for each kind, the most frequent first, with its example."""
        found = []
        for kind, count in self.counts.most_common():
            if (example := self._examples.get(kind)) is not None:
                status, error_type = kind
                named = status if error_type in (None, status) else f"{status} ({error_type})"
                said = f": {example.explanation}" if example.explanation else ""
                found.append(f"{count} {named}, e.g. {example.name} of {example.place}{said}")
        return found

    def as_json(self) -> list[dict[str, Any]]:
        """Return the kinds as JSON-ready fields."""
        return [
            {"status": kind[0], "error_type": kind[1], "count": count, **example._asdict()}
            for kind, count in self.counts.most_common()
            if (example := self._examples.get(kind)) is not None
        ]
