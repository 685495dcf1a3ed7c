"""The worker process itself: scores what it is sent, with the same classes as the meter would.

Started by `Connection` in a fresh interpreter; never imported by the application.  The main thread
answers calls, in order; the judge's loop and a thread that writes events run beside it.  It ends when
the meter's process hangs up or is gone, and ignores the signals that stop the application: the last
requests are still to be scored then.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.context import leave_host
from ragmeter.metrics import Metric, RagSample, Score
from ragmeter.metrics.errors import loggable
from ragmeter.metrics.judge.protocol import Judge, JudgeCall
from ragmeter.pipeline.judging import JudgeLoop
from ragmeter.pipeline.scoring import MetricSet

from .budgets import BudgetAtHome, Errands
from .channel import Channel, ChannelClosedError
from .codec import UNSENDABLE, pack, pack_scores, unpack, unpack_sample
from .parcel import Unpacking

__all__ = ["serve"]

NICENESS = 5
"""Scoring comes after the application where both want the processor."""
SEND_S = 3600.0
"""Seconds that the meter's process may leave a frame unread; if it is gone, sending fails anyhow."""
LOOK_S = 5.0
"""Seconds between two looks whether the meter's process is still there."""
FINISH_S = 1.0
"""Seconds for the last events to be taken."""
MAX_BATCH = 256
"""Events sent in one frame."""
MAX_WORDS = 1000
"""Log lines that may wait to be sent; more are dropped."""


def serve(calls_end: socket.socket, events_number: int) -> None:
    """Serve the meter's process until it hangs up."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    leave_host()
    events_end = socket.socket(fileno=events_number)
    for end in (calls_end, events_end):
        end.set_inheritable(False)  # a process that a metric starts must not hold them open
    worker = _Worker(Channel(calls_end), Channel(events_end))
    try:
        worker.run()
    except ChannelClosedError:
        worker.leave()


class _Words(logging.Handler):
    """Sends log lines to the meter's process, where somebody has configured logging."""

    def __init__(self, events: _Events) -> None:
        super().__init__(logging.INFO)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._events) < MAX_WORDS:
            self._events.put(("log", record.name, record.levelno, self.format(record)))


class _Contained(ErrorLog):
    """Lets the meter's process count and log what was contained here."""

    def __init__(self, events: _Events) -> None:
        super().__init__()
        self._events = events

    def report(self, seam: str, error: Exception) -> None:
        if len(self._events) < MAX_WORDS:
            self._events.put(("error", seam, loggable(error)))


class _Events:
    """What happens here by itself, sent by a thread of its own: nobody here ever waits for it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._queue: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._sent = threading.Event()

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, event: tuple[Any, ...]) -> None:
        self._queue.put(event)

    def finish(self, timeout_s: float) -> None:
        """Wait until everything put so far is sent."""
        self._queue.put(())
        self._sent.wait(timeout_s)

    def send_all(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            last = () in batch
            try:
                self._channel.send(pack([event for event in batch if event]), SEND_S)
            except ChannelClosedError:
                last = True
            if last:
                self._sent.set()
                return


class _Failure(ErrorLog):
    """Keeps what a guard contained, to be told as the reason why something is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = None

    def report(self, seam: str, error: Exception) -> None:
        self.reason = f"the worker process could not load {seam}: {loggable(error)}"


class _Job:
    """One request to judge, as the judge's loop sees it."""

    def __init__(
        self,
        number: int,
        sample: RagSample,
        metrics: Sequence[tuple[int, Metric]],
        events: _Events,
        ended: Callable[[], None],
    ) -> None:
        self._ended = ended
        self._number = number
        self._events = events
        self._places = {score: place for place, metric in metrics for score in metric.score_names}
        self.sample = sample
        self.size_bytes = 0
        self.metrics = [metric for _, metric in metrics]

    def judged(self, scores: Sequence[Score]) -> None:
        if scores:
            place = self._places[scores[0].name]
            self._events.put(("judged", self._number, place, _packed(scores, self.sample)))

    def done(self, skipped: str | None) -> None:
        self._ended()
        self._events.put(("done", self._number, skipped))


def _packed(scores: Iterable[Score], sample: RagSample) -> list[tuple[Any, ...]]:
    """Pack scores; one that cannot be sent says so."""
    packed: list[tuple[Any, ...]] = []
    for score in scores:
        try:
            (one,) = pack_scores((score,), sample)
            pack(one)
        except UNSENDABLE as error:
            reason = f"it cannot be sent to the meter's process: {loggable(error)}"
            (one,) = pack_scores((_without_value(score, reason),), sample)
        packed.append(one)
    return packed


