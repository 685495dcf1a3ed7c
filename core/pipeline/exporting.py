"""Export results: one bounded queue and thread per exporter, so that none can block another.

Errors of an exporter are counted; a hanging one fills its own queue and loses its own oldest runs, and
neither flush nor shutdown waits for it beyond its time limit. Each exporter is called on its own thread only,
except that a hanging one is shut down from another. A request counts as exported when all exporters are done
with it and at least one has accepted it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import count
from typing import TYPE_CHECKING

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import LOOK_S, Errand, WorkerQueue, remaining
from ragmeter._runtime.stats import Counters, NoDataWarning, OncePerMinute
from ragmeter._runtime.threads import Bell, start_elsewhere, taking
from ragmeter.exporters.protocol import (
    CarriesRequests,
    CountsUnsampled,
    Exporter,
    FollowsSpans,
    HoldsRuns,
    MayLackDestination,
    MeasuresEveryRequest,
    ObservesJudge,
    ObservesUnseenRetrievals,
    RunsLostError,
    ScoredRun,
    TryLaterError,
)
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.retry import pause_before
from ragmeter.metrics.errors import loggable
from ragmeter.requests.scope import leave_host

if TYPE_CHECKING:
    from ragmeter.exporters.changes import RetrieverDifference
    from ragmeter.metrics.judge.protocol import JudgeCall

logger = logging.getLogger("ragmeter")

BATCH = 64
"""Most runs per export call."""
LONGEST_PAUSE_S = 5.0
"""Longest pause between two attempts to export runs, in seconds."""
LAST_S = 0.1
"""Least seconds for an exporter to shut down."""


class _Outgoing:
    """A result on its way to all exporters; counts its request when the last one is done."""

    __slots__ = ("_counters", "_exporters", "_lost", "_taken", "_through", "result")

    def __init__(self, result: ScoredRun, exporters: int, counters: Counters) -> None:
        self.result = result
        self._exporters = exporters
        self._counters = counters
        self._taken = False
        self._lost: str | None = None
        self._through = count(1)

    def through(self, lost: str | None, *, carries: bool = False) -> None:
        """Record that one exporter is done with it, or lost it; one that carries the request loses that."""
        if lost is None:
            self._taken = True
        elif carries:
            self._lost = lost
        if next(self._through) != self._exporters or self.result.late:
            return
        if self._taken and self._lost is None:
            self._counters.count_export()
        else:
            self._counters.count_drop(self._lost or lost or "export")


class _Step:
    """One call of an exporter's `flush` or `shutdown`, by the first thread that reaches it."""

    def __init__(self, call: Callable[[float], object], deadline: float, guard: Guard) -> None:
        self._call = call
        self._deadline = deadline
        self._guard = guard
        self._turn = threading.Lock()
        self._has_ended = False
        self._ended = Bell()
        self.ok = False

    @property
    def has_begun(self) -> bool:
        """Whether the call has begun."""
        return self._turn.locked()

    def extend(self, deadline: float) -> None:
        """Extend its deadline to `deadline`, if that is later."""
        self._deadline = max(self._deadline, deadline)

    def __call__(self) -> None:
        begun = deque[bool]()
        try:
            begun.extend(taking(self._turn))
            if begun:
                with self._guard:
                    self.ok = self._call(max(remaining(self._deadline), LAST_S)) is not False
        finally:
            if begun:
                self._has_ended = True
                self._ended.ring()

    def wait(self, deadline: float) -> bool:
        """Wait for its end until `deadline` (monotonic); return whether it has ended."""
        # A bell, not an event: Ctrl-C during `Event.wait` may keep its lock, and block the thread that sets it.
        while not self._has_ended and (left_s := remaining(deadline)):
            self._ended.wait(min(left_s, LOOK_S))
        if self._has_ended:
            self._ended.ring()  # wake the next waiter
        return self._has_ended


