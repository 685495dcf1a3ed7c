"""`Queue`: what an operator asks of an engine, whichever it is: what waits, what is dead, what to do with it.

Called by ``ragmeter queue`` and ``ragmeter doctor``; an engine's module has its own ``open_queue``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .transport import engine_of

__all__ = ["DEAD_TTL_S", "MAX_BYTES", "DeadLetter", "Queue", "QueueStatus", "open_queue"]

MAX_BYTES = 1_000_000_000
"""What waits takes no more, compressed as messages are; nor do dead letters."""
DEAD_TTL_S = 7 * 24 * 3600.0
"""How long dead letters are kept: they hold what people asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """What an engine says of its queue."""

    waiting: int
    """Messages that wait to be scored; those that a worker has at hand are not among them."""
    dead: int
    """Messages among the dead letters."""
    workers: int | None = None
    """Workers that are connected; None: this engine does not know."""
    differing: tuple[str, ...] = ()
    """Queues that somebody declared with other bounds or rules than ragmeter's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that is not tried any more."""

    body: bytes
    """The message; it holds what people asked."""
    reason: str
    """Why it is here, without a word of what is in it."""
    deaths: int = 0
    """How many workers have ended, or failed, while they had it."""
    dead_ns: int | None = None
    """Since when, nanoseconds since the epoch by the engine's clock; None: unknown."""


class Queue(Protocol):
    """What an operator asks of an engine. Everything raises `TransportDownError` where it cannot be reached."""

    def declare(self, *, max_bytes: int, dead_ttl_s: float) -> tuple[str, ...]:
        """Make what is missing, and return the names of queues that are there with other bounds.

        Args:
            max_bytes: What waits takes no more; more is refused, and dead letters forget the oldest.
            dead_ttl_s: Seconds that dead letters are kept.
        """
        ...

    def status(self) -> QueueStatus:
        """Count what is there."""
        ...

    def dead(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters, and leave them where they are."""
        ...

    def replay(self, count: int) -> int:
        """Send the oldest dead letters to be scored again, and return how many went."""
        ...

    def drop(self, count: int) -> int:
        """Delete the oldest dead letters, and return how many are gone."""
        ...


def open_queue(url: str) -> Queue:
    """Return what an operator asks the engine that `url` names.

    Raises:
        ConfigurationError: There is no such engine, or the URL lacks something; says what it looks like.
        MissingDependencyError: The engine's package is not installed.
    """
    opener: Callable[[str], Queue] = engine_of(url).open_queue
    return opener(url)
