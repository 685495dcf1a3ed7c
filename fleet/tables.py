"""Score Arrow tables, for your own data engine.

`score_table` takes a table of rows and returns a table of scores, one line per score, as Ray Data, Spark
(``mapInArrow``), Dask and Daft need it; none of them is required. ``ragmeter evaluate --out`` writes the same
columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
    "method",
    "target",
    "label",
    "lower",
    "upper",
    "range",
    "direction",
    "missing",
    "judge_calls",
    "input_tokens",
    "output_tokens",
    "cache_hits",
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
    columns: list[list[Any]] = [[] for _ in SCORES]
    add = [column.append for column in columns]
    for one in found:
        if isinstance(one, BadRow):
            line = dict.fromkeys(SCORES.names)
            line |= {"line": one.line, "status": UNREADABLE, "error_type": one.reason}
            for put, value in zip(add, line.values(), strict=True):
                put(value)
            continue
        row, scores = one
        question = row.sample.question
        verdict = scores.verdict
        of_row = (
            row.sample.status,
            ",".join(name for name in _OPTIONAL if getattr(row.sample, name) is None),
            None if verdict is None else verdict.word,
            None if verdict is None else ",".join(verdict.codes),
        )
        last = (
            None if question is None else key_of_question(question),
            _storable(question) if with_text else None,
        )
        for score in scores.values():
            values = (
                row.key,
                row.line,
                score.name,
                score.value,
                score.status,
                measurements.get(score.name, score.name),
                score.definition,
                score.error_type,
                *of_row,
                _items(score, with_text=with_text),
                _storable(score.summary),
                _detail(score),
                *last,
                _storable(score.explanation) if with_text else None,
            )
            for put, value in zip(add, values, strict=True):
                put(value)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCORES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCORES)


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
