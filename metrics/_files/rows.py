"""Reads the rows of files: golden sets of references, and data sets to evaluate.

JSON lines, CSV, JSON arrays and Parquet; all but the last may be compressed with gzip. A few rows are in
memory at a time, and are data: parsed, never evaluated. A row that cannot be read becomes a `BadRow` with its
line and reason, and the rest is read; the meaning of the columns, and whether a bad row is an error, is up to
the caller: references raise, `ragmeter evaluate` reports it and continues.

CSV is decoded so that bytes that are not UTF-8 are found row by row. Python's limit of 131,072 characters a
field belongs to the whole process, so it is not changed here; the command line raises it.
"""

from __future__ import annotations

import ast
import codecs
import csv
import gzip
import hashlib
import io
import shlex
import tokenize
import zlib
from collections.abc import Callable, Collection, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from .json_array import BrokenArrayError, read_array
from .json_lines import lines_of, object_of, parse

Format = Literal["jsonl", "csv", "json", "parquet"]
_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
}
BATCH = 256
"""Rows of a Parquet file in memory at a time."""


class GoodRow(NamedTuple):
    """One readable row."""

    line: int
    """Its line in the file, counted from 1; in CSV the row's last line, in a JSON array and in Parquet the
    number of the row."""
    fields: dict[str, Any]
    """Its columns; an empty CSV cell is None, as JSON's ``null`` and pandas' ``NaN`` are."""


class BadRow(NamedTuple):
    """One row that cannot be read."""

    line: int
    """Its line or number in the file, counted from 1."""
    reason: str
    """The reason."""


class RawRow(NamedTuple):
    """One row of the file, not parsed yet."""

    line: int
    """Its line or number, counted from 1."""
    kind: Literal["json", "cells", "fields", "bad"]
    """The kind of `content`: a JSON text, the cells of a CSV row, fields, or the reason why there are none."""
    content: Any

    def digest(self, read_as: bytes = b"") -> bytes:
        """Return 16 bytes that depend on the content and its format; cheaper than parsing it."""
        content = self.content if self.kind == "json" else repr(self.content).encode("utf-8", "replace")
        return hashlib.blake2b(content + read_as, digest_size=16).digest()

    def parse(self, lists: Collection[str]) -> GoodRow | BadRow:
        """Return the columns; in CSV those of `lists` hold a JSON list or one plain text."""
        if self.kind == "json":
            return _row(self.line, object_of, self.content)
        if self.kind == "cells":
            return _row(self.line, _cells, self.content, lists)
        if self.kind == "bad":
            return BadRow(self.line, self.content)
        return GoodRow(self.line, self.content)


def format_of(path: Path) -> tuple[Format, bool]:
    """Return the format of a file by its ending, and whether it is compressed.

    Raises:
        ConfigurationError: It has another ending.
    """
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    zipped = endings[-1:] == [".gz"]
    found = _ENDINGS.get(endings[0] if zipped and len(endings) > 1 else "".join(endings[-1:]))
    if found is None or (zipped and found == "parquet"):
        raise ConfigurationError(
            f"{str(path)!r} ends in none of {', '.join(_ENDINGS)}, nor in one of them and .gz"
        )
    return found, zipped


def open_rows(path: Path) -> Iterator[RawRow]:
    """Yield every row of a file in UTF-8, one at a time, without blank lines. A CSV file has a header.

    Raises:
        ConfigurationError: The file cannot be opened or read, is UTF-16, or has another ending.
        MissingDependencyError: Parquet needs pyarrow.
    """
    kind, zipped = format_of(path)
    try:
        if kind == "parquet":
            yield from _parquet_rows(path)
            return
        opener: Callable[..., Any] = gzip.open if zipped else open
        if kind == "csv":
            # Bytes that are not UTF-8 become lone surrogates, which valid UTF-8 never contains.
            text: Any
            with opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
                _check_encoding(path, text.buffer)
                yield from _csv_rows(text)
            return
        file: Any
        with opener(path, "rb") as file:
            _check_encoding(path, file)
            if kind == "jsonl":
                yield from (RawRow(number, "json", line) for number, line in lines_of(file))
            else:
                yield from _array_rows(file)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"cannot read {str(path)!r}: {reason}") from error


def read_rows(path: Path, lists: Collection[str]) -> Iterator[GoodRow | BadRow]:
    """Yield every row of a file as `open_rows` does, parsed.

    CSV cells are texts, except for those with JSON: in the columns of `lists` a list, which Python may have
    printed instead, in the column ``reference`` an object. Cells are separated by commas; by semicolons or
    tabs if the header has no comma.
    """
    for raw in open_rows(path):
        yield raw.parse(lists)


