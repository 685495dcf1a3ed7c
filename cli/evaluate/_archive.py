"""Scores a data set into a folder of Parquet parts: reads rows, measures missing scores, writes parts.

A few hundred rows are in memory at a time. Rows that ask a judge pass through a window: when one ends, the
next one begins, and a part is written as soon as enough have ended. An engine, such as Ray, gets a
`ScoringPlan` instead, and its tables are written as they arrive. `_folder_rows` sums up the parts afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from array import array
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from ragmeter.cli._interrupt import whole
from ragmeter.cli._progress import Advance
from ragmeter.fleet.tables import scores_as_table
from ragmeter.metrics import Metric
from ragmeter.metrics._files.rows import BadRow, RawRow, open_rows
from ragmeter.metrics._files.samples import Row, sample_row
from ragmeter.metrics._files.scratch_database import scratch_database
from ragmeter.metrics.results import SampleScores
from ragmeter.scorer import Scorer

from ._by_segment import BySegment
from ._evaluation import EvaluateOptions
from ._parts import Folder, ListWriter, Shard, description_of, segment_column
from ._score_file import FINAL

PART = 256
"""Most rows of a part: the work that an interruption can lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementPlan:
    """The scores to measure for each row; parts and lists of rows are marked with it."""

    measurements: dict[str, str]
    """The measurement of each score."""
    spared: dict[str, list[str]]
    """By score: the inputs that a row must have to get it."""
    judge_model: str | None

    @property
    def mark(self) -> str:
        """A digest of the plan, distinct from any metric's name."""
        text = json.dumps([self.measurements, self.spared], sort_keys=True)
        return "*" + hashlib.sha256(text.encode()).hexdigest()[:32]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON-ready fields."""
        return asdict(self) | {"mark": self.mark}


class KnownRows:
    """The measurements of each scored row, in a private database on disk."""

    def __init__(self) -> None:
        self._database = scratch_database(self)
        self._database.execute("CREATE TABLE known (row BLOB PRIMARY KEY, measured INTEGER) WITHOUT ROWID")
        self._numbers: dict[frozenset[str], int] = {}
        self._measured: list[frozenset[str]] = []

    def of(self, key: bytes) -> frozenset[str]:
        """Return the measurements of a row; an empty set for an unscored one."""
        query = "SELECT measured FROM known WHERE row = ?"
        found = self._database.execute(query, (key,)).fetchone()
        return frozenset() if found is None else self._measured[found[0]]

    def add(self, key: bytes, measured: frozenset[str]) -> None:
        """Add measurements of a row."""
        everything = self.of(key) | measured
        number = self._numbers.setdefault(everything, len(self._numbers))
        if number == len(self._measured):
            self._measured.append(everything)
        self._database.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (key, number))


def known_rows(folder: Folder) -> tuple[KnownRows, list[Path]]:
    """Return the scored rows of a folder's parts, and the parts that cannot be read."""
    known, damaged = KnownRows(), []
    for path in folder.parts():
        try:
            _learn(path, known)
        except (OSError, pa.ArrowException, ValueError, KeyError):  # noqa: PERF203 -- one damaged part is one
            damaged.append(path)
    return known, damaged


def _learn(path: Path, known: KnownRows) -> None:
    with parquet.ParquetFile(path, pre_buffer=False, read_dictionary=["row"]) as file:
        about = description_of(file.schema_arrow)
        if about is None:
            raise ValueError("not a part of scores")
        uniform = about.get("uniform")
        if uniform is not None:
            everything = frozenset(uniform)
            for chunk in file.read(["row"]).column("row").chunks:
                for key in chunk.unique().to_pylist():
                    known.add(bytes.fromhex(key), everything)
            return
        table = file.read(list(_BY_ROW))
    for row, (measured, failed) in _by_row(table).items():
        done = frozenset(measured - failed)
        known.add(bytes.fromhex(row), done if failed else done | {about["mark"]})


_BY_ROW = ("row", "measurement", "status")


def _by_row(table: pa.Table) -> dict[str, tuple[set[str], set[str]]]:
    """Return the measurements of each row of a table of scores, and those that failed."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    columns = (table.column(name).to_pylist() for name in _BY_ROW)
    for row, measurement, status in zip(*columns, strict=True):
        measured, failed = found.setdefault(row, (set(), set()))
        (measured if status in FINAL else failed).add(measurement)
    return found


class _RowToScore(NamedTuple):
    """A row to score."""

    file: int
    row: Row
    missing: frozenset[str]
    """Names of the row's scores that are still missing."""


