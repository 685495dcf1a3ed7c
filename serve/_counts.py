"""What the server counts of what it is sent. Thread-safe."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

__all__ = ["Counts"]


class Counts:
    """Counters by what became of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exports: Counter[str] = Counter()
        self._spans: Counter[str] = Counter()

    def export(self, outcome: str) -> None:
        """Count one export request by its outcome: ``accepted``, or why it was refused."""
        with self._lock:
            self._exports[outcome] += 1

    def spans(self, outcome: str, count: int) -> None:
        """Count spans that got no further than the door."""
        if count:
            with self._lock:
                self._spans[outcome] += count

    def exports_by_outcome(self) -> Mapping[str, int]:
        """Return how many export requests came, by outcome."""
        with self._lock:
            return dict(self._exports)

    def spans_by_outcome(self) -> Mapping[str, int]:
        """Return how many spans got no further than the door, by reason."""
        with self._lock:
            return dict(self._spans)
