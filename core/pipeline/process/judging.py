"""Judge requests in the worker process, for the meter's own `JudgeLoop`.

The loop handles concurrency, drops and deadlines. Here each request waits for a worker, and is retried, for
its remaining metrics, if the worker ends. Requests that may have ended it are retried one at a time, so that
only the culprit scores ``judge_error``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ragmeter._runtime.guard import Guard
from ragmeter.metrics import Metric, Score, ScoreStatus
from ragmeter.metrics._process import fork
from ragmeter.metrics.protocol import failed_scores
from ragmeter.pipeline.judging import JudgeJob

from .codec import Parcel, unpack_scores
from .worker import Worker

MAX_TRIES = 3
"""Workers that may end with a request before it becomes a suspect in any case."""
GRACE_S = 5.0
"""Seconds after a request's deadline for the worker to report the timeout."""
POLL_S = 0.02
"""Seconds between two checks for a worker."""


@dataclass(eq=False)
class _JudgeRequest:
    job: JudgeJob
    parcel: Parcel
    open: list[Metric]
    """The metrics without scores yet."""
    deadline: float
    worker: Worker | None = None
    """The worker that judges it."""
    answer: Future[tuple[str, Any]] = field(default_factory=Future)
    """The worker's result."""
    tries: int = 0
    """Workers that ended while judging it."""
    suspect: bool = False
    """Whether it may have ended a worker: then it is judged alone."""

    def resolve(self, kind: str, said: Any) -> None:
        """Set the result; called by the thread that listens to the worker."""
        if not self.answer.done() and self.answer.set_running_or_notify_cancel():
            self.answer.set_result((kind, said))


class JudgesInWorker:
    """Judges requests in the running worker process: a `ragmeter.pipeline.judging.Judges`.

    Args:
        running: Returns the running worker, if any; else starts one.
        left_out: Called with the type of a value that cannot be sent.
        guard: Contains internal errors.
    """

    def __init__(
        self, running: Callable[[], Worker | None], left_out: Callable[[str], None], guard: Guard
    ) -> None:
        self._running = running
        self._left_out = left_out
        self._guard = guard
        self._numbers = count()
        self._fresh()
        fork.forget(self._fresh)  # a forked child has no requests

    def _fresh(self) -> None:
        # Changed on the judge's loop, read by the listening thread, in atomic steps.
        self._with_worker: dict[int, _JudgeRequest] = {}
        self._suspects = 0

    async def judge(self, job: JudgeJob, left_s: float) -> str | None:
        """Judge a request; return None, or why it was not judged."""
        parcel = Parcel(job.sample, self._left_out)
        request = _JudgeRequest(job, parcel, list(job.metrics), time.monotonic() + left_s)
        try:
            while request.open:
                worker = await self._turn(request)
                if worker is None:
                    return "deadline"
                kind, said = await self._ask(worker, request)
                if kind == "done":
                    return None if said is None else str(said)
                if kind == "unreadable":
                    parcel.unreadable(said)
                elif request.suspect:
                    self._fail(request, request.open, said)
                elif kind == "suspect" or request.tries >= MAX_TRIES:
                    request.suspect = True
                    self._suspects += 1
        finally:
            self._suspects -= request.suspect
        return None

    async def aclose(self) -> None:
        """Do nothing: the worker owns the judge."""

    async def _turn(self, request: _JudgeRequest) -> Worker | None:
        """Wait for a worker; None: the deadline has passed."""
        while time.monotonic() < request.deadline:
            # A suspect waits until the worker has no other request; the others wait for suspects.
            blocked = self._with_worker if request.suspect else self._suspects
            worker = None if blocked else self._running()
            if worker is not None:
                return worker
            await asyncio.sleep(POLL_S)
        return None

    async def _ask(self, worker: Worker, request: _JudgeRequest) -> tuple[str, Any]:
        for metric in tuple(request.open):
            if metric.score_names in worker.unloaded:
                self._fail(request, [metric], worker.unloaded[metric.score_names])
        if request.parcel.failure is not None:
            self._fail(request, request.open, request.parcel.failure)
        if not request.open:
            return "done", None
        number = next(self._numbers)
        request.worker = worker
        request.answer = Future()
        self._with_worker[number] = request
        try:
            left_s = request.deadline - time.monotonic()
            names = [metric.score_names for metric in request.open]
            worker.send(("judge", number, request.parcel.packed, names, left_s))
            if worker.has_ended:  # perhaps before the request was registered
                return "ended", ""
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), left_s + GRACE_S)
        except (TimeoutError, asyncio.TimeoutError):
            reason = "the worker process hangs: it is past the deadline of what it judges"
            worker.hang_up(reason)
            return "ended", reason
        finally:
            del self._with_worker[number]

    def _fail(self, request: _JudgeRequest, metrics: Iterable[Metric], reason: str) -> None:
        """Score metrics that cannot run as failed."""
        for metric in tuple(metrics):
            status: ScoreStatus = "judge_error" if metric.judged else "metric_error"
            with self._guard:
                sample = request.job.sample
                self._take(request, failed_scores(metric, sample, status, reason, "worker"))

    def _take(self, request: _JudgeRequest, scores: Sequence[Score]) -> None:
        left = [metric for metric in request.open if scores[0].name not in metric.score_names]
        if len(left) < len(request.open):
            request.open = left
            request.job.judged(scores)

    def take_event(self, kind: str, number: int, said: Any) -> None:
        """Handle an event of the worker: ``judged``, ``unreadable`` or ``done``; on another thread."""
        request = self._with_worker.get(number)
        if request is None:
            return
        if kind == "judged":
            self._take(request, *unpack_scores(said))
        else:
            request.resolve(kind, said)

    def worker_ended(self, worker: Worker, reason: str, *, suspect: bool) -> None:
        """Retry the requests of an ended worker, or give up on them; on another thread.

        Args:
            worker: The worker that ended.
            reason: Why.
            suspect: Whether one of these requests must have ended it.
        """
        for request in tuple(self._with_worker.values()):
            if request.worker is worker:
                request.tries += 1
                request.resolve("suspect" if suspect else "ended", reason)
