"""The file that `ragmeter evaluate --out` writes and resumes from: one JSON object per scored row.

Each line carries the row's content hash, what was measured (metric name and definition, and the judge's
model for judged metrics) and the scores.  A line is appended when its row is done, so an
interrupted run loses at most the rows in flight.  Nothing is ever rewritten, except that half a line left by a
crash is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from pydantic import ValidationError

from ragmeter.metrics import ConfigurationError, Metric, Score

from .rows import Row

__all__ = ["ScoreFile", "measurement_key"]

_FINAL = frozenset({"ok", "undefined", "missing_input", "partial"})
"""Statuses worth keeping; anything else (a failed judge, no judge) is tried again."""


def measurement_key(metric: Metric, judge_model: str | None) -> str:
    """Return what identifies one measurement: same key, same row, same scores."""
    key = f"{metric.name}@{metric.definition}"
    return f"{key} {judge_model}" if metric.judged else key


class ScoreFile:
    """Scores by row and measurement, kept in memory and, with a path, in a file.

    Args:
        path: The file; created if absent, continued if it holds scores of an earlier run. None: memory only.

    Raises:
        ConfigurationError: The file cannot be opened, or holds something else.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._scores: dict[tuple[str, str], tuple[Score, ...]] = {}
        self.unreadable_lines: list[int] = []
        """Lines of an earlier run that could not be read; their rows are scored again."""
        if path is None:
            return
        try:
            if path.exists():
                self._read(path)
            self._file = path.open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise ConfigurationError(f"--out {str(path)!r}: {error.strerror}") from error

    def __enter__(self) -> ScoreFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def get(self, row_key: str, measurement: str) -> tuple[Score, ...] | None:
        """Return the scores of an earlier measurement, or None when it has to be done."""
        return self._scores.get((row_key, measurement))

    def add(self, row: Row, measured: Mapping[str, tuple[Score, ...]]) -> None:
        """Keep what was measured on one row, and append it to the file."""
        for measurement, scores in measured.items():
            self._scores[row.key, measurement] = scores
        if self._file is None:
            return
        record = {
            "row": row.key,
            "line": row.line,
            "question": row.sample.question,
            "measured": {
                measurement: [
                    score.model_dump(mode="json", exclude_defaults=True) for score in scores
                ]
                for measurement, scores in measured.items()
            },
            "scores": {score.name: score.value for scores in measured.values() for score in scores},
        }
        # A lone surrogate has no UTF-8; its JSON escape has.
        text = json.dumps(record, ensure_ascii=False)
        self._file.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        self._file.flush()

    def _read(self, path: Path) -> None:
        raw = path.read_bytes()
        if not raw.endswith(b"\n") and raw:
            raw = raw[: raw.rfind(b"\n") + 1]
            self._refuse_unless_ours(path, path.read_bytes()[: 64 * 1024])
            os.truncate(path, len(raw))
        lines = raw.split(b"\n")
        if raw.strip():
            self._refuse_unless_ours(path, raw[: 64 * 1024])
        for number, line in enumerate(lines, start=1):
            if line.strip() and not self._remember(line):
                self.unreadable_lines.append(number)

    @staticmethod
    def _refuse_unless_ours(path: Path, head: bytes) -> None:
        if not head.lstrip().startswith(b'{"row": "'):
            raise ConfigurationError(
                f"--out {str(path)!r} exists and was not written by ragmeter evaluate; "
                "name another file, or remove this one"
            )

    def _remember(self, line: bytes) -> bool:
        try:
            record: dict[str, Any] = json.loads(line)
            for measurement, dumped in record["measured"].items():
                scores = tuple(Score.model_validate(one) for one in dumped)
                if _is_final(scores):
                    self._scores[str(record["row"]), measurement] = scores
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            return False
        return True


def _is_final(scores: Iterable[Score]) -> bool:
    return all(score.status in _FINAL for score in scores)
