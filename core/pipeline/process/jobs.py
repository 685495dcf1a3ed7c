"""Judging in the worker process, as the pipeline sees it: the same seam as `JudgeLoop`.

Requests wait here, bounded and drop-oldest; as many as may be judged at the same time are with the
worker.  Those that were with a worker that ended are judged again, for the metrics that had not
answered; if one of them may be why it ended, one at a time, so that it alone scores ``judge_error``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragmeter._runtime.guard import Guard
from ragmeter.metrics import Metric, ScoreStatus
from ragmeter.metrics import _fork as fork
from ragmeter.metrics.errors import loggable
from ragmeter.metrics.metric import failed_scores
from ragmeter.pipeline.judging import JudgeJob

from .codec import UNSENDABLE, unpack_scores
from .connection import Connection, WorkerError

__all__ = ["WorkerJudging"]

MAX_TRIES = 3
"""Workers that may end with a request before it is a suspect, whatever else they were at."""
GRACE_S = 5.0
"""Seconds after a request's deadline within which a worker has said so."""


@dataclass(eq=False)
class _Request:
    job: JudgeJob
    deadline: float
    open: dict[int, Metric] = field(default_factory=dict)
    """The metrics that have not answered, by their place among all."""
    tries: int = 0
    """Workers that ended with it."""
    suspect: bool = False
    """Whether it may be why: it is judged alone then."""
    connection: Connection | None = None
    """The worker it is with."""


