"""`assert_quality` and `assert_each`: assert that the scores of a test are good enough.

Both use `ragmeter.quality.decision`, as the command line does: pass, fail, inconclusive, blocked. Only
``pass`` passes; inconclusive fails as well, unless the user chooses a warning.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ragmeter.metrics import ConfigurationError, Metric, RagSample
from ragmeter.metrics._display.summary import summarize
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.quality.decision import Check, Criteria, Decision, Limit, decide, decide_each, limit_of
from ragmeter.quality.row_scores import RowScores
from ragmeter.watch.version_watch import VersionWatch
from ragmeter.watch.wording import word_change

from ._baseline import falls, read_baseline, scores_of, write
from ._results import MeterResults
from ._rows import Given, TestedRow, rows_of
from ._session import Inconclusive, session

SHOWN = 5
"""Most of the worst rows in a message."""
MAX_TEXT = 100
"""Most characters of a quoted question, if texts are on."""


class QualityError(AssertionError):
    """The quality misses a limit, or is undecided.

    Attributes:
        decision: The decision with its numbers.
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
    """Assert that means are good enough, by their 95 % intervals, and not worse than in an earlier run.

    Where captured requests have two versions (``service.version``, ``index_version``, ``model``, …), the
    later one must not be worse than the one before: the same comparison as of live requests.

    Args:
        results: The fixture ``ragmeter_results`` or its return value, results of an `InMemoryExporter`, of
            `ragmeter.metrics.evaluate` or of `ragmeter.Scorer`, or samples, which are scored here.
        limits: ``NAME>=VALUE`` or ``NAME<=VALUE``, e.g. ``context_recall>=0.8``.
        baseline: A file of earlier results, by `write_baseline`, ``--ragmeter-write-baselines`` or
            ``ragmeter evaluate --out``: rows are paired by question, and the mean of their differences
            decides, for the scores in `limits`, or for all.
        tolerance: Allowed fall below the baseline, as a share of the score's range; at least 0.
        metrics: For samples: as for `ragmeter.metrics.evaluate`.
        judge: For samples: the judge.
        inconclusive: ``fail`` or ``warn`` if a limit lies within the interval; None:
            ``--ragmeter-inconclusive``, else ``fail``.

    Returns:
        The decision.

    Raises:
        QualityError: A mean is not good enough, or that is undecided.
        ConfigurationError: A limit, the baseline or the rows are invalid.
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
    decision = replace(decision, checks=[*decision.checks, *_worse_versions(rows)])
    return _settle(decision, asked, rows, inconclusive or session.inconclusive, earlier)


def write_baseline(
    results: MeterResults | Iterable[Given],
    path: str | os.PathLike[str],
    *,
    metrics: str | Sequence[str | Metric] | None = None,
    judge: Judge | None = None,
) -> None:
    """Write results as a baseline for `assert_quality`: questions and scores, and no other text.

    Args:
        results: As for `assert_quality`; each row needs its question.
        path: The file; replaced atomically.
        metrics: As for `assert_quality`.
        judge: As for `assert_quality`.

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
    """Assert that each row reaches the limits: for a few chosen questions without a meaningful mean.

    A row without a value fails, too, for any reason.

    Args:
        results: As for `assert_quality`.
        limits: As for `assert_quality`.
        metrics: As for `assert_quality`.
        judge: As for `assert_quality`.

    Returns:
        The decision.

    Raises:
        QualityError: A row is not good enough, or has no value.
        ConfigurationError: A limit or the rows are invalid.
    """
    __tracebackhide__ = True
    asked = _limits(limits)
    rows = rows_of(results, metrics, judge)
    decision = decide_each(asked, [row.scores for row in rows])
    return _settle(decision, asked, rows, "fail")


def _limits(limits: Sequence[str]) -> list[Limit]:
    if not limits:
        raise ConfigurationError("name a limit, e.g. assert_quality(results, 'context_recall>=0.8')")
    return [limit_of(text, "limit") for text in limits]


def _settle(
    decision: Decision,
    limits: Sequence[Limit],
    rows: Sequence[TestedRow],
    inconclusive: Inconclusive,
    baseline: RowScores | None = None,
) -> Decision:
    """Report every check, and raise if one does not pass."""
    __tracebackhide__ = True
    if session.listener is not None:
        for check in decision.checks:
            session.listener(check.as_json())
    problems = [
        "\n".join([_head(check), *(f"  {line}" for line in _worst(limit, rows))])
        for check, limit in zip(decision.checks, limits, strict=False)
        if check.outcome != "pass"
    ]
    problems += [
        "\n".join([_head(check), *_fallen_rows(check, baseline, rows)])
        for check in decision.checks[len(limits) :]
        if check.outcome != "pass"
    ]
    if problems and not rows:
        problems.append(
            "  no request was captured: is the handler attached to what was called, and does that retrieve?"
        )
    message = "\n".join(problems)
    if inconclusive == "warn" and decision.outcome == "inconclusive":
        warnings.warn(message, stacklevel=3)
    elif problems:
        raise QualityError(message, decision)
    return decision


def _worse_versions(rows: Sequence[TestedRow]) -> Iterator[Check]:
    """Yield a failed check for each service whose new version is worse than the one before."""
    versions = VersionWatch()
    for row in rows:
        if row.result is not None:
            versions.add(row.result.run, row.scores, row.result.verdict)
    for change, _ in versions.changes(time.time()):
        name = change.segment.removeprefix("metadata.").partition(":")[0]
        yield Check(
            name,
            "fail",
            word_change(change),
            count=change.now.n_requests,
            score=change.score,
            before=change.before.mean,
            now=change.now.mean,
        )


def _head(check: Check) -> str:
    return f"{check.outcome}: {check.what}: {check.reason}"


def _fallen_rows(check: Check, baseline: RowScores | None, rows: Sequence[TestedRow]) -> list[str]:
    """Return a line for each of the rows that fell most, or no lines without a baseline."""
    if baseline is None:
        return []
    return [
        f"  {row.name} {was:.3f} then, {now:.3f} now{_quote(row.sample)}"
        for row, was, now in falls(check.what.split()[0], baseline, rows)[:SHOWN]
    ]


def _worst(limit: Limit, rows: Sequence[TestedRow]) -> list[str]:
    """Return a line for each of the worst rows, with its text only if texts are on."""
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
