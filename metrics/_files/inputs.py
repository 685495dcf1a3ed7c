"""Converts the input of `evaluate` and `ragmeter.Scorer` to samples: rows, frames, tables, files.

Columns are read as those of a data set on the command line (`columns`, `samples`).  Objects of pandas, pyarrow,
polars and datasets are recognised by their methods; the libraries are never imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.sample import RagSample


class _Frame(Protocol):
    @property
    def columns(self) -> Any: ...


class _Table(Protocol):
    @property
    def column_names(self) -> Any: ...


Samples: TypeAlias = (
    "Iterable[RagSample] | Iterable[Mapping[str, Any]] | str | os.PathLike[str] | _Frame | _Table"
)
"""Samples, rows as dictionaries, a data set's path, or a frame or table (pandas, polars, pyarrow, datasets)."""


def samples_of(given: Samples) -> list[RagSample]:
    """Return the input as samples.

    Raises:
        ConfigurationError: It has another type, or a row cannot be read; the message names the row and the
            reason.
    """
    if isinstance(given, RagSample):
        raise ConfigurationError("samples is a list of RagSample, not one: evaluate([sample])")
    if isinstance(given, (str, os.PathLike)):
        return list(_of_file(Path(given)))
    return [
        one if isinstance(one, RagSample) else _of_row(number, one)
        for number, one in enumerate(_rows_of(given), start=1)
    ]


def _rows_of(given: Any) -> Iterable[Any]:
    for method, arguments in (
        ("to_pylist", {}),  # pyarrow
        ("to_dicts", {}),  # polars
        ("to_dict", {"orient": "records"}),  # pandas
    ):
        made: Any = getattr(given, method, None)
        if callable(made) and (hasattr(given, "columns") or hasattr(given, "schema")):
            rows: Any = made(**arguments)
            return cast("Iterable[Any]", rows)
    if isinstance(given, Mapping):
        columns = list(given.values())
        if columns and all(hasattr(one, "column_names") for one in columns):
            raise ConfigurationError(
                f"samples has the splits {', '.join(map(str, given))}: pass one, evaluate(data[...])"
            )
        lists = [isinstance(one, Sequence) and not isinstance(one, str) for one in columns]
        if not all(lists) or len({len(one) for one in columns}) != 1:
            raise ConfigurationError("samples is one row; pass a list of rows: evaluate([row])")
        return [dict(zip(given, row, strict=True)) for row in zip(*columns, strict=True)]
    if not isinstance(given, Iterable):
        raise ConfigurationError(
            f"samples is {type(given).__name__}; pass a list of RagSample or dictionaries, a frame, a table, "
            "or the path of a data set"
        )
    return given


def _of_row(number: int, row: Any) -> RagSample:
    from .rows import BadRow, GoodRow  # noqa: PLC0415 -- only where rows are given
    from .samples import row_of  # noqa: PLC0415 -- likewise

    if not isinstance(row, Mapping):
        raise ConfigurationError(
            f"row {number} of samples is {type(row).__name__}, neither a RagSample nor a dictionary"
        )
    found = row_of(GoodRow(number, {str(name): _plain(value) for name, value in row.items()}))
    if isinstance(found, BadRow):
        raise ConfigurationError(f"row {number} of samples: {found.reason}")
    return found.sample


def _of_file(path: Path) -> Iterator[RagSample]:
    from .rows import BadRow  # noqa: PLC0415 -- only where a file is given
    from .samples import read_samples  # noqa: PLC0415 -- likewise

    for found in read_samples(path):
        if isinstance(found, BadRow):
            raise ConfigurationError(f"{str(path)!r}, row {found.line}: {found.reason}")
        yield found.sample


def _plain(value: Any) -> Any:
    """Return a cell in Python's types; an empty one is None."""
    made = getattr(value, "tolist", None)
    if callable(made):  # an array or a number of numpy
        value = made()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:  # noqa: PLR0124 -- NaN
        return None
    return value
