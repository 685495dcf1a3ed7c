"""`RagMeter.port`: the meter's interface for adapters, servers and the exit of the process.

A request's path has one call, `MeterPort.offer`: a sampling decision and one non-blocking put. Nothing here
raises into, blocks or slows the host.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID
from weakref import WeakMethod

from ragmeter.exporters.protocol import Exporter, ScoredRun, Suspects

from ._runtime.guard import ErrorLog, Guard, front_door
from ._runtime.stats import CAPTURED, Counters, NoDataWarning
from ._runtime.threads import start_elsewhere, taking
from .metrics._process import fork
from .pipeline.ending import SILENCE_S, PipelineEnding, keep_watch
from .pipeline.late import Amendment
from .pipeline.pipeline import Pipeline
from .pipeline.sampling import Candidate, Chances
from .pipeline.scoring import Offer, UnseenRetrieval
from .quality.objectives import Objectives
from .requests.by_hand import RunBuilder
from .requests.lone_retrieval import LoneRetrieval
from .requests.scope import RequestScope
from .requests.size import weight_of_run, weight_of_scope

if TYPE_CHECKING:
    from .watch.alarming import Alarming

examined: dict[object, Sequence[Exporter]] | None = {} if os.environ.get("RAGMETER_DOCTOR") else None
"""All meters of this process with their exporters, during ``ragmeter doctor``."""


class MeterPort:
    """The `port` of a `ragmeter.RagMeter`: accepts requests from adapters and counts lost ones.

    Args:
        sample_rate: Probability that an offered request is scored; None: decided later.
        shutdown_timeout_s: Longest delay of the process's exit in seconds; None: that of `PipelineEnding`.
    """

    pipeline: Pipeline
    alarming: Alarming | None = None
    """The watch over the scores, if alarms are on."""
    objectives: Objectives
    """The objectives of scores."""

    def __init__(self, *, sample_rate: float | None, shutdown_timeout_s: float | None) -> None:
        self._sample_rate = sample_rate
        self._ending = PipelineEnding(shutdown_timeout_s)
        self._flushed: tuple[object, ...] | None = None
        self.log = ErrorLog()
        front_door.serve(self.log)
        self.counters = Counters()
        self.no_data = NoDataWarning()
        self._offer_guard = self.guard("meter.offer")
        self._exit_guard = self.guard("meter.exit")
        self._watched = False
        self._shut_down = False
        self._ending_turn = fork.lock()
        self._has_ended = False
        self._drains: list[WeakMethod[Callable[..., bool]]] = []

    def serve(self, pipeline: Pipeline) -> None:
        """Send requests to `pipeline`."""
        self.pipeline = pipeline
        fork.forget(self._begin_child)

    def guard(self, component: str) -> Guard:
        """Return a reusable guard that contains errors and counts them under `component`."""
        return Guard(component, self.log)

    def offer(
        self,
        build: RunBuilder,
        *,
        run_id: str | UUID,
        trace_id: int | None = None,
        size_bytes: int = 0,
        scope: RequestScope | None = None,
        alone: LoneRetrieval | None = None,
    ) -> None:
        """Accept a finished request from an adapter. Never blocks, never raises.

        Args:
            build: Makes the run, later, on the worker; returns None if there is no request.
            run_id: The request's id; sampled by it without a trace.
            trace_id: The trace the request belongs to.
            size_bytes: Estimated size of the texts it holds.
            scope: The scope in which the request started.
            alone: The retrieval, if the request is one without a model call: it waits for the call that uses
                its documents.
        """
        try:
            if scope is not None:
                size_bytes += weight_of_scope(scope)
            if (
                scope is not None
                and scope.group is not None
                and scope.group.collect(self, build, size_bytes=size_bytes)
            ):
                return
            if self._shut_down:
                self.counters.count_lost("shutdown")
                return
            candidate = Candidate(run_id, trace_id)
            rate = self._sample_rate
            if rate is not None and rate < 1.0 and not candidate.within("sample", rate):
                self.counters.count_lost("sampled_out")
                return
            if not self._watched:
                self._begin_watch()
            # Ctrl-C may hit between any two steps: the request is counted here or by the thread that takes it
            # out.
            capture = iter([[CAPTURED]])
            offer = Offer(build, candidate, capture, iter((True,)), alone, size_bytes)
            self.pipeline.put(offer, size_bytes)
            self.counters.count_capture(capture)
        except Exception as error:
            if not self._offer_guard.contains(error):
                raise

    def _begin_watch(self) -> None:
        self._watched = True
        keep_watch(self)
        start_elsewhere(self.pipeline.start)

    def take_over(self, sent: ScoredRun) -> None:
        """Accept a request captured and sampled by another process. Never blocks, never raises.

        Args:
            sent: The request with its sampling and without scores. ``late``: it has a new reference since it
                was first sent, numbered by ``revision``.
        """
        with self._offer_guard:
            run = sent.run
            item: Offer | Amendment
            capture = iter([[CAPTURED]])
            if sent.late:
                item = Amendment(run.run_id, again=sent)
            else:
                chances = Chances(sent.sample_rate, sent.judge_sample_rate, sent.selection, sent.selection)
                # As the adapter did: sampled by the parent's trace, not by the request's own span.
                trace_id = None if run.parent is None else run.parent.trace_id
                candidate = Candidate(run.run_id, trace_id, chances)
                item = Offer(lambda: run, candidate, capture, iter((True,)))
            self.pipeline.put(item, weight_of_run(run))
            if not sent.late:
                self.counters.count_capture(capture)

    def count_lost(self, reason: str, count: int = 1) -> None:
        """Count requests that an adapter saw begin but lost, e.g. ``evicted``."""
        with self._offer_guard:
            self.counters.count_lost(str(reason), int(count))

    def retrieval_unseen(self, framework: str, reason: str, look: Callable[[], Suspects]) -> None:
        """Count a request without a seen retrieval. Never blocks, never raises.

        Args:
            framework: The adapter.
            reason: ``no_retrieval`` or ``unreadable_result``.
            look: Returns possible retrievers; called later, on the worker.
        """
        with self._offer_guard:
            self.counters.retrieval_unseen(reason)
            if not self._shut_down:
                if not self._watched:
                    self._begin_watch()
                self.pipeline.put_unseen(UnseenRetrieval(framework, reason, look))

    def expect_requests(self, adapter: str, drain: Callable[..., bool] | None = None) -> None:
        """Register an adapter that waits for requests; if none comes for long, a warning is logged.

        Args:
            adapter: Its name.
            drain: Offers requests waiting in the adapter, until a time (monotonic); returns whether all were
                offered. With ``running=False`` not those that still run. Held weakly.
        """
        with self._offer_guard:
            self.no_data.expect_requests(str(adapter))
            if drain is not None:
                keep_watch(self)
                self._drains = [one for one in self._drains if one() is not None]
                self._drains.append(WeakMethod(drain))

    def drain(self, deadline: float, *, running: bool = True) -> bool:
        """Drain all adapters; return whether all their requests were offered."""
        drained = [drain(deadline, running=running) for one in self._drains if (drain := one()) is not None]
        return all(drained)

    def end_once(self, deadline: float) -> None:
        """Drain the adapters and close the pipeline, once."""
        # A signal handler during this call must not wait for it; after Ctrl-C the next call continues.
        held = deque[bool]()
        try:
            held.extend(taking(self._ending_turn))
            if held and not self._has_ended:
                self.drain(deadline)
                self._shut_down = True
                self.pipeline.close(deadline)
                self._has_ended = True
        finally:
            if held:
                self._ending_turn.release()

    @property
    def adapters(self) -> tuple[str, ...]:
        """The adapters that send it requests, or wait for some."""
        return self.no_data.adapters

    def flush_at_exit(self) -> None:
        """Flush before the interpreter exits; called by ragmeter itself."""
        with self._exit_guard:
            # Other threads may still be at a request, and the application's own handlers may end some.
            self.drain(time.monotonic() + SILENCE_S, running=False)
            # Providers of the application may have ended since; a metric reader collects at each flush.
            if not self._shut_down and self._flushed != self._position():
                done = self._ending.flush(self.pipeline)
                self._flushed = self._position() if done else None
                self.no_data.warn_unseen(self.counters.n_captured)

    def _position(self) -> tuple[object, ...]:
        """Return what changes with each request, amendment and export."""
        return self.counters.n_captured, self.pipeline.backlog().queue_size, self.pipeline.signs()

    def end_at_exit(self) -> None:
        """Stop the worker process at exit; called by ragmeter itself."""
        with self._exit_guard:
            self.pipeline.depart()

    def _begin_child(self) -> None:
        self._watched = False