@dataclass(slots=True)
class ScoringPlan:
    """The work of an engine: the lines of each file, ascending, and the missing scores of each line."""

    lines: list[array[int]]
    missing: list[array[int]]
    """For each line, the index in `names` of its missing scores."""
    names: list[frozenset[str]] = field(default_factory=list)
    rows: int = 0


class Archive:
    """One pass over a shard of the data set; awaits `ask_first`, if given, before the first row is scored."""

    def __init__(
        self,
        options: EvaluateOptions,
        scorer: Scorer,
        asked: MeasurementPlan,
        folder: Folder,
        shard: Shard,
        ask_first: Callable[[], Coroutine[Any, Any, None]] | None,
    ) -> None:
        self._options = options
        self._ask_first = ask_first
        named = options.columns.named
        self._read_as = repr(sorted(named.items())).encode() if named else b""
        self._scorer = scorer
        self._asked = asked
        self._folder = folder
        self._shard = shard
        self._judges = asked.judge_model is not None
        self._window = options.concurrency if self._judges else 1
        self._by_segment = BySegment(options.segments)
        self._earlier, self.damaged = known_rows(folder)
        self._fresh = KnownRows()
        self._under_way: set[bytes] = set()
        self._done: list[tuple[Row, SampleScores]] = []
        # An interruption also loses the rows in progress.
        self._part = max(1, PART - (self._window if self._judges else 0))
        self._mark = asked.mark
        self.rows = 0
        self.resumed = 0

    async def run(self, advance: Advance, note: Any) -> None:
        """Score every unscored row; write finished rows even when interrupted."""
        listed = self._list()
        rows = self._rows_to_score(listed, advance, note)
        asking: list[asyncio.Task[None]] = []

        async def work() -> None:
            for _, row, missing in rows:
                if self._ask_first is not None:
                    asking[:] = asking or [asyncio.ensure_future(self._ask_first())]
                    await asyncio.shield(asking[0])
                try:
                    [scores] = await self._scorer.ascore([row.sample], only=giving(missing))
                finally:
                    self._under_way.discard(bytes.fromhex(row.key))
                self._take(row, scores)
                advance(note())

        try:
            await asyncio.gather(*(work() for _ in range(self._window)))
        except BaseException:
            self._write()
            listed.abandon()
            raise
        self._write()
        listed.finish()

    def run_with(
        self, engine: Callable[[ScoringPlan], Iterator[pa.Table]], advance: Advance, note: Any
    ) -> None:
        """Have an engine score every unscored row, and write each table of scores as it arrives.

        The engine returns all scores of a row in one table; it is not called if there is no row to score.
        """
        listed = self._list()
        try:
            plan = self._plan(listed, advance, note)
            if plan.rows and self._ask_first is not None:
                asyncio.run(self._ask_first())
            for table in engine(plan) if plan.rows else ():
                with whole():
                    kept = self._keep(table)
                for _ in range(kept):
                    advance(note())
        except BaseException:
            listed.abandon()
            raise
        listed.finish()

    def _plan(self, listed: ListWriter, advance: Advance, note: Any) -> ScoringPlan:
        """Read every row and return the rows to score."""
        files = self._options.files
        plan = ScoringPlan([array("q") for _ in files], [array("H") for _ in files])
        numbers: dict[frozenset[str], int] = {}
        by = self._asked.measurements
        for file, row, missing in self._rows_to_score(listed, advance, note):
            key = bytes.fromhex(row.key)
            self._under_way.discard(key)
            self._fresh.add(key, frozenset(by[name] for name in missing))  # an equal row is not paid for again
            number = numbers.setdefault(missing, len(numbers))
            plan.lines[file].append(row.line)
            plan.missing[file].append(number)
            plan.rows += 1
        plan.names = list(numbers)
        return plan

    def _list(self) -> ListWriter:
        about = self._asked.as_json() | {"files": [path.name for path in self._options.files]}
        about |= {"limit": self._options.limit}
        return ListWriter(self._folder, self._shard, about, self._options.segments)

    def _rows_to_score(self, listed: ListWriter, advance: Advance, note: Any) -> Iterator[_RowToScore]:
        """Yield the rows to measure, each with the names of its missing scores."""
        limit, segments = self._options.limit, self._options.segments
        earlier = _EarlierList(self._folder.lists().get(self._shard), segments)
        for number, path in enumerate(self._options.files):
            for raw in open_rows(path):
                if limit is not None and self.rows >= limit:
                    return
                digest = raw.digest(self._read_as)
                if not self._shard.has(digest):
                    advance(note())
                    continue
                found = self._row(raw, earlier.get((number, raw.line), digest))
                if isinstance(found, BadRow):
                    nothing = (None,) * len(segments)
                    listed.add(number, raw.line, digest, None, found.reason, nothing)
                    advance(note())
                    continue
                self.rows += 1
                if isinstance(found, Row):
                    key = bytes.fromhex(found.key)
                    values: Sequence[str] = self._by_segment.of(found)
                    missing = self._missing_scores(found, key)
                else:
                    key, values = found
                    missing = frozenset()
                listed.add(number, raw.line, digest, key, None, values)
                if isinstance(found, Row) and missing and key not in self._under_way:
                    self._under_way.add(key)
                    yield _RowToScore(number, found, missing)
                    continue
                if not self._fresh.of(key) and key not in self._under_way:
                    self.resumed += 1
                advance(note())

    def _row(self, raw: RawRow, listed: _AsListed | None) -> Row | BadRow | _AsListed:
        """Return a row, or only its entry in the earlier list if no score is missing."""
        if listed is not None and self._mark in self._earlier.of(listed.key):
            return listed
        return sample_row(raw, self._options.columns)

    def _missing_scores(self, row: Row, key: bytes) -> frozenset[str]:
        known = self._earlier.of(key) | self._fresh.of(key)
        if self._mark in known:
            return frozenset()
        by = self._asked.measurements
        return frozenset(
            name
            for metric in self._scorer.metrics_of(row.sample)
            for name in metric.score_names
            if by[name] not in known
        )

    def _take(self, row: Row, scores: SampleScores) -> None:
        by = self._asked.measurements
        failed = {by.get(one.name, one.name) for one in scores.values() if one.status not in FINAL}
        measured = {by.get(name, name) for name in scores} - failed
        # Failed scores, too: they are not retried in this run.
        self._fresh.add(bytes.fromhex(row.key), frozenset(measured | failed))
        self._done.append((row, scores))
        if len(self._done) >= self._part:
            self._write()

    def _write(self) -> None:
        with whole():
            done, self._done = self._done, []
            if done:
                by = self._asked.measurements
                self._keep(scores_as_table(done, by, with_text=self._options.with_text))

    def _keep(self, table: pa.Table) -> int:
        """Write a part; return its number of rows."""
        rows = _by_row(table)
        sets = {None if failed else frozenset(measured) for measured, failed in rows.values()}
        about: dict[str, Any] = {"mark": self._mark}
        if len(sets) == 1 and (everything := sets.pop()) is not None:
            about["uniform"] = sorted(everything | {self._mark})
        if rows:
            self._folder.write_part(table, about)
        return len(rows)


