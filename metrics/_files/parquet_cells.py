"""The rows of a Parquet file as Python's own values, with nothing but pyarrow installed. Called by `rows`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import types


def fields_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """Yield the fields of each row, or the reason if Python has no value for a cell."""
    # In microseconds: nanoseconds, which pandas writes, would require pandas.
    columns = [column.cast(_with_microseconds(column.type), safe=False) for column in batch.columns]
    batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError):
        # One cell of one row: a time after the year 9999, a text that is not UTF-8.
        rows = [_fields(batch.slice(number, 1)) for number in range(len(batch))]
    yield from rows


def _fields(one: pa.RecordBatch) -> dict[str, Any] | str:
    try:
        [fields] = one.to_pylist()
    except (ValueError, OverflowError) as error:
        return f"a cell cannot be read ({type(error).__name__})"  # its text may quote the cell
    found: dict[str, Any] = fields
    return found


def _with_microseconds(kind: Any) -> Any:
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if types.is_time64(kind) and kind.unit == "ns":
        return pa.time64("us")
    if types.is_struct(kind):
        return pa.struct([field.with_type(_with_microseconds(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_microseconds(kind.value_type)))
    return kind
