"""Reads the scored rows of a folder for its report.

Parts are read one after the other. Rows whose scores are spread over several parts, or some of whose scores
do not count, are joined on disk first; so a report needs the memory of one part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ragmeter.fleet.tables import score_of_line
from ragmeter.metrics import RagSample, Score, Verdict, VerdictRules
from ragmeter.metrics._files.samples import Row
from ragmeter.metrics._files.scratch_database import scratch_database

from ._archive import MeasurementPlan
from ._parts import Folder, description_of
from ._row_list import ListedRow, RowList
from ._sums import EvaluationSums

_Line = dict[str, Any]
_KIND = itemgetter("name", "status", "definition", "error_type", "detail")
"""Fields of a line with few distinct values."""
_MOST_KINDS = 1024
_NOT_READ = ["line", "items", "question"]
"""Columns that are only read of rows to show."""
_NO_SAMPLE = RagSample(question=None)


def add_rows_of(folder: Folder, listed: RowList, sums: EvaluationSums) -> None:
    """Add the `listed` rows of all parts of a folder to `sums`."""
    if listed.asked is None:
        return
    for bad in listed.bad:
        sums.skip(bad)
    sums.by_segment.expect(listed.values())
    rows = _FolderRows(listed, listed.asked, sums)
    paths = [path for path in folder.parts() if _is_readable(path)]
    listed.note_parts(map(_keys_of, paths))
    for path in paths:
        rows.add_part(path)
    rows.add_spread()


def _is_readable(path: Path) -> bool:
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            return description_of(file.schema_arrow) is not None
    except (OSError, pa.ArrowException):
        return False  # already reported at the start; its rows were measured again


def _keys_of(path: Path) -> list[str]:
    with parquet.ParquetFile(path, pre_buffer=False, read_dictionary=["row"]) as file:
        keys: list[str] = file.read(["row"], use_threads=False).column("row").unique().to_pylist()
    return keys


class _FolderRows:
    def __init__(self, listed: RowList, asked: MeasurementPlan, sums: EvaluationSums) -> None:
        self._listed = listed
        self._sums = sums
        self._rules = VerdictRules()
        self._order = {name: number for number, name in enumerate(asked.measurements)}
        self._wanted = frozenset(asked.measurements.values())
        self._spared = asked.spared
        self._kinds: dict[tuple[Any, ...], Score] = {}
        self._spread = scratch_database(self)
        self._spread.execute("CREATE TABLE lines (row TEXT, number INTEGER PRIMARY KEY, line TEXT)")

    def add_part(self, path: Path) -> None:
        """Add the rows that are complete in a part, and store the others."""
        # Not `read_table`, which loads the reader of whole data sets, with its own threads.
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            table = file.read(use_threads=False)
        first = 0
        lines: list[_Line] = table.drop_columns(_NOT_READ).to_pylist()
        for key, group in groupby(lines, itemgetter("row")):
            of_row = list(group)
            whole = table.slice(first, len(of_row))
            first += len(of_row)
            places = self._listed.of(key)
            if not places:
                continue
            if not places[0].in_several and all(map(self._counts, of_row)):
                self._add(of_row, places, whole.to_pylist)
                continue
            self._spread.executemany(
                "INSERT INTO lines (row, line) VALUES (?, ?)",
                ((key, json.dumps(line)) for line in whole.to_pylist() if self._counts(line)),
            )

    def add_spread(self) -> None:
        """Add the stored rows, joined, each with the verdict of all its scores."""
        self._spread.execute("CREATE INDEX by_row ON lines (row, number)")
        found = self._spread.execute("SELECT row, line FROM lines ORDER BY row, number")
        for key, group in groupby(found, itemgetter(0)):
            # Of equal lines, the last counts.
            by_name = {line["name"]: line for line in (json.loads(text) for _, text in group)}
            lines = sorted(by_name.values(), key=lambda line: self._order.get(line["name"], 0))
            verdict = self._rules.verdict(_scores(lines), lines[0]["ended"])
            lines[0] |= {
                "verdict": None if verdict is None else verdict.word,
                "codes": None if verdict is None else ",".join(verdict.codes),
            }
            self._add(lines, self._listed.of(key), partial(list, lines))

    def _counts(self, line: _Line) -> bool:
        """Return whether a line has the planned measurement, and its row is to get that score."""
        spared = self._spared.get(line["name"], ())
        return line["measurement"] in self._wanted and not (
            spared and set(spared) & set(line["lacking"].split(","))
        )

    def _add(
        self, lines: Sequence[_Line], places: Iterable[ListedRow], read: Callable[[], list[_Line]]
    ) -> None:
        """Add a row once for each of its places; `read` returns its lines with all evidence."""
        about = lines[0]
        verdict = _verdict(about["verdict"], about["codes"])
        scores = {line["name"]: self._score(line) for line in lines}
        for at in places:
            self._sums.add(
                Row(at.line, _NO_SAMPLE, about["row"], at.file),
                scores,
                verdict,
                measured_by={line["name"]: line["measurement"] for line in lines},
                question=about["question_key"],
                segments=at.segments,
                place=at.place,
                in_full=lambda: self._in_full(read(), verdict),
            )

    def _score(self, line: _Line) -> Score:
        """Return the score of a line, without its evidence."""
        kind = _KIND(line)
        known = self._kinds.get(kind)
        if known is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            known = self._kinds[kind] = score_of_line(line | {"items": None})
        seen = {name: line[name] for name in ("value", "summary", "explanation")}
        return known.model_copy(update=seen)

    def _in_full(
        self, lines: Sequence[_Line], verdict: Verdict | None
    ) -> tuple[Mapping[str, Score], Verdict | None]:
        """Return scores and verdict of a row with reasons; if the verdict has other rules, only its word."""
        scores = _scores(lines)
        if verdict is None:
            return scores, None
        now = self._rules.verdict(scores, lines[0]["ended"])
        same = now is not None and now.word == verdict.word
        return scores, now if same else Verdict(word=verdict.word)


def _scores(lines: Iterable[_Line]) -> dict[str, Score]:
    return {line["name"]: score_of_line(line) for line in lines}


@lru_cache(maxsize=256)
def _verdict(word: Any, codes: str | None) -> Verdict | None:
    return None if word is None else Verdict(word=word, codes=tuple((codes or "").split(",")) if codes else ())