class WorkerJudging:
    """Has requests judged by whatever worker process is running.

    Args:
        places: The place of each metric among all, by the names of its scores.
        connected: Returns the running worker, or raises `WorkerError`.
        guard: Contains errors of ours.
        concurrency: Requests judged at the same time.
        max_backlog: Requests that may wait; the oldest is dropped beyond.
        max_bytes: Bytes that they may hold on to; one is always accepted.
        deadline_s: A request not judged within so many seconds gets ``timeout`` scores.
    """

    def __init__(
        self,
        places: Mapping[tuple[str, ...], int],
        *,
        connected: Callable[..., Connection],
        guard: Guard,
        concurrency: int,
        max_backlog: int,
        max_bytes: int,
        deadline_s: float,
    ) -> None:
        self._places = places
        self._connected = connected
        self._guard = guard
        self._concurrency = concurrency
        self._max_backlog = max_backlog
        self._max_bytes = max_bytes
        self._deadline_s = deadline_s
        self._closed = False
        self._fresh()
        fork.forget(self._fresh)  # in a child: the requests are the parent's

    def _fresh(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._with_worker: dict[int, _Request] = {}
        self._ending = 0
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._with_worker) + self._ending

    def start(self) -> None:
        """Do nothing: the worker's own loop starts with the worker."""

    def submit(self, job: JudgeJob) -> None:
        """Take a request to judge; drop the oldest waiting one if there are too many."""
        dropped: list[tuple[_Request, str]] = []
        request = _Request(
            job,
            time.monotonic() + self._deadline_s,
            {self._places[metric.score_names]: metric for metric in job.metrics},
        )
        with self._changed:
            if self._closed:
                dropped.append((request, "shutdown"))
            else:
                self._waiting.append(request)
                while len(self._waiting) > 1 and (
                    len(self._waiting) > self._max_backlog
                    or sum([one.job.size_bytes for one in self._waiting]) > self._max_bytes
                ):
                    dropped.append((self._waiting.popleft(), "queue_full"))
            self._ending += len(dropped)
        for oldest, reason in dropped:
            self._end(oldest, reason)
        self.pump()

    def pump(self) -> None:
        """Send as many waiting requests to the worker as it may judge at the same time."""
        while True:
            with self._changed:
                if not self._waiting or not self._may_send():
                    return
                try:
                    connection = self._connected(start=False)
                except WorkerError:
                    return  # they wait until there is one
                request = self._waiting.popleft()
                request.connection = connection
                self._numbers += 1
                number = self._numbers
                self._with_worker[number] = request
            self._send(connection, number, request)

    def _may_send(self) -> bool:
        with_worker = self._with_worker
        if self._waiting[0].suspect or any(one.suspect for one in with_worker.values()):
            return not with_worker
        return len(with_worker) < self._concurrency

    def _send(self, connection: Connection, number: int, request: _Request) -> None:
        left_s = request.deadline - time.monotonic()
        if left_s <= 0:
            self.done(number, "deadline")
            return
        with self._guard:
            self._give_up_on(request, connection)
            if not request.open:
                self.done(number, None)
                return
            try:
                connection.judge(number, request.job.sample, tuple(request.open), left_s)
            except (WorkerError, TimeoutError):
                connection.hang_up()  # whoever listens to it takes care of its requests
            except UNSENDABLE as error:
                reason = f"the request cannot be sent to the worker process: {loggable(error)}"
                self._fail(request, reason)
                self.done(number, None)

    def _give_up_on(self, request: _Request, connection: Connection) -> None:
        """Answer for the metrics that this worker has no means to measure."""
        for place, metric in tuple(request.open.items()):
            reason = connection.unloaded.get(place)
            if reason is None and metric.judged:
                reason = connection.without_judge
            if reason is not None:
                self._fail(request, reason, place)

    def _fail(self, request: _Request, reason: str, only: int | None = None) -> None:
        for place in tuple(request.open) if only is None else (only,):
            metric = request.open.pop(place, None)
            if metric is None:
                continue
            status: ScoreStatus = "judge_error" if metric.judged else "metric_error"
            with self._guard:
                request.job.judged(
                    failed_scores(metric, request.job.sample, status, reason, "worker")
                )

    def judged(self, number: int, place: int, packed: Any) -> None:
        """Take the scores of one metric from the worker."""
        request = self._with_worker.get(number)
        if request is None or request.open.pop(place, None) is None:
            return
        with self._guard:
            request.job.judged(unpack_scores(packed, request.job.sample))

    def unjudged(self, number: int, reason: str) -> None:
        """The worker cannot judge a request."""
        request = self._with_worker.get(number)
        if request is not None:
            self._fail(request, reason)
            self.done(number, None)

    def done(self, number: int, skipped: str | None) -> None:
        """The worker is through with a request."""
        with self._changed:
            request = self._with_worker.pop(number, None)
            if request is None:
                return
            self._ending += 1
        self._end(request, skipped)
        self.pump()

    def is_overdue(self, connection: Connection) -> bool:
        """Tell whether a worker has not even said that the time of a request is over."""
        limit = time.monotonic() - GRACE_S
        with self._changed:
            return any(
                request.connection is connection and request.deadline < limit
                for request in self._with_worker.values()
            )

    def worker_ended(self, running: Connection | None, reason: str, *, suspect: bool) -> None:
        """Have what was with workers other than the `running` one judged again, or give up on it.

        Args:
            running: The worker that is running now, if any.
            reason: Why the other ended.
            suspect: Whether nothing else but one of these requests can have ended it.
        """
        given_up: list[_Request] = []
        with self._changed:
            for number, request in reversed(tuple(self._with_worker.items())):
                if request.connection is running:
                    continue
                del self._with_worker[number]
                request.tries += 1
                if not request.suspect and not self._closed:
                    request.suspect = suspect or request.tries >= MAX_TRIES
                    self._waiting.appendleft(request)
                else:
                    given_up.append(request)
            self._ending += len(given_up)
        for request in given_up:
            if self._closed:
                self._end(request, "shutdown")
            else:
                self._fail(request, reason)
                self._end(request, None)

    def expire(self) -> None:
        """Give up on the waiting requests whose time is over."""
        now = time.monotonic()
        with self._changed:
            over = [request for request in self._waiting if request.deadline <= now]
            self._waiting = deque(one for one in self._waiting if one.deadline > now)
            self._ending += len(over)
        for request in over:
            self._end(request, "deadline")

    def flush(self, timeout_s: float) -> bool:
        """Wait until every submitted request is done; tell whether that came true."""
        with self._changed:
            return self._changed.wait_for(lambda: not len(self), max(0.0, timeout_s))

    def close(self, timeout_s: float) -> bool:
        """Finish what is there within `timeout_s`; what is left then ends as ``skipped``."""
        finished = self.flush(timeout_s)
        with self._changed:
            self._closed = True
            left = [*self._waiting, *self._with_worker.values()]
            self._waiting.clear()
            self._with_worker.clear()
            self._ending += len(left)
        for request in left:
            self._end(request, "shutdown")
        return finished

    def _end(self, request: _Request, skipped: str | None) -> None:
        """End a request that was counted in `_ending`."""
        with self._guard:
            request.job.done(skipped)
        with self._changed:
            self._ending -= 1
            self._changed.notify_all()
