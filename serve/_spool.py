"""`Spool`: what was acknowledged and is not done yet, in a folder, so that no kill and no power cut loses it.

One SQLite database in WAL mode whose every commit waits for the disk (``synchronous=FULL``); those who append
at the same time share one commit.  SQLite brings what a file format of our own would have to learn: a half
written end is skipped, freed room is used again, and the lock of one process on the folder goes with the
process, however it ends.  A checksum beside each body finds what a disk has changed.

Nothing here knows what a body says, and nothing here may log or raise a word of it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from glob import escape
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from ragmeter.adapters.opentelemetry.otlp import Signal
from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics._files.group_commit import GroupCommit
from ragmeter.metrics.errors import loggable

FORWARDED = "forwarded"
"""The part of an entry that is settled when it was passed on."""

_log = logging.getLogger("ragmeter")

_FILE = "spool.db"
_VERSION = 1
_APPLICATION = 0x52414753
"""SQLite application id: marks the file as a spool of ragmeter."""
_SCHEMA = """
CREATE TABLE entries (
    position INTEGER PRIMARY KEY AUTOINCREMENT, signal TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE settled (
    position INTEGER NOT NULL, part TEXT NOT NULL, PRIMARY KEY (position, part)
) WITHOUT ROWID;
"""
_SAME_ARRIVAL_S = 10.0
"""Entries that arrive within so many seconds share one arrival time."""
_ENTRY_BYTES = 512
"""What an entry takes up beside its body, at most: so that many small ones are bounded, too."""
_SPARE_PAGES = 4096
"""So many unused pages are given back to the disk at a time, 16 MiB."""


class SpoolFullError(RagmeterError):
    """There is no room for an entry, or the disk does not take it; nothing was kept of it.

    Attributes:
        reason: ``full``: the spool holds as much as it may; ``disk``: the disk is full or fails.
    """

    def __init__(self, message: str, reason: Literal["full", "disk"]) -> None:
        super().__init__(message)
        self.reason = reason


class Entry(NamedTuple):
    """One export request that was acknowledged and is not done."""

    position: int
    """Its number; later ones have greater ones, also after a restart."""
    signal: Signal
    """What it holds."""
    body: bytes
    """The request, as it was appended."""
    settled: frozenset[str] = frozenset()
    """The parts of it that are done: ids of traces, and `FORWARDED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStats:
    """The contents of the spool, and what it failed to store."""

    entries: int = 0
    """Entries that are not done."""
    bytes: int = 0
    """What they take up, in bytes."""
    damaged: int = 0
    """Entries that the disk gave back changed, or not at all, since the spool was opened. A file that could
    not be read further counts as one."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Appends that found no room, by `SpoolFullError.reason`."""
    found: int = 0
    """Entries that were there when it was opened: what ended before had not done with them."""
    finished: int = 0
    """Those of them that are done by now."""
    oldest_s: float = 0.0
    """Seconds since the oldest entry that is not done came, or was found."""


class _SpoolPiece(NamedTuple):
    """One body on its way to the disk."""

    signal: Signal
    body: bytes

    @property
    def size(self) -> int:
        """The bytes it occupies on disk."""
        return len(self.body) + _ENTRY_BYTES


class SpoolInUseError(ConfigurationError):
    """Another process uses the folder."""


class Spool:
    """A durable store of export requests. Thread-safe; one process per folder.

    Args:
        folder: Where it lies; made if it is not there, for this user alone, as its files hold users' texts.
        max_bytes: It holds no more than this.

    Raises:
        ConfigurationError: The folder cannot be used.
        SpoolInUseError: Another process uses it.

    Attributes:
        folder: Where it lies.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"the spool's size is {max_bytes} bytes; allow it some")
        self.folder = folder
        self._path = folder / _FILE
        self._max_bytes = max_bytes
        self._damaged = 0
        self._finished = 0
        self._has_reported_finished = False
        self.trouble: str | None = None
        """What was in the way of the last write, until one succeeds; None: nothing."""
        self._refused: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._coming = 0  # bytes of those on their way to the disk
        self._came: deque[tuple[int, float]] = deque([(0, time.monotonic())])
        """Positions and when they came: one for each time that is distinguished."""
        self._commits: GroupCommit[_SpoolPiece, int] = GroupCommit(
            self._append, lambda: SpoolFullError("it was not written", "disk")
        )
        self._writing = self._commits.turn
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = self._open()
            sound = self._database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
        except OSError as error:
            raise ConfigurationError(
                f"the spool's folder {folder} cannot be used ({loggable(error)}); give one that this "
                "user may write to with --spool, or do without by --no-spool"
            ) from error
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise SpoolInUseError(
                    f"the spool's folder {folder} is in use by another process; stop that one, or give "
                    "each server a folder of its own with --spool"
                ) from error
            raise ConfigurationError(
                f"the spool's folder {folder} cannot be used: {error}; give another with --spool, or do "
                "without by --no-spool"
            ) from error
        except sqlite3.DatabaseError:
            sound = False
        if not sound:
            self._database = self._salvage()
        self._entries, self._bytes = self._database.execute(
            "SELECT count(*), coalesce(sum(length(body) + ?), 0) FROM entries", (_ENTRY_BYTES,)
        ).fetchone()
        self._found = self._entries
        self._last = self._last_position()

    @classmethod
    def first_free(cls, folder: Path, *, max_bytes: int) -> Spool:
        """Return the spool in the first of `folder`, ``folder.2``, ``folder.3``, ... that no process uses.

        So servers that share a folder have one each, and those that start again find what they left. Where
        fewer start than there were, what the others left is taken over by those that do.
        """
        for number in count(1):
            with suppress(SpoolInUseError):
                place = folder if number == 1 else folder.with_name(f"{folder.name}.{number}")
                spool = cls(place, max_bytes=max_bytes)
                for left in sorted(folder.parent.glob(f"{escape(folder.name)}.*")):
                    if left != place and left.suffix[1:].isdecimal() and (left / _FILE).exists():
                        spool._take_over(left)
                return spool
        raise AssertionError  # there is always a further number

    def append(self, signal: Signal, body: bytes) -> int:
        """Keep `body` and return its position; when this returns, it is on the disk.

        Those who append meanwhile wait for one commit together.

        Raises:
            SpoolFullError: It was not kept.
        """
        piece = _SpoolPiece(signal, body)
        with self._counting:
            if self._bytes + self._coming + piece.size > self._max_bytes:
                self._refused["full"] += 1
                raise SpoolFullError(
                    f"the spool holds {self._bytes} bytes, as much as it may", "full"
                )
            self._coming += piece.size
        return self._commits.put(piece)

    def settle(
        self, done: Iterable[int] = (), parts: Mapping[int, Iterable[str]] | None = None
    ) -> bool:
        """Delete entries, and record which parts of others are processed, atomically.

        Args:
            done: Positions of entries of which nothing is needed again.
            parts: Of other entries, by position, what is not needed again: trace ids, `FORWARDED`.

        Returns:
            False: the disk did not take it. Nothing is lost by that; call it again later.
        """
        gone = [(position,) for position in done]
        noted = [(key, part) for key, several in (parts or {}).items() for part in several]
        with self._writing:
            try:
                freed = self._sizes(gone)
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany("DELETE FROM entries WHERE position = ?", gone)
                self._database.executemany("DELETE FROM settled WHERE position = ?", gone)
                self._database.executemany("INSERT OR IGNORE INTO settled VALUES (?, ?)", noted)
                self._database.execute("COMMIT")
                (oldest,) = self._database.execute(
                    "SELECT coalesce(min(position), 0) FROM entries"
                ).fetchone()
            except sqlite3.Error as error:
                self._roll_back()
                self.trouble = _write_problem(error)
                _log.warning(
                    "spool: what is done could not be noted (%s); tried again", loggable(error)
                )
                return False
            self.trouble = None
            with self._counting:
                self._finished += sum(key <= self._last for (key,) in gone)
                self._entries -= len(freed)
                while len(self._came) > 1 and self._came[1][0] <= oldest:
                    self._came.popleft()
                self._bytes -= sum(freed) + _ENTRY_BYTES * len(freed)
            self._give_back()
            self._report_finished()
        return True

    def try_again(self) -> None:
        """See whether the disk takes something again, after a write that failed."""
        if self.trouble is not None:
            with suppress(SpoolFullError):
                self.settle([self.append("traces", b"")])

    def give_up(self, position: int) -> None:
        """Forget an entry that cannot be read: it is counted as damaged, and said."""
        _log.error("spool: entry %d is damaged, and lost", position)
        with self._counting:
            self._damaged += 1
            self._finished -= 1
        self.settle([position])

    def replay(self) -> Iterator[Entry]:
        """Yield what was there when the spool was opened and is not done, in order.

        An entry that the disk gives back changed is counted, and forgotten.
        """
        position = 0
        while True:
            entry: Entry | None = None
            with self._writing:
                found = self._after(position)
                if found is None:
                    return
                position, signal, body, crc = found
                if body is not None and zlib.crc32(body) == crc:
                    parts = self._database.execute(
                        "SELECT part FROM settled WHERE position = ?", (position,)
                    )
                    entry = Entry(position, signal, body, frozenset(part for (part,) in parts))
            if entry is None:
                self.give_up(position)
            else:
                yield entry

    def stats(self) -> SpoolStats:
        """Return what it holds."""
        with self._counting:
            return SpoolStats(
                entries=self._entries,
                bytes=self._bytes,
                damaged=self._damaged,
                refused=dict(self._refused),
                found=self._found,
                finished=self._finished,
                oldest_s=time.monotonic() - self._came[0][1] if self._entries else 0.0,
            )

    def fill(self) -> float:
        """Return how much of the room that it may take is taken, 0 to 1."""
        with self._counting:
            return float(self._bytes / self._max_bytes)

    def close(self) -> None:
        """Close the folder. Unfinished entries stay in it."""
        with self._writing:
            self._database.close()

    def _take_over(self, folder: Path) -> None:
        """Move what another process left into this spool, as far as there is room, if none uses that folder."""
        try:
            other = Spool(folder, max_bytes=self._max_bytes)
        except SpoolInUseError:
            return
        except ConfigurationError as error:
            _log.error("spool: what another server left in %s stays there: %s", folder, error)
            return
        parts: dict[int, frozenset[str]] = {}
        moved: list[int] = []
        with closing(other):
            other._has_reported_finished = True  # they are not finished by that
            for entry in other.replay():
                try:
                    parts[self.append(entry.signal, entry.body)] = entry.settled
                except SpoolFullError as error:
                    _log.warning("spool: %s; the rest of %s waits for another start", error, folder)
                    break
                moved.append(entry.position)
            # First here, then there: a kill between the two has it read twice, and none of it lost.
            if moved and self.settle(parts=parts) and other.settle(moved):
                _log.warning("spool: %d export requests were taken over of %s", len(moved), folder)
            self._damaged += other.stats().damaged
        self._found = self._entries
        self._last = self._last_position()

    def _append(self, pieces: Sequence[_SpoolPiece]) -> Sequence[int]:
        """Write bodies; return their positions."""
        positions: list[int] = []
        kept = False
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for piece in pieces:
                row = (piece.signal, piece.body, zlib.crc32(piece.body))
                cursor = self._database.execute(
                    "INSERT INTO entries (signal, body, crc) VALUES (?, ?, ?)", row
                )
                positions.append(int(cursor.lastrowid or 0))
            self._database.execute("COMMIT")
            kept = True
            self.trouble = None
        except sqlite3.Error as error:
            self.trouble = _write_problem(error)
            raise SpoolFullError(self.trouble, "disk") from error
        finally:
            if not kept:
                self._roll_back()
            size = sum(piece.size for piece in pieces)
            with self._counting:
                self._coming -= size
                if kept:
                    self._bytes += size
                    now = time.monotonic()
                    if not self._entries:
                        self._came.clear()
                    if not self._came or now - self._came[-1][1] >= _SAME_ARRIVAL_S:
                        self._came.append((positions[0], now))
                    self._entries += len(pieces)
                else:
                    self._refused["disk"] += len(pieces)
        return positions

    def _report_finished(self) -> None:
        left = self._found - self._finished - self._damaged
        if self._found and left <= 0 and not self._has_reported_finished:
            self._has_reported_finished = True
            _log.warning(
                "spool: of %d export requests found at the start %d are finished, %d damaged and lost",
                self._found,
                self._finished,
                self._damaged,
            )

    def _last_position(self) -> int:
        query = "SELECT coalesce(max(position), 0) FROM entries"
        return int(self._database.execute(query).fetchone()[0])

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # it may have happened by itself
            self._database.execute("ROLLBACK")

    def _sizes(self, positions: Iterable[tuple[int]]) -> list[int]:
        query = "SELECT length(body) FROM entries WHERE position = ?"
        found = (self._database.execute(query, position).fetchone() for position in positions)
        return [row[0] for row in found if row is not None]

    def _after(self, position: int) -> tuple[int, Signal, bytes | None, int] | None:
        """Return the next entry; without a body, where it cannot be read."""
        bounds = (position, self._last)
        found = self._database.execute(
            "SELECT min(position) FROM entries WHERE position > ? AND position <= ?", bounds
        ).fetchone()[0]
        if found is None:
            return None
        query = "SELECT signal, body, crc FROM entries WHERE position = ?"
        with suppress(sqlite3.Error):
            signal, body, crc = self._database.execute(query, (found,)).fetchone()
            if signal in ("traces", "logs") and isinstance(body, bytes):
                return found, signal, body, crc
        return found, "traces", None, 0

    def _give_back(self) -> None:
        """Give room that most of the file does not need back to the disk, a little at a time."""
        with suppress(sqlite3.Error):
            (pages,) = self._database.execute("PRAGMA page_count").fetchone()
            (unused,) = self._database.execute("PRAGMA freelist_count").fetchone()
            if unused > _SPARE_PAGES and unused > pages // 2:
                self._database.execute(f"PRAGMA incremental_vacuum({_SPARE_PAGES})").fetchall()

    def _open(self) -> sqlite3.Connection:
        with suppress(FileExistsError):
            # SQLite gives its other files the rights of this one.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        database = sqlite3.connect(
            self._path, timeout=0.0, isolation_level=None, check_same_thread=False
        )
        try:
            # Exclusive: the lock is held as long as the process lives, and no memory is shared.
            for pragma in (
                "locking_mode = EXCLUSIVE",
                "auto_vacuum = INCREMENTAL",
                "journal_mode = WAL",
                "synchronous = FULL",
                "fullfsync = ON",
            ):
                database.execute(f"PRAGMA {pragma}").fetchall()
            database.execute("BEGIN EXCLUSIVE")
            self._prepare(database)
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables, or see that they are ours."""
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (application,) = database.execute("PRAGMA application_id").fetchone()
        if not version and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION:
            raise ConfigurationError(f"{self._path} is no spool of ragmeter; give another folder")
        elif version != _VERSION:
            raise ConfigurationError(
                f"{self._path} was written by another version of ragmeter (format {version}, this one "
                f"knows {_VERSION}); let that version empty it, or give another folder"
            )

    def _salvage(self) -> sqlite3.Connection:
        """Begin a new file with what can be read of the damaged one, which is kept beside it."""
        self._damaged += 1
        names = (self._path.with_suffix(f".damaged-{number}") for number in count(1))
        aside = next(name for name in names if not name.exists())
        with suppress(AttributeError):
            self._database.close()
        self._path.rename(aside)
        with suppress(FileNotFoundError):  # what was written last
            self._path.with_name(f"{_FILE}-wal").rename(f"{aside}-wal")
        fresh = self._open()
        with suppress(sqlite3.Error), closing(sqlite3.connect(aside)) as damaged:
            last = damaged.execute("SELECT max(position) FROM entries").fetchone()[0] or 0
            fresh.execute("BEGIN IMMEDIATE")
            # From both ends, as reading breaks off at what is damaged.
            for order in ("ASC", "DESC"):
                with suppress(sqlite3.Error):
                    query = (
                        f"SELECT position, signal, body, crc FROM entries ORDER BY position {order}"  # noqa: S608
                    )
                    for row in damaged.execute(query):
                        if row[0] > last or zlib.crc32(row[2]) != row[3]:
                            continue
                        fresh.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)", row)
            with suppress(sqlite3.Error):
                for part in damaged.execute("SELECT position, part FROM settled"):
                    fresh.execute("INSERT OR IGNORE INTO settled VALUES (?, ?)", part)
            # The number of an entry that is lost may be given again.
            fresh.execute(
                "DELETE FROM settled WHERE position NOT IN (SELECT position FROM entries)"
            )
            fresh.execute("COMMIT")
        with suppress(sqlite3.Error):
            fresh.execute("ROLLBACK")  # there was no room for them
        saved = fresh.execute("SELECT count(*) FROM entries").fetchone()[0]
        _log.error(
            "spool: %s is damaged; %d entries could be read and are kept, the file is now %s",
            self._path,
            saved,
            aside.name,
        )
        return fresh


def _write_problem(error: sqlite3.Error) -> str:
    return f"the spool cannot be written to: {error}"
