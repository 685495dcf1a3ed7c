"""The worker process: scores requests with the same classes as the meter.

`Worker` starts it in a fresh interpreter; the application never imports it. The main thread computes scores;
one thread reads messages, one writes events, and the judge's loop has its own. The process ends when the
meter's process closes the channel or is gone, and ignores the signals that stop the application, as the last
requests are still to be scored then.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import Metric, RagSample, Score
from ragmeter.metrics.errors import loggable
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.pipeline.judging import JudgeLoop, JudgesHere
from ragmeter.pipeline.scoring import MetricSet
from ragmeter.requests.scope import leave_host

from .budgets import RemoteBudget
from .channel import Channel, ChannelClosedError
from .codec import AttemptErrors, Unpickler, pack_scores

NICENESS = 5
"""Scoring yields the processor to the application."""
SEND_S = 3600.0
"""Seconds that the meter's process may leave a frame unread; if it is gone, sending fails at once."""
FINISH_S = 1.0
"""Seconds to send the last events."""
MAX_BATCH = 256
"""Events sent in one frame."""
MAX_KNOWN = 512
"""Size of the cache of scores without a value."""
MAX_LOG_LINES = 1000
"""Most log lines waiting to be sent; more are dropped."""

Event = tuple[Any, ...]


def serve(end: socket.socket, progress: int) -> None:
    """Serve the meter's process until it hangs up."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    leave_host()
    end.set_inheritable(False)  # a process that a metric starts must not hold them open
    os.set_inheritable(progress, False)
    serving = _Serving(Channel(end), progress)
    with contextlib.suppress(ChannelClosedError):
        serving.load()
        serving.run()
    serving.leave()


class _Events:
    """Events for the meter's process, sent by a separate thread; `put` never waits."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._sent = threading.Event()

    def put(self, *event: Any) -> None:
        self._queue.put(event)

    def put_if_few(self, *event: Any) -> None:
        if self._queue.qsize() < MAX_LOG_LINES:
            self._queue.put(event)

    def finish(self, timeout_s: float) -> None:
        """Wait until all events put so far are sent."""
        self._queue.put(())
        self._sent.wait(timeout_s)

    def send_all(self) -> None:
        while not self._sent.is_set():
            batch = [self._queue.get()]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            try:
                self._channel.send([event for event in batch if event], SEND_S)
            except ChannelClosedError:
                self._sent.set()
            if () in batch:
                self._sent.set()


class _LogLines(logging.Handler):
    """Sends log lines to the meter's process, where logging is configured."""

    def __init__(self, events: _Events) -> None:
        super().__init__(logging.INFO)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        self._events.put_if_few("log", record.name, record.levelno, self.format(record))


class _WorkerErrorLog(ErrorLog):
    """Sends contained errors to the meter's process, which counts and logs them."""

    def __init__(self, events: _Events) -> None:
        super().__init__()
        self._events = events

    def report(self, component: str, error: Exception) -> None:
        self._events.put_if_few("error", component, loggable(error))


@dataclass(eq=False)
class _Job:
    """One request to judge: a `JudgeJob`."""

    number: int
    sample: RagSample
    metrics: Sequence[Metric]
    owner: _Serving
    size_bytes: int = 0

    def judged(self, scores: Sequence[Score]) -> None:
        if scores:
            self.owner.events.put("judged", self.number, pack_scores([scores]))

    def further(self) -> bool:
        return False  # the meter's process continues without it

    def done(self, skipped: str | None) -> None:
        self.owner.count_items()
        self.owner.events.put("done", self.number, skipped)


