"""What happens to a request after it was offered: scoring, judging, holding, handing out.

The meter owns one pipeline.  A scoring thread builds each run, looks up its
reference and computes the free metrics; the judge's loop adds the judged ones; a run waits
for those at most ``hold_s`` and then goes out without.  Every request that enters is
exported or counted as dropped, exactly once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ragmeter._request import RunBuilder
from ragmeter._runtime.explain import explain
from ragmeter._runtime.guard import Guard
from ragmeter._runtime.no_data_warning import Silence
from ragmeter._runtime.stats import Counters
from ragmeter.context import leave_host
from ragmeter.exporters.protocol import Exporter, RagRun, ScoredRun
from ragmeter.metrics import Metric, Reference, Score
from ragmeter.metrics import _fork as fork
from ragmeter.references import ReferenceSource

from ._destinations import Destinations
from ._pacing import JudgePacer
from ._redaction import Redact, redacted_reference, redacted_run, redacted_scores, without_texts
from ._weight import weight_of_run
from ._worst import WorstKeeper
from .exporting import Outbound
from .late import Amendment, RecentRuns
from .queue import Lane, remaining
from .sampling import Candidate, Choice, Selector
from .scoring import Chances, MetricSet, Pending, PendingJob

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import Judge, JudgeCall

    from .judging import JudgeLoop
    from .process import ScoringProcess

__all__ = ["Limits", "Offered", "Pipeline"]

explanations = logging.getLogger("ragmeter.explain")

OUTBOUND_SIZE = 512
"""An exporter's queue is never smaller: a small scoring queue must not starve it in a burst."""
OUTBOUND_BYTES = 16 * 1024 * 1024
"""Nor does it hold fewer bytes."""


REST_S = 0.00005
"""Length of a rest, long enough for another thread to wake up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The pipeline's bounds and rates; see `ragmeter.RagMeter` for their meaning."""

    sample_rate: float
    judge_sample_rate: float
    hold_s: float
    queue_size: int
    queue_bytes: int
    max_text_chars: int
    judge_concurrency: int
    judge_deadline_s: float
    late_window: int
    late_window_s: float


class Offered(NamedTuple):
    """A request as it was offered: how to build it, and what it is chosen by."""

    build: RunBuilder
    candidate: Candidate


LATE_WINDOW_BYTES = 16 * 1024 * 1024
"""Bytes of text remembered for references and feedback that come after the fact."""


