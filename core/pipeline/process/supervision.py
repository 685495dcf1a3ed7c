"""Run and supervise the worker process: restart it when it ends, and retry its requests.

`ScoringProcess` replaces `MetricSet` and `JudgesHere` of the meter's own process. A separate thread starts
the worker with the first request, listens to it, and restarts it with backoff. Requests wait meanwhile and
are not lost; only the one that ended a worker is not retried.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter._runtime.threads import start_elsewhere
from ragmeter.metrics import Metric, RagSample, Score, ScoreStatus
from ragmeter.metrics._process import fork
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.protocol import failed_scores
from ragmeter.pipeline.scoring import MetricSet
from ragmeter.requests.scope import leave_host

from .budgets import Bookkeeping
from .codec import UNSENDABLE, Parcel, make_payload, unpack_scores
from .judging import JudgesInWorker
from .worker import Worker, WorkerEndedError, WorkerError, find_interpreter

COMPONENT = "worker"
"""Component under which errors of the worker process are counted."""
BATCH = 32
"""Most requests sent to the worker at a time."""
STEADY_S = 60.0
"""A worker that lived at least this many seconds is replaced at once."""
LONGEST_PAUSE_S = 60.0
"""Longest pause between two starts, in seconds."""
PATIENCE_S = 5.0
"""Longest wait of requests for the next start, in seconds."""
END_S = 2.0
"""Seconds for the worker to close its judge's connections and end."""
MAX_STARTS = 2
"""Consecutive failed starts after which the scores of a waiting request are given up."""
MAX_TRIES = 3
"""Workers that may end before they begin with a request until its scores are given up."""


class ContainedInWorkerError(RuntimeError):
    """An error that was contained in the worker process."""


