"""What the parts of a folder amount to: the report of a run, of a finished one and of all shards together.

Parts are read one after the other, column by column.  Rows whose scores stand in several parts, or of which
not all count, are put together first, on disk; so a report needs the memory of one part.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from ragmeter.fleet.tables import SCORES, score_of_line
from ragmeter.metrics import ConfigurationError, Score, Verdict, VerdictRules
from ragmeter.metrics._badness import Badness, counts_as_badness, rank_of
from ragmeter.quality.row_scores import RowScores
from ragmeter.quality.summary import Summarizer

from ._archive import Measured
from ._known import as_keys
from ._parts import Folder, ListWriter, Shard, described
from ._worst_rows import SHOWN, WorstOf

__all__ = ["BadLine", "Listed", "Summed", "sum_up"]

FAILED = ("judge_error", "timeout", "metric_error")
MAX_BAD = 1_000
"""Bad rows that are kept with their reasons."""
_FILE = 1 << 40
"""A place in the data set is this times the number of the file, and the line."""
_ROWS = 2_000
"""Rows that are put together at a time."""
_READ = (
    "row",
    "name",
    "value",
    "status",
    "measurement",
    "verdict",
    "codes",
    "lacking",
    "question_key",
)


class BadLine(NamedTuple):
    """A row that could not be read."""

    file: str
    line: int
    reason: str


class Listed:
    """The rows that a report is about, from the lists of some shards.

    Raises:
        ConfigurationError: A list cannot be read, or two are of runs that asked something else.
    """

    def __init__(self, lists: Mapping[Shard, Path]) -> None:
        keys: list[NDArray[np.bytes_]] = []
        places: list[NDArray[np.int64]] = []
        self.asked: Measured | None = None
        self.files: list[str] = []
        self.bad: list[BadLine] = []
        self.bad_count = 0
        for shard, path in sorted(lists.items()):
            self._read(shard, path, keys, places)
        self.rows = sum(map(len, keys))
        self._index(keys, places)

    def _index(self, keys: list[NDArray[np.bytes_]], places: list[NDArray[np.int64]]) -> None:
        """Sort the rows by key. Of millions each array counts: what is not needed any more goes at once."""
        joined = np.concatenate(keys) if keys else as_keys(())
        keys.clear()
        at = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        places.clear()
        order = np.argsort(joined, kind="stable")  # of equal rows the first one stays the first
        ordered = joined[order]
        del joined
        at = at[order]
        del order
        first = np.ones(len(ordered), dtype=bool)
        first[1:] = ordered[1:] != ordered[:-1]
        starts = np.nonzero(first)[0]
        self._counts = np.diff(starts, append=len(ordered)).astype(np.uint32)
        self._keys = ordered if len(starts) == len(ordered) else ordered[first]
        self._places = at if len(starts) == len(ordered) else at[first]
        self._parts = np.zeros(len(self._keys), dtype=np.uint8)

    def note_part(self, keys: Sequence[str]) -> None:
        """Note that these rows stand in a part."""
        _, known, at = self._where(keys)
        found = at[known]
        self._parts[found] = np.minimum(self._parts[found] + 1, 2)

    def in_several(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Return which rows stand in several parts."""
        _, known, at = self._where(keys)
        return known & (self._parts[at] > 1) if len(self._parts) else known

    def _where(
        self, keys: Sequence[str]
    ) -> tuple[NDArray[np.bytes_], NDArray[np.bool_], NDArray[np.int64]]:
        wanted = as_keys(map(bytes.fromhex, keys))
        if not len(self._keys):
            return wanted, np.zeros(len(wanted), dtype=bool), np.zeros(len(wanted), dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return wanted, self._keys[at] == wanted, at

    def find(self, keys: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how often each row occurs (0: it is not among them), and where the first one stands."""
        wanted, known, at = self._where(keys)
        if not len(self._keys):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
        return np.where(known, self._counts[at], 0).astype(np.int64), self._places[at]

    def place(self, place: int) -> tuple[str, int]:
        """Return the name of the file, and the line."""
        return self.files[place // _FILE], place % _FILE

    def _read(
        self,
        shard: Shard,
        path: Path,
        keys: list[NDArray[np.bytes_]],
        places: list[NDArray[np.int64]],
    ) -> None:
        try:
            with parquet.ParquetFile(path, pre_buffer=False) as file:
                self._agree(shard, described(file.schema_arrow))
                for batch in file.iter_batches(batch_size=ListWriter.BATCH, use_threads=False):
                    self._take(batch, keys, places)
        except (OSError, pa.ArrowException) as error:
            raise ConfigurationError(
                f"--out: {path.name} cannot be read; run shard {shard} again"
            ) from error

    def _agree(self, shard: Shard, about: dict[str, Any] | None) -> None:
        if about is None or not {"measurements", "spared", "judge_model"} <= set(about):
            raise ConfigurationError(
                f"--out: the list of shard {shard} is of another version; run it again"
            )
        asked = Measured(
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

    def _take(
        self,
        batch: pa.RecordBatch,
        keys: list[NDArray[np.bytes_]],
        places: list[NDArray[np.int64]],
    ) -> None:
        read = batch.filter(batch.column("row").is_valid())
        keys.append(as_keys(read.column("row").to_pylist()))
        places.append(
            read.column("file").to_numpy(zero_copy_only=False).astype(np.int64) * _FILE
            + read.column("line").to_numpy(zero_copy_only=False)
        )
        self.bad_count += len(batch) - len(read)
        if len(read) < len(batch):
            for bad in batch.filter(batch.column("row").is_null()).to_pylist():
                if len(self.bad) < MAX_BAD:
                    self.bad.append(BadLine(self.files[bad["file"]], bad["line"], bad["reason"]))


@dataclass(slots=True)
class Summed:
    """What a folder's parts amount to."""

    summarizer: Summarizer = field(default_factory=Summarizer)
    words: Counter[str] = field(default_factory=Counter)
    """Rows by the word of their verdict."""
    codes: Counter[str] = field(default_factory=Counter)
    unjudged: int = 0
    """Rows without a verdict."""
    worst: WorstOf[tuple[dict[str, Score], Verdict | None]] = field(default_factory=WorstOf)
    """Scores and verdict of the rows to look at first."""
    failed: Counter[str] = field(default_factory=Counter)
    """Scores lost to a failing judge or metric, by status."""
    scored: int = 0
    """Rows of which something is known, equal ones each."""


def sum_up(
    folder: Folder, listed: Listed, rules: VerdictRules, row_scores: RowScores | None = None
) -> Summed:
    """Read all parts.

    Args:
        folder: Where they are.
        listed: Which rows count.
        rules: Say what is known of a row that stands in several parts.
        row_scores: Takes every score, to be compared with another run's; None: nobody compares.
    """
    if listed.asked is None:
        return Summed()
    summing = _Summing(listed, listed.asked, rules, row_scores)
    spread = _Spread(listed.asked, rules)
    paths = [path for path in folder.parts() if _is_readable(path)]
    for path in paths:
        listed.note_part(_keys_of(path))
    for path in paths:
        summing.take(parquet.read_table(path, use_threads=False), spread)
    for table in spread.tables():
        summing.take(table, None)
    summing.order(listed.asked.measurements)
    return summing.found


def _is_readable(path: Path) -> bool:
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            return described(file.schema_arrow) is not None
    except (OSError, pa.ArrowException):
        return False  # said when the run began; its rows were measured again


def _keys_of(path: Path) -> list[str]:
    with parquet.ParquetFile(path, pre_buffer=False, read_dictionary=["row"]) as file:
        keys: list[str] = file.read(["row"], use_threads=False).column("row").unique().to_pylist()
    return keys


class _Summing:
    def __init__(
        self,
        listed: Listed,
        asked: Measured,
        rules: VerdictRules,
        row_scores: RowScores | None,
    ) -> None:
        self._listed = listed
        self._rules = rules
        self._wanted = frozenset(asked.measurements.values())
        self._spares = asked.spared
        self._row_scores = row_scores
        self._described: dict[str, Score] = {}
        self.found = Summed()

    def take(self, table: pa.Table, spread: _Spread | None) -> None:
        """Take in a part; rows that are not whole in it go to `spread`."""
        codes, words = zip(
            *(_coded(table.column(name)) for name in _READ if name != "value"), strict=True
        )
        at = dict(zip((name for name in _READ if name != "value"), codes, strict=True))
        word = dict(zip((name for name in _READ if name != "value"), words, strict=True))
        rows = word["row"]
        counts, places = self._listed.find(rows)
        counts_there = counts[at["row"]]
        line_counts = counts_there.copy()
        if spread is not None:
            wanted = np.array([one in self._wanted for one in word["measurement"]], dtype=bool)
            spared = self._spared(word["name"], word["lacking"])
            counted = wanted[at["measurement"]] & ~spared[at["name"], at["lacking"]]
            broken = self._listed.in_several(rows)
            broken[at["row"][~counted]] = True
            broken &= counts > 0
            if broken.any():
                lines = broken[at["row"]]
                spread.add(table.filter(pa.array(lines & counted)))
                line_counts[lines] = 0
            line_counts[~counted] = 0
        kept = np.nonzero(line_counts)[0]
        if len(kept):
            self._scores(table, kept, line_counts, places, at, word)
            self._verdicts(table, kept, counts, places, at, word)

    def order(self, measurements: Mapping[str, str]) -> None:
        """Put the scores in the order of the metrics."""
        summarizer = Summarizer()
        summarizer.take_over(self.found.summarizer, list(measurements))
        self.found.summarizer = summarizer

    def _spared(self, names: Sequence[str], lacking: Sequence[str]) -> NDArray[np.bool_]:
        """Return which scores a row is spared that lacks certain inputs."""
        return np.array(
            [
                [not set(self._spares.get(name, ())).isdisjoint(one.split(",")) for one in lacking]
                for name in names
            ],
            dtype=bool,
        ).reshape(len(names), len(lacking))

    def _scores(
        self,
        table: pa.Table,
        kept: NDArray[np.int64],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        at: Mapping[str, NDArray[np.int64]],
        word: Mapping[str, Sequence[Any]],
    ) -> None:
        values = table.column("value").to_numpy()
        found = self.found
        for code in np.unique(at["name"][kept]):
            name = str(word["name"][code])
            lines = kept[at["name"][kept] == code]
            there = lines[~np.isnan(values[lines])]
            if name not in self._described:
                self._described[name] = _line(table, int(lines[0]))
            described_score = self._described[name]
            found.summarizer.add_many(
                described_score, np.repeat(values[there], counts[there]).tolist()
            )
            without = lines[np.isnan(values[lines])]
            for status in np.unique(at["status"][without]):
                shown = str(word["status"][status])
                these = without[at["status"][without] == status]
                number = int(counts[these].sum())
                lacking = _line(table, int(these[0])).missing
                found.summarizer.missing(name, shown, number, lacking)
            for status in np.unique(at["status"][lines]):
                shown = str(word["status"][status])
                if shown in FAILED:
                    found.failed[shown] += int(counts[lines[at["status"][lines] == status]].sum())
        if self._row_scores is not None:
            self._row_scores.add_many(
                (
                    word["name"][int(at["name"][line])],
                    word["question_key"][int(at["question_key"][line])],
                    int(places[at["row"][line]]),
                    word["measurement"][int(at["measurement"][line])],
                    None if np.isnan(values[line]) else float(values[line]),
                    word["status"][int(at["status"][line])],
                )
                for line in kept
                for _ in range(int(counts[line]))
            )

    def _verdicts(
        self,
        table: pa.Table,
        kept: NDArray[np.int64],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        at: Mapping[str, NDArray[np.int64]],
        word: Mapping[str, Sequence[Any]],
    ) -> None:
        found = self.found
        rows, first = np.unique(at["row"][kept], return_index=True)
        lines = kept[first]
        found.scored += int(counts[rows].sum())
        for row, line in zip(rows, lines, strict=True):
            verdict = word["verdict"][int(at["verdict"][line])]
            count = int(counts[row])
            if verdict is None:
                found.unjudged += count
                continue
            found.words[verdict] += count
            codes = word["codes"][int(at["codes"][line])]
            for code in codes.split(",") if codes else ():
                found.codes[code] += count
        self._worst(table, kept, places, at, word)

    def _worst(
        self,
        table: pa.Table,
        kept: NDArray[np.int64],
        places: NDArray[np.int64],
        at: Mapping[str, NDArray[np.int64]],
        word: Mapping[str, Sequence[Any]],
    ) -> None:
        """Keep the rows to look at first: the order of `ragmeter.metrics._badness`, for whole columns."""
        rows, first, number = np.unique(at["row"][kept], return_index=True, return_inverse=True)
        ranks = np.array([rank_of(one) for one in word["verdict"]])[at["verdict"][kept[first]]]
        described = [self._described.get(str(name)) for name in word["name"]]
        counts = np.array(
            [one is not None and counts_as_badness(one.range, one.direction) for one in described],
            dtype=bool,
        )
        lower = np.array([one is not None and one.direction == "lower" for one in described])
        values = table.column("value").to_numpy()[kept]
        names = at["name"][kept]
        there = counts[names] & ~np.isnan(values)
        distances = np.where(lower[names], values, 1.0 - values)
        total = np.bincount(number[there], distances[there], len(rows))
        mean = total / np.maximum(1, np.bincount(number[there], minlength=len(rows)))
        for one in np.lexsort((places[rows], -mean, -ranks))[:SHOWN]:
            badness, row = Badness(int(ranks[one]), float(mean[one])), int(rows[one])
            if not self.found.worst.takes(badness, int(places[row])):
                break
            lines = table.take(pa.array(kept[at["row"][kept] == row])).to_pylist()
            self.found.worst.add(
                badness, int(places[row]), str(word["row"][row]), self._known(lines)
            )

    def _known(self, lines: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Score], Verdict | None]:
        """Return scores and verdict of a row, with reasons; of other rules: the word alone."""
        scores = {line["name"]: score_of_line(line) for line in lines}
        word = lines[0]["verdict"]
        if word is None:
            return scores, None
        now = self._rules.verdict(scores, lines[0]["ended"])
        return scores, Verdict(word=word) if now is None or now.word != word else now


class _Spread:
    """Rows whose scores stand in several parts, or not all count: put together in a file of their own."""

    def __init__(self, asked: Measured, rules: VerdictRules) -> None:
        self._order = {name: number for number, name in enumerate(asked.measurements)}
        self._rules = rules
        self._database = sqlite3.connect("")
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(
            "CREATE TABLE lines (row TEXT, number INTEGER PRIMARY KEY, line TEXT)"
        )

    def add(self, table: pa.Table) -> None:
        """Add lines; of equal ones the last counts."""
        self._database.executemany(
            "INSERT INTO lines (row, line) VALUES (?, ?)",
            ((line["row"], json.dumps(line)) for line in table.to_pylist()),
        )

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows whole, some at a time, each with the verdict of all that is known of it."""
        self._database.execute("CREATE INDEX by_row ON lines (row, number)")
        together: list[dict[str, Any]] = []
        of_row: dict[str, dict[str, Any]] = {}
        row, rows = None, 0
        for key, text in self._database.execute("SELECT row, line FROM lines ORDER BY row, number"):
            if key != row:
                together += self._whole(of_row)
                row, of_row, rows = key, {}, rows + 1
                if rows % _ROWS == 0:
                    yield pa.Table.from_pylist(together, schema=SCORES)
                    together = []
            line = json.loads(text)
            of_row[line["name"]] = line
        together += self._whole(of_row)
        if together:
            yield pa.Table.from_pylist(together, schema=SCORES)

    def _whole(self, of_row: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
        if not of_row:
            return []
        lines = sorted(of_row.values(), key=lambda line: self._order.get(line["name"], 0))
        verdict = self._rules.verdict(
            {line["name"]: score_of_line(line) for line in lines}, lines[0]["ended"]
        )
        said = {
            "verdict": None if verdict is None else verdict.word,
            "codes": None if verdict is None else ",".join(verdict.codes),
        }
        return [line | said for line in lines]


def _coded(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the numbers of a column's texts, and the texts; a missing one is a text of its own, None."""
    coded = column.combine_chunks().dictionary_encode("encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return coded.indices.to_numpy(zero_copy_only=False).astype(
        np.int64
    ), coded.dictionary.to_pylist()


def _line(table: pa.Table, number: int) -> Score:
    [line] = table.slice(number, 1).to_pylist()
    return score_of_line(line)
