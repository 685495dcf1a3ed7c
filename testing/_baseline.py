"""Baselines of tests: earlier results, stored beside the tests and compared with in each run.

The file has the format of ``ragmeter evaluate --out``, with questions and scores, and no other text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError, Score
from ragmeter.metrics._files.json_lines import as_line
from ragmeter.metrics._files.samples import key_of_question
from ragmeter.quality.earlier_run import read_scores
from ragmeter.quality.row_scores import RowScore, RowScores

from ._rows import TestedRow


def read_baseline(path: str | os.PathLike[str]) -> RowScores:
    """Return the scores of a baseline.

    Raises:
        ConfigurationError: It does not exist, or is invalid.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigurationError(
            f"baseline {str(place)!r} is a folder; ragmeter evaluate --baseline compares with folders, and "
            "a test with the file that --out wrote"
        )
    if not place.exists():
        raise ConfigurationError(
            f"baseline {str(place)!r} is not there; pytest --ragmeter-write-baselines writes it from the "
            "results of this run"
        )
    return read_scores(place, "baseline", _measured_by)


def _measured_by(measurement: str, score: Mapping[str, Any]) -> str:
    """Return the formula of a score and, if it is judged, the judge's model, as a test knows them."""
    model = measurement.rpartition(" ")[2] if " " in measurement else ""
    return _measurement_name(str(score["definition"]), model if score["method"] == "llm" else "")


def _measurement_name(definition: str, model: str) -> str:
    return f"{definition} {model}".rstrip()


def _of(row: TestedRow, score: Score) -> str:
    return _measurement_name(score.definition, row.judge if score.method == "llm" else "")


def scores_of(rows: Sequence[TestedRow]) -> RowScores:
    """Return the scores of a test's rows by question.

    Raises:
        ConfigurationError: No row has a question.
    """
    if rows and not any(row.sample is not None and row.sample.question for row in rows):
        raise ConfigurationError(
            "rows are compared by their question, and these have none: pass ragmeter_results, samples, or "
            "what evaluate() returned"
        )
    found = RowScores()
    for number, row in enumerate(rows):
        scores = {
            name: RowScore(_of(row, score), score.value, score.status, score.summary)
            for name, score in row.scores.items()
        }
        question = None if row.sample is None else row.sample.question
        found.add(number, None if question is None else key_of_question(question), scores)
    return found


def write(rows: Sequence[TestedRow], path: str | os.PathLike[str]) -> None:
    """Write the rows as a baseline, atomically.

    Raises:
        ConfigurationError: There is nothing to write, or the file cannot be written.
    """
    if not rows:
        raise ConfigurationError(f"baseline {os.fspath(path)!r}: there are no results to write")
    scores_of(rows)  # refuse rows that cannot be compared later
    lines = [_line(number, row) for number, row in enumerate(rows)]
    place = Path(path)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(b"".join(lines))
        fresh.replace(place)
    except OSError as error:
        raise ConfigurationError(f"baseline {str(place)!r}: {error.strerror}") from error


def _line(number: int, row: TestedRow) -> bytes:
    measured: dict[str, list[dict[str, Any]]] = {}
    for name, score in row.scores.items():
        kept = {
            "name": name,
            "value": score.value,
            "status": score.status,
            "method": score.method,
            "definition": score.definition,
        }
        measured.setdefault(f"{name}@{_of(row, score)}", []).append(kept)
    record = {
        "row": str(number),
        "line": number,
        "question": row.sample.question if row.sample is not None else None,
        "measured": measured,
    }
    return as_line(record)


def falls(name: str, baseline: RowScores, rows: Sequence[TestedRow]) -> list[tuple[TestedRow, float, float]]:
    """Return the rows whose value differs from the baseline's, with both values: the largest fall first."""
    before = {
        question: [score.value for score in scores]
        for question, scores in baseline.of(name)
        if question is not None
    }
    found: list[tuple[TestedRow, float, float]] = []
    lower_is_better = False
    for row in rows:
        if row.sample is None or row.sample.question is None or name not in row.scores:
            continue
        score = row.scores[name]
        lower_is_better |= score.direction == "lower"
        earlier = before.get(key_of_question(row.sample.question))
        was = earlier.pop(0) if earlier else None
        if was is not None and score.value is not None and was != score.value:
            found.append((row, was, score.value))
    return sorted(found, key=lambda one: (one[2] - one[1]) * (-1 if lower_is_better else 1))
