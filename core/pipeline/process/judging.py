"""Has requests judged by the worker process, for the meter's own `JudgeLoop`.

The loop decides how many are judged at the same time, what is dropped and what is too late, wherever
they are judged.  Here each waits for a worker, and is judged again if that ends, for the metrics that
had not answered; if one of those that were with it may be why it ended, one at a time, so that it
alone scores ``judge_error``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragmeter._runtime.guard import Guard
from ragmeter.metrics import Metric, ScoreStatus
from ragmeter.metrics import _fork as fork
from ragmeter.metrics.metric import failed_scores
from ragmeter.pipeline.judging import JudgeJob

from .codec import pack_sample, unpack_scores
from .worker import Worker

__all__ = ["JudgesInWorker"]

MAX_TRIES = 3
"""Workers that may end with a request before it is a suspect, whatever else they were at."""
GRACE_S = 5.0
"""Seconds after a request's deadline within which a worker has said so."""
POLL_S = 0.02
"""Seconds between two looks whether there is a worker again."""


@dataclass(eq=False)
class _Request:
    job: JudgeJob
    open: dict[int, Metric]
    """The metrics that have not answered, by their place among all."""
    deadline: float
    worker: Worker | None = None
    """The worker it is with."""
    answer: asyncio.Future[tuple[str, Any]] | None = None
    """What came of it there."""
    tries: int = 0
    """Workers that ended with it."""
    suspect: bool = False
    """Whether it may be why: it is judged alone then."""
    plain: bool = False
    """Whether a worker could not read it."""


class JudgesInWorker:
    """Has requests judged by whatever worker process is running: a `ragmeter.pipeline.judging.Judges`.

    Args:
        places: The place of each metric among all, by the names of its scores.
        running: Returns the running worker, if any; has one started else.
        left_out: Called with the type of a value that cannot be sent.
        guard: Contains errors of ours.
    """

    def __init__(
        self,
        places: Mapping[tuple[str, ...], int],
        running: Callable[[], Worker | None],
        left_out: Callable[[str], None],
        guard: Guard,
    ) -> None:
        self._places = places
        self._running = running
        self._left_out = left_out
        self._guard = guard
        self._fresh()
        fork.forget(self._fresh)  # in a child: the requests are the parent's

    def _fresh(self) -> None:
        self._with_worker: dict[int, _Request] = {}
        self._numbers = 0
        self._suspects = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def judge(self, job: JudgeJob, left_s: float) -> str | None:
        """Measure a request; return None, or why it was not judged."""
        self._loop = asyncio.get_running_loop()
        places = {self._places[metric.score_names]: metric for metric in job.metrics}
        request = _Request(job, places, time.monotonic() + left_s)
        try:
            while request.open:
                worker = await self._turn(request)
                if worker is None:
                    return "deadline"
                kind, said = await self._ask(worker, request)
                if kind == "done":
                    return None if said is None else str(said)
                if kind == "unreadable" and not request.plain:
                    request.plain = True
                elif kind == "unreadable" or request.suspect:
                    self._fail(request, said)
                elif kind == "suspect" or request.tries >= MAX_TRIES:
                    request.suspect = True
                    self._suspects += 1
        finally:
            self._suspects -= request.suspect
        return None

    async def aclose(self) -> None:
        """Do nothing: the judge is the worker's."""

    async def _turn(self, request: _Request) -> Worker | None:
        """Wait until there is a worker for a request; None: its time is over."""
        while time.monotonic() < request.deadline:
            # A suspect waits until nothing else is with the worker; the others wait for suspects.
            blocked = self._with_worker if request.suspect else self._suspects
            worker = None if blocked else self._running()
            if worker is not None:
                return worker
            await asyncio.sleep(POLL_S)
        return None

    async def _ask(self, worker: Worker, request: _Request) -> tuple[str, Any]:
        for place, metric in tuple(request.open.items()):
            reason = worker.unloaded.get(place)
            if reason is None and metric.judged:
                reason = worker.without_judge
            if reason is not None:
                self._fail(request, reason, place)
        packed = pack_sample(request.job.sample, self._left_out, plain=request.plain)
        if isinstance(packed, str):
            self._fail(request, packed)
        if isinstance(packed, str) or not request.open:
            return "done", None
        self._numbers += 1
        number = self._numbers
        request.worker = worker
        request.answer = asyncio.get_running_loop().create_future()
        self._with_worker[number] = request
        try:
            left_s = request.deadline - time.monotonic()
            worker.tell(("judge", number, packed, tuple(request.open), left_s))
            if worker.has_ended:  # perhaps before it was known what was with it
                return "ended", ""
            return await asyncio.wait_for(request.answer, left_s + GRACE_S)
        except (TimeoutError, asyncio.TimeoutError):
            reason = "the worker process hangs: it is past the deadline of what it judges"
            worker.hang_up(reason)
            return "ended", reason
        finally:
            del self._with_worker[number]

    def _fail(self, request: _Request, reason: str, only: int | None = None) -> None:
        """Answer for the metrics that cannot be measured."""
        for place in tuple(request.open) if only is None else (only,):
            metric = request.open.pop(place)
            status: ScoreStatus = "judge_error" if metric.judged else "metric_error"
            with self._guard:
                scores = failed_scores(metric, request.job.sample, status, reason, "worker")
                request.job.judged(scores)

    def happened(self, kind: str, number: int, *rest: Any) -> None:
        """Take an event of the worker: ``judged``, ``unreadable`` or ``done``; on another thread."""
        self._call(self._happened, kind, number, *rest)

    def worker_ended(self, worker: Worker, reason: str, *, suspect: bool) -> None:
        """Have what was with a worker judged again, or give up on it; on another thread.

        Args:
            worker: The worker that ended.
            reason: Why.
            suspect: Whether nothing else but one of these requests can have ended it.
        """
        self._call(self._worker_ended, worker, reason, suspect)

    def _call(self, call: Callable[..., None], *arguments: Any) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(call, *arguments)

    def _happened(self, kind: str, number: int, *rest: Any) -> None:
        request = self._with_worker.get(number)
        if request is None:
            return
        if kind == "judged":
            place, packed = rest
            if request.open.pop(place, None) is not None:
                with self._guard:
                    request.job.judged(*unpack_scores(packed))
        else:
            _resolve(request, kind, rest[0])

    def _worker_ended(self, worker: Worker, reason: str, suspect: bool) -> None:
        for request in self._with_worker.values():
            if request.worker is worker:
                request.tries += 1
                _resolve(request, "suspect" if suspect else "ended", reason)


def _resolve(request: _Request, kind: str, said: Any) -> None:
    if request.answer is not None and not request.answer.done():
        request.answer.set_result((kind, said))
