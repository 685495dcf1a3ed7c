"""`SpoolQueue`: inspect and manage a spool folder; a ``ragmeter.fleet.queue.Queue``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from ragmeter.metrics.errors import loggable

from ._spool_file import DamagedError, SpoolFile, StoredMessage
from ._spool_folder import DEAD, MESSAGES, SpoolSender
from .queue import DeadLetter, QueueStatus
from .transport import TransportDownError


class SpoolQueue:
    """The queue of a spool folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def declare(self, *, max_bytes: int, dead_ttl_s: float) -> tuple[str, ...]:
        """Create the folder; publishers set its bounds."""
        del max_bytes, dead_ttl_s
        SpoolSender(self._folder)
        return ()

    def status(self) -> QueueStatus:
        """Count messages."""
        try:
            names = sorted(self._folder.iterdir())
        except FileNotFoundError as error:
            raise TransportDownError(
                f"{self._folder} is not there: an application or worker makes it, or `ragmeter queue declare`"
            ) from error
        except OSError as error:
            raise TransportDownError(f"{self._folder}: {loggable(error)}") from error
        waiting = sum(self._count(path) for path in names if path.name.endswith(MESSAGES))
        return QueueStatus(waiting=waiting, dead=self._count(self._folder / DEAD))

    def dead(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters, without removing them."""
        return [
            DeadLetter(body=one.body, reason=one.reason or "", deaths=one.deaths, dead_ns=one.since_ns)
            for file in self._open_file(self._folder / DEAD)
            for one in file.oldest(limit)
        ]

    def replay(self, count: int) -> int:
        """Requeue the oldest dead letters, each once; return their number."""
        sender = SpoolSender(self._folder)
        try:
            return self._hand_over(count, lambda one: sender.send(one.body, count=one.requests))
        finally:
            sender.close(0.0)

    def drop(self, count: int) -> int:
        """Delete the oldest dead letters; return their number."""
        return self._hand_over(count, lambda _: None)

    def _hand_over(self, count: int, receive: Callable[[StoredMessage], object]) -> int:
        done = 0
        for file in self._open_file(self._folder / DEAD):
            while done < count and file.hand_over(receive):
                done += 1
        return done

    def _count(self, path: Path) -> int:
        return sum(map(len, self._open_file(path)))

    def _open_file(self, path: Path) -> Iterator[SpoolFile]:
        """Yield an open file, if it exists."""
        if not path.exists():
            return
        try:
            with closing(SpoolFile(path)) as file:
                yield file
        except DamagedError as error:
            raise TransportDownError(f"{self._folder}: {error}") from error
