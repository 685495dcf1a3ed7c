"""`assert_quality` and `assert_each`: whether what was scored in a test is good enough.

Both decide by `ragmeter.quality.decision`, as the command line does: pass, fail, inconclusive, blocked.
Only ``pass`` passes; what is inconclusive fails as well, unless the user has it warned of.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence

from ragmeter.metrics import ConfigurationError, Metric, RagSample
from ragmeter.metrics._display.summary import summarize
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.quality.decision import (
    Check,
    Criteria,
    Decision,
    Limit,
    decide,
    decide_each,
    limit_of,
)
from ragmeter.quality.row_scores import RowScores

from ._baseline import falls, read_baseline, scores_of, write
from ._results import MeterResults
from ._rows import Given, TestedRow, rows_of
from ._session import Inconclusive, session

__all__ = ["QualityError", "assert_each", "assert_quality", "write_baseline"]

SHOWN = 5
"""Worst rows that a message names."""
MAX_TEXT = 100
"""Characters of a question that a message quotes, where texts are asked for."""


class QualityError(AssertionError):
    """The quality is not what was asked for, or that cannot be said.

    Attributes:
        decision: What was decided, with the numbers it rests on.
    """

    def __init__(self, message: str, decision: Decision) -> None:
        super().__init__(message)
        self.decision = decision


def assert_quality(
    results: MeterResults | Iterable[Given],
    *limits: str,
    baseline: str | os.PathLike[str] | None = None,
    tolerance: float = 0.03,
    metrics: str | Sequence[str | Metric] | None = None,
    judge: Judge | None = None,
    inconclusive: Inconclusive | None = None,
) -> Decision:
    """Decide whether means are good enough, by their 95 % intervals, and not worse than in an earlier run.

    Args:
        results: The fixture ``ragmeter_results`` or what it returns, the results of an `InMemoryExporter`, what
            `ragmeter.metrics.evaluate` or `ragmeter.Scorer` returns, or samples, which are scored here.
        limits: ``NAME>=VALUE`` or ``NAME<=VALUE``, e.g. ``context_recall>=0.8``.
        baseline: A file of earlier results, by `write_baseline`, ``--ragmeter-write-baselines`` or
            ``ragmeter evaluate --out``: rows are paired by question, and the mean of their differences
            decides, for the scores that `limits` name, or for all.
        tolerance: How much worse than the baseline a mean may be, as a share of the score's range; at least 0.
        metrics: With samples: what is measured, as of `ragmeter.metrics.evaluate`.
        judge: With samples: whom judged metrics ask.
        inconclusive: ``fail``, or ``warn``: whether a limit that lies within the interval fails;
            None: as ``--ragmeter-inconclusive`` says, else ``fail``.

    Returns:
        What was decided.

    Raises:
        QualityError: A mean is not good enough, or that cannot be said.
        ConfigurationError: A limit or the baseline cannot be read, or the rows are none.
    """
    __tracebackhide__ = True
    asked = _limits(limits) if limits or baseline is None else []
    if not tolerance >= 0:
        raise ConfigurationError(f"tolerance is {tolerance!r}; give a share of at least 0")
    rows = rows_of(results, metrics, judge)
    if baseline is not None and session.write_baselines:
        write(rows, baseline)
        baseline = None
    earlier = None if baseline is None else read_baseline(baseline)
    summaries = summarize((row.scores for row in rows), interval=False)
    found = decide(
        Criteria(limits=asked, baseline=earlier, tolerance=tolerance),
        summaries,
        RowScores() if earlier is None else scores_of(rows),
        0,
    )
    decision = found or Decision(())
    return _settle(decision, asked, rows, inconclusive or session.inconclusive, earlier)


def write_baseline(
    results: MeterResults | Iterable[Given],
    path: str | os.PathLike[str],
    *,
    metrics: str | Sequence[str | Metric] | None = None,
    judge: Judge | None = None,
) -> None:
    """Write results as what `assert_quality` compares with: questions and scores, and no other text.

    Args:
        results: As of `assert_quality`; each row must tell its question.
        path: The file; replaced whole.
        metrics: As of `assert_quality`.
        judge: Likewise.

    Raises:
        ConfigurationError: There is nothing to write, or the file cannot be written.
    """
    write(rows_of(results, metrics, judge), path)


def assert_each(
    results: MeterResults | Iterable[Given],
    *limits: str,
    metrics: str | Sequence[str | Metric] | None = None,
    judge: Judge | None = None,
) -> Decision:
    """Decide whether each single row reaches the limits: for a few chosen questions, of which no mean is known.

    A row without a value fails the test, too, whatever the reason.

    Args:
        results: As of `assert_quality`.
        limits: Likewise.
        metrics: Likewise.
        judge: Likewise.

    Returns:
        What was decided.

    Raises:
        QualityError: A row is not good enough, or has no value.
        ConfigurationError: A limit cannot be read, or the rows are none.
    """
    __tracebackhide__ = True
    asked = _limits(limits)
    rows = rows_of(results, metrics, judge)
    decision = decide_each(asked, [row.scores for row in rows])
    return _settle(decision, asked, rows, "fail")


def _limits(limits: Sequence[str]) -> list[Limit]:
    if not limits:
        raise ConfigurationError(
            "name a limit, e.g. assert_quality(results, 'context_recall>=0.8')"
        )
    return [limit_of(text, "limit") for text in limits]


def _settle(
    decision: Decision,
    limits: Sequence[Limit],
    rows: Sequence[TestedRow],
    inconclusive: Inconclusive,
    baseline: RowScores | None = None,
) -> Decision:
    """Tell of every check, and raise where one does not pass."""
    __tracebackhide__ = True
    if session.listener is not None:
        for check in decision.checks:
            session.listener(check.as_json())
    said = [
        _message(check, limit, rows)
        for check, limit in zip(decision.checks, limits, strict=False)
        if check.outcome != "pass"
    ]
    if baseline is not None:
        said += [
            "\n".join([_head(check), *_fallen_rows(check, baseline, rows)])
            for check in decision.checks[len(limits) :]
            if check.outcome != "pass"
        ]
    if said and not rows:
        said.append(
            "  no request was captured: is the handler attached to what was called, and does that retrieve?"
        )
    message = "\n".join(said)
    if inconclusive == "warn" and decision.outcome == "inconclusive":
        warnings.warn(message, stacklevel=3)
    elif said:
        raise QualityError(message, decision)
    return decision


def _message(check: Check, limit: Limit, rows: Sequence[TestedRow]) -> str:
    return "\n".join([_head(check), *(f"  {line}" for line in _worst(limit, rows))])


def _head(check: Check) -> str:
    return f"{check.outcome}: {check.what}: {check.reason}"


def _fallen_rows(check: Check, baseline: RowScores, rows: Sequence[TestedRow]) -> list[str]:
    """Return a line for each of the rows that fell most."""
    return [
        f"  {row.name} {was:.3f} then, {now:.3f} now{_quote(row.sample)}"
        for row, was, now in falls(check.what.split()[0], baseline, rows)[:SHOWN]
    ]


def _worst(limit: Limit, rows: Sequence[TestedRow]) -> list[str]:
    """Return a line for each of the worst rows: without a text, unless texts are asked for."""
    found = [(row, row.scores[limit.name]) for row in rows if limit.name in row.scores]
    valued = [(row, score, score.value) for row, score in found if score.value is not None]
    downwards = limit.side == "most" or (
        limit.side is None and any(score.direction == "lower" for _, score in found)
    )
    valued.sort(key=lambda one: -one[2] if downwards else one[2])
    lines = []
    for row, score, value in valued[:SHOWN]:
        why = f": {score.summary}" if score.summary else ""
        lines.append(f"{row.name} {value:.3f}{why}{_quote(row.sample)}")
    lacking = [(row, score) for row, score in found if score.value is None]
    for row, score in lacking[: max(1, SHOWN - len(lines))]:
        missing = f" (not given: {score.missing})" if score.missing else ""
        lines.append(f"{row.name} {score.status}{missing}{_quote(row.sample)}")
    return lines


def _quote(sample: RagSample | None) -> str:
    if not session.texts or sample is None or not sample.question:
        return ""
    text = " ".join(sample.question.split())
    return f" {text[:MAX_TEXT]!r}" + ("…" if len(text) > MAX_TEXT else "")
