"""Convert results, samples or mappings to rows with scores for assertions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import ConfigurationError, Metric, RagSample, Score
from ragmeter.metrics.evaluation import evaluate
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.results import SampleScores

from ._results import MeterResults, merge_results

Given: TypeAlias = "ScoredRun | RagSample | Mapping[str, Score]"
"""The accepted types of a row."""


class TestedRow(NamedTuple):
    """One row."""

    name: str
    """Name of the row in messages: its number, from 0, and the request id, if any."""
    scores: Mapping[str, Score]
    sample: RagSample | None
    judge: str = ""
    """The judge's model, if known."""
    result: ScoredRun | None = None
    """The captured request; None: the row is a sample or a set of scores."""


def rows_of(
    given: MeterResults | Iterable[Given], metrics: str | Sequence[str | Metric] | None, judge: Judge | None
) -> list[TestedRow]:
    """Convert to rows; samples are scored.

    Raises:
        ConfigurationError: The values have other or mixed types.
    """
    if isinstance(given, (ScoredRun, RagSample, Mapping, str)):
        raise ConfigurationError(f"pass a list of results, not one {type(given).__name__}")
    rows = given() if isinstance(given, MeterResults) else list(given)
    samples = [row for row in rows if isinstance(row, RagSample)]
    if samples and len(samples) == len(rows):
        model = "" if judge is None else judge.model
        return [_of_scores(n, one, model) for n, one in enumerate(evaluate(samples, metrics, judge))]
    if metrics is not None or judge is not None:
        raise ConfigurationError("metrics and judge are for samples; these rows are scored already")
    runs = [row for row in rows if isinstance(row, ScoredRun)]
    if len(runs) == len(rows):
        return [
            TestedRow(
                f"row {number} (request {one.run.run_id})",
                one.scores,
                one.sample,
                "" if one.judge is None else one.judge.model,
                one,
            )
            for number, one in enumerate(merge_results(runs))
        ]
    scores = [row for row in rows if isinstance(row, Mapping)]
    if len(scores) != len(rows):
        kinds = ", ".join(sorted({type(row).__name__ for row in rows}))
        raise ConfigurationError(
            f"rows are results, or samples, or mappings of score names to Score, not {kinds}"
        )
    return [_of_scores(number, one) for number, one in enumerate(scores)]


def _of_scores(number: int, scores: Mapping[str, Score], judge: str = "") -> TestedRow:
    sample = scores.sample if isinstance(scores, SampleScores) else None
    return TestedRow(f"row {number}", scores, sample, judge)
