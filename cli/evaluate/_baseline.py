"""What an earlier run of ``ragmeter evaluate`` found, read from its ``--out``. Called by `app`."""

from __future__ import annotations

import json
from pathlib import Path

from ragmeter.metrics import ConfigurationError
from ragmeter.quality.row_scores import RowScore, RowScores

__all__ = ["read_baseline"]

_Rows = dict[str, tuple[int, str | None, dict[str, RowScore]]]


def read_baseline(path: Path) -> RowScores:
    """Return the scores of an earlier run, from its ``--out`` file or folder.

    Raises:
        ConfigurationError: The file cannot be read, or was not written by ``ragmeter evaluate``.
    """
    if path.is_dir():
        from ._baseline_folder import scores_of_folder  # noqa: PLC0415 -- brings pyarrow, an extra

        return scores_of_folder(path)
    rows: _Rows = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    _read(path, number, line, rows)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--baseline {str(path)!r} cannot be read: {error}") from error
    if not rows:
        raise ConfigurationError(f"--baseline {str(path)!r} holds no scores")
    found = RowScores()
    for place, question, scores in rows.values():
        found.add(place, question, scores)
    return found


def _read(path: Path, number: int, line: str, rows: _Rows) -> None:
    try:
        record = json.loads(line)
        row = rows.setdefault(record["row"], (int(record["line"]), record["question"], {}))
        for measurement, scores in record["measured"].items():
            for one in scores:
                scored = RowScore(measurement, one.get("value"), str(one["status"]))
                row[2][str(one["name"])] = scored
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"--baseline {str(path)!r}, line {number}: not written by ragmeter evaluate --out"
        ) from error
