"""Rows of files, read as samples: for the command line and for tables.

Understands ragmeter's own field names, what `JsonlExporter` wrote with content, the column names of ragas
and continuous-eval, and what LangSmith, Phoenix, Langfuse and deepeval write (`product_exports`).  A row that
cannot be read becomes a `BadRow` with its line and reason: nothing is guessed, and one bad row never stops
the rest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragmeter.metrics.sample import RagSample

from .columns import COLUMN_NAMES, NEAR_NAMES, Columns
from .product_exports import UnreadableExportError, as_columns
from .rows import BadRow, GoodRow, RawRow, open_rows

_TEXT_OF_A_DOCUMENT = ("page_content", "content")
"""Names of a chunk's text in LangChain and Haystack."""
_KEPT = ("id", "score", "metadata")
_AS_GIVEN = Columns()
_READ = {name for names in COLUMN_NAMES.values() for name in names} | {"reference", "search_query"}
MAX_FACT = 64
"""Longest value of a column that may be a segment, in characters; a longer one is a text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One readable row."""

    line: int
    """Its line in the file, counted from 1; in CSV the row's last line."""
    sample: RagSample
    """Its content as a sample."""

    key: str
    """Hash of the sample: the same content has the same key whatever its columns are called."""
    file: str = ""
    """Name of the file, if there are several."""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """Its other facts: short columns, ``metadata``, ``retrievals``; read for segments only."""


class _BadRowError(ValueError):
    """Why a row cannot be scored."""


def read_samples(path: Path, columns: Columns = _AS_GIVEN) -> Iterator[Row | BadRow]:
    """Yield every row of a file, one at a time, in any format of `rows`, without blank lines.

    Raises:
        ConfigurationError: The file cannot be read, or has another ending.
    """
    return (sample_row(raw, columns) for raw in open_rows(path))


def sample_row(raw: RawRow, columns: Columns = _AS_GIVEN) -> Row | BadRow:
    """Read one row of a file as a sample."""
    row = raw.parse(columns.lists)
    return row if isinstance(row, BadRow) else row_of(row, columns)


def row_of(row: GoodRow, columns: Columns = _AS_GIVEN) -> Row | BadRow:
    """Return a row as a sample, or why it cannot be used."""
    try:
        sample = _sample(fields_of_row(row.fields, columns))
    except (_BadRowError, UnreadableExportError) as error:
        return BadRow(row.line, str(error))
    return Row(row.line, sample, _key(sample), facts=facts_of(row.fields))


def fields_of_row(fields: Mapping[str, Any], columns: Columns = _AS_GIVEN) -> Mapping[str, Any]:
    """Return the fields of a row, or of an exported row, by ragmeter's names.

    Raises:
        UnreadableExportError: As of `as_columns`.
    """
    exported = fields if columns.named else as_columns(fields)
    return columns.read(fields) if exported is fields else exported