def _without_value(score: Score, reason: str) -> Score:
    return Score(
        name=score.name,
        value=None,
        status="metric_error",
        method=score.method,
        definition=score.definition,
        target=score.target,
        range=score.range,
        direction=score.direction,
        explanation=reason,
        error_type="worker",
    )


class _Worker:
    def __init__(self, calls: Channel, events: Channel) -> None:
        self._calls = calls
        self._inbox = events
        self._parent = os.getppid()
        self._events = _Events(events)
        self._errands = Errands(self._events.put)
        self._guard = Guard("worker", _Contained(self._events))
        self._judging: JudgeLoop | None = None
        self._asked: Judge | None = None
        self._items = (0, 0)
        self._last: RagSample | None = None

    def run(self) -> None:
        for target in (self._events.send_all, self._listen, self._watch):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        words = _Words(self._events)
        logging.getLogger().addHandler(words)
        logging.getLogger("ragmeter").setLevel(logging.INFO)
        self._load()
        gc.freeze()
        while True:
            kind, packed, *rest = unpack(self._calls.receive())
            failure = _Failure()
            sample = self._last
            if packed is not None:
                sample = None
                with Guard("the request", failure):
                    sample = unpack_sample(packed, self._guard)
            if kind == "judge":
                self._judge(sample, failure.reason, *rest)
            else:
                self._last = sample
                self._calls.send(pack(self._scores(kind, sample, failure.reason)), SEND_S)

    def _load(self) -> None:
        secrets = unpack(self._calls.receive())
        metrics, judge, limits = unpack(self._calls.receive())
        unpacking = Unpacking(secrets, lambda n, given: BudgetAtHome(n, given, self._errands))
        self._metrics: dict[int, Metric] = {}
        unloaded: dict[int, str] = {}
        for place, pickled in enumerate(metrics):
            failure = _Failure()
            with Guard("a metric", failure):
                self._metrics[place] = unpacking.metric(pickled)
            if failure.reason is not None:
                unloaded[place] = failure.reason
        failure = _Failure()
        with Guard("the judge", failure):
            self._asked = unpacking.judge(judge)
        self._set = MetricSet(self._metrics.values(), limits["max_text_chars"])
        if self._set.awaited:
            if self._asked is not None:
                self._asked.subscribe(self._called)
            self._judging = JudgeLoop(
                self._asked,
                guard=self._guard,
                max_backlog=1_000_000,  # the meter's process sends no more than are judged at once
                **limits,
            )
            self._judging.start()
        self._calls.send(pack((unloaded, failure.reason)), SEND_S)

    def _scores(
        self, kind: str, sample: RagSample | None, failure: str | None
    ) -> tuple[str | None, list[tuple[Any, ...]]]:
        if sample is None:
            return failure, []
        scores = self._set.compute(sample) if kind == "compute" else self._set.compute_again(sample)
        return None, _packed(scores.values(), sample)

    def _judge(
        self,
        sample: RagSample | None,
        failure: str | None,
        number: int,
        places: Sequence[int],
        left_s: float,
    ) -> None:
        if sample is None or self._judging is None:
            self._events.put(("unjudged", number, failure or "the worker process has no judge"))
            return
        metrics = [(place, self._metrics[place]) for place in places]
        self._judging.submit(_Job(number, sample, metrics, self._events, self._count_items), left_s)

    def _called(self, call: JudgeCall) -> None:
        self._events.put(
            (
                "call", call.metric, call.model, call.duration_s, call.input_tokens,
                call.output_tokens, call.error_type, call.cached, call.cost, call.calls,
                call.cached_tokens,
            )
        )  # fmt: skip

    def _count_items(self) -> None:
        """Tell how many items the judge's cache has answered since it was last told."""
        stats = getattr(self._asked, "stats", None)
        now = getattr(stats, "cache_hits", 0), getattr(stats, "cache_misses", 0)
        if now != self._items:
            self._events.put(("items", now[0] - self._items[0], now[1] - self._items[1]))
            self._items = now

    def _listen(self) -> None:
        while True:
            try:
                _, *answer = unpack(self._inbox.receive())
            except ChannelClosedError:
                self.leave()
                return
            self._errands.answered(*answer)

    def _watch(self) -> None:
        """Leave when the meter's process is gone, also if somebody else holds its sockets."""
        while os.getppid() == self._parent:
            time.sleep(LOOK_S)
        self.leave()

    def leave(self) -> None:
        """End the process: the judge's connections first, then everything."""
        if self._judging is not None:
            self._judging.close(0.0)
        self._events.finish(FINISH_S)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(0)
