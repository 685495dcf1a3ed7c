"""Hold requests for their judged scores, for at most ``hold_s``.

A `Pending` run is exported once if its judged scores arrive in time, else twice. `Holding` releases runs when
they are due or too many wait, and remembers exported ones for late references and feedback.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragmeter._runtime.stats import Counters, explain, explanations
from ragmeter._runtime.threads import Bell, start_elsewhere
from ragmeter.exporters.protocol import RagRun, ScoredRun
from ragmeter.metrics import Metric, RagSample, Score, Verdict, VerdictRules
from ragmeter.metrics._process import fork
from ragmeter.metrics.verdict import known_values
from ragmeter.quality.positions import StreamPositions
from ragmeter.requests.size import weight_of_run

from ._admission import Admission
from .counting import OnJudged
from .late import ExportedRequest, LateWindow
from .sampling import Chances, JudgingSteps
from .scoring import MetricSet

__all__ = ["Holding", "Pending", "PendingJob"]

RELEASE_S = 5.0
"""Longest wait of `release_all`, in seconds."""


@dataclass(eq=False)
class Pending:
    """A run that waits for judged scores. Thread-safe: exported at most once, and once more as late."""

    run: RagRun
    scores: dict[str, Score]
    """The scores so far."""
    out: Callable[[ScoredRun, int], None]
    """Receives a result to export and its size in bytes."""
    metrics: MetricSet
    """The meter's metrics, which order the scores."""
    chances: Chances
    """Its sampling probabilities."""
    size_bytes: int = 0
    """Estimated memory it holds."""
    due_at: float = 0.0
    """When it is exported with the scores so far (monotonic)."""
    revision: str = ""
    """Name of an amendment after the first export: all results are late then, and exported even without
    scores. Empty: the first scores."""
    rules: VerdictRules = VerdictRules()  # noqa: RUF009 -- frozen
    """Rules of its verdict."""
    before: ExportedRequest | None = None
    """Its earlier results, if remembered."""
    on_judged: OnJudged | None = None
    """Counts its judged scores; None: not counted."""
    verdict: Verdict | None = None
    """Verdict of `scores`, if known; None: computed when needed."""

    def __post_init__(self) -> None:
        self._values = {} if self.before is None else dict(self.before.values)
        self._last_verdict = None if self.before is None else self.before.verdict
        self._shown: frozenset[str] | None = frozenset() if self.revision else None
        self._done = False
        # Acquired by one thread. Reentrant: a signal handler may flush during a flush.
        self._release = [True]
        self._lock = threading.RLock()

    def left_s(self, now: float) -> float:
        """Return the seconds until it is due; 0.0 if it was exported."""
        return 0.0 if self._done else max(0.0, self.due_at - now)

    @property
    def was_refused(self) -> bool:
        """Whether the judge's budget refused one of its scores."""
        with self._lock:
            return any(
                score.status == "skipped" and score.error_type == "budget" for score in self.scores.values()
            )

    def add(self, scores: Sequence[Score]) -> None:
        """Add scores, without exporting."""
        with self._lock:
            self.verdict = None
            self.scores.update((score.name, score) for score in scores)

    def asks_further(self, asked: JudgingSteps) -> bool:
        """Return whether a cascade continues, given the scores so far."""
        with self._lock:
            return asked.further(self.scores)

    def add_missing(self, scores: Sequence[Score]) -> None:
        """Add scores that are still missing."""
        with self._lock:
            for score in scores:
                self.scores.setdefault(score.name, score)

    def count(self) -> None:
        """Count its judged scores, once they are complete."""
        if self.on_judged is not None:
            with self._lock:
                scores = dict(self.scores)
            self.on_judged(scores)

    def release(self) -> None:
        """Export the run with the scores so far."""
        with self._lock:
            if self._shown is not None or not self._release:
                return
            self._release.clear()
            self._shown = frozenset(self.scores)
            # Under the lock: `finish` reports the export as complete.
            result = self._result(dict(self.scores), self._new_verdict(), late=False)
            self.out(result, self.size_bytes)

    def finish(self) -> None:
        """Export the scores not exported yet, now that all are known."""
        with self._lock:
            shown = self._shown
            rest = {n: s for n, s in self.scores.items() if shown is None or n not in shown}
            self._shown = frozenset(self.scores)
            self._done = True
            verdict = self._new_verdict()
        if shown is None or rest or self.revision:
            self.out(self._result(rest, verdict, late=shown is not None), self.size_bytes)

    def _new_verdict(self) -> Verdict | None:
        """Return the verdict of all scores; None also if it was exported before."""
        verdict = self.verdict
        if verdict is None:
            self._values.update(known_values(self.scores))
            verdict = self.rules.of_values(self._values, self.run.sample.status)
        if verdict == self._last_verdict:
            return None
        self._last_verdict = verdict
        return verdict

    def _result(self, scores: Mapping[str, Score], verdict: Verdict | None, *, late: bool) -> ScoredRun:
        return ScoredRun(
            run=self.run,
            scores=self.metrics.in_order(scores),
            late=late,
            sample_rate=self.chances.sample_rate,
            judge_sample_rate=self.chances.judge_sample_rate,
            selection=self.chances.selection,
            judge_selection=self.chances.judge_selection,
            revision=self.revision,
            judged=self.metrics.awaited_names,
            verdict=verdict,
        )


