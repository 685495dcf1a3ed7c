"""Run judged metrics for many requests at a time on a background event loop.

A slow or dead judge delays only its own scores: the backlog is bounded (drop-oldest), each request has a
deadline, and the loop has its own thread and context. Judge calls are not traced or captured as the user's:
instrumentation is suppressed, and the context holds an unsampled span for instrumentations that ignore that.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.loop import LastingLoop
from ragmeter._runtime.queue import LOOK_S
from ragmeter._runtime.threads import Bell, start_elsewhere
from ragmeter.metrics import Metric, RagSample, Score
from ragmeter.metrics._process import fork
from ragmeter.metrics.judge.halving import one_request
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.protocol import run_metric, scores_without_value
from ragmeter.requests.scope import leave_host


class JudgeGaveUpError(RuntimeError):
    """A judge or a metric raised an exception that ends the program, such as ``SystemExit``."""


RETRY_AFTER_S = 1.0
"""Seconds between two attempts to start the loop."""


class JudgeJob(Protocol):
    """One request to judge."""

    @property
    def sample(self) -> RagSample:
        """The sample to judge."""
        ...

    @property
    def metrics(self) -> Sequence[Metric]:
        """The metrics to run."""
        ...

    @property
    def size_bytes(self) -> int:
        """Estimated memory it holds while waiting."""
        ...

    def judged(self, scores: Sequence[Score]) -> None:
        """Add the scores of one metric. Called on a thread of the judge or of the worker process."""
        ...

    def further(self) -> bool:
        """Go on to the next `metrics`; return whether there are any."""
        ...

    def done(self, skipped: str | None) -> None:
        """Finish: all metrics are done, or `skipped` is the reason they were not run. Called once."""
        ...


class Judges(Protocol):
    """Judges requests on the judge's loop, in this process or in the worker process."""

    async def judge(self, job: JudgeJob, left_s: float) -> str | None:
        """Judge a request and pass its scores to `job.judged`.

        Args:
            job: The request.
            left_s: Seconds after which its metrics score ``timeout``.

        Returns:
            None, or why it was not judged.
        """
        ...

    async def aclose(self) -> None:
        """Release the loop's resources before it ends."""
        ...


class JudgesHere:
    """Runs the metrics of a request concurrently.

    Args:
        judge: The judge; None: the metrics bring their own.
        deadline_s: The deadline quoted in ``timeout`` scores.
        guard: Contains internal errors.
        metrics: All metrics; closed with the loop.
        max_text_chars: Metrics skip longer texts.
    """

    def __init__(
        self,
        judge: Judge | None,
        deadline_s: float,
        *,
        guard: Guard,
        metrics: Sequence[Metric] = (),
        max_text_chars: int | None = None,
    ) -> None:
        self._judge = judge
        self._metrics = metrics
        self._deadline_s = deadline_s
        self._guard = guard
        self._max_text_chars = max_text_chars

    async def judge(self, job: JudgeJob, left_s: float) -> str | None:
        """Judge a request."""
        with one_request():
            await asyncio.gather(*(self._measure(job, metric, left_s) for metric in job.metrics))
        return None

    async def aclose(self) -> None:
        """Release the connections of the judge and the metrics."""
        if self._judge is not None:
            await self._judge.aclose()
        for metric in self._metrics:
            await metric.aclose()

    async def _measure(self, job: JudgeJob, metric: Metric, left_s: float) -> None:
        try:
            scores = await asyncio.wait_for(self._scores(job, metric), left_s)
        except (TimeoutError, asyncio.TimeoutError):
            scores = scores_without_value(
                metric, "timeout", f"not judged within {self._deadline_s:g} s", "timeout"
            )
        with self._guard:
            job.judged(scores)

    async def _scores(self, job: JudgeJob, metric: Metric) -> Sequence[Score]:
        """Return the scores of one metric, even if the judge or the metric raises.

        A task that ended with ``SystemExit`` would end the loop, and with it all judging.
        """
        try:
            return await run_metric(metric, job.sample, self._judge, self._max_text_chars)
        except BaseException as error:
            if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                raise
            kind = type(error).__name__
        with self._guard:
            raise JudgeGaveUpError(f"{metric.name!r} or its judge raised {kind}")
        return scores_without_value(metric, "judge_error", f"the judge raised {kind}", kind)


