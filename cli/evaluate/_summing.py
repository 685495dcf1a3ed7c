"""What the parts of a folder amount to: the report of a run, of a finished one and of all shards together.

Parts are read one after the other, column by column.  Rows whose scores stand in several parts, or of which
not all count, are put together first, on disk; so a report needs the memory of one part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from ragmeter.fleet.tables import SCORES, score_of_line
from ragmeter.metrics import Score, Verdict, VerdictRules
from ragmeter.metrics._display.failures import FAILED, Failures
from ragmeter.metrics._display.ranking import Badness, counts_as_badness, rank_of
from ragmeter.metrics._files.scratch_database import scratch_database
from ragmeter.metrics._ungrounded import GROUNDEDNESS
from ragmeter.quality.row_scores import RowScore, RowScores
from ragmeter.quality.summary import Summarizer

from ._archive import MeasurementPlan
from ._listed import RowList
from ._parts import Folder, description_of
from ._segment_sums import SegmentSums
from ._worst_rows import SHOWN, WorstOf

__all__ = ["FolderSummary", "sum_up"]

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


@dataclass(slots=True)
class FolderSummary:
    """What a folder's parts amount to."""

    summarizer: Summarizer = field(default_factory=Summarizer)
    words: Counter[str] = field(default_factory=Counter)
    """Rows by the word of their verdict."""
    codes: Counter[str] = field(default_factory=Counter)
    unjudged: int = 0
    """Rows without a verdict."""
    worst: WorstOf[tuple[dict[str, Score], Verdict | None]] = field(default_factory=WorstOf)
    """Scores and verdict of the rows to look at first."""
    failures: Failures = field(default_factory=Failures)
    """Scores lost to a failing judge or metric, by status."""
    segments: Mapping[str, Mapping[str, Summarizer]] = field(default_factory=dict)
    """By name of segment, by value."""
    scored: int = 0
    """Rows of which something is known, equal ones each."""


def sum_up(
    folder: Folder, listed: RowList, rules: VerdictRules, row_scores: RowScores | None = None
) -> FolderSummary:
    """Read all parts.

    Args:
        folder: Where they are.
        listed: Which rows count.
        rules: Say what is known of a row that stands in several parts.
        row_scores: Takes every score, to be compared with another run's; None: nobody compares.
    """
    if listed.asked is None:
        return FolderSummary()
    summing = _FolderSum(listed, listed.asked, rules, row_scores)
    spread = _Spread(listed.asked, rules)
    paths = [path for path in folder.parts() if _is_readable(path)]
    for path in paths:
        listed.note_part(_keys_of(path))
    for path in paths:
        summing.take(_table_of(path), spread)
    for table in spread.tables():
        summing.take(table, None)
    summing.order(listed.asked.measurements)
    return summing.found


def _is_readable(path: Path) -> bool:
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            return description_of(file.schema_arrow) is not None
    except (OSError, pa.ArrowException):
        return False  # said when the run began; its rows were measured again


def _table_of(path: Path) -> pa.Table:
    # Not `read_table`, which brings the reader of whole data sets with threads of its own.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        return file.read(use_threads=False)


def _keys_of(path: Path) -> list[str]:
    with parquet.ParquetFile(path, pre_buffer=False, read_dictionary=["row"]) as file:
        keys: list[str] = file.read(["row"], use_threads=False).column("row").unique().to_pylist()
    return keys


