"""`Spool`: acknowledged and unfinished export requests, in a folder, safe from a kill or a power cut.

It is one SQLite database in WAL mode whose every commit waits for the disk (``synchronous=FULL``);
simultaneous appends share one commit. SQLite provides what a file format would have to implement: an
incomplete end is ignored, free space is reused, and the lock of a process on the folder ends with the
process, however it ends. A checksum of each body detects changes by the disk.

Nothing here parses bodies, logs them, or quotes them in exceptions.
"""

from __future__ import annotations

import logging
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
from ragmeter.metrics._files.sqlite_file import open_private, transaction
from ragmeter.metrics.errors import loggable

FORWARDED = "forwarded"
"""The part of an entry that is finished when it was forwarded."""

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
"""Entries that arrive within this many seconds share one arrival time."""
_ENTRY_BYTES = 512
"""Most bytes of an entry in addition to its body, so that many small ones are bounded, too."""
_SPARE_PAGES = 4096
"""Unused pages to return to the disk at a time, 16 MiB."""


class SpoolFullError(RagmeterError):
    """There is no room for an entry, or the disk fails; nothing was stored.

    Attributes:
        reason: ``full``: the spool has reached its limit; ``disk``: the disk is full or fails.
    """

    def __init__(self, message: str, reason: Literal["full", "disk"]) -> None:
        super().__init__(message)
        self.reason = reason


class Entry(NamedTuple):
    """An acknowledged and unfinished export request."""

    position: int
    """Its number, from 1; numbers increase, even across restarts. 0: it is not stored."""
    signal: Signal
    """Its signal."""
    body: bytes
    """The request, as it was appended."""
    settled: frozenset[str] = frozenset()
    """Its finished parts: ids of traces, and `FORWARDED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStats:
    """The contents of the spool, and what it failed to store."""

    entries: int = 0
    """Number of unfinished entries."""
    bytes: int = 0
    """Their size in bytes."""
    damaged: int = 0
    """Entries that were changed or unreadable on the disk, since the spool was opened. A damaged file counts
    as one."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Refused appends, by `SpoolFullError.reason`."""
    found: int = 0
    """Number of entries found when it was opened, left unfinished by an earlier process."""
    finished: int = 0
    """Number of these that are finished now."""
    oldest_s: float = 0.0
    """Seconds since the arrival of the oldest unfinished entry, or since it was found."""


class SpoolInUseError(ConfigurationError):
    """Another process uses the folder."""


