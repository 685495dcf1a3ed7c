"""`Queue`: inspect and manage the queue of any engine: waiting messages and dead letters.

Called by ``ragmeter queue`` and ``ragmeter doctor``; each engine's module has its own ``open_queue``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .transport import engine_of

MAX_BYTES = 1_000_000_000
"""Most bytes of waiting messages, compressed; the same for dead letters."""
DEAD_TTL_S = 7 * 24 * 3600.0
"""Retention of dead letters in seconds: they have users' questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The state of a queue."""

    waiting: int
    """Number of messages waiting to be scored, without those taken by a worker."""
    dead: int
    """Number of dead letters."""
    workers: int | None = None
    """Connected workers; None: unknown to this engine."""
    differing: tuple[str, ...] = ()
    """Queues declared with other bounds or rules than ragmeter's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that is no longer retried."""

    body: bytes
    """The message, with users' questions."""
    reason: str
    """Reason of the death, without the message's content."""
    deaths: int = 0
    """Number of workers that ended, or failed, while they had the message."""
    dead_ns: int | None = None
    """Time of death by the engine's clock, nanoseconds since the epoch; None: unknown."""


class Queue(Protocol):
    """Queue operations. All raise `TransportDownError` if the engine is unreachable."""

    def declare(self, *, max_bytes: int, dead_ttl_s: float) -> tuple[str, ...]:
        """Declare missing queues; return the names of existing ones with other bounds.

        Args:
            max_bytes: Most bytes; beyond that, messages are refused, and the oldest dead letters dropped.
            dead_ttl_s: Retention of dead letters in seconds.
        """
        ...

    def status(self) -> QueueStatus:
        """Count messages."""
        ...

    def dead(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters, without removing them."""
        ...

    def replay(self, count: int) -> int:
        """Requeue the oldest dead letters; return their number."""
        ...

    def drop(self, count: int) -> int:
        """Delete the oldest dead letters; return their number."""
        ...


def open_queue(url: str) -> Queue:
    """Return the queue at `url`.

    Raises:
        ConfigurationError: The engine is unknown, or the URL incomplete; shows an example.
        MissingDependencyError: The engine's package is not installed.
    """
    opener: Callable[[str], Queue] = engine_of(url).open_queue
    return opener(url)