def count_rows(path: Path) -> int:
    """Return the number of rows of a file, good and bad, without parsing them; raises as `open_rows`."""
    kind, zipped = format_of(path)
    if kind == "parquet":
        with _parquet(path) as file:
            return int(file.metadata.num_rows)
    if kind == "jsonl" and not zipped:  # the fastest way
        try:
            with path.open("rb") as lines:
                return sum(1 for _ in lines_of(lines))
        except OSError as error:
            raise ConfigurationError(f"cannot read {str(path)!r}: {error.strerror}") from error
    return sum(1 for _ in open_rows(path))


def _parquet(path: Path) -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 -- an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError("pyarrow", "parquet", f"reading {path.name}") from None
    try:
        return parquet.ParquetFile(path, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"cannot read {str(path)!r}: {reason}") from error


def _check_encoding(path: Path, file: Any) -> None:
    """Refuse UTF-16, as spreadsheets and PowerShell write it; every row of it would be bad."""
    head: bytes = file.peek(2)[:2]
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in head:
        raise ConfigurationError(
            f"{str(path)!r} is UTF-16; save the file as UTF-8: "
            f"iconv -f UTF-16 -t UTF-8 {shlex.quote(str(path))} > utf8{''.join(path.suffixes)}"
        )


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    line = 0
    with _parquet(path) as file:
        import pyarrow as pa  # noqa: PLC0415 -- an extra

        from .parquet_cells import fields_of  # noqa: PLC0415 -- likewise

        try:
            for batch in file.iter_batches(batch_size=BATCH, use_threads=False):
                for fields in fields_of(batch):
                    line += 1
                    yield RawRow(line, "bad" if isinstance(fields, str) else "fields", fields)
        except pa.ArrowException as error:
            raise ConfigurationError(f"cannot read {str(path)!r} after row {line}: {error}") from error


def _array_rows(file: IO[bytes]) -> Iterator[RawRow]:
    number = 0
    try:
        for number, value in enumerate(read_array(file), start=1):
            is_row = isinstance(value, dict)
            yield RawRow(number, "fields" if is_row else "bad", value if is_row else "not a JSON object")
    except BrokenArrayError as error:
        yield RawRow(number + 1, "bad", f"not JSON: {error}")


def _row(line: int, parse: Callable[..., dict[str, Any]], *what: Any) -> GoodRow | BadRow:
    try:
        return GoodRow(line, parse(*what))
    except ValueError as error:
        return BadRow(line, str(error))


def _csv_rows(file: IO[str]) -> Iterator[RawRow]:
    header = file.readline()
    # Spreadsheets write semicolons where the comma is the decimal sign.
    delimiter = "," if "," in header else next((sign for sign in ";\t" if sign in header), ",")
    reader = csv.DictReader(chain([header], file), strict=True, delimiter=delimiter)
    try:
        for row in reader:
            yield RawRow(reader.line_num, "cells", row)
    except csv.Error as error:  # where the next row begins is unknown
        yield RawRow(reader.line_num, "bad", f"not CSV: {error}")


def _cells(row: dict[str, Any], lists: Collection[str]) -> dict[str, Any]:
    if None in row:
        raise ValueError("more fields than columns")
    try:
        "".join((*row, *filter(None, row.values()))).encode()
    except UnicodeEncodeError:
        raise ValueError("not UTF-8; save the file as UTF-8") from None
    return {name: _cell(name, cell, lists) for name, cell in row.items()}


def _cell(name: str, cell: str | None, lists: Collection[str]) -> Any:
    text = (cell or "").strip()
    if not text:
        return None
    is_list = name in lists and text.startswith("[") and text.endswith("]")
    if is_list or (name == "reference" and text.startswith("{")):
        try:
            return parse(text)
        except (ValueError, RecursionError):
            if is_list:  # else it is a text that only begins with a brace
                return _python_list(name, text)
    return cell


def _python_list(name: str, text: str) -> list[Any]:
    """Return a list that Python printed, as pandas writes it into CSV; a list of literals runs no code."""
    try:
        found = tokenize.generate_tokens(io.StringIO(text).readline)
        kinds = [token.type for token in found if token.type != tokenize.NL]
        # numpy prints no commas, and Python would join such strings to one.
        if (tokenize.STRING, tokenize.STRING) not in pairwise(kinds):
            return list(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
        pass
    raise ValueError(
        f'{name} is not a list of JSON or Python; write lists as ["one", "two"] (json.dumps), or save the '
        "table as Parquet"
    )
