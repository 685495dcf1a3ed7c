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
from typing import Any

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

RELEASE_S = 5.0
"""Longest wait of `release_all`, in seconds."""


@dataclass(eq=False, kw_only=True)
class Pending:
    """A run that waits for judged scores: a `ragmeter.pipeline.judging.JudgeJob`.

    Thread-safe: exported at most once, and once more as late.
    """

    run: RagRun
    scores: dict[str, Score]
    """The scores so far."""
    holding: Holding
    chances: Chances
    """Its sampling probabilities."""
    awaited: Sequence[Metric]
    """The metrics to wait for."""
    asked: JudgingSteps | None = None
    """The steps of its judging; None: all its metrics run at once."""
    size_bytes: int
    """Estimated memory it holds."""
    due_at: float
    """When it is exported with the scores so far (monotonic)."""
    revision: str = ""
    """Name of an amendment after the first export: all results are late then, and exported even without
    scores. Empty: the first scores."""
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

    @property
    def sample(self) -> RagSample:
        """The sample to judge."""
        return self.run.sample

    @property
    def metrics(self) -> Sequence[Metric]:
        """The metrics to run now."""
        return self.awaited if self.asked is None else self.asked.now

    def left_s(self, now: float) -> float:
        """Return the seconds until it is due; 0.0 if it was exported."""
        return 0.0 if self._done else max(0.0, self.due_at - now)

    def judged(self, scores: Sequence[Score]) -> None:
        """Add the scores of one metric, without exporting."""
        if self.asked is not None:
            scores = self.asked.with_probabilities(scores)
        placed = self.holding.positions.of(self.run, scores)
        with self._lock:
            self.verdict = None
            self.scores.update((score.name, score) for score in (*scores, *placed))

    def further(self) -> bool:
        """Continue with the next metrics of a cascade, if any."""
        with self._lock:
            return self.asked is not None and self.asked.further(self.scores)

    def done(self, skipped: str | None) -> None:
        """Export after judging, or if judging was `skipped` for a reason, and count the judged scores."""
        shared = self.holding
        if self.asked is not None and self.asked.spared:
            if any(one.judged for one in self.asked.spared):
                shared.counters.judge_skipped("decided")
            unasked = shared.metrics.skipped_scores(self.asked.spared, "decided")
            self._add_missing([score.model_copy(update={"asked_with": 0.0}) for score in unasked])
        if skipped is not None:
            shared.counters.judge_skipped(skipped)
            self._add_missing(shared.metrics.skipped_scores(self.awaited, skipped))
        else:
            with self._lock:
                refused = any(s.status == "skipped" and s.error_type == "budget" for s in self.scores.values())
            if refused:
                shared.counters.judge_skipped("budget")
            else:
                shared.admission.finish_request()
        self.finish()
        if self.on_judged is not None:
            with self._lock:
                scores = dict(self.scores)
            self.on_judged(scores)

    def _add_missing(self, scores: Sequence[Score]) -> None:
        with self._lock:
            for score in scores:
                self.scores.setdefault(score.name, score)

    def release(self) -> None:
        """Export the run with the scores so far."""
        with self._lock:
            if self._shown is not None or not self._release:
                return
            self._release.clear()
            self._shown = frozenset(self.scores)
            # Under the lock: `finish` reports the export as complete.
            self._export(dict(self.scores), self._new_verdict(), late=False)

    def finish(self) -> None:
        """Export the scores not exported yet, now that all are known."""
        with self._lock:
            shown = self._shown
            rest = {n: s for n, s in self.scores.items() if shown is None or n not in shown}
            self._shown = frozenset(self.scores)
            self._done = True
            verdict = self._new_verdict()
        if shown is None or rest or self.revision:
            self._export(rest, verdict, late=shown is not None)

    def _new_verdict(self) -> Verdict | None:
        """Return the verdict of all scores; None also if it was exported before."""
        verdict = self.verdict
        if verdict is None:
            self._values.update(known_values(self.scores))
            verdict = self.holding.rules.of_values(self._values, self.run.sample.status)
        if verdict == self._last_verdict:
            return None
        self._last_verdict = verdict
        return verdict

    def _export(self, scores: Mapping[str, Score], verdict: Verdict | None, *, late: bool) -> None:
        metrics, chances = self.holding.metrics, self.chances
        result = ScoredRun(
            run=self.run,
            scores=metrics.in_order(scores),
            late=late,
            sample_rate=chances.sample_rate,
            judge_sample_rate=chances.judge_sample_rate,
            selection=chances.selection,
            judge_selection=chances.judge_selection,
            revision=self.revision,
            judged=metrics.awaited_names,
            verdict=verdict,
        )
        self.holding.export(result, self.size_bytes)


class Holding:
    """Holds requests until their judged scores arrive or they are due.

    Args:
        out: Queues a result, with its size in bytes, for the exporters.
        redacted: Applies the user's redaction hook to scores.
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
        self.metrics = metrics
        self.counters = counters
        self.admission = admission
        self.rules = rules
        self.positions = positions
        self._window = window
        self._out = out
        self._redacted = redacted
        self._hold_s = hold_s
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._fresh()
        fork.forget(self._fresh)  # a forked child holds nothing: the parent exports

    def _fresh(self) -> None:
        self._held: list[Pending] = []

    def take(
        self, run: RagRun, scores: Mapping[str, Score], chances: Chances, awaited: Sequence[Metric], **more: Any
    ) -> Pending:
        """Return a `Pending` of a run with its free scores; `more` are its other fields."""
        return Pending(
            run=run, scores=dict(scores), holding=self, chances=chances, awaited=awaited,
            size_bytes=weight_of_run(run), due_at=time.monotonic() + self._hold_s, **more,
        )  # fmt: skip

    def hold(self, pending: Pending) -> None:
        """Hold a run until it is judged or due."""
        self._held.append(pending)

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

    def export(self, result: ScoredRun, size_bytes: int) -> None:
        """Remember a result, redact its scores, and queue it for the exporters."""
        if not result.late:
            self._window.remember(result.run, result.sample_rate, result.selection, size_bytes)
        self._window.learn(result.run.run_id, known_values(result.scores), result.verdict)
        redacted = self._redacted(result.scores)
        if redacted is not result.scores:
            result = replace(result, scores=redacted)
        if explanations.isEnabledFor(logging.DEBUG):
            explanations.debug("%s", explain(result))
        self._out(result, size_bytes)