class ScoringProcess:
    """Computes free metrics, and runs judged ones, in a separate process.

    Args:
        metrics: The meter's metrics.
        judge: The judge used by judged metrics.
        log: Counts errors, including the worker's.
        concurrency: Most requests judged at the same time.
        deadline_s: A request not judged within this many seconds gets ``timeout`` scores.

    Raises:
        ConfigurationError: A metric or the judge cannot be sent to another process, or there is no
            interpreter to start.
    """

    batch = BATCH

    def __init__(
        self, metrics: MetricSet, judge: Judge | None, *, log: ErrorLog, concurrency: int, deadline_s: float
    ) -> None:
        self._metrics = metrics
        self._judge = judge
        self._log = log
        self._guard = Guard(COMPONENT, log)
        self._interpreter = find_interpreter()
        self._payload = make_payload(metrics.all, judge)
        self._limits = {
            "concurrency": concurrency,
            "deadline_s": deadline_s,
            "max_text_chars": metrics.max_text_chars,
            "sparing": metrics.sparing,
        }
        self.judges = JudgesInWorker(self._running_worker, self._left_out, self._guard)
        self._closed = False
        self._fresh()
        fork.forget(self._leave_to_parent)

    def _fresh(self) -> None:
        self._changed = threading.Condition()
        self._worker: Worker | None = None
        self._is_wanted = False
        self._books = Bookkeeping(self._payload.budgets)
        self._short_lives = 0
        self._failed_starts = 0
        self._not_before = 0.0
        self._why_down = ""
        self._thread: threading.Thread | None = None
        # A child forked during a start would inherit the descriptors that the start waits to see closed.
        self._starting = fork.Gate()
        fork.pause(self._starting.before_fork, self._starting.after_fork_in_parent)

    def start(self) -> None:
        """Start the thread that supervises the worker; the process starts with its first work."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._supervise, name="ragmeter-worker", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None  # the process has too many threads, or is going down

    def compute(
        self, samples: Sequence[RagSample], rest: Callable[[], None] | None = None
    ) -> list[dict[str, Score]]:
        """Compute the free metrics; never raises `Exception`, always one score per name and sample."""
        del rest  # nothing is computed under this interpreter's lock
        return self._compute("compute", samples, self._metrics.computed_for)

    def compute_again(self, sample: RagSample) -> dict[str, Score]:
        """Compute the free metrics that a reference makes possible."""
        return self._compute("compute_again", (sample,), lambda _: self._metrics.computed_again)[0]

    def _compute(
        self, which: str, samples: Sequence[RagSample], metrics_of: Callable[[RagSample], Sequence[Metric]]
    ) -> list[dict[str, Score]]:
        batch = [_Request(sample, metrics_of(sample), Parcel(sample, self._left_out)) for sample in samples]
        for request in batch:
            self._fail_unsendable(request)
        tries = 0
        while waiting := [request for request in batch if request.scores is None]:
            try:
                worker = self._running()
                unreadable, packed = worker.compute(which, [one.parcel.packed for one in waiting])
            except WorkerEndedError as error:  # noqa: PERF203 -- once a frame
                to_blame = waiting[error.begun - 1 : error.begun]
                tries = 0 if to_blame else tries + 1
                for request in waiting if tries == MAX_TRIES else to_blame:
                    request.fail(str(error), error.status)
            except WorkerError as error:
                for request in waiting:
                    request.fail(str(error))
            else:
                self._short_lives = 0
                scored = zip(waiting, unreadable, unpack_scores(packed), strict=True)
                for request, reason, scores in scored:
                    if reason is None:
                        request.take(scores, worker.unloaded)
                    else:
                        request.parcel.unreadable(reason)
                        self._fail_unsendable(request)
        return [request.scores or {} for request in batch]

    def _fail_unsendable(self, request: _Request) -> None:
        if not request.metrics:
            request.scores = {}
        elif request.parcel.failure is not None:
            self._report(request.parcel.failure)
            request.fail(request.parcel.failure)

    def _report(self, reason: str) -> None:
        with self._guard:
            raise WorkerError(reason)

    def _left_out(self, kind: str) -> None:
        self._report(f"part of a sample cannot be sent to the worker process and is left out: {kind}")

    def _running(self) -> Worker:
        """Wait for the worker and return it; requests wait in the queue meanwhile.

        Raises:
            WorkerError: It did not start, or the next start is too far off.
        """
        self.start()
        with self._changed:
            failed_starts = self._failed_starts
            while (worker := self._ready()) is None:
                if self._closed:
                    raise WorkerError("the meter was shut down")
                if self._thread is None:
                    raise WorkerError("no thread can be started to supervise a worker process")
                if (
                    self._failed_starts - failed_starts >= MAX_STARTS
                    or self._not_before - time.monotonic() > PATIENCE_S
                ):
                    raise WorkerError(f"no worker process for now, after: {self._why_down}")
                self._is_wanted = True
                self._changed.notify_all()
                self._changed.wait(1.0)
        return worker

    def _ready(self) -> Worker | None:
        worker = self._worker
        return None if worker is None or not worker.is_ready else worker

    def _running_worker(self) -> Worker | None:
        """Return the running worker, if any; else request a start."""
        worker = self._ready()
        if worker is None:
            self.start()
            with self._changed:
                self._is_wanted = True
                self._changed.notify_all()
        return worker

    def _supervise(self) -> None:
        leave_host()
        while not self._closed:
            with self._changed:
                pause_s = self._not_before - time.monotonic()
                if not self._is_wanted or pause_s > 0:
                    self._changed.wait(pause_s if self._is_wanted else None)
                    continue
            with self._guard:
                self._have_one_worker()
                continue
            self._not_before = time.monotonic() + PATIENCE_S  # internal error: do not retry at once

    def _have_one_worker(self) -> None:
        """Start a worker and read its messages until it ends."""
        worker = Worker()
        try:
            with self._starting.lock:
                worker.start(self._interpreter)
                # Only now: if a process is started by `os.fork`, as under gevent, its child forgets the
                # worker and would close the descriptors it inherits.
                self._worker = worker
            if self._closed:  # closed before the process existed
                worker.end(0.0)
            worker.load(self._payload, self._limits)
        except (WorkerError, *UNSENDABLE) as error:
            worker.end(0.0)
            self._failed_starts += 1
            self._count(worker, str(error))
        with self._changed:
            self._is_wanted = False
            self._changed.notify_all()
        if worker.is_ready:
            for reason in dict.fromkeys(worker.unloaded.values()):
                self._report(reason)
            with self._guard:
                for event in worker.events():
                    with self._guard:
                        self._take_event(worker, *event)
            self._note_end(worker)
        self._worker = None

    def _note_end(self, worker: Worker) -> None:
        self._worker = None
        expected = worker.dismissed
        reason = worker.ending()
        self._books.worker_ended()
        if not expected:
            self._count(worker, reason)
        innocent = worker.is_at_scores  # it ended while computing: its judged requests are not to blame
        worker.note_end(reason)
        self.judges.worker_ended(worker, reason, suspect=not innocent)

    def _count(self, worker: Worker, reason: str) -> None:
        """Report the end of a worker, and set the time of the next start."""
        if self._closed:
            return
        now = time.monotonic()
        if now - worker.started_at > STEADY_S:
            self._short_lives = 0
        self._short_lives += 1
        # A worker that was ready will probably be ready again: requests can wait for it.
        longest_s = PATIENCE_S if worker.is_ready else LONGEST_PAUSE_S
        doublings = self._short_lives - (2 if worker.is_ready else 1)
        self._not_before = now + (0.0 if doublings < 0 else min(longest_s, 2.0 ** min(doublings, 10)))
        self._why_down = reason
        self._report(reason)

    def _take_event(self, worker: Worker, kind: str, *rest: Any) -> None:
        if kind == "scores":
            worker.take_answer(*rest)
        elif kind in {"judged", "unreadable", "done"}:
            self.judges.take_event(kind, *rest)
        elif kind == "call" and self._judge is not None:
            self._judge.report(*rest)  # the pipeline subscribed to it
        elif kind == "items" and self._judge is not None:
            self._judge.report_items(*rest)
        elif kind == "reserve":
            number, request, *tokens = rest
            granted = self._books.take(number, request, *tokens)
            worker.send(("reserved", number, request, *granted))
        elif kind == "settle":
            self._books.settle(*rest)
        elif kind == "error":
            component, words = rest
            self._log.report(component, ContainedInWorkerError(words))
        elif kind == "log":
            name, level, words = rest
            logging.getLogger(name).log(level, "%s", words)

    def close(self, timeout_s: float) -> None:
        """End the worker process within `timeout_s` seconds, for good."""
        # Set first: a worker that is started meanwhile is ended by its thread.
        self._closed = True
        worker = self._worker
        if worker is not None:
            worker.end(min(END_S, timeout_s))
        # On another thread: here, Ctrl-C could hit right after the lock was taken, and keep it.
        if not start_elsewhere(self._wake):
            self._wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(min(END_S, timeout_s))  # the last events are still handled

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def rest(self) -> None:
        """End the worker process until the next request, which starts another."""
        worker = self._worker
        if worker is not None:
            worker.end(END_S)

    def _leave_to_parent(self) -> None:
        # In a forked child: the worker belongs to the parent.
        if self._worker is not None:
            self._worker.forget()
        self._fresh()


@dataclass(eq=False)
class _Request:
    """A request whose scores are computed."""

    sample: RagSample
    metrics: Sequence[Metric]
    parcel: Parcel
    scores: dict[str, Score] | None = None
    """None: not computed yet."""

    def take(self, scores: Iterable[Score], unloaded: Mapping[tuple[str, ...], str]) -> None:
        """Store computed scores; `unloaded` has the reasons of metrics that could not be loaded."""
        self.scores = {score.name: score for score in scores}
        for names, reason in unloaded.items():
            self.fail(reason, only=names)

    def fail(
        self, reason: str, status: ScoreStatus = "metric_error", only: tuple[str, ...] | None = None
    ) -> None:
        """Store failed scores for all its metrics, or only for one."""
        self.scores = self.scores or {}
        for metric in self.metrics:
            if only is None or metric.score_names == only:
                for score in failed_scores(metric, self.sample, status, reason, COMPONENT):
                    self.scores[score.name] = score
