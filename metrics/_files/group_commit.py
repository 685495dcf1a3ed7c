"""Group commit: concurrent writers share one transaction, and each returns when it is committed.

The first writer writes for all queued ones: a commit costs about the same for one item and for many. For the
server's store and spool, which acknowledge only items on the disk. Knows nothing about the items.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from ragmeter.metrics.errors import RagmeterError

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Writes the items of several threads together. Thread-safe.

    Args:
        write: Writes all or none of the items, and returns a result for each. It is called by one thread at a
            time; a `RagmeterError` that it raises is raised to the callers of all these items.
        interrupted: Makes the error for the other callers when the writing thread gets any other exception,
            which is raised there.

    Attributes:
        turn: Held during a write, and by others to keep writes out. Reentrant.
    """

    def __init__(
        self, write: Callable[[Sequence[T]], Sequence[R]], interrupted: Callable[[], RagmeterError]
    ) -> None:
        self.turn = threading.RLock()
        self._write = write
        self._interrupted = interrupted
        self._queueing = threading.Lock()
        self._queued: list[tuple[T, Future[R]]] = []

    def put(self, item: T) -> R:
        """Return the result of `write` for an item, once it is written; else raise a `RagmeterError`."""
        outcome: Future[R] = Future()
        with self._queueing:
            self._queued.append((item, outcome))
        with self.turn:
            if not outcome.done():  # else an earlier writer has written this item, too
                self._write_queued()
        return outcome.result()

    def _write_queued(self) -> None:
        with self._queueing:
            queued, self._queued = self._queued, []
        results: Sequence[R] = ()
        failure: RagmeterError | None = self._interrupted()
        try:
            results = self._write([item for item, _ in queued])
            failure = None
        except RagmeterError as error:
            failure = error
        finally:
            for number, (_, outcome) in enumerate(queued):
                if failure is None:
                    outcome.set_result(results[number])
                else:
                    outcome.set_exception(failure)
