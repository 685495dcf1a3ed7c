"""The SQLite file behind a judge's cache: short waits, and a pause after a failure.

`JudgeCache` reads and writes it, on a thread that may wait.  Another process may hold the file, the disk may be
full, and another program may have written its rows: none of these is an error, only missing rows.  It holds
plain text and numbers, since reading a pickle would run the code of anyone who can write to the file.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sqlite3
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragmeter.metrics._process import fork
from ragmeter.metrics.errors import ConfigurationError

logger = logging.getLogger("ragmeter.judge")

_WAIT_S = 0.2
"""Seconds to wait for another process that holds the file."""
_LEFT_ALONE_S = 30.0
"""Seconds of a pause after a failure, separately for reads and writes."""
_SAY_AGAIN_AFTER_S = 60.0
"""Least seconds between two reports of an unusable file."""
_PRUNE_EVERY = 1000
_PRIVATE = 0o600

_of_the_parent: list[sqlite3.Connection] = []
"""Connections inherited through a fork, kept alive so that nothing closes them: SQLite forbids it."""


class AnswerFile:
    """Stores texts by key in a file that is made readable for its owner only. Thread-safe.

    With more than `max_rows` rows the oldest are deleted first. `JudgeCache` says what is refused.
    """

    def __init__(self, path: Path, max_rows: int) -> None:
        self.path = path
        self._max_rows = max_rows
        self._lock = fork.lock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._said_at = -math.inf
        self._no_reads_until = -math.inf
        self._no_writes_until = -math.inf
        self._written = 0
        if not path.parent.is_dir():
            raise ConfigurationError(f"the folder of the judge's cache {str(path)!r} does not exist")
        try:
            self._make_private()
        except OSError as error:
            raise ConfigurationError(
                f"the judge's cache {str(path)!r} cannot be made readable for its owner only "
                f"({type(error).__name__}): it holds texts of requests; pass another path, or "
                "chmod 600 it"
            ) from error

    @property
    def is_readable(self) -> bool:
        """Whether to read it: no pause after a failure is in progress."""
        return time.monotonic() >= self._no_reads_until

    def read(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the texts under `keys`; missing and unreadable ones are left out."""
        with self._lock:
            if not self.is_readable:
                return {}
            try:
                return dict(self._rows(keys))
            except (sqlite3.Error, OSError) as error:
                self._no_reads_until = time.monotonic() + _LEFT_ALONE_S
                self._report(error)
                return {}

    def write(self, rows: Iterable[tuple[bytes, str]]) -> None:
        """Store texts by key, if possible."""
        with self._lock:
            if time.monotonic() < self._no_writes_until:
                return
            try:
                self._insert([(key, text.encode()) for key, text in rows])
            except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
                if not isinstance(error, UnicodeEncodeError):
                    self._no_writes_until = time.monotonic() + _LEFT_ALONE_S
                self._report(error)

    def leave_alone(self) -> None:
        """Pause reads and writes, after a caller has waited too long."""
        self._no_reads_until = self._no_writes_until = time.monotonic() + _LEFT_ALONE_S

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        # A connection inherited through a fork is the parent's: closing it here breaks it there.
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._owner == os.getpid():
            connection.close()
        else:
            _of_the_parent.append(connection)

    def _rows(self, keys: Sequence[bytes]) -> Iterable[tuple[bytes, str]]:
        connection = self._open()
        for key in keys:
            for (text,) in connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)):
                # Another program may have written it: text is read as bytes, other types unchanged.
                if isinstance(text, bytes):
                    with contextlib.suppress(UnicodeDecodeError):
                        yield key, text.decode()

    def _insert(self, rows: list[tuple[bytes, bytes]]) -> None:
        connection = self._open()
        connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, CAST(? AS TEXT))", rows)
        before, self._written = self._written, self._written + len(rows)
        if before // _PRUNE_EVERY != self._written // _PRUNE_EVERY:
            connection.execute(
                "DELETE FROM answers WHERE rowid <= (SELECT max(rowid) FROM answers) - ?", (self._max_rows,)
            )

    def _open(self) -> sqlite3.Connection:
        # After a fork a connection must neither be used nor closed in the child.
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        self.close()
        self._make_private()
        connection = sqlite3.connect(
            str(self.path), timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL)"
            )
        except sqlite3.Error:
            connection.close()
            raise
        self._connection, self._owner = connection, os.getpid()
        return connection

    def _make_private(self) -> None:
        """Create the file if it is missing; make it and SQLite's other files readable for its owner only.

        Raises:
            OSError: It is not a file, or another user's and not private.
        """
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
        if os.name == "nt":
            return  # file modes have no effect there
        for name in (self.path, *(Path(f"{self.path}{ending}") for ending in ("-wal", "-shm"))):
            with contextlib.suppress(FileNotFoundError):
                found = name.stat()
                if not stat.S_ISREG(found.st_mode):
                    raise IsADirectoryError(f"{name} is no file")
                if stat.S_IMODE(found.st_mode) & 0o077:
                    name.chmod(_PRIVATE)

    def _report(self, error: Exception) -> None:
        # Reads may succeed while writes fail, and vice versa.
        now = time.monotonic()
        if now - self._said_at >= _SAY_AGAIN_AFTER_S:
            self._said_at = now
            logger.warning(
                "the judge's cache file %s cannot be used (%s: %s); it is left alone for %g s at a "
                "time, and answers are kept in memory",
                self.path,
                type(error).__name__,
                error,
                _LEFT_ALONE_S,
            )
