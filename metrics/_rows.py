"""Reads the rows of JSONL and CSV files: golden sets of references, and data sets to evaluate.

One row is in memory at a time, and is data: parsed, never evaluated.  A row that cannot be read
becomes a `BadRow` with its line and reason, and the rest is read; what the columns mean, and
whether a bad row is an error, is up to the caller.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .errors import ConfigurationError

__all__ = ["BadRow", "GoodRow", "count_rows", "is_csv", "read_rows"]


class GoodRow(NamedTuple):
    """One readable row."""

    line: int
    """Where it stands in the file, counted from 1; in CSV the row's last line."""
    fields: dict[str, Any]
    """Its columns; an empty CSV cell is None, as JSON's ``null`` and pandas' ``NaN`` are."""


class BadRow(NamedTuple):
    """One row that cannot be read."""

    line: int
    """Where it stands in the file, counted from 1."""
    reason: str
    """What is wrong with it."""


class _UnreadableError(ValueError):
    """Why a row cannot be read."""


def is_csv(path: Path) -> bool:
    """Return whether a file of rows is CSV; otherwise it is JSONL.

    Raises:
        ConfigurationError: It has another ending.
    """
    ending = path.suffix.lower()
    if ending not in (".jsonl", ".ndjson", ".csv"):
        raise ConfigurationError(f"{str(path)!r} ends neither in .jsonl nor in .csv")
    return ending == ".csv"


def read_rows(path: Path, lists: Collection[str]) -> Iterator[GoodRow | BadRow]:
    """Yield every row of a ``.jsonl`` or ``.csv`` file in UTF-8, one at a time, without blank lines.

    A CSV file has a header. Its cells are texts, but for those that hold JSON: in the columns of
    `lists` a list, in the column ``reference`` an object.

    Args:
        path: The file; a byte order mark at its beginning is passed over.
        lists: Columns that hold a JSON list or one plain text.

    Raises:
        ConfigurationError: The file cannot be opened or read, or has another ending.
    """
    read = _csv_rows(path, lists) if is_csv(path) else _json_rows(path)
    try:
        yield from read
    except OSError as error:
        raise ConfigurationError(f"cannot read {str(path)!r}: {error.strerror}") from error


def count_rows(path: Path) -> int:
    """Return how many rows a file has, good and bad ones; reads it, and understands nothing.

    Raises:
        ConfigurationError: The file cannot be read, or has another ending.
    """
    try:
        if not is_csv(path):
            with path.open("rb") as file:
                return sum(not line.isspace() for line in file)
        with path.open(encoding="utf-8", errors="replace", newline="") as text:
            return max(0, sum(1 for row in csv.reader(text) if row) - 1)
    except (OSError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not CSV"
        raise ConfigurationError(f"cannot read {str(path)!r}: {reason}") from error


def _json_rows(path: Path) -> Iterator[GoodRow | BadRow]:
    # Read as bytes, in which only \n ends a line: U+2028 and its like may stand inside a JSON string.
    with path.open("rb") as file:
        for number, found in enumerate(file, start=1):
            line = found.removeprefix(codecs.BOM_UTF8) if number == 1 else found
            if line.strip():
                yield _row(number, _object, line)


def _row(line: int, parse: Callable[..., dict[str, Any]], *what: Any) -> GoodRow | BadRow:
    try:
        return GoodRow(line, parse(*what))
    except _UnreadableError as error:
        return BadRow(line, str(error))


def _object(line: bytes) -> dict[str, Any]:
    try:
        row = _parsed(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _UnreadableError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        # Its own text counts lines within this one, which is always the first.
        raise _UnreadableError(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise _UnreadableError("not a JSON object")
    return row


def _parsed(text: str) -> Any:
    return json.loads(text, parse_constant=_constant)


def _constant(name: str) -> None:
    """Read pandas' NaN as null: it means that the cell was empty. Infinity means nothing."""
    if name != "NaN":
        raise ValueError(f"{name} is not JSON")


def _csv_rows(path: Path, lists: Collection[str]) -> Iterator[GoodRow | BadRow]:
    # Bytes that are not UTF-8 arrive as lone surrogates, which no UTF-8 text holds: found row by row.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for row in reader:
                yield _row(reader.line_num, _cells, row, lists)
        except csv.Error as error:  # where the next row begins is unknown
            yield BadRow(reader.line_num, f"not CSV: {error}")


def _cells(row: dict[str, Any], lists: Collection[str]) -> dict[str, Any]:
    if None in row:
        raise _UnreadableError("more fields than columns")
    try:
        "".join((*row, *filter(None, row.values()))).encode()
    except UnicodeEncodeError:
        raise _UnreadableError("not UTF-8; save the file as UTF-8") from None
    return {name: _cell(name, cell, lists) for name, cell in row.items()}


def _cell(name: str, cell: str | None, lists: Collection[str]) -> Any:
    text = (cell or "").strip()
    if not text:
        return None
    if name in lists and text.startswith("[") and text.endswith("]"):
        try:
            return _parsed(text)
        except (ValueError, RecursionError):
            raise _UnreadableError(
                f'{name} is not a JSON list; write lists as ["one", "two"], not as Python prints them'
            ) from None
    if name == "reference" and text.startswith("{"):
        try:
            return _parsed(text)
        except (ValueError, RecursionError):
            return cell  # a text that happens to begin with a brace
    return cell