class _Serving:
    def __init__(self, channel: Channel, progress: int) -> None:
        self._channel = channel
        self._progress = progress
        self._parent = os.getppid()
        self.events = _Events(channel)
        self._guard = Guard("worker", _WorkerErrorLog(self.events))
        self._frames: queue.SimpleQueue[tuple[str, list[bytes]]] = queue.SimpleQueue()
        self._metrics: dict[tuple[str, ...], Metric] = {}
        self._made: dict[tuple[str, int], Any] = {}
        self._judge: Judge | None = None
        self._judging: JudgeLoop | None = None
        self._items = (0, 0)
        # One object for all equal scores without a value: pickled once a frame.
        self._shared: Callable[[Any], Score] = lru_cache(MAX_KNOWN)(lambda score: score)

    def load(self) -> None:
        """Load the metrics and the judge; report those that cannot be loaded."""
        secrets, metrics, judge, limits = self._receive()
        logging.getLogger().addHandler(_LogLines(self.events))
        logging.getLogger("ragmeter").setLevel(logging.INFO)

        def budget(number: int, limits: Mapping[str, Any]) -> RemoteBudget:
            return RemoteBudget(number, limits, self.events.put)

        def loaded(pickled: bytes, what: str) -> tuple[Any, str | None]:
            attempt = AttemptErrors()
            with Guard(f"the worker process could not load {what}", attempt):
                return Unpickler(pickled, secrets, budget, self._made).load(), None
            return None, attempt.failure

        unloaded: dict[tuple[str, ...], str] = {}
        self._judge, without_judge = loaded(judge, "the judge")
        for names, pickled in metrics.items():
            metric, failure = loaded(pickled, "a metric")
            if failure is None and metric.judged:
                failure = without_judge
            if failure is None:
                self._metrics[names] = metric
            else:
                unloaded[names] = failure
        max_text_chars = limits.pop("max_text_chars")
        sparing = limits.pop("sparing")
        self._set = MetricSet(self._metrics.values(), max_text_chars, sparing=sparing)
        if self._set.awaited:
            if self._judge is not None:
                self._judge.subscribe(lambda call: self.events.put("call", call))
            judges = JudgesHere(
                self._judge,
                limits["deadline_s"],
                guard=self._guard,
                metrics=self._set.awaited,
                max_text_chars=max_text_chars,
            )
            # The meter's process limits the number of requests.
            self._judging = JudgeLoop(judges, guard=self._guard, max_backlog=1_000_000, **limits)
            self._judging.start()
        self._channel.send(unloaded, SEND_S)
        for target in (self.events.send_all, self._read):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        gc.freeze()

    def run(self) -> None:
        """Compute scores until the process ends."""
        while True:
            which, packed = self._frames.get()
            computed = [self._compute(which, one) for one in packed]
            os.write(self._progress, b".")  # the last one is done
            unreadable = [reason for reason, _ in computed]
            self.events.put("scores", unreadable, pack_scores([scores for _, scores in computed]))

    def _compute(self, which: str, packed: bytes) -> tuple[str | None, list[Score]]:
        os.write(self._progress, b".")
        sample = self._sample(packed)
        if isinstance(sample, str):
            return sample, []
        if which == "compute_again":
            scores = self._set.compute_again(sample)
        else:
            (scores,) = self._set.compute([sample])
        return None, [
            self._shared(score) if score.status in {"missing_input", "skipped"} else score
            for score in scores.values()
        ]

    def _sample(self, packed: bytes) -> RagSample | str:
        """Return a sample, or why it cannot be read."""
        attempt = AttemptErrors()
        with Guard("the request cannot be sent to the worker process", attempt):
            sample: RagSample = pickle.loads(packed)  # noqa: S301 -- from our own process
            return sample
        return attempt.failure or ""

    def _receive(self) -> Any:
        """Return the next message; raise if the meter's process is gone, even if its socket is open."""
        while os.getppid() == self._parent:
            with contextlib.suppress(TimeoutError):
                return self._channel.receive()
        raise ChannelClosedError("the meter's process ended")

    def _read(self) -> None:
        with contextlib.suppress(ChannelClosedError):
            while True:
                kind, *rest = self._receive()
                if kind == "reserved":
                    number, *answer = rest
                    self._made["budget", number].take_answer(*answer)
                elif kind == "judge":
                    self._submit(*rest)
                else:
                    self._frames.put((kind, *rest))
        self.leave()

    def _submit(self, number: int, packed: bytes, names: Sequence[tuple[str, ...]], left_s: float) -> None:
        sample = self._sample(packed)
        if isinstance(sample, str) or self._judging is None:
            self.events.put("unreadable", number, sample)
            return
        metrics = [self._metrics[name] for name in names]
        self._judging.submit(_Job(number, sample, metrics, self), left_s)

    def count_items(self) -> None:
        """Report hits and misses of the judge's cache since the last report."""
        if self._judge is not None:
            stats = self._judge.stats
            hits, misses = self._items
            self._items = stats.cache_hits, stats.cache_misses
            if self._items != (hits, misses):
                self.events.put("items", stats.cache_hits - hits, stats.cache_misses - misses)

    def leave(self) -> None:
        """Close the judge's connections and end the process."""
        if self._judging is not None:
            self._judging.close(0.0)
        self.events.finish(FINISH_S)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(0)
