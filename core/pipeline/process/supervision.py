"""Scoring in a worker process: the pipeline's view of it, and who starts it again when it ends.

`ScoringProcess` computes and judges as `MetricSet` and `JudgeLoop` do in the meter's own process,
and owns the process that does it: started with the first request, restarted when it
ends, ever less often if that does not help.  No request is lost to it: what was being scored
is tried once more, and then its scores say what happened.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.context import leave_host
from ragmeter.metrics import Metric, RagSample, Score, ScoreStatus
from ragmeter.metrics import _fork as fork
from ragmeter.metrics.errors import loggable
from ragmeter.metrics.judge.protocol import Judge, JudgeCall
from ragmeter.metrics.metric import failed_scores
from ragmeter.pipeline.scoring import MetricSet

from .budgets import Bookkeeping
from .codec import UNSENDABLE
from .connection import Connection, UnreadableError, WorkerEndedError, WorkerError
from .interpreter import find_interpreter
from .jobs import WorkerJudging
from .parcel import make_parcel

__all__ = ["ScoringProcess"]

SEAM = "worker"
"""Where errors of the worker process are counted."""
STEADY_S = 60.0
"""A worker that lived so many seconds was a good one: the next starts at once."""
LONGEST_PAUSE_S = 60.0
"""Seconds between two starts, at most."""
LOOK_S = 1.0
"""Seconds between two looks whether the worker has missed a deadline."""
PATIENCE_S = 5.0
"""Seconds that requests wait in the queue, at most, until a worker may be started again."""
END_S = 2.0
"""Seconds for the worker to close its judge's connections and end."""


class ContainedInWorkerError(RuntimeError):
    """An error that was contained in the worker process."""


class _LeftOut(ErrorLog):
    """Reports what was left out of a sample, because it could not be sent, as what it is."""

    def __init__(self, log: ErrorLog) -> None:
        super().__init__()
        self._reports_to = log

    def report(self, seam: str, error: Exception) -> None:
        words = "metadata of a context cannot be sent to the worker process and is left out: "
        self._reports_to.report(seam, WorkerError(words + type(error).__name__))


