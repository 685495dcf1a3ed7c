"""Evaluates files that `JsonlExporter` wrote without texts: their scores are shown as recorded.

A request may have several lines, later ones with late scores; the last value of each score counts.
Lines are joined on disk, so that a file of any length can be read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from ragmeter.metrics import ConfigurationError, RagSample, Score, Verdict
from ragmeter.metrics._files.rows import BadRow, GoodRow, read_rows
from ragmeter.metrics._files.samples import Row, facts_of
from ragmeter.metrics._files.scratch_database import scratch_database
from ragmeter.metrics.score import ScoreStatus

from ._evaluation import EvaluateOptions, EvaluationReport, SkippedRow
from ._sums import EvaluationSums

_TEXTS = ("question", "contexts", "answer")


def is_recorded(files: tuple[Path, ...]) -> bool:
    """Return whether the first row of each file is a result without texts."""
    firsts = [next((row for row in read_rows(path, ()) if isinstance(row, GoodRow)), None) for path in files]
    return bool(firsts) and all(first is not None and _is_result(first.fields) for first in firsts)


def evaluate_recorded(options: EvaluateOptions) -> EvaluationReport:
    """Return the evaluation of the recorded scores."""
    if options.metrics or options.judge is not None or options.out is not None:
        raise ConfigurationError(
            "the data are results without texts, whose recorded scores are shown; to score them again, "
            "let JsonlExporter(path, include_content=True) write them, or leave out --metrics, "
            "--judge-model and --out"
        )
    if options.asked.baseline is not None:
        raise ConfigurationError("--baseline compares by question; these results have none")
    began = time.perf_counter()
    read = _Read(options)
    for line, lines in islice(read.requests(), options.limit):
        read.take(line, lines)
    return read.sums.report(options, options.files, began, recorded=True)


class _Read:
    """The lines of the files, by request."""

    def __init__(self, options: EvaluateOptions) -> None:
        self.sums = EvaluationSums(options.segments)
        self._segments = bool(options.segments)
        self._database = scratch_database(self)
        self._database.execute(
            "CREATE TABLE lines (run TEXT, first INTEGER, at INTEGER PRIMARY KEY, said TEXT)"
        )
        for path in options.files:
            for row in read_rows(path, ()):
                self._keep(path, row)
        self._database.execute("CREATE INDEX by_run ON lines (run, at)")

    def requests(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the lines of each request, in the order of the first lines."""
        rows = self._database.execute(
            "SELECT began, line, said FROM lines AS one JOIN "
            "(SELECT run, min(at) AS began, min(first) AS line FROM lines GROUP BY run) USING (run) "
            "ORDER BY began, at"
        )
        for (_, line), group in groupby(rows, key=lambda row: row[:2]):
            yield line, [json.loads(said) for *_, said in group]

    def take(self, line: int, lines: list[dict[str, Any]]) -> None:
        """Add a line of a request."""
        scores: dict[str, Score] = {}
        verdict: Verdict | None = None
        for said in lines:
            scores |= {name: _score(name, one) for name, one in said["scores"].items()}
            if said["verdict"] is not None:
                verdict = Verdict.model_validate(said["verdict"])
        row = Row(line, RagSample(question=None), lines[0]["run_id"], facts=lines[0].get("facts", {}))
        self.sums.add(row, scores, verdict)

    def _keep(self, path: Path, row: GoodRow | BadRow) -> None:
        reason = row.reason if isinstance(row, BadRow) else _problem(row.fields)
        if reason is None and isinstance(row, GoodRow):
            said = {name: row.fields.get(name) for name in ("run_id", "scores", "verdict")}
            if self._segments:
                said["facts"] = facts_of(row.fields)
            self._database.execute(
                "INSERT INTO lines (run, first, said) VALUES (?, ?, ?)",
                (str(said["run_id"]), row.line, json.dumps(said)),
            )
            return
        self.sums.skip(SkippedRow(str(path), row.line, str(reason)))


def _is_result(fields: Mapping[str, Any]) -> bool:
    return (
        bool(fields.get("run_id"))
        and isinstance(fields.get("scores"), Mapping)
        and all(fields.get(text) is None for text in _TEXTS)
    )


def _problem(fields: Mapping[str, Any]) -> str | None:
    """Return the reason why a line is not a result, or None if it is one."""
    if not fields.get("run_id") or not isinstance(fields.get("scores"), Mapping):
        return "not a result: it has no run_id or no scores"
    try:
        for name, one in fields["scores"].items():
            _score(name, one)
        if fields.get("verdict") is not None:
            Verdict.model_validate(fields["verdict"])
    except (ValidationError, TypeError, ValueError, KeyError):
        return "its scores or its verdict are not those of a result"
    return None


def _score(name: str, given: Any) -> Score:
    """Return a recorded score, without fields that a later version may have added."""
    known = {key: value for key, value in dict(given).items() if key in Score.model_fields}
    if known.get("status") not in get_args(ScoreStatus):
        raise ValueError("no such status")
    return Score.model_validate({"method": "exact", "definition": ""} | known | {"name": name})
