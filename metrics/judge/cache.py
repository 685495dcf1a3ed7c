"""What the judge has answered before: in memory, and in a SQLite file if one is named.

The asking engine looks here before it asks.  Values are JSON, never pickles; keys are
digests, so no question and no context stands in the file (judges' reasons and
extracted entities, claims and questions do).  A cache that fails is a cache that misses: it never
fails a score.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

from ragmeter.metrics.errors import ConfigurationError

from .contract import Answer, AnswerValue

__all__ = ["JudgeCache"]

logger = logging.getLogger("ragmeter.judge")

_OVERHEAD_BYTES = 250
"""What one entry costs in memory beside its text: key, node and headers, rounded up."""

_PRUNE_EVERY = 1000

_SAY_AGAIN_AFTER_S = 60.0
"""A file that cannot be used is reported at most this often, in seconds."""

_of_the_parent: list[sqlite3.Connection] = []
"""Connections found after a fork, kept so that nothing closes them: SQLite forbids it."""


class JudgeCache:
    """Remembers answers, least recently used out first. Thread-safe; judges may share one.

    Args:
        max_bytes: Memory for the answers.
        path: A SQLite file that outlives the process, made readable for its owner only; None:
            memory only. It holds the judge's reasons and what it extracted, in plain text.
        max_rows: Rows kept in the file; the oldest go first.

    Raises:
        ConfigurationError: `max_bytes` is negative, or the file's folder does not exist.
    """

    def __init__(
        self,
        max_bytes: int = 64 * 2**20,
        path: str | os.PathLike[str] | None = None,
        *,
        max_rows: int = 1_000_000,
    ) -> None:
        if max_bytes < 0:
            raise ConfigurationError(f"max_bytes is {max_bytes!r}; pass 0 or more")
        self.max_bytes = max_bytes
        self.path = None if path is None else Path(path)
        if self.path is not None and not self.path.parent.is_dir():
            raise ConfigurationError(
                f"the folder of the judge's cache {str(path)!r} does not exist"
            )
        self._max_rows = max_rows
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, str] = OrderedDict()
        self._bytes = 0
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._said_at = -math.inf
        self._puts = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings: another process reads the file, not this memory."""
        return partial(JudgeCache, self.max_bytes, self.path, max_rows=self._max_rows), ()

    def __repr__(self) -> str:
        path = None if self.path is None else str(self.path)
        return f"JudgeCache(max_bytes={self.max_bytes}, path={path!r})"

    def __len__(self) -> int:
        """Return how many answers are held in memory."""
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Memory taken by the answers, estimated."""
        return self._bytes

    def get(self, key: bytes) -> Answer | None:
        """Return the answer kept under `key`, or None."""
        with self._lock:
            text = self._entries.get(key)
            if text is not None:
                self._entries.move_to_end(key)
            elif self.path is not None:
                text = self._read(key)
                if text is not None:
                    self._keep(key, text)
        return None if text is None else _decode(text)

    def put(self, key: bytes, answer: Answer) -> None:
        """Keep a known `answer` under `key`."""
        text = json.dumps([answer.value, answer.reason], ensure_ascii=False)
        with self._lock:
            self._keep(key, text)
            if self.path is not None:
                self._write(key, text)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            self._let_go()

    def __del__(self) -> None:
        """Close the file of a cache that nobody holds any more; Python 3.13 warns of open ones."""
        if getattr(self, "_connection", None) is not None:
            self._let_go()

    def _let_go(self) -> None:
        # A connection that came through a fork is the parent's: closing it here breaks it there.
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._owner == os.getpid():
            connection.close()
        else:
            _of_the_parent.append(connection)

    def renew_lock(self) -> None:
        """Replace the lock after a fork: a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def _keep(self, key: bytes, text: str) -> None:
        before = self._entries.pop(key, None)
        if before is not None:
            self._bytes -= _cost(before)
        self._entries[key] = text
        self._bytes += _cost(text)
        while self._bytes > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= _cost(oldest)

    def _open(self) -> sqlite3.Connection:
        # A connection must not be used on the other side of a fork, nor closed there.
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        self._let_go()
        path = str(self.path)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            path, timeout=1.0, isolation_level=None, check_same_thread=False
        )
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

    def _read(self, key: bytes) -> str | None:
        try:
            row = (
                self._open().execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            )
        except (sqlite3.Error, OSError) as error:
            self._report(error)
            return None
        return row[0] if row else None

    def _write(self, key: bytes, text: str) -> None:
        try:
            connection = self._open()
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text))
            self._puts += 1
            if self._puts % _PRUNE_EVERY == 0:
                connection.execute(
                    "DELETE FROM answers WHERE rowid <= (SELECT max(rowid) FROM answers) - ?",
                    (self._max_rows,),
                )
        except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        # Reads may go well while writes fail: a success of one says nothing about the other.
        now = time.monotonic()
        if now - self._said_at >= _SAY_AGAIN_AFTER_S:
            self._said_at = now
            logger.warning(
                "the judge's cache file %s cannot be used (%s: %s); until it can, answers are "
                "kept in memory only",
                self.path,
                type(error).__name__,
                error,
            )


def _cost(text: str) -> int:
    return _OVERHEAD_BYTES + len(text) * (1 if text.isascii() else 3)


def _decode(text: str) -> Answer | None:
    try:
        value, reason = json.loads(text)
    except (ValueError, TypeError):
        return None  # a row that someone else wrote
    return Answer(known=True, value=_tuples(value), reason=reason)


def _tuples(value: Any) -> AnswerValue:
    if isinstance(value, list):
        return tuple(_tuples(part) for part in value)  # type: ignore[return-value]
    return value  # type: ignore[no-any-return]
