"""Options and result of `ragmeter evaluate`: filled in by `run`, shown by the reports."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ragmeter.metrics import ConfigurationError, Metric
from ragmeter.metrics._display.failures import Failures
from ragmeter.metrics._display.summary import ScoreSummary
from ragmeter.metrics._files.columns import Columns
from ragmeter.metrics.judge.protocol import Judge, JudgeStats
from ragmeter.quality.decision import Criteria, Decision
from ragmeter.quality.retriever_comparison import Comparison

from ._gaps import FoundGaps
from ._verdicts import Verdicts
from ._worst_rows import WorstRow

MAX_BAD_ROWS = 1_000
"""Skipped rows that are kept with their reasons; the others are counted."""


class SkippedRow(NamedTuple):
    """A row that could not be read."""

    file: str
    """Where it stands."""
    line: int
    """The line there, counted from 1."""
    reason: str
    """What is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """The options of the command line."""

    data: Path | Sequence[Path]
    """The data set: one file, or several."""
    metrics: Sequence[str | Metric] = ()
    """Presets, names of metrics, or metrics; empty: the golden ones for rows with a reference, the live
    ones for the others."""
    judge: Judge | None = None
    """The judge of judged metrics, or None."""
    columns: Columns = field(default_factory=Columns)
    """Which columns of the data set hold what."""
    judge_key: str | None = None
    """The variable with the judge's key, if the judge gets a test question before the first row."""
    out: Path | None = None
    """Where scores are kept for resuming: a file of JSON lines, or a folder of Parquet parts; or None."""
    shard: str | None = None
    """Which rows to score, ``i/n``: for a folder."""
    merge: bool = False
    """Report what all shards of a folder have found, and score nothing."""
    with_text: bool = False
    """Whether parts hold questions, explanations and the texts of the evidence, too."""
    page: bool = False
    """Whether the texts of the worst rows are wanted, for a page."""
    fused: bool = False
    """Judge precision, recall, relevancy and what live requests are asked in one call, when no metrics
    are named."""
    concurrency: int = 16
    """Rows scored at the same time; more than one only helps judged metrics."""
    limit: int | None = None
    """How many rows to score, from the first."""
    engine: str | None = None
    """Who scores, for a folder: ``ray``; None: this process."""
    processes: int | None = None
    """How many processes an engine scores in; None: one per core."""
    asked: Criteria = field(default_factory=Criteria)
    """What is to be decided."""
    segments: Sequence[str] = ()
    """By what to tell parts of the data set apart, as of ``RagMeter(segments=...)``."""
    gaps: bool = False
    """Whether the topics that go badly are looked for."""
    compare: Path | None = None
    """Another retriever's results for the same questions; None: there is none."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the data set."""
        return (self.data,) if isinstance(self.data, Path) else tuple(self.data)

    @property
    def folder(self) -> Path | None:
        """`out`, if it is a folder: one that is there, or a name without an ending."""
        if self.out is None or self.out.is_dir() or not (self.out.suffix or self.out.is_file()):
            return self.out
        if self.out.suffix in (".parquet", ".csv"):
            raise ConfigurationError(
                f"--out {str(self.out)!r}: name a folder, which is filled with Parquet files, or a .jsonl "
                "file"
            )
        return None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """Everything a report needs."""

    data: str
    """The data set: the names of its files."""
    rows: int
    """How many rows could be read; equal rows each count."""
    worst: Sequence[WorstRow]
    """The rows to look at first, worst first."""
    bad_rows: Sequence[SkippedRow]
    """The rows that were skipped, the first `MAX_BAD_ROWS` of them."""
    bad_row_count: int
    """How many were skipped."""
    summaries: Sequence[ScoreSummary]
    """One per score name."""
    resumed: int
    """Rows that an earlier run had already finished."""
    duration_s: float
    """Wall time in seconds."""
    spent: JudgeStats = field(default_factory=JudgeStats)
    """What the judge did and cost."""
    judge_model: str | None = None
    """The judge's model, if any."""
    failures: Failures = field(default_factory=Failures)
    """Scores lost to a failing judge or metric."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    """How many rows are good, suspect and bad."""
    decision: Decision | None = None
    """What was decided; None: nothing was to be."""
    segments: Mapping[str, Sequence[ScoreSummary]] = field(default_factory=dict)
    """The summaries of each segment, e.g. of ``language:zh``."""
    unscored: Sequence[str] = ()
    """Files of which no row has a score with a value."""
    gaps: FoundGaps | None = None
    """The topics that go badly; None: they were not asked for."""
    comparison: Comparison | None = None
    """What another retriever's results amount to; None: there is none."""
    at: float = field(default_factory=time.time)
    """When it ended, in unix seconds."""
    recorded: bool = False
    """Whether the scores stood in the data: nothing was scored."""

    @property
    def failed_scores(self) -> Mapping[str, int]:
        """Scores lost to a failing judge or metric, by status."""
        return self.failures.by_status

    @property
    def complete(self) -> bool:
        """Whether every row was read, every score measured, and something of every file."""
        return not (self.bad_row_count or self.failures or self.unscored)