def facts_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row other than its texts."""
    return {
        name: value
        for name, value in fields.items()
        if name not in _READ
        and (
            isinstance(value, (bool, int, float))
            or (isinstance(value, str) and len(value) <= MAX_FACT)
            or name in ("metadata", "retrievals")
        )
    }


def key_of_question(question: str) -> str:
    """Return a key for a question in place of its text: 32 hexadecimal digits."""
    return hashlib.sha256(question.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _key(sample: RagSample) -> str:
    content = sample.model_dump(mode="python", exclude_unset=True)
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _pick(fields: Mapping[str, Any], field: str) -> Any:
    """Return the value of `field` under any of its accepted names, or None."""
    for names in (COLUMN_NAMES[field], NEAR_NAMES[field]):
        given = {name: fields[name] for name in names if fields.get(name) is not None}
        if given:
            break
    if len({json.dumps(value, sort_keys=True) for value in given.values()}) > 1:
        raise _BadRowError(f"columns {', '.join(given)} both give the {field}, and differ")
    return next(iter(given.values()), None)


def _text(value: Any, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        raise _BadRowError(f"the {field} is a list; conversations of several turns cannot be scored")
    if isinstance(value, dict) and "0" in value:
        raise _BadRowError(f"the {field} has all rows in it; write rows: to_json(orient='records')")
    raise _BadRowError(f"the {field} is {_type_name(value)}, not a text")


def _list(value: Any, field: str) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return [value]
    raise _BadRowError(f"the {field} are {_type_name(value)}, not a list")


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), f"a {type(value).__name__}"
    )


def _sample(fields: Mapping[str, Any]) -> RagSample:
    """Build the sample. Absent fields stay unset: unknown is not empty."""
    given: dict[str, Any] = {"question": _text(_pick(fields, "question"), "question")}
    contexts = _contexts(fields)
    if contexts is not None:
        given["contexts"] = contexts
    answer = _text(_pick(fields, "answer"), "answer")
    if answer is not None:
        given["answer"] = answer
    reference = _reference(fields)
    if reference:
        given["reference"] = reference
    if given["question"] is None and len(given) == 1:
        raise _BadRowError(_why_nothing(fields))
    for name in ("status", "name", "search_query"):
        if fields.get(name) is not None:
            given[name] = fields[name]
    if "answer" not in given and "status" not in given:
        given["status"] = "retrieval_only"
    try:
        return RagSample.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _BadRowError(f"{where}: {first['msg']}") from error


def _why_nothing(fields: Mapping[str, Any]) -> str:
    found = ", ".join(map(str, fields)) or "none"
    return (
        f"no column that can be scored; found {found}. Columns are called question, contexts, answer, "
        "reference, or as ragas, deepeval and continuous-eval call them; --columns contexts=NAME says "
        "what others hold"
    )


def _contexts(fields: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    contexts = _list(_pick(fields, "contexts"), "contexts")
    ids = _list(_pick(fields, "context ids"), "context ids")
    if contexts is None:
        return None
    if ids is not None and len(ids) != len(contexts):
        raise _BadRowError(f"{len(contexts)} contexts but {len(ids)} context ids")
    entries: list[dict[str, Any]] = []
    for number, context in enumerate(contexts):
        if isinstance(context, str):
            entry: dict[str, Any] = {"text": context}
        elif isinstance(context, dict):
            entry = dict(context)
            if "text" not in entry:
                other = next((name for name in _TEXT_OF_A_DOCUMENT if name in entry), None)
                if other is None:
                    names = ", ".join(map(str, entry)) or "nothing"
                    raise _BadRowError(f"context {number + 1} has no text; found {names}")
                entry = {key: entry[key] for key in _KEPT if entry.get(key) is not None}
                entry["text"] = context[other]
        else:
            raise _BadRowError(f"context {number + 1} is {_type_name(context)}, not a text")
        if ids is not None:
            entry["id"] = None if ids[number] is None else str(ids[number])
        entries.append(entry)
    return entries


def _reference(fields: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    nested = fields.get("reference")
    if isinstance(nested, dict):
        given.update((key, value) for key, value in nested.items() if value is not None)
    elif nested is not None:
        given["answer"] = _text(nested, "reference")
    answers = _pick(fields, "reference answer")
    if isinstance(answers, dict) and isinstance(answers.get("text"), list):
        answers = answers["text"]  # as in SQuAD and similar data sets
    if isinstance(answers, list):
        texts = [_text(answer, "reference answer") or "" for answer in answers]
        if texts:
            given["answer"] = texts[0]
            given["alternative_answers"] = texts[1:]
    elif answers is not None:
        given["answer"] = _text(answers, "reference answer")
    for key, field in (("contexts", "reference contexts"), ("context_ids", "reference context ids")):
        values: Sequence[Any] | None = _list(_pick(fields, field), field)
        if values is not None:
            given[key] = values
    return given
