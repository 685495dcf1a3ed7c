"""One file of a spool: a SQLite database of messages that wait, in the order in which they came.

WAL with ``synchronous=NORMAL``: what was put in survives the end of every process, however it ends; the end of
the machine may cost the last moments.  Whoever takes messages writes its name beside them; they are free again
once that process is gone.  Nothing here knows what a message says, or may log or raise a word of it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ragmeter.metrics.errors import loggable

from .transport import TransportDownError

__all__ = ["DamagedError", "SpoolFile", "StoredMessage", "is_still", "set_aside"]

_PATIENCE_S = 5.0
"""Seconds to wait for another process that writes to the same file."""
_VERSION = 1
_APPLICATION = 0x5241474D
"""What says of the file whose it is."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    number INTEGER PRIMARY KEY AUTOINCREMENT, requests INTEGER NOT NULL, body BLOB NOT NULL,
    deaths INTEGER NOT NULL DEFAULT 0, owner TEXT, reason TEXT, since_ns INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS message_owner ON message (owner, number);
"""
_SPARE_PAGES = 256
"""So many unused pages, 1 MiB, are given back to the disk."""


class DamagedError(Exception):
    """The file is no database any more."""


class StoredMessage(NamedTuple):
    """A message in a file."""

    number: int
    """Its place in the file."""
    requests: int
    """How many requests are in it."""
    body: bytes
    """The message."""
    deaths: int
    """How many processes have ended while they had it."""
    reason: str | None = None
    """Why it is a dead letter."""
    since_ns: int = 0
    """Since when it waits."""


class SpoolFile:
    """One file, opened by one process. For one thread at a time; not to be used across a fork.

    Args:
        path: Where it lies; made if it is not there, for this user alone.

    Raises:
        TransportDownError: It cannot be opened now.
        DamagedError: It is no database of ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _explain_errors(path):
            with suppress(FileExistsError):
                # SQLite gives its other files the rights of this one.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            self._database = sqlite3.connect(
                path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
                self._made_as = path.stat()
            except BaseException:
                self._database.close()
                raise

    def _prepare(self) -> None:
        for pragma in (
            "auto_vacuum = INCREMENTAL",
            "journal_mode = WAL",
            "synchronous = NORMAL",
        ):
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        (self._page_bytes,) = self._one("PRAGMA page_size")
        (version,) = self._one("PRAGMA user_version")
        if version > _VERSION:
            raise TransportDownError(f"{self.path}: written by a newer version of ragmeter")
        if version != _VERSION:
            self._database.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {_APPLICATION};"
                f" PRAGMA user_version = {_VERSION}; COMMIT;"
            )

    @property
    def is_there(self) -> bool:
        """Whether it still lies where others find it; what is put into a deleted one is lost."""
        return is_still(self.path, self._made_as)

    @property
    def size_bytes(self) -> int:
        """What the messages in it take up, in whole pages."""
        with _explain_errors(self.path):
            pages, unused = self._one("PRAGMA page_count")[0], self._one("PRAGMA freelist_count")[0]
            return int(pages - unused) * int(self._page_bytes)

    def put(
        self,
        messages: Sequence[tuple[int, bytes]],
        *,
        since_ns: int,
        deaths: int = 0,
        reason: str | None = None,
    ) -> None:
        """Add messages, each with how many requests are in it; all or none."""
        rows = [(requests, body, deaths, reason, since_ns) for requests, body in messages]
        with self._transaction():
            self._database.executemany(
                "INSERT INTO message (requests, body, deaths, reason, since_ns) VALUES (?, ?, ?, ?, ?)",
                rows,
            )

    def __len__(self) -> int:
        """Return how many messages are in it, taken or not."""
        with _explain_errors(self.path):
            return self._one("SELECT count(*) FROM message")[0]

    @property
    def has_free(self) -> bool:
        """Whether there is a message that nobody has."""
        with _explain_errors(self.path):
            found = self._one("SELECT EXISTS (SELECT 1 FROM message WHERE owner IS NULL)")
            return bool(found[0])

    def owners(self) -> list[str]:
        """Return who has messages of it."""
        with _explain_errors(self.path):
            found = self._database.execute(
                "SELECT DISTINCT owner FROM message WHERE owner IS NOT NULL"
            )
            return [owner for (owner,) in found]

    def take(self, owner: str, limit: int) -> list[StoredMessage]:
        """Take the oldest messages that nobody has."""
        if not self.has_free:
            return []  # without a lock that those who write would wait for
        with self._transaction():
            taken = self._select("WHERE owner IS NULL ORDER BY number LIMIT ?", limit)
            self._database.executemany(
                "UPDATE message SET owner = ? WHERE number = ?",
                [(owner, one.number) for one in taken],
            )
        return taken

    def oldest(self, limit: int) -> list[StoredMessage]:
        """Return the oldest messages without taking them."""
        with _explain_errors(self.path):
            return self._select("ORDER BY number LIMIT ?", limit)

    def hand_over(self, receive: Callable[[StoredMessage], object]) -> bool:
        """Hand the oldest message to `receive` and forget it, unless that raises; return whether there was one.

        Until then no other process can hand it over, too, or write here.
        """
        with self._transaction():
            found = self._select("ORDER BY number LIMIT ?", 1)
            for one in found:
                receive(one)
                self._database.execute("DELETE FROM message WHERE number = ?", (one.number,))
        self._give_room_back()
        return bool(found)

    def forget_before(self, since_ns: int) -> None:
        """Forget what has waited since before then."""
        with self._transaction():
            self._database.execute("DELETE FROM message WHERE since_ns < ?", (since_ns,))
        self._give_room_back()

    def give_back(self, owner: str, *, died: bool) -> None:
        """Make the messages that `owner` has free again; if it died, each has seen one more death."""
        with self._transaction():
            self._database.execute(
                "UPDATE message SET owner = NULL, deaths = deaths + ? WHERE owner = ?",
                (int(died), owner),
            )

    def done(self, number: int, split: Sequence[bytes] = (), *, since_ns: int = 0) -> None:
        """Forget a message, and put those in its place that it was split into; all or nothing."""
        with self._transaction():
            self._database.execute("DELETE FROM message WHERE number = ?", (number,))
            self._database.executemany(
                "INSERT INTO message (requests, body, since_ns) VALUES (1, ?, ?)",
                [(body, since_ns) for body in split],
            )
        self._give_room_back()

    def _give_room_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._one("PRAGMA freelist_count")[0] > _SPARE_PAGES:
                self._database.execute(f"PRAGMA incremental_vacuum({_SPARE_PAGES})").fetchall()

    def close(self) -> None:
        """Let go of it. What is in it stays."""
        with suppress(sqlite3.Error):
            self._database.close()

    def remove(self) -> None:
        """Close and delete it."""
        self.close()
        for name in (self.path, *_beside(self.path)):
            with suppress(OSError):
                name.unlink()

    def _select(self, which: str, limit: int) -> list[StoredMessage]:
        names = ", ".join(StoredMessage._fields)
        found = self._database.execute(f"SELECT {names} FROM message {which}", (limit,))  # noqa: S608 -- ours
        return [StoredMessage(*row) for row in found]

    def _one(self, statement: str) -> tuple[int, ...]:
        found: tuple[int, ...] = self._database.execute(statement).fetchone()
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _explain_errors(self.path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # it may have happened by itself
                    self._database.execute("ROLLBACK")
                raise


def is_still(path: Path, found: os.stat_result) -> bool:
    """Return whether a path names the file that it named when it was looked at."""
    with suppress(OSError):
        return os.path.samestat(path.stat(), found)
    return False


def set_aside(path: Path) -> None:
    """Rename a damaged file, so that nobody opens it again; it is kept for people to look at."""
    for name in (path, *_beside(path)):
        with suppress(OSError):
            name.rename(name.with_name(f"{name.name}.damaged"))


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Let SQLite's errors say whether trying again may help."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise TransportDownError(f"{path.parent}: {_error_words(error)}") from error
    except sqlite3.DatabaseError as error:
        raise DamagedError(f"{path.name}: {_error_words(error)}") from error


def _error_words(error: Exception) -> str:
    # SQLite's own words: they name no value.
    return str(error) if isinstance(error, sqlite3.Error) else loggable(error)
