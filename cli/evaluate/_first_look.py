"""Notes on a data file before its first row is scored: the columns that are read, and their fields.

Reads the first `FIRST_ROWS` rows and scores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.columns import COLUMN_NAMES, NEAR_NAMES, Columns, snake_case
from ragmeter.metrics._files.product_exports import UnreadableExportError
from ragmeter.metrics._files.rows import GoodRow, read_rows
from ragmeter.metrics._files.samples import MAX_FACT, facts_of, fields_of_row

FIRST_ROWS = 256
"""Most rows to read of each file."""
_WANTED = ("question", "contexts", "answer")


def notes_on(files: Iterable[Path], columns: Columns) -> Iterator[str]:
    """Yield the notes on each file."""
    for path in files:
        first = islice(read_rows(path, columns.lists), FIRST_ROWS)
        rows = [row.fields for row in first if isinstance(row, GoodRow)]
        there = list(dict.fromkeys(name for fields in rows for name in fields))
        missing = [name for name in columns.named if rows and name not in there]
        if missing:
            raise ConfigurationError(
                f"--columns: {path.name} has no column {missing[0]!r}; it has {', '.join(there)}"
            )
        for note in _notes(rows, columns):
            yield f"{path.name}: {note}"


def _notes(rows: Sequence[Mapping[str, Any]], columns: Columns) -> Iterator[str]:
    rows = [fields for fields in rows if not _is_foreign(fields)]
    given = {name for fields in rows for name, value in fields.items() if value is not None}
    read = {columns.named.get(name) or snake_case(name): name for name in sorted(given)}
    near = {
        read[name]: field
        for field, names in NEAR_NAMES.items()
        if not any(name in read for name in COLUMN_NAMES[field])
        and not (field == "reference answer" and "reference" in read)
        for name in names
        if name in read
    }
    if near:
        said = ", ".join(f"{column!r} is read as {field}" for column, field in near.items())
        yield f"{said}; --columns OURS=COLUMN says otherwise"
    known = {name for names in (COLUMN_NAMES, NEAR_NAMES) for all_of in names.values() for name in all_of}
    lacking = [
        field
        for field in _WANTED
        if not any(name in read for name in (*COLUMN_NAMES[field], *NEAR_NAMES[field]))
    ]
    unread = [
        column
        for name, column in read.items()
        if name not in known and name != "reference" and any(_is_text(fields, column) for fields in rows)
    ]
    if lacking and unread:
        shown = ", ".join(map(repr, unread[:10]))
        yield (
            f"no column gives {' or '.join(lacking)}, and nothing reads {shown}; if one does: "
            f"--columns {lacking[-1] if 'contexts' not in lacking else 'contexts'}={unread[0]}"
        )


def _is_foreign(fields: Mapping[str, Any]) -> bool:
    """Return whether a row is from an export or a result file, whose columns are known."""
    try:
        return fields_of_row(fields).keys() != Columns().read(fields).keys() or "run_id" in fields
    except UnreadableExportError:
        return True


def _is_text(fields: Mapping[str, Any], column: str) -> bool:
    value = fields.get(column)
    if isinstance(value, str):
        return len(value) > MAX_FACT // 2
    return isinstance(value, list) and bool(value) and column not in facts_of(fields)
