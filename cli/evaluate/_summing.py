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
_READ = ("row", "name", "status", "measurement", "verdict", "codes", "lacking", "question_key")
"""The columns of texts that are read of each line."""


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


class _Part:
    """The lines of a part, each column of texts as numbers and the texts they stand for.

    Args:
        table: The part.
        listed: Which of its rows count.
    """

    def __init__(self, table: pa.Table, listed: RowList) -> None:
        self.table = table
        self.values: NDArray[np.float64] = table.column("value").to_numpy()
        coded = {name: _codes_of(table.column(name)) for name in _READ}
        self.at = {name: codes for name, (codes, _) in coded.items()}
        self.texts = {name: texts for name, (_, texts) in coded.items()}
        self.counts, self.places, self.starts = listed.find(self.texts["row"])
        """Of each row: how often it occurs, where first, and the first line in `RowList.codes`."""

    def of(self, name: str, line: int | np.integer[Any]) -> Any:
        """Return what a line has in a column of texts."""
        return self.texts[name][int(self.at[name][line])]

    def rows(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the row of each line."""
        return self.at["row"][lines]

    def count(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how often the row of each line occurs."""
        return self.counts[self.rows(lines)]

    def place(self, line: int | np.integer[Any]) -> int:
        """Return where the row of a line stands first."""
        return int(self.places[self.at["row"][line]])

    def split(self, name: str, lines: NDArray[np.int64]) -> Iterator[tuple[Any, NDArray[np.int64]]]:
        """Yield each text of a column, and which of the lines have it."""
        codes = self.at[name][lines]
        for code in np.unique(codes):
            yield self.texts[name][code], lines[codes == code]


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
        part = _Part(table, self._listed)
        at, texts = part.at, part.texts
        self._segments.begin(part.counts, part.starts)
        line_counts = part.counts[at["row"]]
        if spread is not None:
            wanted = np.array([one in self._wanted for one in texts["measurement"]], dtype=bool)
            spared = self._spared_scores(texts["name"], texts["lacking"])
            counted = wanted[at["measurement"]] & ~spared[at["name"], at["lacking"]]
            broken = self._listed.in_several(texts["row"])
            broken[at["row"][~counted]] = True
            broken &= part.counts > 0
            if broken.any():
                lines = broken[at["row"]]
                spread.add(table.filter(pa.array(lines & counted)))
                line_counts[lines] = 0
            line_counts[~counted] = 0
        kept = np.nonzero(line_counts)[0]
        if len(kept):
            self._scores(part, kept)
            if self._row_scores is not None:
                self._compare(self._row_scores, part, kept)
            self._verdicts(part, kept)
            self._worst(part, kept)

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

    def _scores(self, part: _Part, kept: NDArray[np.int64]) -> None:
        found = self.found
        for name, lines in part.split("name", kept):
            nothing = np.isnan(part.values[lines])
            there, without = lines[~nothing], lines[nothing]
            if name not in self._described:
                self._described[name] = _line(part.table, int(lines[0]))
            described_score = self._described[name]
            values = np.repeat(part.values[there], part.count(there))
            found.summarizer.add_many(described_score, values.tolist())
            self._segments.values(described_score, part.rows(there), part.values[there])
            for status, these in part.split("status", without):
                for lacking, some in _by_lacking(part.table, these):
                    found.summarizer.missing(name, status, int(part.count(some).sum()), lacking)
                    self._segments.missing(described_score, part.rows(some), status, lacking)
            for status, these in part.split("status", lines):
                if status in FAILED:
                    self._count_failures(part, these)

    def _compare(self, row_scores: RowScores, part: _Part, kept: NDArray[np.int64]) -> None:
        """Hand over what is compared with another run."""
        repeated = np.repeat(kept, part.count(kept))
        row_scores.add_many(
            (
                part.of("name", line),
                part.of("question_key", line),
                part.place(line),
                part.of("measurement", line),
                None if np.isnan(part.values[line]) else float(part.values[line]),
                part.of("status", line),
            )
            for line in repeated
        )
        # Of what the words that no chunk has consist.
        lines = repeated[[part.of("name", line) == GROUNDEDNESS for line in repeated]]
        summaries = part.table.column("summary").take(pa.array(lines)).to_pylist()
        for line, summary in zip(lines, summaries, strict=True):
            value = None if np.isnan(part.values[line]) else float(part.values[line])
            groundedness = RowScore(part.of("measurement", line), value, "ok", summary)
            row_scores.add_parts(part.of("question_key", line), part.place(line), groundedness)

    def _count_failures(self, part: _Part, lines: NDArray[np.int64]) -> None:
        codes, kinds = _codes_of(part.table.column("error_type").take(pa.array(lines)))
        for code in range(len(kinds)):
            these = lines[codes == code]
            if len(these):
                name, line = self._listed.place(part.place(these[0]))
                failed = _line(part.table, int(these[0]))
                self.found.failures.add(failed, f"{name}:{line}", int(part.count(these).sum()))

    def _verdicts(self, part: _Part, kept: NDArray[np.int64]) -> None:
        found = self.found
        _, first = np.unique(part.rows(kept), return_index=True)
        for line, times in zip(kept[first], part.count(kept[first]).tolist(), strict=True):
            found.scored += times
            verdict = part.of("verdict", line)
            if verdict is None:
                found.unjudged += times
                continue
            found.words[verdict] += times
            codes = part.of("codes", line)
            for code in codes.split(",") if codes else ():
                found.codes[code] += times

    def _worst(self, part: _Part, kept: NDArray[np.int64]) -> None:
        """Keep the rows to look at first: the order of `_display.ranking`, for whole columns."""
        at, texts, places = part.at, part.texts, part.places
        rows, first, number = np.unique(part.rows(kept), return_index=True, return_inverse=True)
        ranks = np.array([rank_of(one) for one in texts["verdict"]])[at["verdict"][kept[first]]]
        scores = [self._described.get(str(name)) for name in texts["name"]]
        counts = np.array(
            [one is not None and counts_as_badness(one.range, one.direction) for one in scores],
            dtype=bool,
        )
        lower = np.array([one is not None and one.direction == "lower" for one in scores])
        values, names = part.values[kept], at["name"][kept]
        there = counts[names] & ~np.isnan(values)
        distances = np.where(lower[names], values, 1.0 - values)
        total = np.bincount(number[there], distances[there], len(rows))
        mean = total / np.maximum(1, np.bincount(number[there], minlength=len(rows)))
        worst, shown = self.found.worst, set[str]()
        asked, of_row = texts["question_key"], at["question_key"][kept[first]]
        flawed = (ranks > 1) | (mean > 0.0)
        for code, count in enumerate(np.bincount(of_row[flawed], part.counts[rows][flawed])):
            if count and asked[code] is not None:
                worst.count(str(asked[code]), int(count))
        for one in np.lexsort((places[rows], -mean, -ranks)):
            badness, row = Badness(int(ranks[one]), float(mean[one])), int(rows[one])
            if len(shown) == SHOWN or not worst.takes(badness, int(places[row])):
                break
            key = str(texts["row"][row])
            question = str(asked[int(of_row[one])] or key)
            if question in shown:
                continue
            shown.add(question)
            lines = part.table.take(pa.array(kept[part.rows(kept) == row])).to_pylist()
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
