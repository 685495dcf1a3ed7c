"""The rows of a report: their number of occurrences, their places and their segments.

Read from the lists of rows of a folder's shards into a private database.  Called by `_folder`; read by
`_folder_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.scratch_database import scratch_database

from ._archive import MeasurementPlan
from ._evaluation import SkippedRow
from ._parts import ListWriter, Shard, description_of, segment_column

_FILE = 1 << 40
"""A place in the data set is the index of the file times this, plus the line."""


class ListedRow(NamedTuple):
    """A row of the data set; equal rows are separate."""

    file: str
    line: int
    place: int
    """Place in the whole data set, ascending."""
    in_several: bool
    """Whether several parts have scores of the row."""
    segments: tuple[str, ...]


class RowList:
    """The rows of some shards, by the list of each."""

    def __init__(self, lists: Mapping[Shard, Path], segments: Sequence[str] = ()) -> None:
        self.asked: MeasurementPlan | None = None
        self.files: list[str] = []
        self.bad: list[SkippedRow] = []
        self.rows = 0
        self._limit: int | None = None
        self._columns = [f"segment{number}" for number in range(len(segments))]
        self._database = scratch_database(self)
        self._database.executescript(
            f"CREATE TABLE lines ({', '.join(['file INTEGER', 'line INTEGER', 'row BLOB', *self._columns])});"
            "CREATE TABLE parts (row BLOB); CREATE TABLE several (row BLOB PRIMARY KEY) WITHOUT ROWID;"
        )
        for shard, path in sorted(lists.items()):
            self._read(shard, path, segments)
        self._database.execute("CREATE INDEX by_row ON lines (row, file, line)")

    def note_parts(self, parts: Iterable[Iterable[str]]) -> None:
        """Index the rows by part, from the keys of each part."""
        for keys in parts:
            rows = ((bytes.fromhex(key),) for key in keys)
            self._database.executemany("INSERT INTO parts VALUES (?)", rows)
        self._database.execute("INSERT INTO several SELECT row FROM parts GROUP BY row HAVING count(*) > 1")

    def of(self, key: str) -> list[ListedRow]:
        """Return the rows with this key in the order of the data set; () if the key is unknown."""
        names = ", ".join(["file", "line", *self._columns])
        found = self._database.execute(
            f"SELECT row IN several, {names} FROM lines WHERE row = ? ORDER BY file, line",  # noqa: S608 -- ours
            (bytes.fromhex(key),),
        )
        return [
            ListedRow(self.files[file], line, file * _FILE + line, bool(several), tuple(values))
            for several, file, line, *values in found
        ]

    def values(self) -> Iterator[list[str]]:
        """Yield the values of each segment in the order of rows, across shards."""
        for column in self._columns:
            found = self._database.execute(
                f"SELECT {column} FROM lines GROUP BY {column} ORDER BY min(file * {_FILE} + line)"  # noqa: S608
            )
            yield [value for (value,) in found]

    def _read(self, shard: Shard, path: Path, segments: Sequence[str]) -> None:
        try:
            with parquet.ParquetFile(path, pre_buffer=False) as file:
                self._agree(shard, description_of(file.schema_arrow), segments)
                names = ["file", "line", "row", "reason", *map(segment_column, segments)]
                for batch in file.iter_batches(ListWriter.BATCH, columns=names, use_threads=False):
                    columns = (batch.column(name).to_pylist() for name in names)
                    self._take(list(zip(*columns, strict=True)))
        except (OSError, pa.ArrowException) as error:
            raise ConfigurationError(f"--out: {path.name} cannot be read; run shard {shard} again") from error

    def _take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        good = [(*row[:3], *row[4:]) for row in rows if row[2] is not None]
        self.rows += len(good)
        marks = ", ".join("?" * (3 + len(self._columns)))
        self._database.executemany(f"INSERT INTO lines VALUES ({marks})", good)  # noqa: S608 -- marks
        self.bad += [SkippedRow(self.files[row[0]], row[1], row[3]) for row in rows if row[2] is None]

    def _agree(self, shard: Shard, about: Mapping[str, Any] | None, segments: Sequence[str]) -> None:
        if about is None or not {"measurements", "spared", "judge_model"} <= set(about):
            raise ConfigurationError(f"--out: the list of shard {shard} is of another version; run it again")
        asked = MeasurementPlan(
            measurements=about["measurements"], spared=about["spared"], judge_model=about["judge_model"]
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
        lacking = [name for name in segments if name not in about.get("segments", ())]
        if lacking:
            raise ConfigurationError(
                f"--segments {','.join(lacking)}: the run of shard {shard} did not ask for them; run it "
                "again with --segments, which pays nothing twice"
            )