class Spool:
    """A durable store of export requests. Thread-safe; one process per folder.

    Args:
        folder: The folder; created if missing, for this user only, as its files contain users' texts.
        max_bytes: Most bytes of its entries.

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
        """Error of the last write, until one succeeds; None: no error."""
        self._refused: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._coming = 0  # bytes of bodies being written
        self._came: deque[tuple[int, float]] = deque([(0, time.monotonic())])
        """Positions with their arrival times, one for each distinct time."""
        self._commits: GroupCommit[tuple[Signal, bytes], int] = GroupCommit(
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

        So servers that share a folder have one spool each, and find their entries again after a restart. If
        fewer servers start than before, they take over the entries of the others.
        """
        for number in count(1):
            with suppress(SpoolInUseError):
                place = folder if number == 1 else folder.with_name(f"{folder.name}.{number}")
                spool = cls(place, max_bytes=max_bytes)
                for left in sorted(folder.parent.glob(f"{escape(folder.name)}.*")):
                    if left != place and left.suffix[1:].isdecimal() and (left / _FILE).exists():
                        spool._take_over(left)
                return spool
        raise AssertionError  # `count` never ends

    def append(self, signal: Signal, body: bytes) -> int:
        """Store `body` and return its position; when this returns, it is on the disk.

        Simultaneous callers share one commit.

        Raises:
            SpoolFullError: It was not stored.
        """
        size = len(body) + _ENTRY_BYTES
        with self._counting:
            if self._bytes + self._coming + size > self._max_bytes:
                self._refused["full"] += 1
                raise SpoolFullError(f"the spool holds {self._bytes} bytes, as much as it may", "full")
            self._coming += size
        return self._commits.put((signal, body))

    def settle(self, done: Iterable[int] = (), parts: Mapping[int, Iterable[str]] | None = None) -> bool:
        """Delete entries, and record which parts of others are processed, atomically.

        Args:
            done: Positions of finished entries.
            parts: Finished parts of other entries, by position: trace ids, `FORWARDED`.

        Returns:
            False if the disk failed. Nothing is lost then; call it again later.
        """
        gone = [(position,) for position in done]
        noted = [(key, part) for key, several in (parts or {}).items() for part in several]
        with self._writing:
            try:
                size = "SELECT length(body) FROM entries WHERE position = ?"
                found = [self._database.execute(size, position).fetchone() for position in gone]
                freed = [row[0] for row in found if row is not None]
                with transaction(self._database):
                    self._database.executemany("DELETE FROM entries WHERE position = ?", gone)
                    self._database.executemany("DELETE FROM settled WHERE position = ?", gone)
                    self._database.executemany("INSERT OR IGNORE INTO settled VALUES (?, ?)", noted)
                (oldest,) = self._database.execute("SELECT coalesce(min(position), 0) FROM entries").fetchone()
            except sqlite3.Error as error:
                self.trouble = _write_problem(error)
                _log.warning(
                    "%s; what is done is noted later, and read again if this server ends before", self.trouble
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
        """Test whether the disk accepts writes again, after a failed one."""
        if self.trouble is not None:
            with suppress(SpoolFullError):
                self.settle([self.append("traces", b"")])

    def give_up(self, position: int) -> None:
        """Delete an unreadable entry, count it as damaged, and log it."""
        _log.error("spool: entry %d is damaged, and lost", position)
        with self._counting:
            self._damaged += 1
            self._finished -= 1
        self.settle([position])

    def replay(self) -> Iterator[Entry]:
        """Yield the unfinished entries found when the spool was opened, in order.

        Entries that were changed on the disk are counted and deleted.
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
                    parts = self._database.execute("SELECT part FROM settled WHERE position = ?", (position,))
                    entry = Entry(position, signal, body, frozenset(part for (part,) in parts))
            if entry is None:
                self.give_up(position)
            else:
                yield entry

    def stats(self) -> SpoolStats:
        """Return size and counts of the spool."""
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
        """Return the used share of the allowed size, 0 to 1."""
        with self._counting:
            return float(self._bytes / self._max_bytes)

    def close(self) -> None:
        """Close the folder. Unfinished entries stay in it."""
        with self._writing:
            self._database.close()

    def _take_over(self, folder: Path) -> None:
        """Move the entries of an unused spool into this one, as far as there is room."""
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
            other._has_reported_finished = True  # moved entries do not count as finished
            for entry in other.replay():
                try:
                    parts[self.append(entry.signal, entry.body)] = entry.settled
                except SpoolFullError as error:
                    _log.warning("spool: %s; the rest of %s waits for another start", error, folder)
                    break
                moved.append(entry.position)
            # Written here before deleted there: a kill in between duplicates entries, but loses none.
            if moved and self.settle(parts=parts) and other.settle(moved):
                _log.warning("spool: %d export requests were taken over of %s", len(moved), folder)
            self._damaged += other.stats().damaged
        self._found = self._entries
        self._last = self._last_position()

    def _append(self, pieces: Sequence[tuple[Signal, bytes]]) -> Sequence[int]:
        positions: list[int] = []
        kept = False
        try:
            with transaction(self._database):
                for signal, body in pieces:
                    cursor = self._database.execute(
                        "INSERT INTO entries (signal, body, crc) VALUES (?, ?, ?)",
                        (signal, body, zlib.crc32(body)),
                    )
                    positions.append(int(cursor.lastrowid or 0))
            kept = True
            self.trouble = None
        except sqlite3.Error as error:
            self.trouble = _write_problem(error)
            raise SpoolFullError(self.trouble, "disk") from error
        finally:
            size = sum(len(body) + _ENTRY_BYTES for _, body in pieces)
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

    def _after(self, position: int) -> tuple[int, Signal, bytes | None, int] | None:
        """Return the next entry, without a body if it is unreadable."""
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
        """Return unused space to the disk, a little at a time, if most of the file is unused."""
        with suppress(sqlite3.Error):
            (pages,) = self._database.execute("PRAGMA page_count").fetchone()
            (unused,) = self._database.execute("PRAGMA freelist_count").fetchone()
            if unused > _SPARE_PAGES and unused > pages // 2:
                self._database.execute(f"PRAGMA incremental_vacuum({_SPARE_PAGES})").fetchall()

    def _open(self) -> sqlite3.Connection:
        # Exclusive: the lock lasts as long as the process, and no memory is shared.
        pragmas = "locking_mode = EXCLUSIVE", "auto_vacuum = INCREMENTAL", "journal_mode = WAL"
        whole = "synchronous = FULL", "fullfsync = ON"
        database = open_private(self._path, *pragmas, *whole, wait_s=0.0, factory=sqlite3.Connection)
        try:
            with transaction(database, "EXCLUSIVE"):
                self._prepare(database)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Create the tables, or check that they are the spool's."""
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
        """Begin a new file with the readable entries of the damaged one, which stays beside it."""
        self._damaged += 1
        names = (self._path.with_suffix(f".damaged-{number}") for number in count(1))
        aside = next(name for name in names if not name.exists())
        with suppress(AttributeError):
            self._database.close()
        self._path.rename(aside)
        with suppress(FileNotFoundError):  # the last writes
            self._path.with_name(f"{_FILE}-wal").rename(f"{aside}-wal")
        fresh = self._open()
        with suppress(sqlite3.Error), closing(sqlite3.connect(aside)) as damaged:
            last = damaged.execute("SELECT max(position) FROM entries").fetchone()[0] or 0
            with transaction(fresh):  # whole, or not at all where there is no room for the entries
                # From both ends, as reading stops at the damage.
                for order in ("ASC", "DESC"):
                    with suppress(sqlite3.Error):
                        query = f"SELECT position, signal, body, crc FROM entries ORDER BY position {order}"  # noqa: S608
                        for row in damaged.execute(query):
                            if row[0] > last or zlib.crc32(row[2]) != row[3]:
                                continue
                            fresh.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)", row)
                with suppress(sqlite3.Error):
                    for part in damaged.execute("SELECT position, part FROM settled"):
                        fresh.execute("INSERT OR IGNORE INTO settled VALUES (?, ?)", part)
                # The position of a lost entry may be assigned again.
                fresh.execute("DELETE FROM settled WHERE position NOT IN (SELECT position FROM entries)")
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