def giving(names: frozenset[str]) -> Callable[[Metric], bool]:
    """Return a predicate: whether a metric computes one of these scores."""
    return lambda metric: not names.isdisjoint(metric.score_names)


class _AsListed(NamedTuple):
    """An entry of a list of rows, with the row's value of each segment."""

    key: bytes
    values: tuple[str, ...]


class _EarlierList:
    """The list of rows of an earlier run, read along with the data set to skip unchanged rows.

    A list that lacks one of these `segments` is ignored.
    """

    def __init__(self, path: Path | None, segments: Sequence[str]) -> None:
        self._rows = iter(()) if path is None else _read_listing(path, segments)
        self._next = next(self._rows, None)

    def get(self, place: tuple[int, int], digest: bytes) -> _AsListed | None:
        """Return the entry at a place, or None if there is none or the row has changed. Places must ascend."""
        while self._next is not None and self._next[0] < place:
            self._next = next(self._rows, None)
        if self._next is None or self._next[:2] != (place, digest):
            return None
        return self._next[2]


_Listing = tuple[tuple[int, int], bytes, _AsListed | None]


def _read_listing(path: Path, segments: Sequence[str]) -> Iterator[_Listing]:
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            names = ["file", "line", "digest", "row", *map(segment_column, segments)]
            if not set(names) <= set(file.schema_arrow.names):
                return
            for batch in file.iter_batches(ListWriter.BATCH, columns=names, use_threads=False):
                columns = (batch.column(name).to_pylist() for name in names)
                for number, line, digest, key, *values in zip(*columns, strict=True):
                    known = None if key is None else _AsListed(key, tuple(values))
                    yield (number, line), digest, known
    except (OSError, pa.ArrowException):
        return  # the rows are read again instead
