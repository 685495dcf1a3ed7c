"""From a run to its scores: what is computed at once, what is judged, what is held back.

`MetricSet` knows the meter's metrics in order and runs the free ones.  `Pending` is a run
whose judged scores are still to come: it is exported once, whole, when they arrive
in time, or twice, when they do not.  Who calls what is the meter's business.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ragmeter.exporters.protocol import RagRun, ScoredRun, Selection
from ragmeter.metrics import ComputedMetric, ConfigurationError, Metric, RagSample, Score
from ragmeter.metrics.metric import compute_metric, scores_without_value

__all__ = ["Chances", "MetricSet", "Pending", "PendingJob"]

WORK_S = 0.0002
"""Seconds of scoring after which others may have the interpreter lock."""


class MetricSet:
    """The meter's metrics, in order, split into those computed at once and those that wait.

    Args:
        metrics: The metrics.
        max_text_chars: Characters of a text beyond which the metrics that read it are skipped.

    Raises:
        ConfigurationError: Two metrics would write the same score name.
    """

    batch = 1
    """Samples to compute at a time: there is nothing to be gained by more."""

    def __init__(self, metrics: Iterable[Metric], max_text_chars: int | None = None) -> None:
        self.max_text_chars = max_text_chars
        self.all = tuple(metrics)
        self.computed = tuple(m for m in self.all if isinstance(m, ComputedMetric))
        self.awaited = tuple(m for m in self.all if not isinstance(m, ComputedMetric))
        owners: dict[str, str] = {}
        for metric in self.all:
            for name in metric.score_names:
                if name in owners:
                    raise ConfigurationError(
                        f"metrics {owners[name]!r} and {metric.name!r} both write the score "
                        f"{name!r}; rename one with .prefixed('my_')"
                    )
                owners[name] = metric.name
        self.awaited_names = frozenset(
            name for metric in self.awaited for name in metric.score_names
        )
        self._rank = {name: rank for rank, name in enumerate(owners)}

    def compute(
        self, samples: Sequence[RagSample], rest: Callable[[], None] | None = None
    ) -> list[dict[str, Score]]:
        """Run every computed metric; never raises, always one score per name and sample.

        Args:
            samples: What to score.
            rest: Called between two metrics after every `WORK_S` seconds of work.
        """
        return [self._compute(self.computed, sample, rest) for sample in samples]

    def compute_again(self, sample: RagSample) -> dict[str, Score]:
        """Run those computed metrics that a reference makes possible."""
        return self._compute(self.computed_again, sample)

    def _compute(
        self,
        metrics: Iterable[ComputedMetric],
        sample: RagSample,
        rest: Callable[[], None] | None = None,
    ) -> dict[str, Score]:
        scores: dict[str, Score] = {}
        began = time.perf_counter()
        for metric in metrics:
            if rest is not None and time.perf_counter() - began > WORK_S:
                rest()
                began = time.perf_counter()
            for score in compute_metric(metric, sample, self.max_text_chars):
                scores[score.name] = score
        return scores

    @property
    def computed_again(self) -> tuple[ComputedMetric, ...]:
        """The computed metrics that a reference makes possible."""
        return tuple(metric for metric in self.computed if _reads_reference(metric))

    @property
    def awaiting_reference(self) -> tuple[Metric, ...]:
        """The awaited metrics that a reference makes possible."""
        return tuple(metric for metric in self.awaited if _reads_reference(metric))

    @staticmethod
    def unjudged(metrics: Iterable[Metric], reason: str) -> tuple[Score, ...]:
        """Return a ``skipped`` score for every name that nobody is going to measure."""
        return tuple(
            score
            for metric in metrics
            for score in scores_without_value(metric, "skipped", f"not judged: {reason}")
        )

    def in_order(self, scores: Mapping[str, Score]) -> dict[str, Score]:
        """Return `scores` in the order of the metrics."""
        last = len(self._rank)
        return dict(sorted(scores.items(), key=lambda item: self._rank.get(item[0], last)))


def _reads_reference(metric: Metric) -> bool:
    return any("reference." in need for need in metric.needs)


class Chances(NamedTuple):
    """With which probabilities a request came to be scored and judged."""

    sample_rate: float
    """Of being scored."""
    judge_sample_rate: float
    """Of being judged, given that it was scored."""
    selection: Selection = "sampled"
    """Whether its place had it scored, or only that it is bad."""
    judge_selection: Selection = "sampled"
    """The same of judging."""


class Pending:
    """A run that waits for judged scores. Thread-safe: exported at most once whole and once late.

    Args:
        run: The run.
        scores: What is known already.
        emit: Takes what is to be exported, and its size in bytes.
        chances: How it came to be scored and judged.
        size_bytes: What it holds on to, estimated.
        revision: Names what was learned about the run after it went out: everything is late then,
            and goes out even without scores. Empty: its first scores.
    """

    __slots__ = (
        "_chances",
        "_done",
        "_emit",
        "_lock",
        "_release",
        "_revision",
        "_scores",
        "_shown",
        "run",
        "size_bytes",
    )

    def __init__(
        self,
        run: RagRun,
        scores: Mapping[str, Score],
        emit: Callable[[ScoredRun, int], None],
        chances: Chances,
        *,
        size_bytes: int = 0,
        revision: str = "",
    ) -> None:
        self.run = run
        self.size_bytes = size_bytes
        self._scores = dict(scores)
        self._emit = emit
        self._chances = chances
        self._revision = revision
        self._shown: frozenset[str] | None = frozenset() if revision else None
        self._done = False
        # One may take it. Reentrant: a signal handler may flush on top of a flush.
        self._release = [True]
        self._lock = threading.RLock()

    @property
    def finished(self) -> bool:
        """Whether everything has come in and gone out."""
        return self._done

    @property
    def refused(self) -> bool:
        """Whether the judge's budget, a fuse, refused a score of it."""
        with self._lock:
            return any(
                score.status == "skipped" and score.error_type == "budget"
                for score in self._scores.values()
            )

    def add(self, scores: Sequence[Score]) -> None:
        """Add scores that came in; nothing is exported yet."""
        with self._lock:
            self._scores.update((score.name, score) for score in scores)

    def add_missing(self, scores: Sequence[Score]) -> None:
        """Add those scores that have not come in by themselves."""
        with self._lock:
            for score in scores:
                self._scores.setdefault(score.name, score)

    def release(self) -> None:
        """Export the run with what is there: it has been held long enough."""
        with self._lock:
            if self._shown is not None or not self._release:
                return
            self._release.clear()
            self._shown = frozenset(self._scores)
            ready = dict(self._scores)
        self._emit(self._result(ready, late=False), self.size_bytes)

    def finish(self) -> None:
        """Export what has not been exported yet: everything has come in."""
        with self._lock:
            shown = self._shown
            rest = {n: s for n, s in self._scores.items() if shown is None or n not in shown}
            self._shown = frozenset(self._scores)
            self._done = True
        if shown is None or rest or self._revision:
            self._emit(self._result(rest, late=shown is not None), self.size_bytes)

    def _result(self, scores: Mapping[str, Score], *, late: bool) -> ScoredRun:
        return ScoredRun(
            run=self.run,
            scores=scores,
            late=late,
            sample_rate=self._chances.sample_rate,
            judge_sample_rate=self._chances.judge_sample_rate,
            selection=self._chances.selection,
            judge_selection=self._chances.judge_selection,
            revision=self._revision,
        )


class PendingJob:
    """A pending run as the judge's loop sees it: a `ragmeter.pipeline.judging.JudgeJob`."""

    __slots__ = ("_end", "_pending", "metrics")

    def __init__(
        self,
        pending: Pending,
        metrics: Sequence[Metric],
        end: Callable[[Pending, Sequence[Metric], str | None], None],
    ) -> None:
        self._pending = pending
        self._end = end
        self.metrics = metrics

    @property
    def sample(self) -> RagSample:
        """What is judged."""
        return self._pending.run.sample

    @property
    def size_bytes(self) -> int:
        """What it holds on to, estimated."""
        return self._pending.size_bytes

    def judged(self, scores: Sequence[Score]) -> None:
        """Take the scores of one metric."""
        self._pending.add(scores)

    def done(self, skipped: str | None) -> None:
        """All metrics have answered, or `skipped` says why nobody asked them."""
        self._end(self._pending, self.metrics, skipped)
