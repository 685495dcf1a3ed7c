"""Read the scores of an earlier run from the JSON lines of ``ragmeter evaluate --out`` and users' tests.

Used by the command line and by `ragmeter.testing` for comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.json_lines import lines_of, object_of
from ragmeter.metrics._files.samples import key_of_question

from .row_scores import RowScore, RowScores

_Rows = dict[str, tuple[int, str | None, dict[str, RowScore]]]


def read_scores(
    path: Path, given_as: str, measured_by: Callable[[str, Mapping[str, Any]], str] | None = None
) -> RowScores:
    """Return the scores of the file's rows.

    Args:
        path: The file.
        given_as: The option or argument that errors name.
        measured_by: Returns the measurement under which a score is compared, from its measurement and its
            fields; None: the measurement itself.

    Raises:
        ConfigurationError: The file cannot be read, or has another content.
    """
    rows: _Rows = {}
    try:
        with path.open("rb") as file:
            for number, line in lines_of(file):
                _read(f"{given_as} {str(path)!r}, line {number}", line, rows, measured_by)
    except OSError as error:
        raise ConfigurationError(f"{given_as} {str(path)!r} cannot be read: {error.strerror}") from error
    if not rows:
        raise ConfigurationError(f"{given_as} {str(path)!r} holds no scores")
    found = RowScores()
    for place, question, scores in rows.values():
        found.add(place, None if question is None else key_of_question(question), scores)
    return found


def _read(
    where: str, line: bytes, rows: _Rows, measured_by: Callable[[str, Mapping[str, Any]], str] | None
) -> None:
    try:
        record = object_of(line)
        row = rows.setdefault(record["row"], (int(record["line"]), record["question"], {}))
        for measurement, scores in record["measured"].items():
            for one in scores:
                by = measurement if measured_by is None else measured_by(measurement, one)
                scored = RowScore(by, one.get("value"), str(one["status"]), one.get("summary"))
                row[2][str(one["name"])] = scored
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{where}: not written by ragmeter evaluate --out") from error
