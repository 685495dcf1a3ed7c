"""Reads a data set for `ragmeter evaluate`: JSONL or CSV rows become `RagSample`s.

Understands ragmeter's own field names, what `JsonlExporter` wrote with content, and the column names of
ragas and continuous-eval.  A row that cannot be read becomes a `BadRow` with its line and reason:
nothing is guessed, and one bad row never stops the rest.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragmeter.metrics import ConfigurationError, RagSample

__all__ = ["COLUMN_NAMES", "BadRow", "Row", "count_rows", "read_rows"]

COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "user_input"),
    "contexts": ("contexts", "retrieved_contexts", "retrieved_context"),
    "context ids": ("context_ids", "retrieved_context_ids"),
    "answer": ("answer", "response"),
    "reference answer": ("reference_answer", "ground_truth_answers", "ground_truth_answer"),
    "reference contexts": ("reference_contexts", "ground_truth_contexts", "ground_truth_context"),
    "reference context ids": ("reference_context_ids", "ground_truth_context_ids"),
}
"""Accepted columns per field: ours first, then ragas' and continuous-eval's. ``reference`` is special:
an object with ``answer``, ``contexts``, ``context_ids`` (ours), or a text, the reference answer (ragas)."""

_LISTS = frozenset(
    name
    for field in ("contexts", "context ids", "reference contexts", "reference context ids")
    for name in COLUMN_NAMES[field]
) | {"ground_truth_answers"}

csv.field_size_limit(64 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Row:
    """One readable row."""

    line: int
    """Where it stands in the file, counted from 1; in CSV the row's last line."""
    sample: RagSample
    """What it says."""

    key: str
    """Hash of the sample: the same content has the same key whatever its columns are called."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that cannot be scored."""

    line: int
    """Where it stands in the file, counted from 1."""
    reason: str
    """What is wrong with it."""


class _BadRowError(ValueError):
    """Why a row cannot be read."""


def read_rows(path: Path) -> Iterator[Row | BadRow]:
    """Yield every row of a ``.jsonl`` or ``.csv`` file, one at a time; blank lines are passed over.

    Raises:
        ConfigurationError: The file cannot be read, or has another ending.
    """
    read = _csv_rows if _is_csv(path) else _json_rows
    try:
        for line, fields in read(path):
            if isinstance(fields, str):
                yield BadRow(line, fields)
                continue
            try:
                sample = _sample(fields)
            except _BadRowError as error:
                yield BadRow(line, str(error))
            else:
                yield Row(line, sample, _key(sample))
    except OSError as error:
        raise ConfigurationError(f"cannot read {str(path)!r}: {error.strerror}") from error


def count_rows(path: Path) -> int:
    """Return how many rows a data set has, good and bad ones; reads it, and understands nothing.

    Raises:
        ConfigurationError: The file cannot be read, or has another ending.
    """
    try:
        if not _is_csv(path):
            with path.open("rb") as file:
                return sum(not line.isspace() for line in file)
        with path.open(encoding="utf-8", errors="replace", newline="") as text:
            return max(0, sum(1 for row in csv.reader(text) if row) - 1)
    except (OSError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not CSV"
        raise ConfigurationError(f"cannot read {str(path)!r}: {reason}") from error


def _is_csv(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".jsonl", ".ndjson", ".csv"):
        raise ConfigurationError(f"{str(path)!r} ends neither in .jsonl nor in .csv")
    return suffix == ".csv"


def _key(sample: RagSample) -> str:
    content = sample.model_dump(mode="python", exclude_unset=True)
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    with path.open("rb") as file:
        for number, found in enumerate(file, start=1):
            line = found.removeprefix(codecs.BOM_UTF8) if number == 1 else found
            if line.strip():
                yield number, _json_row(line)


def _json_row(line: bytes) -> Mapping[str, Any] | str:
    """Return the object on a line, or what is wrong with it."""
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return f"not UTF-8: {error.reason} at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return row if isinstance(row, dict) else "not a JSON object"


def _no_constant(name: str) -> None:
    """Read pandas' NaN as null: it means that the cell was empty. Infinity means nothing."""
    if name != "NaN":
        raise ValueError(f"{name} is not JSON")


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        while True:
            try:
                row = next(reader, None)
            except UnicodeDecodeError as error:
                line = _first_undecodable(path)
                raise ConfigurationError(
                    f"line {line} is not UTF-8; save the file as UTF-8"
                ) from error
            except csv.Error as error:
                yield reader.line_num, f"not CSV: {error}"
                return
            if row is None:
                return
            if None in row:
                yield reader.line_num, "more fields than columns"
                continue
            try:
                yield reader.line_num, {key: _csv_value(key, cell) for key, cell in row.items()}
            except _BadRowError as error:
                yield reader.line_num, str(error)


def _first_undecodable(path: Path) -> int:
    """Return the line, counted from 1, that is not UTF-8: the reader only knows the block."""
    with path.open("rb") as file:
        return next((number for number, line in enumerate(file, start=1) if not _is_utf8(line)), 1)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _csv_value(name: str, cell: str | None) -> Any:
    if cell is None or not cell.strip():
        return None
    text = cell.strip()
    if name in _LISTS and text.startswith("[") and text.endswith("]"):
        try:
            return json.loads(text)
        except ValueError:
            raise _BadRowError(
                f'{name} is not a JSON list; write lists as ["one", "two"], not as Python prints them'
            ) from None
    if name == "reference" and text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return cell
    return cell


def _pick(fields: Mapping[str, Any], field: str) -> Any:
    """Return the value of `field` under whichever accepted name it has; None when it has none."""
    given = {name: fields[name] for name in COLUMN_NAMES[field] if fields.get(name) is not None}
    if len({json.dumps(value, sort_keys=True) for value in given.values()}) > 1:
        raise _BadRowError(f"columns {', '.join(given)} both give the {field}, and differ")
    return next(iter(given.values()), None)


def _text(value: Any, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        raise _BadRowError(
            f"the {field} is a list; conversations of several turns cannot be scored"
        )
    raise _BadRowError(f"the {field} is {_named(value)}, not a text")


def _list(value: Any, field: str) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return [value]
    raise _BadRowError(f"the {field} are {_named(value)}, not a list")


def _named(value: Any) -> str:
    return {dict: "an object", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), f"a {type(value).__name__}"
    )


def _sample(fields: Mapping[str, Any]) -> RagSample:
    """Build the sample. Fields that were never given stay unset: unknown is not empty."""
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
        raise _BadRowError(
            f"no column that can be scored; found {', '.join(map(str, fields)) or 'none'}"
        )
    for name in ("status", "name"):
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
        else:
            raise _BadRowError(f"context {number + 1} is {_named(context)}, not a text")
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
    if isinstance(answers, list):
        texts = [_text(answer, "reference answer") or "" for answer in answers]
        if texts:
            given["answer"] = texts[0]
            given["alternative_answers"] = texts[1:]
    elif answers is not None:
        given["answer"] = _text(answers, "reference answer")
    for key, field in (
        ("contexts", "reference contexts"),
        ("context_ids", "reference context ids"),
    ):
        values: Sequence[Any] | None = _list(_pick(fields, field), field)
        if values is not None:
            given[key] = values
    return given