class _ExportQueue:
    """One exporter with its queue."""

    def __init__(
        self,
        exporter: Exporter,
        counters: Counters,
        guard_for: Callable[[str], Guard],
        queue_size: int,
        queue_bytes: int,
    ) -> None:
        self.exporter = exporter
        self.name = type(exporter).__name__
        self._carries = isinstance(exporter, CarriesRequests) and exporter.carries_requests
        self._counters = counters
        self._flush_guard = guard_for(f"exporter.{self.name}.flush")
        self._shutdown_guard = guard_for(f"exporter.{self.name}.shutdown")
        self._backlog_guard = guard_for(f"exporter.{self.name}.backlog")
        self._flushing: tuple[_Step, Errand | None] | None = None
        self._closing: _Step | None = None
        self.settled_at = -math.inf
        """When the exporter last finished a batch (monotonic)."""
        # The batch being exported; the thread that removes it counts its requests.
        self._at_work: deque[Sequence[_Outgoing]] = deque()
        self._giving_up = Bell()
        self._gave_up = False
        self._may_log = OncePerMinute()
        self.worker: WorkerQueue[_Outgoing] = WorkerQueue(
            f"ragmeter-export-{self.name}",
            self._export,
            guard=guard_for(f"exporter.{self.name}.export"),
            on_drop=self._count_drop,
            on_start=leave_host,
            max_items=queue_size,
            max_bytes=queue_bytes,
            max_batch=BATCH,
        )
        fork.forget(self._leave_to_parent)

    @property
    def backlog(self) -> int:
        """Runs that are queued, or that the exporter has not delivered yet."""
        return len(self.worker) + self.worker.working + self.n_held()

    def _leave_to_parent(self) -> None:
        # In a forked child: unfinished work belongs to the parent.
        self._flushing = self._closing = None
        self._at_work = deque()
        self._giving_up = Bell()
        self._gave_up = False

    def flush(self, deadline: float) -> _Step:
        """Queue a flush of the exporter behind all waiting runs; does not wait for it.

        A queued flush that has not begun, as the exporter hangs, is postponed and reused.
        """
        if self._flushing is not None:
            flushing, errand = self._flushing
            if errand is not None and self.worker.postpone(errand):
                flushing.extend(deadline)
                return flushing
        flushing = _Step(self._flush, deadline, self._flush_guard)
        errand = self.worker.errand(flushing)
        if errand is None:
            copy_context().run(_run_beside, flushing)  # no more threads can be started
        self._flushing = flushing, errand
        return flushing

    def shut_down(self, deadline: float) -> _Step:
        """Queue a shutdown of the exporter behind all waiting runs; does not wait for it."""
        closing = self._closing = self._closing or _Step(self._shut_down, deadline, self._shutdown_guard)
        closing.extend(deadline)
        if self.worker.errand(closing) is None:
            copy_context().run(_run_beside, closing)
        return closing

    def give_up(self, closing: _Step) -> None:
        """Count the runs that were not exported, and shut down even a hanging exporter."""
        # First, or a flush on another thread would count the dropped runs as done.
        self._gave_up = not self.worker.flush(0.0)
        self._giving_up.ring()
        self.worker.close(0.0)
        self._settle("shutdown")
        if not closing.has_begun and start_elsewhere(lambda: _run_beside(closing)):
            closing.wait(time.monotonic() + LAST_S)

    def _flush(self, timeout_s: float) -> bool:
        done = False
        try:
            done = self.exporter.flush(timeout_s) is not False
        except RunsLostError as error:
            self._counters.export_failed(self.name, error.lost)
            raise
        return done and not self._gave_up

    def _shut_down(self, timeout_s: float) -> None:
        self.worker.refuse()
        try:
            self.exporter.shutdown(timeout_s)
        except RunsLostError as error:
            self._counters.export_failed(self.name, error.lost)
            raise
        finally:
            held = self.n_held()
            if held:
                self._counters.export_failed(f"{self.name}:shutdown", held)

    def n_held(self) -> int:
        """Return the number of runs that the exporter holds."""
        held = 0
        if isinstance(self.exporter, HoldsRuns):
            with self._backlog_guard:
                held = int(self.exporter.backlog)
        return held

    def _export(self, batch: Sequence[_Outgoing]) -> None:
        self._at_work.append(batch)
        retry = 0
        while True:
            lost = len(batch)
            waiting: Sequence[_Outgoing] = ()
            try:
                self.exporter.export([outgoing.result for outgoing in batch])
                lost = 0
            except TryLaterError as error:
                not_written = {id(run) for run in error.runs}
                waiting = [one for one in batch if id(one.result) in not_written]
                lost = 0
                if self._may_log.allows("later"):
                    logger.warning(
                        "ragmeter: %s cannot take scores for now (%s): %d requests wait for a retry "
                        "(logged once a minute)",
                        self.name,
                        loggable(error),
                        len(waiting),
                    )
            except RunsLostError as error:
                lost = error.lost
                raise
            finally:
                if not waiting:
                    self._settle("export", lost)
            if not waiting or not self._keep(batch, waiting):
                return
            pause_s = pause_before(retry, None, longest_s=LONGEST_PAUSE_S)
            retry = 0 if len(waiting) < len(batch) else retry + 1
            batch = waiting
            if self._giving_up.wait(pause_s):
                return  # `give_up` counts them

    def _keep(self, batch: Sequence[_Outgoing], waiting: Sequence[_Outgoing]) -> bool:
        """Continue with the rest of a batch; return False if it was given up meanwhile."""
        try:
            self._at_work.pop()
        except IndexError:
            return False
        self._at_work.append(waiting)
        left = {id(one) for one in waiting}
        for one in batch:
            if id(one) not in left:
                self.settled_at = time.monotonic()
                one.through(None)
        return True

    def _settle(self, reason: str, lost: int | None = None) -> None:
        """Count the current batch as done, unless it was abandoned; `lost`: number of lost runs, None: all."""
        try:
            batch = self._at_work.pop()
        except IndexError:
            return
        self.settled_at = time.monotonic()
        lost = len(batch) if lost is None else min(lost, len(batch))
        if lost:
            name = self.name if reason == "export" else f"{self.name}:{reason}"
            self._counters.export_failed(name, lost)
        taken = len(batch) - lost  # runs are written in order: the last ones are usually lost
        for number, outgoing in enumerate(batch):
            outgoing.through(None if number < taken else reason, carries=self._carries)

    def _count_drop(self, outgoing: _Outgoing, reason: str) -> None:
        self._counters.export_failed(f"{self.name}:{reason}")
        outgoing.through(reason, carries=self._carries)


