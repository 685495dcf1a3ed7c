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
    line: int
    """Counted from 1."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """The options of `ragmeter evaluate`, whose help says what they mean."""

    data: Path | Sequence[Path]
    metrics: Sequence[str | Metric] = ()
    """Empty: the golden ones for rows with a reference, the live ones for the others."""
    judge: Judge | None = None
    columns: Columns = field(default_factory=Columns)
    judge_key: str | None = None
    """The variable with the judge's key, if the judge gets a test question before the first row."""
    out: Path | None = None
    shard: str | None = None
    merge: bool = False
    with_text: bool = False
    page: bool = False
    """Whether a page needs the texts of the worst rows."""
    fused: bool = False
    concurrency: int = 16
    limit: int | None = None
    engine: str | None = None
    processes: int | None = None
    asked: Criteria = field(default_factory=Criteria)
    """The limits and the baseline to decide by."""
    segments: Sequence[str] = ()
    gaps: bool = False
    compare: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the data set."""
        return (self.data,) if isinstance(self.data, Path) else tuple(self.data)

    @property
    def spent(self) -> JudgeStats:
        """The judge's work and cost so far."""
        return JudgeStats() if self.judge is None else self.judge.stats

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
    """Worst first."""
    bad_rows: Sequence[SkippedRow]
    """The rows that were skipped, the first `MAX_BAD_ROWS` of them."""
    bad_row_count: int
    summaries: Sequence[ScoreSummary]
    """One per score name."""
    resumed: int
    """Number of rows that an earlier run had finished."""
    duration_s: float
    spent: JudgeStats = field(default_factory=JudgeStats)
    judge_model: str | None = None
    failures: Failures = field(default_factory=Failures)
    """Scores lost to a failing judge or metric."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    decision: Decision | None = None
    """None: nothing was to be decided."""
    segments: Mapping[str, Sequence[ScoreSummary]] = field(default_factory=dict)
    """The summaries of each segment, such as ``language:zh``."""
    unscored: Sequence[str] = ()
    """Files without any score with a value."""
    gaps: FoundGaps | None = None
    comparison: Comparison | None = None
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