class PendingJob:
    """A pending run as the judge's loop sees it: a `ragmeter.pipeline.judging.JudgeJob`."""

    __slots__ = ("_asked", "_end", "_pending", "_positions", "_wanted", "metrics")

    def __init__(
        self,
        pending: Pending,
        metrics: Sequence[Metric],
        positions: StreamPositions,
        end: Callable[[Pending, Sequence[Metric], str | None, JudgingSteps | None], None],
        asked: JudgingSteps | None = None,
    ) -> None:
        self._pending = pending
        self._positions = positions
        self._end = end
        self._wanted = metrics
        self._asked = asked
        self.metrics: Sequence[Metric] = metrics if asked is None else asked.now

    @property
    def sample(self) -> RagSample:
        """The sample to judge."""
        return self._pending.run.sample

    @property
    def size_bytes(self) -> int:
        """Estimated memory it holds."""
        return self._pending.size_bytes

    def judged(self, scores: Sequence[Score]) -> None:
        """Add the scores of one metric."""
        if self._asked is not None:
            scores = self._asked.with_probabilities(scores)
        self._pending.add([*scores, *self._positions.of(self._pending.run, scores)])

    def further(self) -> bool:
        """Continue with the next metrics of a cascade, if any."""
        asked = self._asked
        if asked is None or not self._pending.asks_further(asked):
            return False
        self.metrics = asked.now
        return True

    def done(self, skipped: str | None) -> None:
        """Finish: all metrics are done, or `skipped` is the reason they were not run."""
        self._end(self._pending, self._wanted, skipped, self._asked)