class JudgeLoop:
    """Judges bounded numbers of requests, on one asyncio loop in a daemon thread.

    Args:
        judges: Measures each request.
        guard: Contains internal errors.
        concurrency: Most requests judged at the same time.
        max_backlog: Most waiting requests; beyond that, the oldest is dropped.
        max_bytes: Most bytes they hold; one request is always accepted.
        deadline_s: A request not judged within this many seconds gets ``timeout`` scores.
    """

    def __init__(
        self,
        judges: Judges,
        *,
        guard: Guard,
        concurrency: int,
        max_backlog: int,
        max_bytes: int = sys.maxsize,
        deadline_s: float,
    ) -> None:
        self._judges = judges
        self._guard = guard
        self._concurrency = concurrency
        self._max_backlog = max_backlog
        self._max_bytes = max_bytes
        self._deadline_s = deadline_s
        self._closed = False
        self._fresh()
        fork.forget(self._fresh)  # a forked child has no thread and no jobs

    def _fresh(self) -> None:
        self._lock = threading.RLock()
        self._flushing: list[Bell] = []
        self._inbox: deque[tuple[JudgeJob, float]] = deque()
        self._inbox_bytes = 0
        self._active = 0
        self._open: dict[int, JudgeJob] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # Held while there is a thread.
        self._manned = threading.Lock()
        self._retry_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waiting_bytes(self) -> int:
        """Bytes held by waiting requests."""
        return self._inbox_bytes

    def start(self) -> None:
        """Start the loop's thread, if there is none. The caller must hold no lock; see `start_elsewhere`.

        It runs before this returns: at the end of the program, no thread can be started.
        """
        manned = self._manned
        if self._closed or not manned.acquire(blocking=False):
            return
        loop: LastingLoop | None = None
        with self._guard:
            loop = LastingLoop()
            self._thread = threading.Thread(
                target=self._run, args=(loop, manned), name="ragmeter-judge", daemon=True
            )
            self._thread.start()
            return
        # Out of file descriptors or threads, say. A later request tries again.
        if loop is not None:
            loop.close()
        self._retry_at = time.monotonic() + RETRY_AFTER_S
        manned.release()
        self._end_waiting("unavailable")

    def submit(self, job: JudgeJob, left_s: float | None = None) -> None:
        """Queue a request; drop the oldest waiting one if there are too many.

        Never waits for the loop: if it cannot start, the request ends at once as ``unavailable``.

        Args:
            job: The request.
            left_s: Seconds left until the deadline; None: the full deadline.
        """
        dropped: list[tuple[JudgeJob, str]] = []
        with self._lock:
            self._open[id(job)] = job
            if self._closed:
                dropped.append((job, "shutdown"))
            else:
                self._inbox.append((job, time.monotonic() + (self._deadline_s if left_s is None else left_s)))
                self._inbox_bytes += job.size_bytes
                while len(self._inbox) > 1 and (
                    len(self._inbox) > self._max_backlog or self._inbox_bytes > self._max_bytes
                ):
                    dropped.append((self._next()[0], "queue_full"))
        for oldest, reason in dropped:
            self._end(oldest, reason)
        self._engage()
        self._poke()

    def flush(self, timeout_s: float) -> bool:
        """Wait until every request submitted by now is done; return whether it is."""
        deadline = time.monotonic() + timeout_s
        awaited = self._open.copy()  # keeps them alive, so that no new job gets one of their ids
        # No condition, as in `WorkerQueue`: Ctrl-C during its wait may keep its lock for good.
        bell = Bell()
        try:
            self._flushing.append(bell)
            while not awaited.keys().isdisjoint(self._open.copy()):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                bell.wait(min(left_s, LOOK_S))
            return True
        finally:
            with suppress(ValueError):
                self._flushing.remove(bell)

    def close(self, timeout_s: float) -> bool:
        """Finish within `timeout_s`; remaining requests end as ``skipped``."""
        finished = self.flush(timeout_s)
        with self._lock:
            self._closed = True
        self._end_waiting("shutdown")
        loop, thread = self._loop, self._thread
        if thread is not None and thread.is_alive():
            if loop is not None:
                with suppress(RuntimeError):  # another thread closed it a moment earlier
                    loop.call_soon_threadsafe(self._stopped.set)
            thread.join(max(0.5, min(timeout_s, 2.0)))
        return finished

    def _engage(self) -> None:
        """Ensure that the loop runs; end waiting requests if it cannot for now."""
        if self._manned.locked() or self._closed:
            return
        if time.monotonic() < self._retry_at or not start_elsewhere(self.start):
            self._end_waiting("unavailable")

    def _end_waiting(self, reason: str) -> None:
        with self._lock:
            left = [self._next()[0] for _ in range(len(self._inbox))]
        for job in left:
            self._end(job, reason)

    def _next(self) -> tuple[JudgeJob, float]:
        job, deadline = self._inbox.popleft()
        self._inbox_bytes -= job.size_bytes
        return job, deadline

    def _run(self, loop: LastingLoop, manned: threading.Lock) -> None:
        try:
            with self._guard:
                try:
                    leave_host()
                    loop.run_until_complete(self._main())
                finally:
                    loop.run_until_complete(loop.shutdown_asyncgens())
                    loop.close()
        finally:
            self._loop = None
            manned.release()
            if self._inbox:  # another thread saw this one alive and relied on it
                self._engage()

    async def _main(self) -> None:
        self._stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pump()
        if not self._closed:  # closed before the loop was known
            await self._stopped.wait()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        with self._guard:
            await asyncio.wait_for(self._judges.aclose(), 1.0)

    def _poke(self) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._pump)
            except RuntimeError:
                return  # closed a moment earlier: its thread ends, the next submit starts a new one

    def _pump(self) -> None:
        while True:
            with self._lock:
                if not self._inbox or self._active >= self._concurrency:
                    return
                job, deadline = self._next()
                self._active += 1
            task = asyncio.get_running_loop().create_task(self._judge_one(job, deadline))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _judge_one(self, job: JudgeJob, deadline: float) -> None:
        skipped: str | None = None
        try:
            is_due = True
            while is_due:
                left_s = deadline - time.monotonic()
                skipped = "deadline" if left_s <= 0 else await self._judges.judge(job, left_s)
                is_due = skipped is None and job.further()
        except asyncio.CancelledError:
            skipped = "shutdown"
            raise
        finally:
            with self._lock:
                self._active -= 1
            self._end(job, skipped)
            self._pump()

    def _end(self, job: JudgeJob, skipped: str | None) -> None:
        with self._guard:
            job.done(skipped)
        self._open.pop(id(job), None)
        for bell in self._flushing.copy():
            bell.ring()
