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
"""Most skipped rows to store with their reasons; the others are counted."""


class SkippedRow(NamedTuple):
    """A row that could not be read."""

    file: str
    """Name of its file."""
    line: int
    """Its line, counted from 1."""
    reason: str
    """Reason for skipping it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """The options of the command line."""

    data: Path | Sequence[Path]
    """The data set: one file, or several."""
    metrics: Sequence[str | Metric] = ()
    """Presets, names of metrics, or metrics; empty: the golden ones for rows with a reference, the live
    ones for the others."""
    judge: Judge | None = None
    """The judge for judged metrics, or None."""
    columns: Columns = field(default_factory=Columns)
    """The columns of the data set for each field."""
    judge_key: str | None = None
    """The variable with the judge's key, if the judge gets a test question before the first row."""
    out: Path | None = None
    """File of JSON lines, or folder of Parquet parts, that stores scores for resuming; or None."""
    shard: str | None = None
    """The rows to score, ``i/n``: for a folder."""
    merge: bool = False
    """Whether to report on all shards of a folder, and score nothing."""
    with_text: bool = False
    """Whether parts include questions, explanations and the texts of the evidence."""
    page: bool = False
    """Whether a page needs the texts of the worst rows."""
    fused: bool = False
    """Whether to judge precision, recall, relevancy and the live scores in one call, if no metrics are
    named."""
    concurrency: int = 16
    """Rows scored at the same time; more than one only helps judged metrics."""
    limit: int | None = None
    """Number of rows to score, from the first."""
    engine: str | None = None
    """The scoring engine, for a folder: ``ray``; None: this process."""
    processes: int | None = None
    """Number of an engine's processes; None: one per core."""
    asked: Criteria = field(default_factory=Criteria)
    """The limits and the baseline to decide by."""
    segments: Sequence[str] = ()
    """Names of the segments, as of ``RagMeter(segments=...)``."""
    gaps: bool = False
    """Whether to look for topics that go badly."""
    compare: Path | None = None
    """Another retriever's results for the same questions; None: no comparison."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the data set."""
        return (self.data,) if isinstance(self.data, Path) else tuple(self.data)

    @property
    def folder(self) -> Path | None:
        """`out`, if it is a folder: an existing one, or a name without an ending."""
        if self.out is None or self.out.is_dir() or not (self.out.suffix or self.out.is_file()):
            return self.out
        if self.out.suffix in (".parquet", ".csv"):
            raise ConfigurationError(
                f"--out {str(self.out)!r}: name a folder, which is filled with Parquet files, or a .jsonl file"
            )
        return None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """All results, for the reports."""

    data: str
    """Names of the files of the data set."""
    rows: int
    """Number of readable rows; equal rows count separately."""
    worst: Sequence[WorstRow]
    """The rows to look at first, worst first."""
    bad_rows: Sequence[SkippedRow]
    """The rows that were skipped, the first `MAX_BAD_ROWS` of them."""
    bad_row_count: int
    """Number of skipped rows."""
    summaries: Sequence[ScoreSummary]
    """Summaries, one per score name."""
    resumed: int
    """Number of rows that an earlier run had finished."""
    duration_s: float
    """Wall time in seconds."""
    spent: JudgeStats = field(default_factory=JudgeStats)
    """The judge's calls and their cost."""
    judge_model: str | None = None
    """The judge's model, if any."""
    failures: Failures = field(default_factory=Failures)
    """Scores lost to a failing judge or metric."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    """Number of good, suspect and bad rows."""
    decision: Decision | None = None
    """The decision; None: nothing was to be decided."""
    segments: Mapping[str, Sequence[ScoreSummary]] = field(default_factory=dict)
    """The summaries of each segment, such as ``language:zh``."""
    unscored: Sequence[str] = ()
    """Files without any score with a value."""
    gaps: FoundGaps | None = None
    """The topics that go badly; None: not requested."""
    comparison: Comparison | None = None
    """The comparison with another retriever; None: not requested."""
    at: float = field(default_factory=time.time)
    """Time of its end, in unix seconds."""
    recorded: bool = False
    """Whether the scores are from the data itself, and nothing was scored."""

    @property
    def failed_scores(self) -> Mapping[str, int]:
        """Scores lost to a failing judge or metric, by status."""
        return self.failures.by_status

    @property
    def complete(self) -> bool:
        """Whether every row was read, every score measured, and every file has a value."""
        return not (self.bad_row_count or self.failures or self.unscored)
