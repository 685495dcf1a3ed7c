"""The way out: one bounded lane per exporter, so that none can hold up another.

A raising exporter is counted, a hanging one fills its own lane and loses its own oldest
runs, and neither flush nor shutdown waits for one longer than told.  The meter's
pipeline puts results in; nothing here looks into them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from ragmeter.exporters.protocol import Exporter, ObservesJudge, RunsLostError
from ragmeter.exporters.run import ScoredRun

from .counters import Counters
from .guard import Guard
from .lane import Lane, remaining
from .scope import leave_host

if TYPE_CHECKING:
    from ragmeter.metrics.judge.contract import JudgeCall

__all__ = ["Outbound"]

BATCH = 64
"""Runs handed to an exporter at a time, at most."""


class Outbound:
    """Hands results to exporters, each on a thread of its own.

    Args:
        exporters: Where results go.
        counters: Where losses are counted, as ``export_errors``.
        guard_for: Makes a guard for a seam.
        queue_size: Results that may wait per exporter.
        queue_bytes: Bytes of text that may wait per exporter.
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
        self._exporters = tuple(exporters)
        self._counters = counters
        self._guard_for = guard_for
        self._judge_guard = guard_for("exporter.judge_called")
        self._lanes = tuple(
            self._lane(exporter, queue_size, queue_bytes) for exporter in self._exporters
        )

    def put(self, result: ScoredRun) -> None:
        """Give a result to every exporter. Never blocks."""
        size = sum(len(context.text) for context in result.sample.contexts or ())
        for lane in self._lanes:
            lane.put(result, size)

    def start(self) -> None:
        """Start the exporters' threads."""
        for lane in self._lanes:
            lane.start()

    def judge_called(self, call: JudgeCall) -> None:
        """Tell the exporters that publish calls to the judge."""
        for exporter in self._exporters:
            if isinstance(exporter, ObservesJudge):
                with self._judge_guard:
                    exporter.judge_called(call)

    def flush(self, deadline: float) -> bool:
        """Wait until everything is written and pushed out, until `deadline` (monotonic)."""
        done = True
        for lane, exporter in zip(self._lanes, self._exporters, strict=True):
            done = lane.flush(remaining(deadline)) and done
            done = self._bounded(lane, exporter, "flush", remaining(deadline)) and done
        return done

    def close(self, deadline: float) -> None:
        """Write what can be written until `deadline` (monotonic), then shut the exporters down."""
        for lane, exporter in zip(self._lanes, self._exporters, strict=True):
            lane.close(remaining(deadline))
            self._bounded(lane, exporter, "shutdown", max(remaining(deadline), 0.1))

    def before_fork(self, deadline: float) -> None:
        """Let no exporter be in the middle of something, if that is so before `deadline`."""
        for lane in self._lanes:
            lane.before_fork(deadline)

    def after_fork_in_parent(self) -> None:
        """Let the exporters go on."""
        for lane in self._lanes:
            lane.after_fork_in_parent()

    def reset_after_fork(self) -> None:
        """Start again in a child process."""
        for lane in self._lanes:
            lane.reset_after_fork()

    def _lane(self, exporter: Exporter, queue_size: int, queue_bytes: int) -> Lane[ScoredRun]:
        name = type(exporter).__name__

        def work(batch: Sequence[ScoredRun]) -> None:
            lost = len(batch)
            try:
                exporter.export(batch)
                lost = 0
            except RunsLostError as error:
                lost = error.lost
                raise
            finally:
                if lost:
                    self._counters.export_failed(name, lost)

        def on_drop(_: ScoredRun, reason: str) -> None:
            self._counters.export_failed(f"{name}:{reason}")

        return Lane(
            f"ragmeter-export-{name}",
            work,
            guard=self._guard_for(f"exporter.{name}.export"),
            on_drop=on_drop,
            on_start=leave_host,
            max_items=queue_size,
            max_bytes=queue_bytes,
            max_batch=BATCH,
        )

    def _bounded(
        self,
        lane: Lane[ScoredRun],
        exporter: Exporter,
        step: Literal["flush", "shutdown"],
        timeout_s: float,
    ) -> bool:
        """Call an exporter that may ignore its time limit, and wait no longer than that."""
        guard = self._guard_for(f"exporter.{type(exporter).__name__}.{step}")
        outcome: list[bool] = []

        def call() -> None:
            with guard:
                outcome.append(getattr(exporter, step)(timeout_s) is not False)

        def call_on_thread() -> None:
            leave_host()
            call()

        thread = threading.Thread(target=call_on_thread, name=f"ragmeter-{step}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No new threads so late in the interpreter's life: the exporter's own does it, and if
            # that one hangs, nobody does.
            ended = threading.Event()

            def call_on_lane() -> None:
                call()
                ended.set()

            if lane.errand(call_on_lane):
                ended.wait(timeout_s + 0.1)
            elif not lane.is_alive:
                call()
        else:
            thread.join(timeout_s + 0.1)
        return bool(outcome and outcome[0])
