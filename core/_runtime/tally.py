"""Counts that may be added to from anywhere: any thread, a finalizer, a signal handler.

The garbage collector ends abandoned streams on whatever thread it happens to run, with whatever locks
that thread holds, and ending one is counted.  So nobody waits for a lock here: what is added is noted
first, and worked in by whoever gets hold of the books without waiting.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from ragmeter.metrics import _fork as fork

__all__ = ["Tally"]

PATIENCE_S = 0.05
"""Seconds that a reader waits for who is just working in what was added. It may have interrupted it."""


class Tally:
    """Whole numbers by key. What is added in one call is seen in one piece."""

    def __init__(self) -> None:
        self._books = fork.lock()
        self._noted: deque[tuple[tuple[Hashable, int], ...]] = deque()
        self._counts: Counter[Hashable] = Counter()

    def add(self, *changes: tuple[Hashable, int]) -> None:
        """Add to some keys at once. Never waits."""
        self._noted.append(changes)
        # Again after letting go: somebody may have noted something and found the books taken.
        while self._noted and self._books.acquire(blocking=False):
            try:
                self._work_in()
            finally:
                self._books.release()

    def counts(self) -> Counter[Hashable]:
        """Return everything that was added before."""
        if not self._books.acquire(timeout=PATIENCE_S):
            counts = self._counts.copy()
            for changes in self._noted.copy():
                for key, change in changes:
                    counts[key] += change
            return counts
        try:
            self._work_in()
            return self._counts.copy()
        finally:
            self._books.release()
            self.add()

    def clear(self) -> None:
        """Start again at nothing, in a child process: no other thread adds."""
        self._noted.clear()
        self._counts.clear()

    def _work_in(self) -> None:
        while self._noted:
            for key, change in self._noted.popleft():
                self._counts[key] += change
