"""Caches the judge's answers: in memory, and optionally in a SQLite file or a Redis.

`Batching` reads it before it asks. Values are JSON, never pickles; keys are digests, so the file holds no
question, context or answer of a request, only the judge's output: verdicts, reasons, and the entities,
claims, questions and short answers extracted from the texts. A failing cache only misses: it never fails a
score, and never blocks the event loop, since a thread reads and writes the file.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from ragmeter.metrics._connection.sent_text import sendable
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.background_thread import BackgroundThread
from ragmeter.metrics._process.bounded_table import BoundedTable
from ragmeter.metrics.errors import ConfigurationError

from ._cache_file import AnswerFile
from .protocol import Answer, AnswerValue

_OVERHEAD_BYTES = 250
"""Memory of one entry besides its text: key, node and headers, rounded up."""
_LONGEST_WAIT_S = 1.0
"""Seconds to wait for the file before a lookup counts as a miss."""
_MOST_WAITING = 10_000
"""Most answers that wait to be written; further ones are stored in memory only."""
_CLOSING_S = 2.0
_ROW: TypeAdapter[tuple[AnswerValue, str | None]] = TypeAdapter(tuple[AnswerValue, str | None])


class _AnswerStore(Protocol):
    """An `AnswerFile`, or the same in a Redis. Thread-safe; may block briefly."""

    @property
    def is_readable(self) -> bool: ...

    def read(self, keys: Sequence[bytes]) -> dict[bytes, str]: ...

    def write(self, rows: Iterable[tuple[bytes, str]]) -> None: ...

    def leave_alone(self) -> None: ...

    def close(self) -> None: ...


class JudgeCache:
    """Stores answers, and evicts the least recently used. Thread-safe; judges may share one.

    Args:
        max_bytes: Memory for the answers.
        path: A SQLite file that outlives the process, made readable for its owner only; None: memory only. It
            contains the judge's output, including its reasons, in plain text.
        max_rows: Most rows in the file; the oldest are deleted first.

    Raises:
        ConfigurationError: `max_bytes` is negative, the file's folder does not exist, or others may
            read the file and that cannot be changed.
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
        self._max_rows = max_rows
        self._file: _AnswerStore | None = None if self.path is None else AnswerFile(self.path, max_rows)
        self._lock = fork.lock()
        self._entries: BoundedTable[bytes, str] = BoundedTable(max_size=max_bytes)
        self._clerk = BackgroundThread("ragmeter-cache")
        self._begin()
        fork.forget(self._begin)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings: another process reads the file, not this memory."""
        return partial(JudgeCache, self.max_bytes, self.path, max_rows=self._max_rows), ()

    def __repr__(self) -> str:
        path = None if self.path is None else str(self.path)
        return f"JudgeCache(max_bytes={self.max_bytes}, path={path!r})"

    def __len__(self) -> int:
        """Return the number of answers in memory."""
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Estimated memory of the answers."""
        return self._entries.size

    def get(self, key: bytes) -> Answer | None:
        """Return the answer under `key`, or None. May wait for the file briefly."""
        known = self.recall(key)
        if known is None and self._file is not None:
            known = self._take_over(self._file.read([key])).get(key)
        return known

    def put(self, key: bytes, answer: Answer) -> None:
        """Store an `answer` under `key`. May wait for the file briefly."""
        text = _encode(answer)
        self._keep(key, text)
        if self._file is not None:
            self._file.write([(key, text)])

    def recall(self, key: bytes) -> Answer | None:
        """Return the answer in memory under `key`, or None. Never waits."""
        with self._lock:
            text = self._entries.get(key)
        return None if text is None else _decode(text)

    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the known answers under `keys`; the file is read off the event loop."""
        loaded = await self._load([key for key in keys if key not in self._entries])
        return loaded | {key: answer for key in keys if (answer := self.recall(key)) is not None}

    async def _load(self, unknown: Sequence[bytes]) -> dict[bytes, Answer]:
        file = self._file
        if file is None or not file.is_readable or not unknown:
            return {}
        found = asyncio.wrap_future(self._clerk.call(partial(file.read, unknown)))
        try:
            done, _ = await asyncio.wait([found], timeout=_LONGEST_WAIT_S)
        finally:
            found.cancel()  # if it is late, the loop may have been closed
        if not done:
            file.leave_alone()  # a disk that hangs: not even SQLite's timeout took effect
            return {}
        return self._take_over(found.result())

    def remember(self, key: bytes, answer: Answer) -> None:
        """Store an `answer` under `key`; it is written to the file shortly afterwards. Never waits."""
        text = _encode(answer)
        self._keep(key, text)
        file = self._file
        if file is None or self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1

        def write() -> None:
            self._waiting -= 1
            file.write([(key, text)])

        self._clerk.do(write)

    def close(self) -> None:
        """Write waiting answers for at most two seconds, and close the file; the next use opens it."""
        if self._file is None:
            return
        self._clerk.finish(_CLOSING_S)
        self._file.close()

    async def aclose(self) -> None:
        """Do as `close`, off the event loop."""
        if self._file is not None:
            await asyncio.to_thread(self.close)

    def __del__(self) -> None:
        """Close the file of a freed cache; Python 3.13 warns of open ones."""
        file, clerk = getattr(self, "_file", None), getattr(self, "_clerk", None)
        if clerk is not None:
            clerk.finish(0.0)
        if file is not None:
            file.close()

    def _begin(self) -> None:
        self._waiting = 0

    def _take_over(self, rows: dict[bytes, str]) -> dict[bytes, Answer]:
        answers: dict[bytes, Answer] = {}
        for key, text in rows.items():
            answer = _decode(text)
            if answer is not None:
                answers[key] = answer
                self._keep(key, text)
        return answers

    def _keep(self, key: bytes, text: str) -> None:
        with self._lock:
            self._entries.put(key, text, _OVERHEAD_BYTES + len(text) * (1 if text.isascii() else 3))


def _encode(answer: Answer) -> str:
    # A lone surrogate becomes a question mark: SQLite accepts only UTF-8.
    return sendable(json.dumps([answer.value, answer.reason], ensure_ascii=False))


def _decode(text: str) -> Answer | None:
    """Return the answer in a row; None for a row of another shape."""
    try:
        value, reason = _ROW.validate_json(text, strict=True)
    except ValueError:
        return None
    return Answer(known=True, value=value, reason=reason)
