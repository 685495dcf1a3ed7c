"""Judge a frozen set of requests again, on a schedule, to detect judge drift.

Runs on its own thread and event loop, one request at a time, bypassing the judge's cache. If the judge's
budget is used up, the round resumes later. Never runs on a request's path.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.loop import LastingLoop
from ragmeter._runtime.queue import WorkerQueue
from ragmeter._runtime.threads import is_ending
from ragmeter.metrics import Metric, Score
from ragmeter.metrics._display.mean_interval import scale_to_unit
from ragmeter.metrics._process import fork
from ragmeter.metrics.judge.bypass_cache import bypassing_cache
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.protocol import run_metric
from ragmeter.quality.sums import unix_clock
from ragmeter.requests.scope import leave_host

from .change import Change
from .judge_drift import LEAST_REQUESTS, Drift, FrozenRequest, Standing, drift_change, read_frozen

BUDGET_PAUSE_S = 60.0
"""Seconds until a round that exceeded the judge's budget resumes."""
ASK_AGAIN_S = 1800.0
"""Least seconds between the starts of two rounds that are requested by `standing`."""
CLOSE_S = 2.0
"""Seconds that `close` waits for a running call to be cancelled."""


class JudgeCheck:
    """Repeats the judgements of a frozen set; knows which scores' judges have drifted. Thread-safe.

    Args:
        frozen: The requests, with the judge's earlier verdicts.
        metrics: The judged metrics to measure.
        judge: The judge to check.
        every_s: Seconds between the beginnings of two rounds; the first begins at once.
        deadline_s: Timeout of one metric of one request, in seconds.
        guard: Contains internal errors.
        clock: Monotonic unix seconds; None: this machine's.
    """

    def __init__(
        self,
        frozen: Sequence[FrozenRequest],
        metrics: Sequence[Metric],
        judge: Judge,
        *,
        every_s: float,
        deadline_s: float,
        guard: Guard,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._frozen = frozen
        self._metrics = metrics
        self._judge = judge
        self._every_s = every_s
        self._deadline_s = deadline_s
        self._guard = guard
        self._clock = clock or unix_clock()
        self._callbacks: tuple[Callable[[Change], object], ...] = ()
        self._queue: WorkerQueue[None] = WorkerQueue(
            "ragmeter-judge-check",
            lambda _: self._round(),
            guard=guard,
            on_drop=lambda *_: None,  # a wake-up: a round is already requested, or over
            on_start=leave_host,
            tick=self._tick,
            max_items=1,
            max_bytes=1,
        )
        self._scores = {name for one in frozen for name in one.verdicts}
        self._last: Mapping[str, tuple[Drift, float]] = {}
        """By score, what the last round measured, and when that began."""
        self._steady_at: dict[str, float] = {}
        self._next = 0.0
        self._closed = False
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        self._asked_for = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._place = 0
        self._began = 0.0

    def standing(self, score: str, since: float) -> Standing:
        """Return the state of a score's judge since `since` (Unix seconds); start a round if unknown."""
        if score not in self._scores:
            return "unchecked"
        drift, began = self._last.get(score, (None, -math.inf))
        if drift is not None and drift.has_moved:
            return "moved"
        if began >= since:
            return "steady"
        # While a judge fails, the state stays unknown: do not start a round every five minutes.
        is_due = not self._place and self._clock() - self._began >= ASK_AGAIN_S
        if is_due and not self._asked_for:
            self._asked_for = True
            self._queue.put(None)
        return "pending"

    def drifts(self) -> Sequence[Drift]:
        """Return the drift of each score in the last round."""
        return [drift for drift, _ in self._last.values()]

    def on_moved(self, callback: Callable[[Change], object]) -> None:
        """Call `callback` once for each drift of a judge."""
        self._callbacks = (*self._callbacks, callback)

    def start(self) -> None:
        """Start the thread. The caller must hold no lock."""
        self._queue.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until no round is running, except one that waits for the budget."""
        return self._queue.flush(timeout_s)

    def close(self) -> None:
        """Cancel a running round, and end the thread."""
        self._closed = True
        self._queue.refuse()
        if (running := self._running) is not None:
            loop, task = running
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)
        self._queue.close(CLOSE_S)

    def _tick(self) -> float:
        """Start a round when it is due; return the seconds until then."""
        left_s = self._next - self._clock()
        if left_s <= 0 and not self._closed:
            self._queue.put(None)
            return self._every_s  # the round itself says when the next one is due
        return left_s

    def _round(self) -> None:
        """Resume the round, or start a new one."""
        self._asked_for = False
        if self._closed or is_ending():
            return
        if not self._place:
            self._began = self._clock()
            self._pairs = defaultdict(list)
        self._next = self._clock() + BUDGET_PAUSE_S  # unless the round completes
        loop = LastingLoop()
        try:
            task = loop.create_task(self._judge_all())
            self._running = loop, task
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        finally:
            self._running = None
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        if self._place < len(self._frozen):
            return
        self._place = 0
        self._next = self._began + self._every_s
        for score, pairs in self._pairs.items():
            if len(pairs) >= LEAST_REQUESTS:  # else the judge failed on most requests
                self._note(Drift.of(score, pairs, self._clock()), pairs)

    def _note(self, drift: Drift, pairs: Sequence[tuple[float, float]]) -> None:
        """Remember the drift of a round; report it if the judge had not drifted before."""
        before, _ = self._last.get(drift.score, (None, 0.0))
        self._last = {**self._last, drift.score: (drift, self._began)}
        since = self._steady_at.get(drift.score, self._began)
        if not drift.has_moved:
            self._steady_at[drift.score] = drift.at
        elif before is None or not before.has_moved:
            change = drift_change(drift, pairs, since)
            for callback in self._callbacks:
                with self._guard:
                    callback(change)

    async def _judge_all(self) -> None:
        try:
            while self._place < len(self._frozen) and not self._closed:
                with bypassing_cache():
                    scores = await self._judge_one(self._frozen[self._place])
                if scores is None:
                    return
                old = self._frozen[self._place].verdicts
                self._place += 1
                for score in scores:
                    if score.value is not None and score.status == "ok" and score.name in old:
                        new = scale_to_unit(score.value, *score.range)
                        self._pairs[score.name].append((old[score.name], new))
        finally:
            with suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._judge.aclose(), 1.0)

    async def _judge_one(self, request: FrozenRequest) -> list[Score] | None:
        """Return the judge's scores of a request now; None: the budget is used up."""
        found: list[Score] = []
        for metric in self._metrics:
            if not any(name in request.verdicts for name in metric.score_names):
                continue
            with suppress(asyncio.TimeoutError, TimeoutError):
                scores = await asyncio.wait_for(
                    run_metric(metric, request.sample, self._judge), self._deadline_s
                )
                if any(one.status == "skipped" and one.error_type == "budget" for one in scores):
                    return None
                found += scores
        return found


def judge_check_of(
    frozen: str | os.PathLike[str],
    metrics: Sequence[Metric],
    judge: Judge,
    *,
    every_s: float,
    deadline_s: float,
    guard: Guard,
) -> JudgeCheck:
    """Build a `JudgeCheck` from a file of frozen requests.

    Raises:
        ConfigurationError: The file cannot be used.
    """
    judged = [metric for metric in metrics if metric.judged and None not in metric.range]
    scores = {name for metric in judged for name in metric.score_names}
    requests = read_frozen(Path(frozen), scores)
    return JudgeCheck(requests, judged, judge, every_s=every_s, deadline_s=deadline_s, guard=guard)
