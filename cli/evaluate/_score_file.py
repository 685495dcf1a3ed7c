"""The file that `ragmeter evaluate --out` writes and resumes from: JSON lines of scored rows.

Each line carries the row's content hash, what was measured (metric name and definition, and the judge's
model for judged metrics) and the scores.  A line is appended as soon as something is measured, so an
interrupted run loses at most the calls in flight.  Nothing is ever rewritten, except that half a line left
by a crash or a full disk is cut off.  Scores stay in the file: in memory is where each row's lines begin.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from ragmeter.cli._interrupt import whole
from ragmeter.metrics import ConfigurationError, Score, Verdict
from ragmeter.metrics._files.json_lines import as_line, object_of
from ragmeter.metrics._files.samples import Row

FINAL = frozenset({"ok", "undefined", "missing_input", "partial"})
"""Statuses to keep; scores with any other (a failed judge, no judge) are measured again."""
_IN_MEMORY = 32 * 1024 * 1024
"""Most bytes in memory if no file was requested; beyond that a temporary file is used."""


class ScoreFile:
    """A file of scores by row and measurement.

    Args:
        path: The file; created if absent, readable by its owner only, continued if it holds scores of an
            earlier run. None: a temporary one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: dict[bytes, list[tuple[int, int]]] = {}
        self._earlier: frozenset[bytes] = frozenset()
        self._file: IO[bytes]
        if path is None:
            self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 -- closed in __exit__
            return
        try:
            if path.exists():
                with path.open("rb") as lines:
                    self._index(path, lines)
            # Unbuffered: after a full disk, closing would otherwise write the rest of a buffer.
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
        except OSError as error:
            raise ConfigurationError(f"--out {str(path)!r}: {error.strerror}") from error
        self._earlier = frozenset(self._lines)

    def __enter__(self) -> ScoreFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def is_earlier(self, row: Row) -> bool:
        """Return whether an earlier run measured a score of this row."""
        return bytes.fromhex(row.key) in self._earlier

    def of(self, row: Row) -> dict[str, tuple[Score, ...]]:
        """Return a row's final scores, which need not be repeated, by measurement."""
        known: dict[str, tuple[Score, ...]] = {}
        for offset, length in self._lines.get(bytes.fromhex(row.key), ()):
            self._file.seek(offset)
            known.update(_final_scores(self._file.read(length)))
        return known

    def add(self, row: Row, measured: Mapping[str, tuple[Score, ...]], verdict: Verdict | None) -> None:
        """Append a row's new scores, and the verdict of all its scores so far."""
        record = {
            "row": row.key,
            "line": row.line,
            "question": row.sample.question,
            "measured": {
                measurement: [score.model_dump(mode="json", exclude_defaults=True) for score in scores]
                for measurement, scores in measured.items()
            },
            "scores": {score.name: score.value for scores in measured.values() for score in scores},
            "verdict": None if verdict is None else verdict.model_dump(exclude_none=True),
        }
        line = as_line(record)
        with whole():
            offset = self._append(line)
        self._lines.setdefault(bytes.fromhex(row.key), []).append((offset, len(line)))

    def _append(self, line: bytes) -> int:
        """Append a line; return its offset."""
        offset = self._file.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as error:
            self._file.truncate(offset)  # an incomplete line
            place = "the temporary folder" if self._path is None else f"--out {str(self._path)!r}"
            raise ConfigurationError(
                f"{place}: {error.strerror}; what was scored before is kept, and the same command "
                "continues from there"
            ) from error
        return offset

    def _index(self, path: Path, lines: Iterable[bytes]) -> None:
        offset = 0
        for line in lines:
            if offset == 0 and not line.lstrip().startswith(b'{"row": "'):
                raise ConfigurationError(
                    f"--out {str(path)!r} exists and was not written by ragmeter evaluate; "
                    "name another file, or remove this one"
                )
            if not line.endswith(b"\n"):
                os.truncate(path, offset)
                break
            if line.strip():
                key = _row_of(line)
                if key is not None:  # an unreadable line: its row is scored again
                    self._lines.setdefault(key, []).append((offset, len(line)))
            offset += len(line)


def _row_of(line: bytes) -> bytes | None:
    """Return the key of a line's row, or None if the line cannot be read."""
    try:
        record = object_of(line)
        return bytes.fromhex(record["row"]) if record["measured"] else None
    except (ValueError, KeyError, TypeError):
        return None


def _final_scores(line: bytes) -> dict[str, tuple[Score, ...]]:
    """Return the scores of a line that need not be measured again, by measurement."""
    try:
        record: dict[str, Any] = object_of(line)
        found = {
            str(measurement): tuple(Score.model_validate(one) for one in dumped)
            for measurement, dumped in record["measured"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return {}
    return {by: scores for by, scores in found.items() if all(one.status in FINAL for one in scores)}