class ScoringProcess:
    """The two computing seams of the pipeline, in a process of their own.

    Args:
        metrics: The meter's metrics.
        judge: Whom the judged ones ask.
        log: Where errors are counted, the worker's too.
        concurrency: Requests judged at the same time.
        max_backlog: Requests that may wait to be judged.
        max_bytes: Bytes that they may hold on to.
        deadline_s: A request not judged within so many seconds gets ``timeout`` scores.

    Raises:
        ConfigurationError: A metric or the judge cannot be sent to another process, or there is no
            interpreter to start.
    """

    def __init__(
        self,
        metrics: MetricSet,
        judge: Judge | None,
        *,
        log: ErrorLog,
        concurrency: int,
        max_backlog: int,
        max_bytes: int,
        deadline_s: float,
    ) -> None:
        self._metrics = metrics
        self._judge = judge
        self._log = log
        self._guard = Guard(SEAM, log)
        self._interpreter = find_interpreter()
        self._parcel = make_parcel(metrics.all, judge)
        self._limits = {
            "concurrency": concurrency,
            "deadline_s": deadline_s,
            "max_text_chars": metrics.max_text_chars,
        }
        self._places = {metric.score_names: place for place, metric in enumerate(metrics.all)}
        self.judging = WorkerJudging(
            self._places,
            connected=self._connected,
            guard=self._guard,
            concurrency=concurrency,
            max_backlog=max_backlog,
            max_bytes=max_bytes,
            deadline_s=deadline_s,
        )
        self._on_call: Callable[[JudgeCall], None] = _nobody
        self._closed = False
        self._fresh()
        fork.forget(self._leave_to_parent)

    def _fresh(self) -> None:
        self._changed = threading.Condition()
        self._starting = threading.RLock()
        self._spawning = threading.Lock()
        self._connection: Connection | None = None
        self._made: Connection | None = None
        self._books = Bookkeeping(self._parcel.budgets)
        self._computing = False
        self._short_lives = 0
        self._not_before = 0.0
        self._why_down = ""
        self._thread: threading.Thread | None = None
        self._forking: set[int] = set()

    def on_judge_call(self, observer: Callable[[JudgeCall], None]) -> None:
        """Tell `observer` about the worker's calls to the judge."""
        self._on_call = observer

    def start(self) -> None:
        """Start the thread that listens to the worker; the process starts with its first work."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(
                target=self._listen, name="ragmeter-worker", daemon=True
            )
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None  # the interpreter is going down

    def compute(
        self, sample: RagSample, rest: Callable[[], None] | None = None
    ) -> dict[str, Score]:
        """Compute the free metrics; never raises `Exception`, always one score per name."""
        del rest  # nothing is computed under this interpreter's lock
        return self._computed("compute", self._metrics.computed, sample)

    def compute_again(self, sample: RagSample) -> dict[str, Score]:
        """Compute those free metrics that a reference makes possible."""
        return self._computed("compute_again", self._metrics.computed_again, sample)

    def _computed(
        self, which: str, metrics: Iterable[Metric], sample: RagSample
    ) -> dict[str, Score]:
        metrics = tuple(metrics)
        if not metrics:
            return {}
        unloaded: Mapping[int, str] = {}
        status: ScoreStatus = "metric_error"
        scores: list[Score] = []
        reason = ""
        while True:
            try:
                connection = self._connected(patience_s=PATIENCE_S)
            except WorkerError as error:
                reason = str(error)
                break
            try:
                self._computing = True
                scores = connection.compute(which, sample)
                self._short_lives = 0
            except WorkerEndedError as error:
                reason = str(error)
                connection.blamed = error.taken
                self._ended(connection, error)
                if error.taken:
                    break  # it may be to blame, and is not tried again
                continue
            except TimeoutError as error:
                reason, status = f"the worker process hangs: {error}", "timeout"
                self._ended(connection, WorkerError(reason))
                break
            except (UnreadableError, *UNSENDABLE) as error:
                reason = f"the request cannot be sent to the worker process: {loggable(error)}"
                with self._guard:
                    raise WorkerError(reason) from error
            finally:
                self._computing = False
            unloaded = connection.unloaded
            break
        found = {score.name: score for score in scores}
        for metric in metrics:
            why = unloaded.get(self._places[metric.score_names], "" if scores else reason)
            if why:
                for score in failed_scores(metric, sample, status, why, SEAM):
                    found[score.name] = score
        return found

    def _connected(self, *, start: bool = True, patience_s: float = 0.0) -> Connection:
        """Return the running worker; start one if there is none.

        Args:
            start: Whether one is to be started here.
            patience_s: Seconds to wait until one may be started again: requests wait in the queue
                meanwhile.

        Raises:
            WorkerError: There is none, and none is to be started yet.
        """
        connection = self._connection
        if connection is not None:
            return connection
        if not start:
            self._wanted()
            raise WorkerError("no worker process is running")
        self._wait_for_a_start(patience_s)
        with self._starting:
            if self._connection is not None:
                return self._connection
            if self._closed:
                raise WorkerError("the meter was shut down")
            if time.monotonic() < self._not_before:
                raise WorkerError(f"no worker process for now, after: {self._why_down}")
            made = self._started()
            with self._changed:
                self._connection = made
                self._changed.notify_all()
            self._say_what_is_missing(made)
        if self._closed:
            made.end(0.0)
        return made

    def _wait_for_a_start(self, patience_s: float) -> None:
        """Wait until a worker runs or may be started, if that is to be before `patience_s` is over."""
        with self._changed:
            while self._connection is None and not self._closed:
                left_s = self._not_before - time.monotonic()
                if not 0.0 < left_s <= patience_s:
                    return
                self._changed.wait(left_s)

    def _started(self) -> Connection:
        began = time.monotonic()
        try:
            with self._spawning:
                self._made = self._spawn()
            self._made.load(self._parcel, self._limits)
        except (WorkerError, *UNSENDABLE) as error:
            if self._made is not None:
                self._made.end(0.0)
            self._count(began, error, at_once=False)
            raise WorkerError(str(error)) from error
        else:
            return self._made
        finally:
            self._made = None

    def _spawn(self) -> Connection:
        if self._closed:
            raise WorkerError("the meter was shut down")
        made = Connection(Guard(SEAM, _LeftOut(self._log)))
        made.start(self._interpreter)
        return made

    def _wanted(self) -> None:
        """Have the listening thread see to it that there is a worker."""
        with self._changed:
            self._changed.notify_all()

    def _say_what_is_missing(self, connection: Connection) -> None:
        for reason in (*connection.unloaded.values(), connection.without_judge):
            if reason is not None:
                with self._guard:
                    raise WorkerError(reason)

    def _ended(self, connection: Connection, error: Exception) -> None:
        """Note, once, that this worker has ended or is of no use any more."""
        with self._changed:
            if self._connection is not connection:
                return
            self._connection = None
        connection.end(0.0)
        self._count(connection.started_at, error, at_once=True)

    def _count(self, started_at: float, error: Exception, *, at_once: bool) -> None:
        """Report the end of a worker, and decide when the next may be started."""
        if self._closed:
            return
        now = time.monotonic()
        if now - started_at > STEADY_S:
            self._short_lives = 0
        self._short_lives += 1
        doublings = self._short_lives - (2 if at_once else 1)
        # A worker that ended had come up, and so will the next: requests can wait for that.
        longest_s = PATIENCE_S if at_once else LONGEST_PAUSE_S
        pause_s = 0.0 if doublings < 0 else min(longest_s, 2.0 ** min(doublings, 10))
        self._not_before = now + pause_s
        self._why_down = str(error)
        with self._guard:
            raise error

    def _listen(self) -> None:
        leave_host()
        while not self._closed:
            connection = self._next_connection()
            if connection is None:
                continue
            # Another may have come and gone while we listened to the one before.
            self.judging.worker_ended(connection, self._why_down, suspect=False)
            with self._guard:
                self._attend(connection)
            reason = connection.ending()
            innocent = (
                self._computing or connection.blamed
            )  # in this order: the one becomes the other
            self._books.worker_ended()
            self._ended(connection, WorkerEndedError(reason))
            self.judging.worker_ended(self._connection, reason, suspect=not innocent)

    def _attend(self, connection: Connection) -> None:
        """Listen to a worker until it ends, or hangs."""
        self.judging.pump()
        looked = time.monotonic()
        for batch in connection.events():
            for event in batch:
                with self._guard:
                    self._happened(connection, event)
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                if self.judging.is_overdue(connection):
                    self._ended(
                        connection,
                        WorkerError(
                            "the worker process hangs: it is past the deadline of what it judges"
                        ),
                    )
                    return

    def _next_connection(self) -> Connection | None:
        """Wait for a worker, or until requests that wait to be judged may have one started."""
        with self._changed:
            if self._connection is None and not self._closed:
                due_s = max(0.05, self._not_before - time.monotonic())
                self._changed.wait(due_s if len(self.judging) else 1.0)
            connection = self._connection
        if connection is None and not self._closed:
            self.judging.expire()
        if connection is None and len(self.judging):
            with self._guard:
                try:
                    connection = self._connected()
                except WorkerError:
                    return None  # counted where it happened
        return connection

    def _happened(self, connection: Connection, event: tuple[Any, ...]) -> None:
        kind, *rest = event
        if kind == "judged":
            self.judging.judged(*rest)
        elif kind == "done":
            self.judging.done(*rest)
        elif kind == "unjudged":
            self.judging.unjudged(*rest)
        elif kind == "call":
            self._called(JudgeCall(*rest))
        elif kind == "items":
            report = getattr(self._judge, "report_items", None)
            if callable(report):
                report(*rest)
        elif kind == "reserve":
            number, request, *tokens = rest
            connection.answer(("reserved", request, *self._books.take(number, request, *tokens)))
        elif kind == "settle":
            self._books.settle(*rest)
        elif kind == "error":
            seam, words = rest
            self._log.report(str(seam), ContainedInWorkerError(str(words)))
        elif kind == "log":
            name, level, words = rest
            logging.getLogger(str(name)).log(level, "%s", words)

    def _called(self, call: JudgeCall) -> None:
        report = getattr(self._judge, "report", None)
        if callable(report):
            report(call)  # the meter is one of those it tells
        else:
            self._on_call(call)

    def close(self, timeout_s: float) -> None:
        """End the worker process within `timeout_s` seconds; nothing is scored afterwards."""
        self._closed = True
        with self._spawning:  # a few milliseconds: whatever is started from here on sees the above
            connection = self._made or self._connection
        if connection is not None:
            connection.end(min(END_S, timeout_s))
        with self._changed:
            self._connection = None
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(min(END_S, timeout_s))  # what the worker said last is still taken

    def rest(self) -> None:
        """End the worker process for now; the next request starts another."""
        with self._changed:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.end(END_S)

    def before_fork(self, deadline: float) -> None:
        """Let no process be in the making, if that is so before `deadline` (monotonic)."""
        if self._spawning.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._forking.add(threading.get_ident())

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if threading.get_ident() in self._forking:
            self._forking.discard(threading.get_ident())
            self._spawning.release()

    def _leave_to_parent(self) -> None:
        # In a forked child: the worker is the parent's.
        for connection in (self._connection, self._made):
            if connection is not None:
                connection.forget()
        self._fresh()


def _nobody(call: JudgeCall) -> None:
    del call
