"""The pipeline: the stations of a request after it was offered.

The meter owns one pipeline. A scoring thread builds each run and computes the free metrics; the judge's loop
adds the judged ones; a run waits for those at most ``hold_s`` and is then exported without. Every request
that enters is exported or counted as dropped, exactly once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import WorkerQueue, remaining
from ragmeter._runtime.stats import Counters, NoDataWarning, explanations
from ragmeter.exporters.protocol import Exporter, JudgeIdentity, MeterStats, RagRun, ScoredRun
from ragmeter.metrics import Metric, Score, Verdict, VerdictRules
from ragmeter.metrics.verdict import known_values
from ragmeter.quality.positions import StreamPositions
from ragmeter.quality.segments import Segments
from ragmeter.requests.lone_retrieval import LoneRetrievals
from ragmeter.requests.scope import leave_host

from ._admission import Admission
from .counting import Counting
from .ending import JUDGE_SHARE, Patience, Signs
from .exporting import ExportQueues
from .holding import Holding
from .late import Amendment, ExportedRequest, LateWindow
from .sampling import Candidate, Chances, Choice, JudgingSteps, Selector, TailSampling
from .scoring import MetricSet, Offer, Preparation, UnseenRetrieval

if TYPE_CHECKING:
    from ragmeter.exporters.changes import RetrieverDifference
    from ragmeter.metrics.judge.protocol import Judge, JudgeCall
    from ragmeter.settings.options import Cascade, Limits, Sampling
    from ragmeter.watch.alarming import Alarming

    from .judging import JudgeLoop, Judges
    from .process import ScoringProcess

EXPORT_QUEUE_SIZE = 512
"""Least size of an exporter's queue: a small scoring queue must not starve it in a burst."""
EXPORT_QUEUE_BYTES = 16 * 1024 * 1024
"""Least capacity of an exporter's queue, in bytes."""
LATE_WINDOW_BYTES = 16 * 1024 * 1024
"""Bytes of text remembered for late references and feedback."""
REST_S = 0.00005
"""Seconds of a pause: long enough for another thread to wake up."""


_FADING = 0.9
"""Decay of the slowest response time with each further response."""


