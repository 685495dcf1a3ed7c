"""Those who write at the same time share one transaction, and each returns when it is committed.

The first of them writes for all who have come meanwhile: a commit costs about the same for one and for many.
For what is acknowledged only once it is on the disk: the server's store and its spool.  Nothing here knows
what is written, or how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ragmeter.metrics.errors import RagmeterError

__all__ = ["GroupCommit"]

T = TypeVar("T")
R = TypeVar("R")


class _Ticket(Generic[T, R]):
    """What one caller wants written, and what became of it."""

    __slots__ = ("failure", "is_settled", "item", "results")

    def __init__(self, item: T) -> None:
        self.item = item
        self.results: Sequence[R] = ()
        self.failure: RagmeterError | None = None
        self.is_settled = False


class GroupCommit(Generic[T, R]):
    """Writes what several threads have, together. Thread-safe.

    Args:
        write: Writes items, all or none of them, and returns for each what its caller is told. It is called
            by one thread at a time; a `RagmeterError` that it raises is raised to all whose items they are.
        interrupted: Makes what those are told whose writer was interrupted, by anything else that was raised:
            that one goes to the writer itself.

    Attributes:
        turn: Held by whoever writes; for others that must not do something meanwhile. Reentrant.
    """

    def __init__(
        self, write: Callable[[Sequence[T]], Sequence[R]], interrupted: Callable[[], RagmeterError]
    ) -> None:
        self.turn = threading.RLock()
        self._write = write
        self._interrupted = interrupted
        self._queueing = threading.Lock()
        self._queued: list[_Ticket[T, R]] = []

    def put(self, item: T) -> R:
        """Return what `write` said of an item, once it is written.

        Raises:
            RagmeterError: It was not written.
        """
        ticket: _Ticket[T, R] = _Ticket(item)
        with self._queueing:
            self._queued.append(ticket)
        with self.turn:
            if not ticket.is_settled:  # else whoever wrote before us took ours along
                self._write_queued()
        if ticket.failure is not None:
            raise ticket.failure
        return ticket.results[0]

    def _write_queued(self) -> None:
        with self._queueing:
            tickets, self._queued = self._queued, []
        results: Sequence[R] = ()
        failure: RagmeterError | None = self._interrupted()
        try:
            results = self._write([ticket.item for ticket in tickets])
            failure = None
        except RagmeterError as error:
            failure = error
        finally:
            for number, ticket in enumerate(tickets):
                ticket.results = results[number : number + 1]
                ticket.failure = failure
                ticket.is_settled = True