class ExportQueues:
    """Passes results to exporters, each on its own thread.

    Args:
        counters: Counts exported requests, and losses as ``export_errors``.
        no_data: Warns, once, if results have no destination.
        queue_size: Most waiting results per exporter.
        queue_bytes: Most waiting bytes per exporter.
    """

    def __init__(
        self,
        exporters: Sequence[Exporter],
        counters: Counters,
        guard_for: Callable[[str], Guard],
        no_data: NoDataWarning,
        *,
        queue_size: int,
        queue_bytes: int,
    ) -> None:
        self._counters = counters
        self._no_data = no_data
        self._judge_guard = guard_for("exporter.judge_called")
        self._delivers_guard = guard_for("exporter.delivers")
        self._measure_guard = guard_for("exporter.measure")
        # An exporter may have nowhere to write to, as OpenTelemetry without an SDK.
        self._uncertain = [one for one in exporters if isinstance(one, MayLackDestination)]
        self.measuring = [one for one in exporters if isinstance(one, MeasuresEveryRequest)]
        """Exporters that want the free scores of every request."""

        def queue_for(exporter: Exporter) -> _ExportQueue:
            return _ExportQueue(exporter, counters, guard_for, queue_size, queue_bytes)

        self._queue_for = queue_for
        self._queues = tuple(map(queue_for, exporters))

    def add(self, exporter: Exporter, differences: Callable[[], Sequence[RetrieverDifference]]) -> None:
        """Add an exporter; the others publish its `differences`."""
        from ragmeter.exporters.changes import ObservesShadows  # noqa: PLC0415 -- only with a shadow

        for queue in self._queues:
            if isinstance(queue.exporter, ObservesShadows):
                with self._judge_guard:
                    queue.exporter.observe_shadow(differences)
        queue = self._queue_for(exporter)
        queue.worker.start()
        self._queues = (*self._queues, queue)

    @property
    def backlog(self) -> dict[str, int]:
        """Runs not delivered yet, by exporter class."""
        backlog: Counter[str] = Counter()
        for queue in self._queues:
            backlog[queue.name] += queue.backlog
        return dict(backlog)  # including zeros, which are known

    @property
    def settled_at(self) -> float:
        """When any exporter last finished a batch (monotonic)."""
        return max((queue.settled_at for queue in self._queues), default=-math.inf)

    @property
    def waiting_bytes(self) -> int:
        """Most bytes waiting for one exporter."""
        return max((queue.worker.size_bytes for queue in self._queues), default=0)

    @property
    def n_held(self) -> tuple[int, ...]:
        """Runs that each exporter holds."""
        return tuple(queue.n_held() for queue in self._queues)

    @property
    def n_unsampled(self) -> int:
        """Exported requests whose spans the application's sampler left out."""
        exporters = (queue.exporter for queue in self._queues)
        return max((one.n_unsampled for one in exporters if isinstance(one, CountsUnsampled)), default=0)

    def follow_spans(self, provider: object) -> None:
        """Notify the exporters that write spans of the provider whose spans are judged."""
        for queue in self._queues:
            if isinstance(queue.exporter, FollowsSpans):
                queue.exporter.follow_spans(provider)

    def put(self, result: ScoredRun, size_bytes: int) -> None:
        """Queue a result for every exporter. Never blocks."""
        queues = self._queues
        outgoing = _Outgoing(result, max(1, len(queues)), self._counters)
        if not queues:
            outgoing.through(None)
            return
        for queue in queues:
            queue.worker.put(outgoing, size_bytes)

    def any_delivers(self) -> bool:
        """Return whether the next result reaches an exporter; count those it does not reach. For one thread.

        True without any exporter: the user asked for that.
        """
        names: list[str] = []
        for one in self._uncertain:
            with self._delivers_guard:  # one that raises will count what it cannot deliver
                if not one.delivers():
                    names.append(type(one).__name__)
        if not names:
            return True
        is_all = len(names) == len(self._queues)
        self._no_data.warn_undelivered(names, is_all=is_all)
        if is_all:
            return False
        for name in names:
            self._counters.export_failed(f"{name}:no_provider")
        return True

    def measure(self, scored: ScoredRun) -> None:
        """Pass the free scores of a request that is not exported to `MeasuresEveryRequest` exporters."""
        for exporter in self.measuring:
            with self._measure_guard:
                exporter.measure(scored)

    def start(self) -> None:
        """Start the exporters' threads. The caller must hold no lock; see `start_elsewhere`."""
        for queue in self._queues:
            queue.worker.start()

    def judge_called(self, call: JudgeCall) -> None:
        """Notify the exporters that publish judge calls."""
        for queue in self._queues:
            if isinstance(queue.exporter, ObservesJudge):
                with self._judge_guard:
                    queue.exporter.judge_called(call)

    def retrieval_unseen(self, framework: str, reason: str) -> None:
        """Notify the exporters that count unseen retrievals."""
        for queue in self._queues:
            if isinstance(queue.exporter, ObservesUnseenRetrievals):
                with self._judge_guard:
                    queue.exporter.retrieval_unseen(framework, reason)

    def flush(self, deadline: float) -> bool:
        """Export and flush everything until `deadline` (monotonic); return whether that succeeded."""
        steps = [queue.flush(deadline) for queue in self._queues]
        done = True
        for step in steps:
            done = step.wait(deadline) and step.ok and done
        return done

    def close(self, deadline: float) -> None:
        """Export until `deadline` (monotonic), then shut the exporters down."""
        steps = [queue.shut_down(deadline) for queue in self._queues]
        for queue, step in zip(self._queues, steps, strict=True):
            if not step.wait(deadline):
                queue.give_up(step)


def _run_beside(step: _Step) -> None:
    leave_host()
    step()