class Pipeline:
    """Scores offered requests in the background and passes results to the exporters.

    Args:
        process: Computes the free metrics; None: this process does.
        judges: Runs the judged metrics; None: no judged metrics.
        alarming: Notifies of changes of scores; None: no alarms.
        judge: The judge, named in every result; None: no judge.
        cascade: Runs judge and detector only where a cheaper step is undecided; None: always.
    """

    def __init__(
        self,
        *,
        metrics: MetricSet,
        process: ScoringProcess | None,
        judges: Judges | None,
        preparation: Preparation,
        admission: Admission,
        sampling: Sampling,
        counting: Counting,
        rules: VerdictRules,
        exporters: Sequence[Exporter],
        limits: Limits,
        counters: Counters,
        no_data: NoDataWarning,
        guard_for: Callable[[str], Guard],
        segments: Segments,
        judge: Judge | None = None,
        alarming: Alarming | None = None,
        cascade: Cascade | None = None,
    ) -> None:
        self._segments = segments
        self._judge = None if judge is None else _identity_of(judge)
        self._cascade = cascade
        self._alarming = alarming
        self._metrics = metrics
        self._process = process
        self._computes: MetricSet | ScoringProcess = process or metrics
        self._preparation = preparation
        self._admission = admission
        self._counting = counting
        self._rules = rules
        self._positions = StreamPositions()
        self._counters = counters
        self._exporting = ExportQueues(
            exporters,
            counters,
            guard_for,
            no_data,
            queue_size=max(limits.queue_size, EXPORT_QUEUE_SIZE),
            queue_bytes=max(limits.queue_bytes, EXPORT_QUEUE_BYTES),
        )
        self._late = LateWindow(
            max_runs=limits.late_window, max_bytes=LATE_WINDOW_BYTES, max_age_s=limits.late_window_s
        )
        self._holding = Holding(
            metrics,
            self._late,
            self._put_out,
            preparation.redacted_scores,
            counters,
            admission,
            rules,
            self._positions,
            hold_s=limits.hold_s,
            max_items=limits.queue_size,
            max_bytes=limits.queue_bytes,
        )
        self._gave_up = False
        self._worker: int | None = None
        self._answered_at = -math.inf
        self._usual_s = 0.0
        self._judging = None if judges is None else _judge_loop(judges, limits, guard_for)
        self._selector = Selector(
            sampling.rate,
            sampling.judge_rate,
            None if judges is None else admission,
            TailSampling() if sampling.keep == "worst" else None,
        )
        self._no_data = no_data
        self._alone = LoneRetrievals(self._score, counters)
        self._queue: WorkerQueue[Offer | Amendment | UnseenRetrieval] = WorkerQueue(
            "ragmeter-scoring",
            self._work,
            guard=guard_for("meter.score"),
            on_drop=self._drop,
            on_start=leave_host,
            tick=self._look,
            max_items=limits.queue_size,
            max_bytes=limits.queue_bytes,
            max_batch=self._computes.batch,
        )
        self.put: Callable[[Offer | Amendment, int], None] = self._queue.put
        """Queue a captured request with its size in bytes, or an amendment of one. Never blocks."""

        self.follow_spans: Callable[[object], None] = self._exporting.follow_spans
        """Notify the exporters of the provider whose spans are judged."""

    def backlog(self) -> MeterStats:
        """Return the waiting requests, and what the exporters count."""
        judging = 0 if self._judging is None else self._judging.waiting_bytes
        return MeterStats(
            queue_size=len(self._queue),
            queue_bytes=self._queue.size_bytes,
            backlog_bytes=max(judging, self._exporting.waiting_bytes),
            export_backlog=self._exporting.backlog,
            unsampled=self._exporting.n_unsampled,
        )

    def start(self) -> None:
        """Start the threads that the first request needs. The caller must hold no lock.

        Since Python 3.12 no thread can be started after the main thread has ended: the last requests of a
        short script would be scored and not exported.
        """
        self._queue.start()
        self._exporting.start()
        if self._process is not None:
            self._process.start()
        if self._judging is not None:
            self._judging.start()
        if self._alarming is not None:
            self._alarming.start()

    def put_unseen(self, item: UnseenRetrieval) -> None:
        """Queue a request without a seen retrieval. Never blocks."""
        if self._worker == threading.get_ident():
            self._report_unseen(item)  # found while reading a request: a flush waits for both
        else:
            self._queue.put(item)

    def signs(self) -> Signs:
        """Return the latest progress of judge and exporters."""
        return Signs(max(self._answered_at, self._exporting.settled_at), self._exporting.n_held)

    def flush(self, deadline: float, patience: Patience | None = None) -> bool:
        """Wait until everything queued so far is exported, until `deadline` (monotonic).

        Args:
            deadline: When the wait ends.
            patience: Limits the wait without progress; None: until the deadline.
        """
        patience = patience or Patience(math.inf, self.signs)
        done = self._score_waiting(deadline)
        if self._judging is not None:
            done = patience.wait(self._judging.flush, deadline, JUDGE_SHARE, self._usual_s) and done
        if not done:
            self._holding.release_all()
        return patience.wait(self._write_out, deadline) and done and not self._gave_up

    def _score_waiting(self, deadline: float) -> bool:
        """Wait until all queued requests are scored; return whether they are."""
        done = self._queue.flush(remaining(deadline))
        return self._alone.end_all(self._queue, deadline) and done

    def _look(self) -> float | None:
        """Release runs that have waited long enough; return the seconds until the next is due."""
        waits = [
            wait_s
            for wait_s in (self._holding.release_due(), self._alone.look(self._queue))
            if wait_s is not None
        ]
        return min(waits, default=None)

    def _write_out(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        notified = self._alarming is None or self._alarming.flush(deadline)
        done = self._exporting.flush(deadline) and notified
        if self._alarming is not None:
            self._alarming.settle(deadline)  # a webhook that hangs says nothing of the scores
        return done

    def close(self, deadline: float) -> None:
        """Finish until `deadline` (monotonic), count the rest as dropped, and stop."""
        # Set before anything is dropped: a flush on another thread must not count that as done.
        self._gave_up = not self._score_waiting(deadline)
        self._queue.close(0.0)
        self._alone.drop_all()
        # Reserve time for the exporters: scores that are not exported are lost.
        if self._judging is not None:
            self._judging.close(remaining(deadline) * 0.7)
        if self._process is not None:
            self._process.close(remaining(deadline) * 0.5)
        if self._alarming is not None:
            self._alarming.close(time.monotonic() + remaining(deadline) * 0.5)
        self._exporting.close(deadline)

    def depart(self) -> None:
        """Stop the worker process, if any; a further request starts it again."""
        if self._process is not None:
            self._process.rest()

    def add_shadow(self, shadow: Exporter, differences: Callable[[], Sequence[RetrieverDifference]]) -> None:
        """Add a shadow as an exporter; the others publish its `differences`."""
        self._exporting.add(shadow, differences)

    def judge_called(self, call: JudgeCall) -> None:
        """Count a call to the judge and notify the exporters."""
        if call.error_type is None:
            self._answered_at = time.monotonic()
            if not call.cached:
                self._usual_s = max(call.duration_s, _FADING * self._usual_s)
        call = self._admission.with_cost(call)
        self._counters.judge_called(call)
        self._admission.note_call(call)
        self._exporting.judge_called(call)

    def _work(self, batch: Sequence[Offer | Amendment | UnseenRetrieval]) -> None:
        self._worker = threading.get_ident()
        offered: list[Offer] = []
        for item in batch:
            if isinstance(item, Offer):
                self._counters.count_capture(item.capture)  # `offer` may not have counted it yet
                if item.alone is None or not self._alone.hold(item):
                    offered.append(item)
                continue
            self._score(offered)
            offered = []
            if isinstance(item, UnseenRetrieval):
                self._report_unseen(item)
            else:
                self._amend(item)
        self._score(offered)

    def _report_unseen(self, item: UnseenRetrieval) -> None:
        # A request in flight may turn out not to be one, as this one did.
        known = self._counters.n_captured - self._counters.in_flight
        self._no_data.retrieval_unseen(item.reason, item.look(), known)
        self._exporting.retrieval_unseen(item.framework, item.reason)

    def _score(self, batch: Sequence[Offer]) -> None:
        """Build and score a batch of requests."""
        built: list[tuple[RagRun, Candidate]] = []
        left = len(batch)
        try:
            for item in batch:
                left -= 1
                run = self._preparation.build(item)
                if run is None:
                    continue
                # The explaining log is a destination, too.
                if self._exporting.any_delivers() or explanations.isEnabledFor(logging.DEBUG):
                    left += 1
                    built.append((run, item.candidate))
                else:
                    self._counters.count_drop("no_provider")
            scored = self._computes.compute([run.sample for run, _ in built], self._rest)
            for (run, candidate), scores in zip(built, scored, strict=True):
                scores.update((one.name, one) for one in self._positions.of(run, scores.values()))
                verdict = self._rules.verdict(scores, run.sample.status)
                choice = self._selector.choose(candidate, run.sample, scores, verdict)
                left -= 1
                self._pass_on(run, scores, verdict, choice, candidate)
        finally:
            # Counted even if an exception ends this thread.
            for _ in range(left):
                self._counters.count_drop("error")

    def _pass_on(
        self,
        run: RagRun,
        scores: Mapping[str, Score],
        verdict: Verdict | None,
        choice: Choice | None,
        candidate: Candidate,
    ) -> None:
        awaited = () if self._judging is None else self._metrics.awaited_for(run.sample)
        asked: JudgingSteps | None = None
        if self._cascade is not None and choice is not None and choice.unjudged is None:
            asked = JudgingSteps(self._cascade, candidate, scores, awaited)
        on_judged = self._counting.count_request(run, scores, verdict, choice, asked)
        if choice is None:
            if self._exporting.measuring:
                in_order = self._preparation.redacted_scores(self._metrics.in_order(scores))
                self._exporting.measure(ScoredRun(run=run, scores=in_order, verdict=verdict))
            self._counters.count_drop("sampled_out")
            return
        pending = self._holding.take(
            run, scores, choice.chances, awaited, asked=asked, on_judged=on_judged, verdict=verdict
        )
        if self._judging is None:
            pending.finish()
        elif choice.unjudged is not None:
            pending.done(choice.unjudged)
        elif asked is not None and not asked.now:
            pending.done(None)
        else:
            self._holding.hold(pending)
            self._judging.submit(pending)

    def _put_out(self, result: ScoredRun, size_bytes: int) -> None:
        # Constant fields of all of a meter's results; readers such as ``ragmeter serve`` read them here.
        if self._judge is not None or self._segments.names or self._alarming is not None:
            result = replace(
                result,
                segments=dict(self._segments.of(result.run)),
                judge=self._judge,
                alarms=self._alarming is not None,
            )
        self._exporting.put(result, size_bytes)

    def _amend(self, amendment: Amendment) -> None:
        """Score an exported request again, or annotate it."""
        found = self._late.find(amendment.key)
        if amendment.again is not None:
            self._score_again(amendment.again, found)
            return
        self._counters.count_amendment("unknown" if found is None else "applied")
        if found is None:
            return
        run = found.run
        scores: dict[str, Score] = {}
        awaited: tuple[Metric, ...] = ()
        is_new = amendment.score is not None
        if amendment.score is not None:
            scores[amendment.score.name] = amendment.score
        if amendment.reference is not None:
            reference = self._preparation.redact_reference(amendment.reference)
            is_new = is_new or reference != run.sample.reference
            run = replace(run, sample=run.sample.model_copy(update={"reference": reference}))
            scores.update(self._computes.compute_again(run.sample))
            awaited = self._metrics.awaiting_reference
        self._finish_again(found, run, scores, awaited, self._late.revise(found, run, is_new=is_new))

    def _score_again(self, again: ScoredRun, found: ExportedRequest | None) -> None:
        """Compute the scores that a reference makes possible, for a revision of another process."""
        run = again.run
        scores = self._computes.compute_again(run.sample)
        if found is None:
            (free,) = self._computes.compute([run.sample])
            values = known_values(free)  # for the verdict; judged scores are unknown here
            bare = replace(run, sample=run.sample.model_copy(update={"reference": None}))
            found = ExportedRequest(bare, again.sample_rate, again.selection, 0.0, 0, values=values)
        else:
            self._late.revise(found, run, is_new=True)
        self._counters.count_amendment("applied")
        self._finish_again(found, run, scores, self._metrics.awaiting_reference, again.revision or "1")

    def _finish_again(
        self,
        before: ExportedRequest,
        run: RagRun,
        scores: Mapping[str, Score],
        awaited: Sequence[Metric],
        revision: str,
    ) -> None:
        # Every amended request is judged by these metrics.
        chances = Chances(before.sample_rate, 1.0, before.selection, before.selection)
        counted = self._counting.count_reference(before.run, run, scores, before.selection)
        pending = self._holding.take(
            run, scores, chances, awaited, revision=revision, before=before, on_judged=counted
        )
        if awaited and self._judging is not None:
            self._judging.submit(pending)
        else:
            pending.finish()

    def _rest(self) -> None:
        """Release the interpreter lock to the application, unless requests wait.

        Another thread gets the lock after 5 ms or when its holder sleeps; a sleep of 0 wakes no thread.
        """
        if not len(self._queue):
            time.sleep(REST_S)

    def _drop(self, item: Offer | Amendment | UnseenRetrieval, reason: str) -> None:
        if isinstance(item, Offer):
            self._counters.count_drop(reason, capture=item.capture, once=item.leave)
        elif isinstance(item, Amendment):
            self._counters.count_amendment(reason)


def _identity_of(judge: Judge) -> JudgeIdentity:
    budget = judge.budget
    return JudgeIdentity(
        model=judge.model,
        endpoint=getattr(judge, "endpoint_kind", "custom"),
        input_price=None if budget is None else budget.input_price,
        output_price=None if budget is None else budget.output_price,
    )


def _judge_loop(judges: Judges, limits: Limits, guard_for: Callable[[str], Guard]) -> JudgeLoop:
    from .judging import JudgeLoop  # noqa: PLC0415 -- brings asyncio, which free metrics do not need

    return JudgeLoop(
        judges,
        guard=guard_for("meter.judge"),
        concurrency=limits.judge_concurrency,
        max_backlog=limits.queue_size,
        max_bytes=limits.queue_bytes,
        deadline_s=limits.judge_deadline_s,
    )