class _FolderSum:
    def __init__(
        self,
        listed: RowList,
        asked: MeasurementPlan,
        rules: VerdictRules,
        row_scores: RowScores | None,
    ) -> None:
        self._listed = listed
        self._rules = rules
        self._wanted = frozenset(asked.measurements.values())
        self._spares = asked.spared
        self._row_scores = row_scores
        self._described: dict[str, Score] = {}
        self._segments = SegmentSums(listed)
        self.found = FolderSummary()

    def take(self, table: pa.Table, spread: _Spread | None) -> None:
        """Take in a part; rows that are not whole in it go to `spread`."""
        codes, words = zip(
            *(_codes_of(table.column(name)) for name in _READ if name != "value"), strict=True
        )
        at = dict(zip((name for name in _READ if name != "value"), codes, strict=True))
        word = dict(zip((name for name in _READ if name != "value"), words, strict=True))
        rows = word["row"]
        counts, places, lines_of = self._listed.find(rows)
        self._segments.begin(counts, lines_of)
        counts_there = counts[at["row"]]
        line_counts = counts_there.copy()
        if spread is not None:
            wanted = np.array([one in self._wanted for one in word["measurement"]], dtype=bool)
            spared = self._spared_scores(word["name"], word["lacking"])
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
        names = list(measurements)
        summarizer = Summarizer()
        summarizer.take_over(self.found.summarizer, names)
        self.found.summarizer = summarizer
        self.found.segments = self._segments.all(names)

    def _spared_scores(self, names: Sequence[str], lacking: Sequence[str]) -> NDArray[np.bool_]:
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
            self._segments.values(described_score, at["row"][there], values[there])
            without = lines[np.isnan(values[lines])]
            for status in np.unique(at["status"][without]):
                shown = str(word["status"][status])
                these = without[at["status"][without] == status]
                for lacking, some in _by_lacking(table, these):
                    number = int(counts[some].sum())
                    found.summarizer.missing(name, shown, number, lacking)
                    self._segments.missing(described_score, at["row"][some], shown, lacking)
            for status in np.unique(at["status"][lines]):
                shown = str(word["status"][status])
                if shown in FAILED:
                    self._count_failures(
                        table, lines[at["status"][lines] == status], counts, places, at
                    )
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
            self._parts(table, kept, counts, places, at, word)

    def _parts(
        self,
        table: pa.Table,
        kept: NDArray[np.int64],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        at: Mapping[str, NDArray[np.int64]],
        word: Mapping[str, Sequence[Any]],
    ) -> None:
        """Take in of what the words that no chunk has consist."""
        if self._row_scores is None or GROUNDEDNESS not in word["name"]:
            return
        code = list(word["name"]).index(GROUNDEDNESS)
        lines = kept[at["name"][kept] == code]
        found = table.select(["value", "summary"]).take(pa.array(lines)).to_pylist()
        for line, known in zip(lines, found, strict=True):
            groundedness = RowScore(
                word["measurement"][int(at["measurement"][line])],
                known["value"],
                "ok",
                known["summary"],
            )
            for _ in range(int(counts[line])):
                self._row_scores.add_parts(
                    word["question_key"][int(at["question_key"][line])],
                    int(places[at["row"][line]]),
                    groundedness,
                )

    def _count_failures(
        self,
        table: pa.Table,
        lines: NDArray[np.int64],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        at: Mapping[str, NDArray[np.int64]],
    ) -> None:
        codes, kinds = _codes_of(table.column("error_type").take(pa.array(lines)))
        for code in range(len(kinds)):
            these = lines[codes == code]
            if len(these):
                name, line = self._listed.place(int(places[at["row"][these[0]]]))
                number = int(counts[these].sum())
                self.found.failures.add(_line(table, int(these[0])), f"{name}:{line}", number)

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
        self._worst(table, kept, counts, places, at, word)

    def _worst(
        self,
        table: pa.Table,
        kept: NDArray[np.int64],
        counts_of: NDArray[np.int64],
        places: NDArray[np.int64],
        at: Mapping[str, NDArray[np.int64]],
        word: Mapping[str, Sequence[Any]],
    ) -> None:
        """Keep the rows to look at first: the order of `_display.ranking`, for whole columns."""
        rows, first, number = np.unique(at["row"][kept], return_index=True, return_inverse=True)
        ranks = np.array([rank_of(one) for one in word["verdict"]])[at["verdict"][kept[first]]]
        description_of = [self._described.get(str(name)) for name in word["name"]]
        counts = np.array(
            [
                one is not None and counts_as_badness(one.range, one.direction)
                for one in description_of
            ],
            dtype=bool,
        )
        lower = np.array([one is not None and one.direction == "lower" for one in description_of])
        values = table.column("value").to_numpy()[kept]
        names = at["name"][kept]
        there = counts[names] & ~np.isnan(values)
        distances = np.where(lower[names], values, 1.0 - values)
        total = np.bincount(number[there], distances[there], len(rows))
        mean = total / np.maximum(1, np.bincount(number[there], minlength=len(rows)))
        worst, shown = self.found.worst, set[str]()
        asked, of_row = word["question_key"], at["question_key"][kept[first]]
        flawed = (ranks > 1) | (mean > 0.0)
        for code, count in enumerate(np.bincount(of_row[flawed], counts_of[rows][flawed])):
            if count and asked[code] is not None:
                worst.count(str(asked[code]), int(count))
        for one in np.lexsort((places[rows], -mean, -ranks)):
            badness, row = Badness(int(ranks[one]), float(mean[one])), int(rows[one])
            if len(shown) == SHOWN or not worst.takes(badness, int(places[row])):
                break
            key = str(word["row"][row])
            question = str(asked[int(of_row[one])] or key)
            if question in shown:
                continue
            shown.add(question)
            lines = table.take(pa.array(kept[at["row"][kept] == row])).to_pylist()
            worst.add(badness, int(places[row]), question, key, self._known(lines))

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

    def __init__(self, asked: MeasurementPlan, rules: VerdictRules) -> None:
        self._order = {name: number for number, name in enumerate(asked.measurements)}
        self._rules = rules
        self._database = scratch_database(self)
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


def _codes_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the numbers of a column's texts, and the texts; a missing one is a text of its own, None."""
    coded = column.combine_chunks().dictionary_encode("encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return coded.indices.to_numpy(zero_copy_only=False).astype(
        np.int64
    ), coded.dictionary.to_pylist()


def _by_lacking(
    table: pa.Table, lines: NDArray[np.int64]
) -> Iterator[tuple[str | None, NDArray[np.int64]]]:
    """Yield which input lines lacked, and the lines: other rows of one score may lack another one."""
    codes, details = _codes_of(table.column("detail").take(pa.array(lines)))
    for code, detail in enumerate(details):
        these = lines[codes == code]
        if len(these):
            yield (json.loads(detail).get("missing") if detail else None), these


def _line(table: pa.Table, number: int) -> Score:
    [line] = table.slice(number, 1).to_pylist()
    return score_of_line(line)
