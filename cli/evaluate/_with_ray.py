"""``ragmeter evaluate --engine ray``: scores an archive in Ray's processes.

One process reads each file of the data set, others score.  This process chooses the rows and writes every
part (`_archive`), so that the folder does not depend on the engine.
"""

from __future__ import annotations

import csv
import pickle
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa

from ragmeter.cli._console import say
from ragmeter.fleet._ray_data import ROWS, cluster, score_tables
from ragmeter.fleet.tables import SCORES, scores_as_table
from ragmeter.metrics._files.columns import Columns
from ragmeter.metrics._files.rows import RawRow, open_rows
from ragmeter.metrics._files.samples import Row, sample_row
from ragmeter.metrics.judge.protocol import Judge, JudgeCall
from ragmeter.metrics.results import SampleScores
from ragmeter.scorer import Scorer

from ._archive import ScoringPlan, giving
from ._evaluation import EvaluateOptions

LEAST = 16
"""Fewest rows per call of a process."""
_CALLS = "judge_calls_made"
_ROW = pa.schema([("row", pa.binary()), ("missing", pa.int32())])


def scored_by_ray(
    options: EvaluateOptions, processes: int, scorer: Scorer, plan: ScoringPlan
) -> Iterator[pa.Table]:
    """Yield the scores of a plan's rows, some hundred rows per table, in no particular order.

    Args:
        options: The user's options; every machine of the cluster must see the files under these names.
            The processes report the judge's calls to this one.
        processes: Number of scoring processes.
        scorer: The scorer of each process.
        plan: The rows to score.
    """
    pieces = [
        partial(
            _tables_to_score, path.resolve(), plan.lines[number], plan.missing[number], csv.field_size_limit()
        )
        for number, path in enumerate(options.files)
        if plan.lines[number]
    ]
    judge = options.judge
    # Rows in progress in any process are paid for again after an interruption: at most one part in total.
    rows = ROWS if judge is None else max(LEAST, ROWS // processes)
    # Fewer processes for few rows, as each takes seconds to start.
    processes = max(1, min(processes, -(-plan.rows // rows)))
    with cluster(processes) as lacking:
        if lacking:
            say(
                f"Ray's cluster lacks {lacking} of the CPUs for --processes {processes} and one that reads: "
                "the run waits for them",
                "yellow",
            )
        for table in score_tables(
            pieces,
            partial(_RowScoring, scorer, judge, plan.names, options.columns, options.with_text),
            processes=processes,
            rows=rows,
        ):
            if judge is not None:
                _report(table, judge)
            yield table.drop_columns([_CALLS]).cast(SCORES)


def _tables_to_score(path: Path, lines: array[int], missing: array[int], cell: int) -> Iterator[pa.Table]:
    """Read the rows of a file to score; `cell` is the most characters of a CSV cell."""
    csv.field_size_limit(cell)
    found = _rows_to_score(path, zip(lines, missing, strict=True))
    while some := list(islice(found, ROWS)):
        rows, lacking = zip(*some, strict=True)
        yield pa.table([list(rows), list(lacking)], schema=_ROW)


def _rows_to_score(path: Path, wanted: Iterator[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
    line, missing = next(wanted, (-1, 0))
    for raw in open_rows(path):
        if raw.line == line:
            yield pickle.dumps(tuple(raw), pickle.HIGHEST_PROTOCOL), missing
            line, missing = next(wanted, (-1, 0))
            if line < 0:
                return


class _RowScoring:
    """Scores rows of the data set, in a process of Ray's."""

    def __init__(
        self,
        scorer: Scorer,
        judge: Judge | None,
        names: Sequence[frozenset[str]],
        columns: Columns,
        with_text: bool,
    ) -> None:
        self._scorer = scorer
        self._judge = judge
        self._names = names
        self._columns = columns
        self._with_text = with_text
        self._calls: list[JudgeCall] = []
        self._counted = (0, 0, 0.0)
        # Both were pickled together, so this is the judge that the scorer uses.
        if judge is not None:
            judge.subscribe(self._calls.append)

    def __call__(self, table: pa.Table) -> pa.Table:
        scorer = self._scorer
        found: list[tuple[Row, SampleScores]] = []
        of_missing: dict[int, list[Row]] = {}
        columns = (table.column(name).to_pylist() for name in _ROW.names)
        for content, missing in zip(*columns, strict=True):
            row = sample_row(RawRow(*pickle.loads(content)), self._columns)  # noqa: S301 -- this program's own
            # A row that has changed since is not scored; the report counts it as missing.
            if isinstance(row, Row):
                of_missing.setdefault(missing, []).append(row)
        for missing, rows in of_missing.items():
            scores = scorer.score([row.sample for row in rows], only=giving(self._names[missing]))
            found += zip(rows, scores, strict=True)
        scored_rows = scores_as_table(found, scorer.measurements, with_text=self._with_text)
        stats: list[bytes | None] = [None] * len(scored_rows)
        if stats:
            stats[0] = self._new_judge_stats()
        return scored_rows.append_column(_CALLS, pa.array(stats, pa.binary()))

    def _new_judge_stats(self) -> bytes | None:
        """Return the judge's calls since the previous report."""
        if (judge := self._judge) is None:
            return None
        calls, self._calls[:] = tuple(self._calls), ()
        stats = judge.stats
        hits, misses, cost = self._counted
        self._counted = (stats.cache_hits, stats.cache_misses, stats.cost)
        items = (stats.cache_hits - hits, stats.cache_misses - misses)
        return pickle.dumps((calls, items, stats.cost - cost), pickle.HIGHEST_PROTOCOL)


def _report(table: pa.Table, judge: Judge) -> None:
    for stats in table.column(_CALLS).drop_null().to_pylist():
        calls, items, cost = pickle.loads(stats)  # noqa: S301 -- of a process of this program's
        for call in calls:
            judge.report(call)
        judge.report_items(*items)
        if judge.budget is not None:
            judge.budget.report_cost(cost)