class Pipeline:
    """Scores offered requests in the background and hands the results to the exporters."""

    def __init__(
        self,
        metrics: MetricSet,
        judge: Judge | None,
        apart: ScoringProcess | None,
        references: ReferenceSource | None,
        exporters: Sequence[Exporter],
        limits: Limits,
        worst: WorstKeeper | None,
        redact: Redact | None,
        counters: Counters,
        silence: Silence,
        guard_for: Callable[[str], Guard],
    ) -> None:
        self._metrics = metrics
        self._references = references
        self._limits = limits
        self._redact = redact
        self._counters = counters
        self._reference_guard = guard_for("meter.reference")
        self._build_guard = guard_for("meter.build")
        self._redact_guard = guard_for("meter.redact")
        self._pacer = JudgePacer(None if judge is None else judge.budget, limits.judge_sample_rate)
        self._destinations = Destinations(exporters, counters, silence, guard_for)
        self._recent = RecentRuns(
            max_runs=limits.late_window,
            max_bytes=LATE_WINDOW_BYTES,
            max_age_s=limits.late_window_s,
        )
        self._held: list[tuple[float, Pending]] = []
        fork.forget(self._leave_to_parent)
        self._outbound = Outbound(
            exporters,
            counters,
            guard_for,
            queue_size=max(limits.queue_size, OUTBOUND_SIZE),
            queue_bytes=max(limits.queue_bytes, OUTBOUND_BYTES),
        )
        self._apart = apart
        self._computing: MetricSet | ScoringProcess = metrics if apart is None else apart
        self._judging: JudgeLoop | None = None
        if metrics.awaited:
            self._judging = _judge_loop(judge, apart, limits, guard_for)
        self._selector = Selector(
            limits.sample_rate,
            limits.judge_sample_rate,
            None if self._judging is None else self._pacer,
            worst,
        )
        self._scoring: Lane[Offered | Amendment] = Lane(
            "ragmeter-scoring",
            self._score_batch,
            guard=guard_for("meter.score"),
            on_drop=self._drop,
            on_start=leave_host,
            tick=self._release_held,
            max_items=limits.queue_size,
            max_bytes=limits.queue_bytes,
            max_batch=self._computing.batch,
        )
        if judge is not None:
            judge.subscribe(self._on_judge_call)

    @property
    def queue_size(self) -> int:
        """Requests waiting to be scored."""
        return len(self._scoring)

    @property
    def export_backlog(self) -> dict[str, int]:
        """Runs that wait for an exporter or that it has not delivered yet, by exporter class."""
        return self._outbound.backlog

    @property
    def queue_bytes(self) -> int:
        """Bytes of their texts."""
        return self._scoring.size_bytes

    def start(self) -> None:
        """Start the threads that the first request will need.

        Since Python 3.12 nobody can start one once the main thread has ended: a short script's last
        requests would be scored by then, and find no exporter. To be called below no lock.
        """
        self._scoring.start()
        self._outbound.start()
        if self._apart is not None:
            self._apart.start()
        if self._judging is not None:
            self._judging.start()

    def put(self, item: Offered | Amendment, size_bytes: int = 0) -> None:
        """Take a captured request, or what was learned about one. Never blocks."""
        self._scoring.put(item, size_bytes)

    def flush(self, deadline: float) -> bool:
        """Wait until everything put so far is exported, until `deadline` (monotonic)."""
        done = self._scoring.flush(remaining(deadline))
        if self._judging is not None:
            done = self._judging.flush(remaining(deadline)) and done
        if not done:
            # What is still being judged goes out with what is there: better late scores than none.
            self._release_all()
        return self._outbound.flush(deadline) and done

    def close(self, deadline: float) -> None:
        """Finish what can be finished until `deadline` (monotonic), count the rest, stop."""
        self._scoring.close(remaining(deadline))
        # A share of the time is kept for the exporters: scores nobody writes are lost scores.
        if self._judging is not None:
            self._judging.close(remaining(deadline) * 0.7)
        if self._apart is not None:
            self._apart.close(remaining(deadline) * 0.5)
        self._outbound.close(deadline)

    def depart(self) -> None:
        """End the worker process, if there is one; a request that still comes starts another."""
        if self._apart is not None:
            self._apart.rest()

    def before_fork(self, deadline: float) -> None:
        """Let no worker be in the middle of something, if that is so before `deadline`."""
        self._scoring.before_fork(deadline)
        if self._apart is not None:
            self._apart.before_fork(deadline)
        self._outbound.before_fork(deadline)

    def after_fork_in_parent(self) -> None:
        """Let the workers go on."""
        self._outbound.after_fork_in_parent()
        if self._apart is not None:
            self._apart.after_fork_in_parent()
        self._scoring.after_fork_in_parent()

    def _leave_to_parent(self) -> None:
        # In a forked child: what waits for its scores goes out in the parent.
        self._held = []

    def _score_batch(self, batch: Sequence[Offered | Amendment]) -> None:
        offered: list[Offered] = []
        for item in batch:
            if isinstance(item, Offered):
                offered.append(item)
                continue
            self._score(offered)
            offered = []
            self._amend(item)
        self._score(offered)

    def _built(self, offered: Offered) -> RagRun | None:
        """Return the run, complete and redacted; None, accounted for, when there is none."""
        run: RagRun | None = None
        done = False
        try:
            with self._build_guard:
                run = offered.build()
                if run is None:
                    self._counters.withdrawn()
                else:
                    run = self._with_reference(run)
                    if self._redact is not None:
                        run = redacted_run(run, self._redact)
                done = True
        finally:
            # Also when something took this very thread down: the request is accounted for.
            if not done:
                self._counters.dropped("error")
        # The explaining log is a destination, too.
        if (
            run is not None
            and done
            and not self._destinations.any_delivers()
            and not explanations.isEnabledFor(logging.DEBUG)
        ):
            self._counters.dropped("no_provider")
            return None
        return run if done else None

    def _score(self, batch: Sequence[Offered]) -> None:
        """Build and score some requests: as many at a time as `Computes.batch` allows."""
        built: list[tuple[RagRun, Candidate]] = []
        left = len(batch)
        try:
            for item in batch:
                left -= 1
                run = self._built(item)
                if run is not None:
                    left += 1
                    built.append((run, item.candidate))
            scored = self._computing.compute([run.sample for run, _ in built], self._rest)
            for (run, candidate), scores in zip(built, scored, strict=True):
                choice = self._selector.choose(candidate, run.sample, scores)
                left -= 1
                self._pass_on(run, scores, choice)
        finally:
            # Also when something took this very thread down: the requests are accounted for.
            for _ in range(left):
                self._counters.dropped("error")

    def _pass_on(self, run: RagRun, scores: Mapping[str, Score], choice: Choice | None) -> None:
        if choice is None:
            if self._destinations.measuring:
                in_order = self._metrics.in_order(scores)
                self._destinations.measured(ScoredRun(run=run, scores=self._redacted(in_order)))
            self._counters.dropped("sampled_out")
            return
        size = weight_of_run(run)
        pending = Pending(run, scores, self._emit, choice.chances, size_bytes=size)
        if self._judging is None:
            pending.finish()
        elif choice.unjudged is not None:
            self._end_judging(pending, self._metrics.awaited, choice.unjudged)
        else:
            self._held.append((time.monotonic() + self._limits.hold_s, pending))
            self._judging.submit(PendingJob(pending, self._metrics.awaited, self._end_judging))

    def _amend(self, amendment: Amendment) -> None:
        """Score again, or annotate, a request that was exported a while ago."""
        found = self._recent.find(amendment.key)
        self._counters.amended("unknown" if found is None else "applied")
        if found is None:
            return
        run = found.run
        scores: dict[str, Score] = {}
        awaited: tuple[Metric, ...] = ()
        anew = amendment.score is not None
        if amendment.score is not None:
            scores[amendment.score.name] = amendment.score
        reference = amendment.reference
        if reference is not None:
            if self._redact is not None:
                reference = redacted_reference(reference, self._redact)
            anew = anew or reference != run.sample.reference
            run = replace(run, sample=run.sample.model_copy(update={"reference": reference}))
            scores.update(self._computing.compute_again(run.sample))
            awaited = self._metrics.awaiting_reference
        # Whatever is asked about it now is asked about every request that is amended.
        chances = Chances(found.sample_rate, 1.0, found.selection, found.selection)
        revision = self._recent.revise(found, run, anew=anew)
        size = weight_of_run(run)
        pending = Pending(run, scores, self._emit, chances, size_bytes=size, revision=revision)
        if awaited and self._judging is not None:
            self._judging.submit(PendingJob(pending, awaited, self._end_judging))
        else:
            pending.finish()

    def _rest(self) -> None:
        """Let the application have the interpreter lock, unless requests wait to be scored.

        A thread that wants the lock gets it after 5 ms or when its holder sleeps; giving it up
        for no time at all does not wake anybody.
        """
        if not len(self._scoring):
            time.sleep(REST_S)

    def _with_reference(self, run: RagRun) -> RagRun:
        sample = run.sample
        if self._references is None or sample.reference is not None or sample.question is None:
            return run
        reference: Reference | None = None
        with self._reference_guard:
            reference = self._references(sample.question)
        if reference is None:
            return run
        return replace(run, sample=sample.model_copy(update={"reference": reference}))

    def _end_judging(
        self, pending: Pending, metrics: Sequence[Metric], skipped: str | None
    ) -> None:
        if skipped is not None:
            self._counters.judge_skipped(skipped)
            pending.add_missing(self._metrics.unjudged(metrics, skipped))
        elif pending.refused:
            self._counters.judge_skipped("budget")
        else:
            self._pacer.judged()
        pending.finish()

    def _redacted(self, scores: Mapping[str, Score]) -> Mapping[str, Score]:
        """Return the scores as the hook leaves them; without any text where it fails."""
        if self._redact is None:
            return scores
        with self._redact_guard:
            return redacted_scores(scores, self._redact)
        return without_texts(scores)

    def _emit(self, result: ScoredRun, size_bytes: int) -> None:
        if not result.late:
            self._recent.remember(result.run, result.sample_rate, result.selection)
        result = replace(
            result,
            scores=self._redacted(self._metrics.in_order(result.scores)),
            judged=self._metrics.awaited_names,
        )
        if explanations.isEnabledFor(logging.DEBUG):
            explanations.debug("%s", explain(result))
        self._outbound.put(result, size_bytes)

    def _release_held(self) -> float | None:
        """Export what has been held long enough; return the seconds until the next is due."""
        now = time.monotonic()
        held = self._held
        size = sum([pending.size_bytes for _, pending in held])
        released = 0
        for due, pending in held:
            crowded = (
                len(held) - released > self._limits.queue_size or size > self._limits.queue_bytes
            )
            if due > now and not pending.finished and not crowded:
                break
            released += 1
            size -= pending.size_bytes
            pending.release()
        del held[:released]
        return max(0.0, held[0][0] - now) if held else None

    def _release_all(self) -> None:
        for _, pending in tuple(self._held):
            pending.release()

    def _drop(self, item: Offered | Amendment, reason: str) -> None:
        if isinstance(item, Offered):
            self._counters.dropped(reason)
        else:
            self._counters.amended(reason)

    def _on_judge_call(self, call: JudgeCall) -> None:
        call = self._pacer.priced(call)
        self._counters.judge_called(call)
        self._pacer.called(call)
        self._outbound.judge_called(call)


def _judge_loop(
    judge: Judge | None,
    apart: ScoringProcess | None,
    limits: Limits,
    guard_for: Callable[[str], Guard],
) -> JudgeLoop:
    # Brings asyncio, which free metrics do not need.
    from .judging import JudgeLoop, JudgesHere  # noqa: PLC0415

    guard = guard_for("meter.judge")
    return JudgeLoop(
        JudgesHere(
            judge,
            limits.judge_deadline_s,
            guard=guard,
            max_text_chars=limits.max_text_chars,
        )
        if apart is None
        else apart.judges,
        guard=guard,
        concurrency=limits.judge_concurrency,
        max_backlog=limits.queue_size,
        max_bytes=limits.queue_bytes,
        deadline_s=limits.judge_deadline_s,
    )
