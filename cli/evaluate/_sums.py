"""Aggregates scored rows into the report of an evaluation.

Takes rows scored now, read from a folder, or recorded by an application, in any order.  Only numbers and the
worst rows stay in memory.  Called by `run`, `_recorded_scores` and `_folder`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ragmeter.metrics import Score, Verdict
from ragmeter.metrics._display.failures import Failures
from ragmeter.metrics._display.summary import Summarizer
from ragmeter.metrics._files.samples import Row, key_of_question
from ragmeter.quality.decision import decide
from ragmeter.quality.row_scores import RowScore, RowScores

from ._by_segment import BySegment
from ._evaluation import MAX_BAD_ROWS, EvaluateOptions, EvaluationReport, SkippedRow
from ._verdicts import Verdicts
from ._worst_rows import WorstRows, place_of

_NOTHING: Mapping[str, str] = MappingProxyType({})


class EvaluationSums:
    """Adds up scored rows; `compares`: stores every score on disk, for a comparison with another run's."""

    def __init__(self, segments: Sequence[str] = (), *, compares: bool = False) -> None:
        self.rows = 0
        self.bad_row_count = 0
        self.row_scores = RowScores()
        self.by_segment = BySegment(segments)
        self.worst = WorstRows()
        self._compares = compares
        self._bad_rows: list[SkippedRow] = []
        self._summarizer = Summarizer()
        self._verdicts = Verdicts()
        self._failures = Failures()
        self._has_value: dict[str, bool] = {}

    def skip(self, bad: SkippedRow) -> None:
        """Count a row that could not be read."""
        self.bad_row_count += 1
        if len(self._bad_rows) < MAX_BAD_ROWS:
            self._bad_rows.append(bad)

    def add(
        self,
        row: Row,
        scores: Mapping[str, Score],
        verdict: Verdict | None,
        *,
        measured_by: Mapping[str, str] = _NOTHING,
        question: str | None = None,
        segments: Sequence[str] | None = None,
        place: int | None = None,
        in_full: Callable[[], tuple[Mapping[str, Score], Verdict | None]] | None = None,
    ) -> None:
        """Add a row.

        Args:
            row: The row.
            scores: Its scores by name.
            verdict: Its verdict.
            measured_by: The measurement of each score, by name.
            question: The key of its question; None: computed from its text.
            segments: Its values of the segments; None: from the row's fields.
            place: Its place in the data set; None: its line.
            in_full: Returns scores and verdict with all evidence, for a row to show; None: they already have
                it.
        """
        if question is None and row.sample.question is not None:
            question = key_of_question(row.sample.question)
        place = row.line if place is None else place
        self.rows += 1
        self._summarizer.add(scores)
        self.by_segment.add(self.by_segment.of(row) if segments is None else segments, scores)
        self._verdicts.add(verdict)
        for score in scores.values():
            self._failures.add(score, place_of(row))
        self.worst.add(row, scores, verdict, question or row.key, place, in_full)
        if self._compares:
            compared = {
                name: RowScore(measured_by[name], score.value, score.status, score.summary)
                for name, score in scores.items()
            }
            self.row_scores.add(place, question, compared)
        if row.file:
            has_value = any(score.value is not None for score in scores.values())
            self._has_value[row.file] = has_value or self._has_value.get(row.file, False)

    def report(
        self,
        options: EvaluateOptions,
        files: Sequence[object],
        began: float,
        *,
        order: Sequence[str] = (),
        **about: Any,
    ) -> EvaluationReport:
        """Return the report, the scores in `order` first; `about` has further fields."""
        summaries = self._summarizer.summaries(order=order)
        by_segment = self.by_segment.summaries(order)
        decision = decide(options.asked, summaries, self.row_scores, self.bad_row_count)
        worst = self.worst.all()
        if len(files) == 1:
            worst = [replace(one, row=replace(one.row, file="")) for one in worst]
        return EvaluationReport(**{
            "data": ", ".join(map(str, files)),
            "rows": self.rows,
            "worst": worst,
            "bad_rows": self._bad_rows,
            "bad_row_count": self.bad_row_count,
            "summaries": summaries,
            "resumed": 0,
            "duration_s": time.perf_counter() - began,
            "failures": self._failures,
            "unscored": [file for file, scored in self._has_value.items() if not scored],
            "verdicts": self._verdicts,
            "decision": self.by_segment.decide(decision, options.asked),
            "segments": by_segment,
            **about,
        })  # fmt: skip