class Holding:
    """Holds requests until their judged scores arrive or they are due.

    Args:
        metrics: The meter's metrics.
        window: Remembers exported runs.
        out: Queues a result, with its size in bytes, for the exporters.
        redacted: Applies the user's redaction hook to scores.
        counters: Counts requests that were not judged.
        admission: Learns the cost of judging.
        rules: Rules of verdicts.
        positions: Positions of scores in their streams.
        hold_s: Longest hold in seconds.
        max_items: Most held requests.
        max_bytes: Most held bytes.
    """

    def __init__(
        self,
        metrics: MetricSet,
        window: LateWindow,
        out: Callable[[ScoredRun, int], None],
        redacted: Callable[[Mapping[str, Score]], Mapping[str, Score]],
        counters: Counters,
        admission: Admission,
        rules: VerdictRules,
        positions: StreamPositions,
        *,
        hold_s: float,
        max_items: int,
        max_bytes: int,
    ) -> None:
        self._metrics = metrics
        self._window = window
        self._out = out
        self._redacted = redacted
        self._counters = counters
        self._admission = admission
        self._rules = rules
        self._positions = positions
        self._hold_s = hold_s
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._fresh()
        fork.forget(self._fresh)  # a forked child holds nothing: the parent exports

    def _fresh(self) -> None:
        self._held: list[Pending] = []

    def take(
        self,
        run: RagRun,
        scores: Mapping[str, Score],
        chances: Chances,
        revision: str = "",
        before: ExportedRequest | None = None,
        on_judged: OnJudged | None = None,
        verdict: Verdict | None = None,
    ) -> Pending:
        """Return a `Pending` of a run with its free scores."""
        return Pending(
            run, dict(scores), self._export, self._metrics, chances,
            size_bytes=weight_of_run(run), due_at=time.monotonic() + self._hold_s, revision=revision,
            rules=self._rules, before=before, on_judged=on_judged, verdict=verdict,
        )  # fmt: skip

    def hold(self, pending: Pending, asked: JudgingSteps | None = None) -> PendingJob:
        """Hold a run until it is judged or due; return its job for the judge's loop."""
        self._held.append(pending)
        return self.job(pending, self._metrics.awaited_for(pending.run.sample), asked)

    def job(self, pending: Pending, metrics: Sequence[Metric], asked: JudgingSteps | None = None) -> PendingJob:
        """Return a run as a job for the judge's loop."""
        return PendingJob(pending, metrics, self._positions, self._end_job, asked)

    def end_judging(
        self,
        pending: Pending,
        metrics: Sequence[Metric],
        skipped: str | None,
        asked: JudgingSteps | None = None,
    ) -> None:
        """Export a run after judging, or if judging was `skipped` for a reason."""
        if asked is not None and asked.spared:
            if any(one.judged for one in asked.spared):
                self._counters.judge_skipped("decided")
            unasked = self._metrics.skipped_scores(asked.spared, "decided")
            pending.add_missing([score.model_copy(update={"asked_with": 0.0}) for score in unasked])
        if skipped is not None:
            self._counters.judge_skipped(skipped)
            pending.add_missing(self._metrics.skipped_scores(metrics, skipped))
        elif pending.was_refused:
            self._counters.judge_skipped("budget")
        else:
            self._admission.finish_request()
        pending.finish()

    def _end_job(
        self, pending: Pending, metrics: Sequence[Metric], skipped: str | None, asked: JudgingSteps | None
    ) -> None:
        self.end_judging(pending, metrics, skipped, asked)
        pending.count()

    def release_due(self) -> float | None:
        """Release due runs; return the seconds until the next is due."""
        now = time.monotonic()
        held = self._held
        size = sum([pending.size_bytes for pending in held])
        released = 0
        for pending in held:
            crowded = len(held) - released > self._max_items or size > self._max_bytes
            if pending.left_s(now) and not crowded:
                break
            released += 1
            size -= pending.size_bytes
            pending.release()
        del held[:released]
        return held[0].left_s(now) if held else None

    def release_all(self) -> None:
        """Release all runs with the scores so far.

        On another thread: Ctrl-C on the caller's could hit between taking a run and exporting it.
        """
        done = Bell()

        def release() -> None:
            try:
                for pending in tuple(self._held):
                    pending.release()
            finally:
                done.ring()

        if start_elsewhere(release):
            done.wait(RELEASE_S)
        else:
            release()

    def _export(self, result: ScoredRun, size_bytes: int) -> None:
        if not result.late:
            self._window.remember(result.run, result.sample_rate, result.selection, size_bytes)
        self._window.learn(result.run.run_id, known_values(result.scores), result.verdict)
        redacted = self._redacted(result.scores)
        if redacted is not result.scores:
            result = replace(result, scores=redacted)
        if explanations.isEnabledFor(logging.DEBUG):
            explanations.debug("%s", explain(result))
        self._out(result, size_bytes)
