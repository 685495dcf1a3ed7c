"""Requests with a judge's scores, read for `ragmeter label` and `ragmeter agreement`.

Reads the files of `ragmeter evaluate --out` and `JsonlExporter`, and data sets without scores.  Texts are not
kept in memory; `samples_at` reads those of a few requests by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError, RagSample
from ragmeter.metrics._files.columns import LIST_COLUMNS
from ragmeter.metrics._files.rows import BadRow, GoodRow, read_rows
from ragmeter.metrics._files.samples import Row, read_samples, row_of
from ragmeter.pipeline.sampling import place

_SPACE = 1 << 64
_TEXTS = ("question", "contexts", "answer")


@dataclass(frozen=True, slots=True)
class JudgedValue:
    """The judge's value of one score of a request."""

    value: float | None
    """The value on 0 to 1, whatever the score's range; None: no value."""
    status: str
    judge: str
    """The measurement: metric, version of formula and prompt, and the model if the file names it."""
    lower_is_better: bool = False
    asked_with: float = 1.0
    """Probability with which a cascade asked for the score, given that its request was selected for judging."""


@dataclass(slots=True)
class ScoredRequest:
    """One request of a file."""

    request: str
    """Id of the request in labels: its run id, or the hash of the row."""
    names: frozenset[str]
    """All ids by which a label may refer to the request."""
    line: int
    """Line of its texts; 0: not in this file."""
    place: float
    """Position in [0, 1) in the order of drawing for labels; independent of judging."""
    probability: float = 1.0
    """Probability that it was selected for judging."""
    is_worst: bool = False
    """Whether it was stored only for being bad, so that similar good requests are missing."""
    has: frozenset[str] = frozenset()
    """The texts it has: ``question``, ``contexts``, ``answer``."""
    scores: dict[str, JudgedValue] = field(default_factory=dict)
    """The judge's values, by name of the score."""
    verdict: str = ""
    """``good``, ``suspect`` or ``bad``; empty: no verdict."""

    def value_of(self, score: str) -> float | None:
        """Return the judge's value of a score, or None."""
        found = self.scores.get(score)
        return None if found is None else found.value

    def probability_of(self, score: str) -> float:
        """Return the probability that the request was judged and that a cascade asked for this score."""
        found = self.scores.get(score)
        return self.probability * (1.0 if found is None else found.asked_with)


@dataclass(frozen=True, slots=True)
class ResultFile:
    """All requests of a file, in its order."""

    path: Path
    requests: tuple[ScoredRequest, ...]
    bad: tuple[BadRow, ...]
    has_texts: bool


def read_results(path: Path) -> ResultFile:
    """Read a file of results: one request per line, or several lines of one request, which are merged."""
    first = next((row for row in read_rows(path, ()) if not isinstance(row, BadRow)), None)
    if first is not None and "measured" in first.fields and "row" in first.fields:
        found = _of_evaluation(path)
    else:
        found = _of_requests(path)
    if not found.requests:
        reason = f"; line {found.bad[0].line}: {found.bad[0].reason}" if found.bad else ""
        raise ConfigurationError(f"{str(path)!r} has no requests{reason}")
    return found


def texts_of(sample: RagSample) -> frozenset[str]:
    """Return the texts that a sample has: ``question``, ``contexts``, ``answer``."""
    return frozenset(text for text in _TEXTS if getattr(sample, text) is not None)


def samples_at(path: Path, lines: Iterable[int]) -> dict[int, RagSample]:
    """Return the samples in some lines of a file."""
    wanted = set(lines)
    return {row.line: row.sample for row in read_samples(path) if isinstance(row, Row) and row.line in wanted}


def _of_evaluation(path: Path) -> ResultFile:
    """Read a file written by ``ragmeter evaluate --out``."""
    by_key: dict[str, ScoredRequest] = {}
    bad: list[BadRow] = []
    for row in read_rows(path, ()):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        try:
            key = str(row.fields["row"])
            request = by_key.setdefault(key, ScoredRequest(key, frozenset([key]), 0, place_of(key)))
            for measurement, scores in row.fields["measured"].items():
                for score in scores:
                    request.scores[str(score["name"])] = _judged_value(score, str(measurement))
            request.verdict = _word(row.fields) or request.verdict
        except (KeyError, TypeError, AttributeError, ValueError):
            bad.append(BadRow(row.line, "not written by ragmeter evaluate --out"))
    return ResultFile(path, tuple(by_key.values()), tuple(bad), has_texts=False)


def _of_requests(path: Path) -> ResultFile:
    """Read a file written by `JsonlExporter`, or a data set."""
    by_name: dict[str, ScoredRequest] = {}
    bad: list[BadRow] = []
    for row in read_rows(path, LIST_COLUMNS):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        found = row_of(row)
        run_id = row.fields.get("run_id")
        if isinstance(found, BadRow) and not run_id:  # with a run id: a result without texts
            bad.append(found)
            continue
        try:
            scores = _scores(row.fields.get("scores"))
        except (KeyError, TypeError, AttributeError, ValueError):
            bad.append(BadRow(row.line, "its scores are not those of a result"))
            continue
        name = str(run_id) if run_id or isinstance(found, BadRow) else found.key
        known = by_name.get(name)
        if known is None:
            known = by_name[name] = _request(name, row, found)
        known.scores.update(scores)
        known.verdict = _word(row.fields) or known.verdict
    requests = tuple(by_name.values())
    return ResultFile(path, requests, tuple(bad), has_texts=any(one.has for one in requests))


def _request(name: str, row: GoodRow, found: Row | BadRow) -> ScoredRequest:
    fields = row.fields
    names, has = {name}, frozenset[str]()
    if isinstance(found, Row):
        names.add(found.key)
        has = texts_of(found.sample)
    if isinstance(trace_id := fields.get("trace_id"), str):
        names.add(trace_id)
    return ScoredRequest(
        name,
        frozenset(names),
        row.line,
        place_of(name),
        _probability(fields.get("judge_sample_rate")) * _probability(fields.get("sample_rate")),
        "worst" in (fields.get("selection"), fields.get("judge_selection")),
        has,
    )


def _word(fields: Mapping[str, Any]) -> str:
    verdict = fields.get("verdict")
    return str(verdict.get("word") or "") if isinstance(verdict, Mapping) else ""


def place_of(request: str) -> float:
    """Return a request's position in the order of drawing for labels, 0 to 1."""
    return place("label", None, request) / _SPACE


def _probability(value: Any) -> float:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1
    return float(value) if is_one else 1.0


def _scores(given: Any) -> dict[str, JudgedValue]:
    if given is None:
        return {}
    return {
        str(name): _judged_value(
            score if isinstance(score, Mapping) else {"value": score, "status": "ok"}, str(name)
        )
        for name, score in given.items()
    }


def _judged_value(score: Mapping[str, Any], measurement: str) -> JudgedValue:
    value = score.get("value")
    lowest, highest = score.get("range") or (0.0, 1.0)
    status = str(score.get("status", "ok"))
    if value is None or status != "ok" or lowest is None or highest is None or lowest >= highest:
        scaled = None
    else:
        scaled = min(1.0, max(0.0, (float(value) - lowest) / (highest - lowest)))
    definition = score.get("definition")
    judge = measurement if "@" in measurement or not definition else f"{measurement}@{definition}"
    lower_is_better = score.get("direction") == "lower"
    return JudgedValue(scaled, status, judge, lower_is_better, _probability(score.get("asked_with")))
