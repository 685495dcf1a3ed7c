"""The rows that a report is about: which ones, how often each, where they stand and in which segments.

From the lists of rows of a folder's shards, sorted by key, in some 21 bytes a row.  Lists are read several
times rather than held twice.  Called by `_folder` and `_baseline_folder`; read by `_summing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from ragmeter.metrics import ConfigurationError
from ragmeter.quality.segments import OTHER

from ._archive import MeasurementPlan
from ._by_segment import MOST_VALUES
from ._known import as_keys
from ._parts import ListWriter, Shard, description_of, segment_column

__all__ = ["BadLine", "RowList"]

MAX_BAD = 1_000
"""Bad rows that are kept with their reasons."""
_FILE = 1 << 40
"""A place in the data set is this times the number of the file, and the line."""
PIECE = 1 << 17
"""Rows that are sorted at a time, about."""
_MOST_PIECES = 32
_SORTED = ("file", "line", "row")


class BadLine(NamedTuple):
    """A row that could not be read."""

    file: str
    line: int
    reason: str


class _Shape:
    """What is known of all lists before any row is kept."""

    def __init__(self) -> None:
        self.rows = 0
        self.last = 0
        """The largest place."""
        self.values: dict[str, dict[str, int]] = {}
        """By name of segment: the first values, each with the place of its first row."""


class RowList:
    """The rows of some shards.

    Args:
        lists: The list of each shard.
        segments: Names of segments that are told apart.

    Raises:
        ConfigurationError: A list cannot be read, two are of runs that asked something else, or one says
            nothing of a segment.
    """

    def __init__(self, lists: Mapping[Shard, Path], segments: Sequence[str] = ()) -> None:
        self.asked: MeasurementPlan | None = None
        self.files: list[str] = []
        self.bad: list[BadLine] = []
        self.bad_count = 0
        self._lists = sorted(lists.items())
        shape = _Shape()
        for name in segments:
            shape.values[name] = {}
        for shard, path in self._lists:
            self._survey(shard, path, segments, shape)
        self.rows = shape.rows
        self.values = {
            # The order of rows, whichever shard they are of: that of a run without a folder.
            name: sorted(found, key=found.__getitem__)[:MOST_VALUES]
            for name, found in shape.values.items()
        }
        """By name of segment: the values that are told apart."""
        self.codes = {name: np.empty(self.rows, dtype=np.uint8) for name in segments}
        """By name of segment: of each line the number of its value, those of equal rows one after the other;
        as many as there are values: another one."""
        self._keys = np.empty(self.rows, dtype="S16")
        self._places = np.empty(self.rows, dtype=np.min_scalar_type(shape.last))
        self._starts: NDArray[np.uint32] | None = np.empty(self.rows + 1, dtype=np.uint32)
        self._index(self._starts)

    def note_part(self, keys: Sequence[str]) -> None:
        """Note that these rows stand in a part."""
        _, known, at = self._where(keys)
        found = at[known]
        self._parts[found] = np.minimum(self._parts[found] + 1, 2)

    def in_several(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Return which rows stand in several parts."""
        _, known, at = self._where(keys)
        return known & (self._parts[at] > 1) if len(self._parts) else known

    def find(
        self, keys: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return how often each row occurs (0: it is not among them), its first place and line in `codes`."""
        wanted, known, at = self._where(keys)
        if not len(self._keys):
            nothing = np.zeros(len(wanted), np.int64)
            return nothing, nothing, nothing
        starts = at if self._starts is None else self._starts[at].astype(np.int64)
        ends = at + 1 if self._starts is None else self._starts[at + 1].astype(np.int64)
        return np.where(known, ends - starts, 0), self._places[at].astype(np.int64), starts

    def place(self, place: int) -> tuple[str, int]:
        """Return the name of the file, and the line."""
        return self.files[place // _FILE], place % _FILE

    def _where(
        self, keys: Sequence[str]
    ) -> tuple[NDArray[np.bytes_], NDArray[np.bool_], NDArray[np.int64]]:
        wanted = as_keys(map(bytes.fromhex, keys))
        if not len(self._keys):
            return wanted, np.zeros(len(wanted), dtype=bool), np.zeros(len(wanted), dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return wanted, self._keys[at] == wanted, at

    def _index(self, starts: NDArray[np.uint32]) -> None:
        """Fill in the rows, sorted by key: those whose keys begin alike at a time."""
        pieces = 1
        while pieces < _MOST_PIECES and pieces * PIECE < self.rows:
            pieces *= 2
        rows = lines = 0
        for piece in range(pieces):
            keys, places, codes = self._piece(piece, pieces)
            # Of equal rows the first one of the data set comes first.
            order = np.argsort(places, kind="stable") if len(self._lists) > 1 else slice(None)
            order = np.arange(len(keys))[order]
            order = order[np.argsort(keys[order], kind="stable")]
            keys = keys[order]
            first = np.ones(len(keys), dtype=bool)
            first[1:] = keys[1:] != keys[:-1]
            at = np.nonzero(first)[0]
            self._keys[rows : rows + len(at)] = keys[at]
            self._places[rows : rows + len(at)] = places[order[at]]
            starts[rows : rows + len(at)] = at + lines
            for name, found in codes.items():
                self.codes[name][lines : lines + len(keys)] = found[order]
            rows, lines = rows + len(at), lines + len(keys)
        starts[rows] = lines
        if rows == lines:
            self._starts = None  # every row is there once
        self._keys, self._places = self._keys[:rows], self._places[:rows]
        self._parts = np.zeros(rows, dtype=np.uint8)

    def _piece(
        self, piece: int, pieces: int
    ) -> tuple[NDArray[np.bytes_], NDArray[np.int64], dict[str, NDArray[np.uint8]]]:
        keys, places = [np.empty(0, dtype="S16")], [np.empty(0, dtype=np.int64)]
        codes = {name: [np.empty(0, dtype=np.uint8)] for name in self.codes}
        numbers = {
            name: {value: number for number, value in enumerate(values)}
            for name, values in self.values.items()
        }
        for shard, path in self._lists:
            for batch in _batches(shard, path, [*_SORTED, *map(segment_column, codes)]):
                read = batch.filter(batch.column("row").is_valid())
                found = _keys_of(read)
                here = found.view(np.uint8)[::16].astype(np.int64) * pieces // 256 == piece
                keys.append(found[here])
                places.append(_places_of(read)[here])
                for name, of in codes.items():
                    of.append(_codes_of(read.column(segment_column(name)), numbers[name])[here])
        return (
            np.concatenate(keys),
            np.concatenate(places),
            {name: np.concatenate(of) for name, of in codes.items()},
        )

    def _survey(self, shard: Shard, path: Path, segments: Sequence[str], shape: _Shape) -> None:
        about = _about(shard, path)
        self._agree(shard, about)
        lacking = [name for name in segments if name not in about.get("segments", ())]
        if lacking:
            raise ConfigurationError(
                f"--segments {','.join(lacking)}: the run of shard {shard} did not ask for them; run it "
                "again with --segments, which pays nothing twice"
            )
        first: dict[str, dict[str, int]] = {name: {} for name in segments}
        columns = [*_SORTED, "reason", *map(segment_column, segments)]
        for batch in _batches(shard, path, columns):
            read = batch.filter(batch.column("row").is_valid())
            shape.rows += len(read)
            self.bad_count += len(batch) - len(read)
            places = _places_of(read)
            shape.last = max(shape.last, int(places.max(initial=0)))
            for name, known in first.items():
                _note_values(read.column(segment_column(name)), places, known)
            if len(read) < len(batch):
                for bad in batch.filter(batch.column("row").is_null()).to_pylist():
                    if len(self.bad) < MAX_BAD:
                        self.bad.append(
                            BadLine(self.files[bad["file"]], bad["line"], bad["reason"])
                        )
        for name, known in first.items():
            values = shape.values[name]
            for value, place in known.items():
                values[value] = min(place, values.get(value, place))

    def _agree(self, shard: Shard, about: Mapping[str, Any]) -> None:
        asked = MeasurementPlan(
            measurements=about["measurements"],
            spared=about["spared"],
            judge_model=about["judge_model"],
        )
        if self.asked is None:
            self.asked, self.files, self._limit = asked, about["files"], about["limit"]
        elif asked.mark != self.asked.mark or about["limit"] != self._limit:
            raise ConfigurationError(
                f"--merge: shard {shard} was measured with other metrics, another judge or another --limit; "
                "run it again as the others"
            )
        elif about["files"] != self.files:
            raise ConfigurationError(f"--merge: shard {shard} is of other files; run it again")


def _about(shard: Shard, path: Path) -> dict[str, Any]:
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            about = description_of(file.schema_arrow)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(shard, path) from error
    if about is None or not {"measurements", "spared", "judge_model"} <= set(about):
        raise ConfigurationError(
            f"--out: the list of shard {shard} is of another version; run it again"
        )
    return about


def _batches(shard: Shard, path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(
                batch_size=ListWriter.BATCH, columns=list(columns), use_threads=False
            )
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(shard, path) from error


def _unreadable(shard: Shard, path: Path) -> ConfigurationError:
    return ConfigurationError(f"--out: {path.name} cannot be read; run shard {shard} again")


def _keys_of(batch: pa.RecordBatch) -> NDArray[np.bytes_]:
    column = batch.column("row")
    if not len(column):
        return np.empty(0, dtype="S16")
    # The column as it lies there, without an object for each key.
    return np.frombuffer(column.buffers()[1], "S16", len(column), 16 * column.offset)


def _places_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    files, lines = (
        batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in ("file", "line")
    )  # fmt: skip
    places: NDArray[np.int64] = files * _FILE + lines
    return places


def _codes_of(column: pa.Array, numbers: Mapping[str, int]) -> NDArray[np.uint8]:
    coded = column.dictionary_encode()
    other = numbers.get(OTHER, len(numbers))
    of_code = np.array(
        [numbers.get(value, other) for value in coded.dictionary.to_pylist()], dtype=np.uint8
    )
    codes: NDArray[np.uint8] = of_code[coded.indices.to_numpy(zero_copy_only=False)]
    return codes


def _note_values(column: pa.Array, places: NDArray[np.int64], known: dict[str, int]) -> None:
    """Note the first values of a shard, each with the place of its first row; places ascend."""
    if len(known) >= MOST_VALUES:
        return
    coded = column.dictionary_encode()
    codes, first = np.unique(
        coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), return_index=True
    )
    values = coded.dictionary.to_pylist()
    for place, code in sorted(zip(places[first].tolist(), codes.tolist(), strict=True)):
        if len(known) < MOST_VALUES:
            known.setdefault(values[code], place)
