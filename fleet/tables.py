"""Score Arrow tables, for your own data engine.

`score_table` takes a table of rows and returns a table of scores, one line per score, as Ray Data, Spark
(``mapInArrow``), Dask and Daft need it; none of them is required. ``ragmeter evaluate --out`` writes the same
columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ragmeter.metrics import MissingDependencyError, Score
from ragmeter.metrics._files.rows import BadRow, GoodRow
from ragmeter.metrics._files.samples import Row, key_of_question, row_of
from ragmeter.metrics.results import SampleScores
from ragmeter.scorer import Scorer

try:
    import pyarrow as pa
except ImportError as _error:
    raise MissingDependencyError("pyarrow", "parquet", "ragmeter.fleet.tables") from None

__all__ = ["SCORES", "UNREADABLE", "score_of_line", "score_table", "scores_as_table"]

UNREADABLE = "unreadable"
"""Status of the single line of an unreadable row; ``error_type`` has the reason."""

_OPTIONAL = ("reference", "stages")
_DETAIL = (
    *("method", "target", "label", "lower", "upper", "range", "direction", "missing"),
    *("judge_calls", "input_tokens", "output_tokens", "cache_hits"),
)

SCORES = pa.schema(
    [
        pa.field("row", pa.string()),  # hash of the row's content
        pa.field("line", pa.int64()),  # number of the row, from 1
        pa.field("name", pa.string()),
        pa.field("value", pa.float64()),  # null: no value, see `status`
        pa.field("status", pa.string()),
        pa.field("measurement", pa.string()),  # metric, definition and judge
        pa.field("definition", pa.string()),
        pa.field("error_type", pa.string()),
        pa.field("ended", pa.string()),  # status of the request, as of `RagSample`
        pa.field("lacking", pa.string()),  # missing inputs of the row: `reference`, `stages`
        pa.field("verdict", pa.string()),  # of the whole row
        pa.field("codes", pa.string()),  # of the verdict, comma-separated
        pa.field("items", pa.string()),  # the evidence, JSON
        pa.field("summary", pa.string()),
        pa.field("detail", pa.string()),  # the score's other fields, JSON
        pa.field("question_key", pa.string()),  # hash of the question
        pa.field("question", pa.string()),  # null without texts, also `explanation`
        pa.field("explanation", pa.string()),
    ]
)
"""The columns of a table of scores."""


def score_table(rows: pa.Table, scorer: Scorer, *, with_text: bool = False) -> pa.Table:
    """Score a table of rows.

    Args:
        rows: A row per request, with the columns of a data set (``question``, ``contexts``, ``answer``,
            ``reference``, or those of ragas, continuous-eval, LangSmith, Phoenix, Langfuse).
        scorer: The scorer; built once for many tables.
        with_text: Include texts: questions, explanations, evidence.

    Returns:
        A table with the columns of `SCORES`: a line per score, grouped by row, in the order of the rows.
        ``line`` is the row's number in `rows`, from 1. An unreadable row has one line without a name, of
        status ``unreadable``.
    """
    read = [row_of(GoodRow(number, fields)) for number, fields in enumerate(rows.to_pylist(), start=1)]
    good = [row for row in read if isinstance(row, Row)]
    found = iter(scorer.score([row.sample for row in good]))
    return scores_as_table(
        [row if isinstance(row, BadRow) else (row, next(found)) for row in read],
        scorer.measurements,
        with_text=with_text,
    )


def scores_as_table(
    found: Iterable[tuple[Row, SampleScores] | BadRow],
    measurements: Mapping[str, str],
    *,
    with_text: bool = False,
) -> pa.Table:
    """Return rows with their scores, and unreadable rows, as a table with the columns of `SCORES`."""
    lines = [line for one in found for line in _lines(one, measurements, with_text=with_text)]
    return pa.Table.from_pylist(lines, schema=SCORES)


def _lines(
    found: tuple[Row, SampleScores] | BadRow, measurements: Mapping[str, str], *, with_text: bool
) -> Iterator[dict[str, Any]]:
    """Yield the lines of one row, without absent values."""
    if isinstance(found, BadRow):
        yield {"line": found.line, "status": UNREADABLE, "error_type": found.reason}
        return
    row, scores = found
    question, verdict = row.sample.question, scores.verdict
    of_row: dict[str, Any] = {
        "row": row.key,
        "line": row.line,
        "ended": row.sample.status,
        "lacking": ",".join(name for name in _OPTIONAL if getattr(row.sample, name) is None),
    }
    if verdict is not None:
        of_row |= {"verdict": verdict.word, "codes": ",".join(verdict.codes)}
    if question is not None:
        of_row["question_key"] = key_of_question(question)
    if with_text:
        of_row["question"] = _storable(question)
    for score in scores.values():
        yield of_row | {
            **{name: getattr(score, name) for name in ("name", "value", "status", "definition", "error_type")},
            "measurement": measurements.get(score.name, score.name),
            "items": _items(score, with_text=with_text),
            "summary": _storable(score.summary),
            "detail": _detail(score),
            "explanation": _storable(score.explanation) if with_text else None,
        }


def score_of_line(line: Mapping[str, Any]) -> Score:
    """Return the score of a line of a table."""
    detail = json.loads(line["detail"]) if line["detail"] else {}
    items = json.loads(line["items"]) if line["items"] else []
    return Score(
        name=line["name"],
        value=line["value"],
        status=line["status"],
        definition=line["definition"],
        error_type=line["error_type"],
        summary=line["summary"],
        explanation=line["explanation"],
        items=tuple(items),
        **detail,
    )


def _storable(text: str | None) -> str | None:
    """Escape lone surrogates, which have no UTF-8 for Arrow."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def _items(score: Score, *, with_text: bool) -> str | None:
    if not score.items:
        return None
    shown = ("text", "evidence", "reason", "value") if with_text else ("value",)
    return json.dumps(
        [
            {"id": item.id, "verdict": item.verdict}
            | {name: value for name in shown if (value := getattr(item, name)) is not None}
            for item in score.items
        ]
    )


def _detail(score: Score) -> str:
    fields = type(score).model_fields
    return json.dumps(
        {name: value for name in _DETAIL if (value := getattr(score, name)) != fields[name].default}
    )
