"""One file of a spool: a SQLite database of waiting messages, in order of arrival.

WAL with ``synchronous=NORMAL``: messages survive the crash of any process; a crash of the machine may lose
the last moments. A reader writes its name to the messages it takes; they are free again once it has ended.
Nothing here logs or raises the content of a message.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ragmeter.metrics._files.sqlite_file import open_private, transaction
from ragmeter.metrics.errors import loggable

from .transport import TransportDownError

_PATIENCE_S = 5.0
"""Longest wait for another writer of the same file, in seconds."""
_VERSION = 1
_APPLICATION = 0x5241474D
"""SQLite's application id of such files."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    number INTEGER PRIMARY KEY AUTOINCREMENT, requests INTEGER NOT NULL, body BLOB NOT NULL,
    deaths INTEGER NOT NULL DEFAULT 0, owner TEXT, reason TEXT, since_ns INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS message_owner ON message (owner, number);
"""
_SPARE_PAGES = 256
"""Unused pages, 1 MiB, from which the file is shrunk."""


class DamagedError(Exception):
    """The file is not a valid database."""


class StoredMessage(NamedTuple):
    """A message in a file."""

    number: int
    """Number of the message in the file."""
    requests: int
    """Number of the message's requests."""
    body: bytes
    """The message's bytes."""
    deaths: int
    """Number of readers that ended while they had the message."""
    reason: str | None = None
    """Reason of a dead letter."""
    since_ns: int = 0
    """Time of arrival, nanoseconds since the epoch."""


class SpoolFile:
    """One file, opened by one process. For one thread at a time; not to be used across a fork.

    It is created if missing, readable by this user only.

    Raises:
        TransportDownError: It cannot be opened now.
        DamagedError: It is not a spool database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _explain_errors(path):
            pragmas = "auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = NORMAL"
            self._database = open_private(path, *pragmas, wait_s=_PATIENCE_S, factory=sqlite3.Connection)
            try:
                self._prepare()
                self._made_as = path.stat()
            except BaseException:
                self._database.close()
                raise

    def _prepare(self) -> None:
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
        """Whether the file still exists at its path; messages put into a deleted file are lost."""
        return is_still(self.path, self._made_as)

    @property
    def size_bytes(self) -> int:
        """Size of the file's messages, in whole pages."""
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
        """Add messages, each with its number of requests; all or none."""
        rows = [(requests, body, deaths, reason, since_ns) for requests, body in messages]
        with self._transaction():
            self._database.executemany(
                "INSERT INTO message (requests, body, deaths, reason, since_ns) VALUES (?, ?, ?, ?, ?)", rows
            )

    def __len__(self) -> int:
        """Return the number of messages, taken or not."""
        with _explain_errors(self.path):
            return self._one("SELECT count(*) FROM message")[0]

    @property
    def has_free(self) -> bool:
        """Whether there is a free message."""
        with _explain_errors(self.path):
            found = self._one("SELECT EXISTS (SELECT 1 FROM message WHERE owner IS NULL)")
            return bool(found[0])

    def owners(self) -> list[str]:
        """Return the names of readers that have taken messages."""
        with _explain_errors(self.path):
            found = self._database.execute("SELECT DISTINCT owner FROM message WHERE owner IS NOT NULL")
            return [owner for (owner,) in found]

    def take(self, owner: str, limit: int) -> list[StoredMessage]:
        """Take the oldest free messages."""
        if not self.has_free:
            return []  # read without a lock that writers would wait for
        with self._transaction():
            taken = self._select("WHERE owner IS NULL ORDER BY number LIMIT ?", limit)
            self._database.executemany(
                "UPDATE message SET owner = ? WHERE number = ?", [(owner, one.number) for one in taken]
            )
        return taken

    def oldest(self, limit: int) -> list[StoredMessage]:
        """Return the oldest messages without taking them."""
        with _explain_errors(self.path):
            return self._select("ORDER BY number LIMIT ?", limit)

    def hand_over(self, receive: Callable[[StoredMessage], object]) -> bool:
        """Pass the oldest message to `receive` and delete it, unless that raises; return whether there was one.

        Meanwhile no other process can write to the file.
        """
        with self._transaction():
            found = self._select("ORDER BY number LIMIT ?", 1)
            for one in found:
                receive(one)
                self._database.execute("DELETE FROM message WHERE number = ?", (one.number,))
        self._give_room_back()
        return bool(found)

    def forget_before(self, since_ns: int) -> None:
        """Delete messages that arrived before a time."""
        with self._transaction():
            self._database.execute("DELETE FROM message WHERE since_ns < ?", (since_ns,))
        self._give_room_back()

    def give_back(self, owner: str, *, died: bool) -> None:
        """Free the messages taken by `owner`; if it died, count one more death each."""
        with self._transaction():
            self._database.execute(
                "UPDATE message SET owner = NULL, deaths = deaths + ? WHERE owner = ?", (int(died), owner)
            )

    def done(self, number: int, split: Sequence[bytes] = (), *, since_ns: int = 0) -> None:
        """Delete a message and add those it was split into; all or nothing."""
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
        """Close the file; its messages stay."""
        with suppress(sqlite3.Error):
            self._database.close()

    def remove(self) -> None:
        """Close and delete the file."""
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
        with _explain_errors(self.path), transaction(self._database):
            yield


def is_still(path: Path, found: os.stat_result) -> bool:
    """Return whether a path still names the file with these stats."""
    with suppress(OSError):
        return os.path.samestat(path.stat(), found)
    return False


def set_aside(path: Path) -> None:
    """Rename a damaged file, so that no process opens it again; people can still inspect it."""
    for name in (path, *_beside(path)):
        with suppress(OSError):
            name.rename(name.with_name(f"{name.name}.damaged"))


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to errors that are temporary or permanent."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise TransportDownError(f"{path.parent}: {_error_words(error)}") from error
    except sqlite3.DatabaseError as error:
        raise DamagedError(f"{path.name}: {_error_words(error)}") from error


def _error_words(error: Exception) -> str:
    # SQLite's own words: they name no value.
    return str(error) if isinstance(error, sqlite3.Error) else loggable(error)
