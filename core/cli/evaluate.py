"""``ragmeter evaluate``: scores a data set offline, resumably, with the metrics that score live requests.

`run_evaluation` reads rows, measures what an earlier run has not measured yet, and returns an
`Evaluation`; `evaluate_report` and `html_report` show it.  Called by `app`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragmeter.metrics import ConfigurationError, Metric, Score
from ragmeter.metrics.judge.contract import Judge, JudgeCall
from ragmeter.metrics.metric import run_metric
from ragmeter.metrics.registry import default_metrics, resolve_metrics

from .progress import Advance, progress
from .rows import BadRow, Row, read_rows
from .score_file import ScoreFile, measurement_key
from .summary import ScoreSummary, summarize

__all__ = ["EvaluateOptions", "Evaluation", "Spent", "run_evaluation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """What the user asked for on the command line."""

    data: Path
    """The data set, ``.jsonl`` or ``.csv``."""
    metrics: Sequence[str | Metric] = ()
    """Names of metrics, or metrics; empty: all that can run."""
    judge: Judge | None = None
    """Who gives verdicts, or None."""
    out: Path | None = None
    """Where scores are kept for resuming, or None."""
    fused: bool = False
    """Judge precision, recall and relevancy in one call, when no metrics are named."""
    concurrency: int = 16
    """Rows scored at the same time; more than one only helps judged metrics."""
    limit: int | None = None
    """Score only so many rows, from the first."""


@dataclass(slots=True)
class Spent:
    """What the judge cost in this run."""

    calls: int = 0
    """Calls made."""
    cached: int = 0
    """Questions answered from the cache."""
    failed: int = 0
    """Calls that failed."""
    input_tokens: int = 0
    """Tokens sent."""
    output_tokens: int = 0
    """Tokens received."""

    def note(self, call: JudgeCall) -> None:
        """Add one call."""
        if call.cached:
            self.cached += 1
            return
        self.calls += call.calls
        self.failed += call.error_type is not None
        self.input_tokens += call.input_tokens
        self.output_tokens += call.output_tokens


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything a report needs."""

    data: Path
    """The data set."""
    rows: Sequence[Row]
    """The readable rows, in file order; equal rows each count."""
    scores: Sequence[Mapping[str, Score]]
    """All scores of each row by name."""
    bad_rows: Sequence[BadRow]
    """The rows that were skipped."""
    metrics: Sequence[Metric]
    """What was measured."""
    summaries: Sequence[ScoreSummary]
    """One per score name."""
    resumed: int
    """Rows that an earlier run had already finished."""
    spent: Spent
    """What the judge cost in this run."""
    duration_s: float
    """Wall time in seconds."""
    judge_model: str | None = None
    """The judge's model, if any."""
    failed_scores: Mapping[str, int] = field(default_factory=dict)
    """Scores lost to a failing judge or metric, by status."""

    @property
    def complete(self) -> bool:
        """Whether every row was read and every score measured."""
        return not self.bad_rows and not self.failed_scores


_FAILED = ("judge_error", "timeout", "metric_error")


def choose_metrics(options: EvaluateOptions) -> list[Metric]:
    """Turn the option into metrics.

    Raises:
        ConfigurationError: A metric is unknown, or needs a judge and there is none.
    """
    if not options.metrics:
        return list(default_metrics(judged=options.judge is not None, fused=options.fused))
    metrics = list(resolve_metrics(options.metrics))
    needing = [metric.name for metric in metrics if metric.judged]
    if needing and options.judge is None:
        raise ConfigurationError(f"a judge is needed for {', '.join(needing)}: give --judge-model")
    return metrics


def run_evaluation(options: EvaluateOptions) -> Evaluation:
    """Score the data set. Shows progress on the error stream.

    Raises:
        ConfigurationError: An option makes no sense, or a file cannot be read or written.
        KeyboardInterrupt: The user stopped it; finished rows are in the out file.
    """
    if options.out is not None and options.out.resolve() == options.data.resolve():
        raise ConfigurationError("--out names the data set itself; name another file")
    metrics = choose_metrics(options)
    found = list(read_rows(options.data))
    rows = [one for one in found if isinstance(one, Row)][: options.limit]
    bad_rows = [one for one in found if isinstance(one, BadRow)]
    spent = Spent()
    if options.judge is not None:
        options.judge.subscribe(spent.note)
    began = time.perf_counter()
    with ScoreFile(options.out) as kept:
        resumed = asyncio.run(_score_all(options, metrics, rows, kept, spent))
        model = options.judge.model if options.judge is not None else None
        scores = [_scores_of(row, metrics, model, kept) for row in rows]
    failed: dict[str, int] = {}
    for by_name in scores:
        for score in by_name.values():
            if score.status in _FAILED:
                failed[score.status] = failed.get(score.status, 0) + 1
    return Evaluation(
        data=options.data,
        rows=rows,
        scores=scores,
        bad_rows=bad_rows,
        metrics=metrics,
        summaries=summarize(scores),
        resumed=resumed,
        spent=spent,
        duration_s=time.perf_counter() - began,
        judge_model=model,
        failed_scores=failed,
    )


def _scores_of(
    row: Row, metrics: Sequence[Metric], model: str | None, kept: ScoreFile
) -> dict[str, Score]:
    return {
        score.name: score
        for metric in metrics
        for score in kept.get(row.key, measurement_key(metric, model)) or ()
    }


async def _score_all(
    options: EvaluateOptions,
    metrics: Sequence[Metric],
    rows: Sequence[Row],
    kept: ScoreFile,
    spent: Spent,
) -> int:
    """Measure what is missing; return how many rows needed nothing."""
    model = options.judge.model if options.judge is not None else None
    todo: dict[str, tuple[Row, list[Metric]]] = {}
    resumed = 0
    for row in rows:
        open_metrics = [
            metric
            for metric in metrics
            if kept.get(row.key, measurement_key(metric, model)) is None
        ]
        if open_metrics:
            todo.setdefault(row.key, (row, open_metrics))
        else:
            resumed += 1
    jobs = iter(todo.values())

    async def work(advance: Advance) -> None:
        for row, open_metrics in jobs:
            measured = await asyncio.gather(
                *(run_metric(metric, row.sample, options.judge) for metric in open_metrics)
            )
            kept.add(
                row,
                {
                    measurement_key(metric, model): scores
                    for metric, scores in zip(open_metrics, measured, strict=True)
                },
            )
            advance(_note(spent))

    try:
        with progress("scoring", len(todo)) as advance:
            workers = min(options.concurrency, len(todo))
            await asyncio.gather(*(work(advance) for _ in range(workers)))
    finally:
        if options.judge is not None:
            await options.judge.aclose()
    return resumed


def _note(spent: Spent) -> str:
    if not spent.calls and not spent.cached:
        return ""
    return (
        f"{spent.calls} calls, {spent.input_tokens:,} + {spent.output_tokens:,} tokens"
        + (f", {spent.cached} cached" if spent.cached else "")
        + (f", {spent.failed} failed" if spent.failed else "")
    )
