"""``ragmeter evaluate``: scores a data set offline, resumably, with the metrics that score live requests.

`run_evaluation` reads one row after the other, measures the scores that an earlier run has not measured, and
returns an `EvaluationReport`; `_report` and `_html_report` show it. Only numbers and the worst rows stay in
memory, however long the data set is. Called by `app`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ragmeter.cli._judge_question import ask_first
from ragmeter.cli._progress import Advance, judge_note, progress
from ragmeter.metrics import ConfigurationError, Metric, MissingDependencyError, Score, Verdict, VerdictRules
from ragmeter.metrics._files.rows import count_rows
from ragmeter.metrics._files.samples import Row, read_samples
from ragmeter.metrics._measuring import measurement_key
from ragmeter.metrics.protocol import lacks_input, run_metric
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.quality.decision import check_limits
from ragmeter.quality.earlier_run import read_scores
from ragmeter.quality.row_scores import RowScores

from ._comparison import OtherRetriever
from ._evaluation import EvaluateOptions, EvaluationReport, SkippedRow
from ._gaps import GapSearch
from ._recorded_scores import evaluate_recorded, is_recorded
from ._score_file import ScoreFile
from ._sums import EvaluationSums


def choose_metrics(options: EvaluateOptions) -> list[Metric]:
    """Return the metrics of the option.

    Raises:
        ConfigurationError: A metric is unknown, or needs a judge and there is none.
    """
    metrics = resolve_metrics(
        options.metrics or "golden", judged=options.judge is not None, fused=options.fused
    )
    needing = [metric.name for metric in metrics if metric.judged]
    if needing and options.judge is None:
        raise ConfigurationError(f"a judge is needed for {', '.join(needing)}: give --judge-model")
    return metrics


def run_evaluation(options: EvaluateOptions) -> EvaluationReport:
    """Score the data set. Shows progress on the error stream.

    Raises:
        ConfigurationError: An option is invalid, or a file cannot be read or written.
        KeyboardInterrupt: The user stopped it; finished rows are in the out file.
    """
    recorded = not options.merge and is_recorded(options.files)
    if (options.gaps or options.compare) and (recorded or options.folder is not None):
        raise ConfigurationError(
            "--gaps and --compare read each question: give rows with texts, and as --out a .jsonl file or "
            "nothing"
        )
    if recorded:
        return evaluate_recorded(options)
    if options.folder is not None:
        if find_spec("pyarrow") is None:
            raise MissingDependencyError("pyarrow", "parquet", "--out with a folder")
        from ._folder import evaluate_into_folder  # noqa: PLC0415 -- brings pyarrow, an extra

        return evaluate_into_folder(options)
    if options.shard is not None or options.merge or options.with_text or options.engine:
        raise ConfigurationError("--shard, --merge, --with-text and --engine need --out DIR, a folder")
    metrics = choose_metrics(options)
    check_limits(options.asked.limits, metrics)
    total = sum(map(count_rows, options.files))
    began = time.perf_counter()
    with ScoreFile(options.out) as kept:
        run = _Pass(options, metrics, kept)
        asyncio.run(run.score_all(min(total, options.limit or total)))
    if not run.rows and not run.sums.bad_row_count:
        names = ", ".join(map(str, options.files))
        raise ConfigurationError(f"{names!r} has no rows: there is nothing to score")
    return run.sums.report(
        options,
        options.files,
        began,
        resumed=run.resumed,
        spent=options.spent,
        judge_model=run.model,
        gaps=None if run.gaps is None else run.gaps.found(),
        comparison=None if run.other is None else run.other.result(),
    )


def read_baseline(path: Path) -> RowScores:
    """Return the scores of an earlier run, from its ``--out`` file or folder.

    Raises:
        ConfigurationError: The file cannot be read, or was not written by ``ragmeter evaluate``.
    """
    if path.is_dir():
        from ._folder import scores_of_folder  # noqa: PLC0415 -- brings pyarrow, an extra

        return scores_of_folder(path)
    return read_scores(path, "--baseline")


class _Pass:
    """One pass over the data set: reads, scores and aggregates one row after the other."""

    def __init__(self, options: EvaluateOptions, metrics: Sequence[Metric], kept: ScoreFile) -> None:
        self._options = options
        self._judge = options.judge
        self.model = None if options.judge is None else options.judge.model
        self._found = ((path, found) for path in options.files for found in read_samples(path, options.columns))
        self._measurements = [(metric, measurement_key(metric, self.model)) for metric in metrics]
        # If the metrics were not chosen, a row gets only those that it has inputs for.
        self._sparing = () if options.metrics else ("reference", "stages")
        self._kept = kept
        self._under_way: dict[str, asyncio.Event] = {}
        self.rows = 0
        self.resumed = 0
        self.sums = EvaluationSums(options.segments, compares=options.asked.baseline is not None)
        self.gaps = GapSearch() if options.gaps else None
        self.other = (
            None if options.compare is None else OtherRetriever(options.compare, options.columns, options.judge)
        )
        self._rules = VerdictRules()
        self._asking: asyncio.Task[None] | None = None

    async def score_all(self, total: int) -> None:
        """Score every row; `total` is for the progress bar only."""

        async def work(advance: Advance) -> None:
            while (row := self._next_row()) is not None:
                await self._score(row)
                advance(judge_note(self._options.spent))

        try:
            with progress("scoring", total) as advance:
                await asyncio.gather(*(work(advance) for _ in range(self._options.concurrency)))
        finally:
            if self._judge is not None:
                await self._judge.aclose()

    def _next_row(self) -> Row | None:
        """Return the next readable row; record the unreadable ones before it."""
        limit = self._options.limit
        while limit is None or self.rows < limit:
            file, found = next(self._found, (None, None))
            if file is None or found is None:
                break
            if isinstance(found, Row):
                self.rows += 1
                return replace(found, file=str(file))
            self.sums.skip(SkippedRow(str(file), *found))
        return None

    async def _score(self, row: Row) -> None:
        """Measure the missing scores of a row, and add all its scores."""
        while (other := self._under_way.get(row.key)) is not None:
            await other.wait()  # an equal row: its calls are not paid twice
        known = self._kept.of(row)
        wanted = self._measurements_of(row)
        missing = [(metric, key) for metric, key in wanted if key not in known]
        if not missing and self._kept.is_earlier(row):
            self.resumed += 1
        if missing:
            done = self._under_way[row.key] = asyncio.Event()
            try:
                await self._measure(row, missing, known)
            finally:
                del self._under_way[row.key]
                done.set()
        scores, verdict = self._so_far(row, known)
        measured_by = {score.name: key for _, key in wanted for score in known[key]}
        self.sums.add(row, scores, verdict, measured_by=measured_by)
        if self.gaps is not None:
            self.gaps.add(row, scores, verdict)
        if self.other is not None:
            await self.other.add(row)

    def _measurements_of(self, row: Row) -> Sequence[tuple[Metric, str]]:
        return [
            (metric, key)
            for metric, key in self._measurements
            if not lacks_input(metric, row.sample, self._sparing)
        ]

    def _so_far(
        self, row: Row, known: Mapping[str, tuple[Score, ...]]
    ) -> tuple[dict[str, Score], Verdict | None]:
        """Return the scores of a row so far, and their verdict."""
        wanted = self._measurements_of(row)
        scores = {score.name: score for _, key in wanted for score in known.get(key, ())}
        return scores, self._rules.verdict(scores, row.sample.status)

    async def _measure(
        self, row: Row, missing: Sequence[tuple[Metric, str]], known: dict[str, tuple[Score, ...]]
    ) -> None:
        """Measure a row's missing metrics; write the scores of each judged one as soon as it is paid for."""
        measured = {
            key: await run_metric(metric, row.sample, self._judge)
            for metric, key in missing
            if not metric.judged
        }
        known.update(measured)
        if measured:
            self._kept.add(row, measured, self._so_far(row, known)[1])

        judged = [(metric, key) for metric, key in missing if metric.judged]
        if judged and self._judge is not None and (variable := self._options.judge_key) is not None:
            if self._asking is None:
                self._asking = asyncio.create_task(ask_first(self._judge, variable))
            await asyncio.shield(self._asking)

        async def judge(metric: Metric, key: str) -> None:
            scores = await run_metric(metric, row.sample, self._judge)
            known[key] = scores
            self._kept.add(row, {key: scores}, self._so_far(row, known)[1])

        await asyncio.gather(*(judge(metric, key) for metric, key in judged))
