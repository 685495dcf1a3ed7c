"""The way out: one bounded lane per exporter, so that none can hold up another.

A raising exporter is counted, a hanging one fills its own lane and loses its own oldest
runs, and neither flush nor shutdown waits for one longer than told.  Each exporter is called
on its lane's thread alone, side by side with the others; only one that hangs is told to shut down by
another.  A request is exported when every exporter is through with it and at least one has taken it.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import count
from typing import TYPE_CHECKING

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.stats import Counters
from ragmeter._runtime.threads import start_elsewhere
from ragmeter.context import leave_host
from ragmeter.exporters.protocol import Exporter, HoldsRuns, ObservesJudge, RunsLostError, ScoredRun
from ragmeter.metrics import _fork as fork

from .queue import Lane, remaining

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

__all__ = ["Outbound"]

BATCH = 64
"""Runs handed to an exporter at a time, at most."""
LAST_S = 0.1
"""Seconds that an exporter has at least to shut down, however late it is."""


class _Parcel:
    """A result on its way to every exporter; counts its request once, when the last is through."""

    __slots__ = ("_counters", "_exporters", "_taken", "_through", "result")

    def __init__(self, result: ScoredRun, exporters: int, counters: Counters) -> None:
        self.result = result
        self._exporters = exporters
        self._counters = counters
        self._taken = False
        self._through = count(1)

    def through(self, lost: str | None) -> None:
        """Note that one exporter has taken it, or why it has not."""
        if lost is None:
            self._taken = True
        if next(self._through) != self._exporters or self.result.late:
            return
        if self._taken:
            self._counters.exported()
        else:
            self._counters.dropped(lost or "export")


class _Step:
    """One call of an exporter's `flush` or `shutdown`, made by whoever gets to it first."""

    def __init__(self, call: Callable[[float], object], deadline: float, guard: Guard) -> None:
        self._call = call
        self._deadline = deadline
        self._guard = guard
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self.ok = False

    @property
    def begun(self) -> bool:
        """Whether somebody has begun it."""
        return self._turn.locked()

    def extend(self, deadline: float) -> None:
        """Let it take until `deadline`, if that is later than it was."""
        self._deadline = max(self._deadline, deadline)

    def __call__(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            with self._guard:
                self.ok = self._call(max(remaining(self._deadline), LAST_S)) is not False
        finally:
            self._ended.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; return whether it has."""
        return self._ended.wait(timeout_s)


class _Way:
    """One exporter and the lane to it."""

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
        self._counters = counters
        self._flush_guard = guard_for(f"exporter.{self.name}.flush")
        self._shutdown_guard = guard_for(f"exporter.{self.name}.shutdown")
        self._backlog_guard = guard_for(f"exporter.{self.name}.backlog")
        self._flushing: _Step | None = None
        # What the exporter is at just now; whoever takes it out says what became of it.
        self._at_work: deque[Sequence[_Parcel]] = deque()
        self.lane: Lane[_Parcel] = Lane(
            f"ragmeter-export-{self.name}",
            self._export,
            guard=guard_for(f"exporter.{self.name}.export"),
            on_drop=self._dropped,
            on_start=leave_host,
            max_items=queue_size,
            max_bytes=queue_bytes,
            max_batch=BATCH,
        )
        fork.forget(self._leave_to_parent)

    @property
    def backlog(self) -> int:
        """Runs that wait for the exporter or that it has not delivered yet."""
        return len(self.lane) + self.lane.working + self._held()

    def _leave_to_parent(self) -> None:
        # In a forked child: what was under way is the parent's.
        self._flushing = None
        self._at_work = deque()

    def flush(self, deadline: float) -> _Step:
        """Have the exporter flush when nothing waits for it any more; does not wait for it.

        A flush that nobody has begun, because the exporter hangs, serves for this one, too.
        """
        flushing = self._flushing
        if flushing is None or flushing.begun:
            flushing = _Step(self._flush, deadline, self._flush_guard)
            if not self.lane.errand(flushing):
                copy_context().run(_run_beside, flushing)  # no thread can be had any more
            self._flushing = flushing
        flushing.extend(deadline)
        return flushing

    def shut_down(self, deadline: float) -> _Step:
        """Have the exporter shut down when nothing waits for it any more; does not wait for it."""
        closing = _Step(self._shut_down, deadline, self._shutdown_guard)
        if not self.lane.errand(closing):
            copy_context().run(_run_beside, closing)
        return closing

    def give_up(self, closing: _Step) -> None:
        """Count what has not gone out, and tell an exporter that hangs to shut down all the same."""
        self.lane.close(0.0)
        self._settle("shutdown")
        if not closing.begun and start_elsewhere(lambda: _run_beside(closing)):
            closing.wait(LAST_S)

    def _flush(self, timeout_s: float) -> bool:
        done = False
        try:
            done = self.exporter.flush(timeout_s) is not False
        except RunsLostError as error:
            self._counters.export_failed(self.name, error.lost)
            raise
        return done

    def _shut_down(self, timeout_s: float) -> None:
        self.lane.refuse()
        try:
            self.exporter.shutdown(timeout_s)
        except RunsLostError as error:
            self._counters.export_failed(self.name, error.lost)
            raise
        finally:
            held = self._held()
            if held:
                self._counters.export_failed(f"{self.name}:shutdown", held)

    def _held(self) -> int:
        held = 0
        if isinstance(self.exporter, HoldsRuns):
            with self._backlog_guard:
                held = int(self.exporter.backlog)
        return held

    def _export(self, batch: Sequence[_Parcel]) -> None:
        self._at_work.append(batch)
        lost = len(batch)
        try:
            self.exporter.export([parcel.result for parcel in batch])
            lost = 0
        except RunsLostError as error:
            lost = error.lost
            raise
        finally:
            self._settle("export", lost)

    def _settle(self, reason: str, lost: int | None = None) -> None:
        """Say of the batch under way what became of it, unless somebody has given it up.

        Args:
            reason: Why runs were lost, if any were.
            lost: How many; None: all.
        """
        try:
            batch = self._at_work.pop()
        except IndexError:
            return
        lost = len(batch) if lost is None else min(lost, len(batch))
        if lost:
            name = self.name if reason == "export" else f"{self.name}:{reason}"
            self._counters.export_failed(name, lost)
        taken = len(batch) - lost  # runs are written in order: what is lost is mostly the last
        for number, parcel in enumerate(batch):
            parcel.through(None if number < taken else reason)

    def _dropped(self, parcel: _Parcel, reason: str) -> None:
        self._counters.export_failed(f"{self.name}:{reason}")
        parcel.through(reason)


class Outbound:
    """Hands results to exporters, each on a thread of its own.

    Args:
        exporters: Where results go.
        counters: Where requests are counted as exported, and losses as ``export_errors``.
        guard_for: Makes a guard for a component.
        queue_size: Results that may wait per exporter.
        queue_bytes: Bytes that may wait per exporter.
    """

    def __init__(
        self,
        exporters: Sequence[Exporter],
        counters: Counters,
        guard_for: Callable[[str], Guard],
        *,
        queue_size: int,
        queue_bytes: int,
    ) -> None:
        self._counters = counters
        self._judge_guard = guard_for("exporter.judge_called")
        self._ways = tuple(
            _Way(exporter, counters, guard_for, queue_size, queue_bytes) for exporter in exporters
        )

    @property
    def backlog(self) -> dict[str, int]:
        """Runs that wait for an exporter or that it has not delivered yet, by exporter class, if any."""
        backlog: Counter[str] = Counter()
        for way in self._ways:
            backlog[way.name] += way.backlog
        return dict(+backlog)

    def put(self, result: ScoredRun, size_bytes: int) -> None:
        """Give a result to every exporter. Never blocks."""
        parcel = _Parcel(result, max(1, len(self._ways)), self._counters)
        if not self._ways:
            parcel.through(None)
            return
        for way in self._ways:
            way.lane.put(parcel, size_bytes)

    def start(self) -> None:
        """Start the exporters' threads. To be called below no lock; see `start_elsewhere`."""
        for way in self._ways:
            way.lane.start()

    def judge_called(self, call: JudgeCall) -> None:
        """Tell the exporters that publish calls to the judge."""
        for way in self._ways:
            if isinstance(way.exporter, ObservesJudge):
                with self._judge_guard:
                    way.exporter.judge_called(call)

    def flush(self, deadline: float) -> bool:
        """Wait until everything is written and pushed out, until `deadline` (monotonic)."""
        steps = [way.flush(deadline) for way in self._ways]
        done = True
        for step in steps:
            done = step.wait(remaining(deadline)) and step.ok and done
        return done

    def close(self, deadline: float) -> None:
        """Write what can be written until `deadline` (monotonic), then shut the exporters down."""
        steps = [way.shut_down(deadline) for way in self._ways]
        for way, step in zip(self._ways, steps, strict=True):
            if not step.wait(remaining(deadline)):
                way.give_up(step)

    def before_fork(self, deadline: float) -> None:
        """Let no exporter be in the middle of something, if that is so before `deadline`."""
        for way in self._ways:
            way.lane.before_fork(deadline)

    def after_fork_in_parent(self) -> None:
        """Let the exporters go on."""
        for way in self._ways:
            way.lane.after_fork_in_parent()


def _run_beside(step: _Step) -> None:
    leave_host()
    step()
