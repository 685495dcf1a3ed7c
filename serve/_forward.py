"""`Forwarder`: passes received export requests on, unchanged, in the order in which they came.

One queue and one thread for spans, one of each for log records.  Requests that wait together are sent
together: protobuf messages of one kind may be joined end to end, byte by byte, without being read.  What may
pass is tried again until it has passed; meanwhile the queue fills, and callers of `has_room` ask the senders to
wait.  Nothing is given up but what the endpoint refuses for good, or what is left at the end.  A status of 401
or 403 may pass, since a key can be put right.  One request at a time is slow over a slow line, and several
lanes would lose the order; so the receiver sees other batch sizes, and what came as JSON leaves as protobuf.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

from ragmeter.adapters.opentelemetry.otlp import Signal, parse_protobuf, received_in

from ._endpoint import Endpoint
from ._otlp_outbox import names_of
from ._sender import Answer, OtlpSender

_log = logging.getLogger("ragmeter")

LONGEST_PAUSE_S = 30.0
"""Between two attempts, unless the endpoint asks for more."""
JOINED_BYTES = 1024 * 1024
"""Requests are joined up to this size: gRPC servers take 4 MiB by default."""
_OF_ALL = frozenset({"status_404", "status_405", "status_501", "unimplemented"})
"""What an endpoint says of any request, whatever is in it."""
_SAID_EVERY_S = 60.0
_LAST_S = 0.5
"""Seconds beyond the last moment that an attempt under way has to come to an end."""
_BESIDE_BODY = 200
"""Bytes that a waiting request takes beside its body, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardStats:
    """What became of the requests to be passed on: all = ``forwarded`` + every failure + ``waiting``."""

    forwarded: int = 0
    """Export requests that the endpoint has taken."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Export requests that it has not, by reason: its status (``status_400``, ``unimplemented``),
    ``error``, or ``shutdown``."""
    rejected: int = 0
    """Spans and log records that it did not take of requests that it took."""
    waiting: int = 0
    """Export requests that wait."""
    waiting_bytes: int = 0
    """Bytes of their bodies."""


class _QueuedBody(NamedTuple):
    body: bytes
    position: int | None


class Forwarder:
    """Passes bodies on to OTLP endpoints. Thread-safe. To be started and closed.

    Args:
        endpoints: Where each signal goes; one that is not there is not passed on.
        guard: Contains what ought not to happen.
        max_bytes: So many bytes may wait for each signal.
        settled: Called with the positions of requests that were taken, or refused for good.
    """

    def __init__(
        self,
        endpoints: Mapping[Signal, Endpoint],
        guard: AbstractContextManager[object],
        *,
        max_bytes: int,
        settled: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        self._lanes = {
            signal: _Lane(signal, endpoint, guard, max_bytes, settled)
            for signal, endpoint in endpoints.items()
        }

    def start(self) -> None:
        """Start the threads."""
        for lane in self._lanes.values():
            lane.start()

    def takes(self, signal: Signal) -> bool:
        """Return whether there is somewhere to pass this on to."""
        return signal in self._lanes

    def has_room(self) -> bool:
        """Return whether another request of any kind may come."""
        return all(lane.has_room() for lane in self._lanes.values())

    def put(
        self, signal: Signal, body: bytes, position: int | None = None, *, force: bool = False
    ) -> bool:
        """Pass a serialised export request on, later. Never blocks.

        Args:
            signal: What it holds.
            body: Its bytes.
            position: What `settled` calls it.
            force: Take it although there is no room: it was asked for before.

        Returns:
            False: there is no room; the sender is to come again.
        """
        lane = self._lanes.get(signal)
        return True if lane is None else lane.put(_QueuedBody(body, position), force=force)

    def stats(self) -> ForwardStats:
        """Return what became of everything so far."""
        lanes = [lane.stats() for lane in self._lanes.values()]
        failed: Counter[str] = Counter()
        for lane in lanes:
            failed.update(lane.failed)
        return ForwardStats(
            forwarded=sum(lane.forwarded for lane in lanes),
            failed=dict(failed),
            rejected=sum(lane.rejected for lane in lanes),
            waiting=sum(lane.waiting for lane in lanes),
            waiting_bytes=sum(lane.waiting_bytes for lane in lanes),
        )

    def close(self, timeout_s: float) -> None:
        """Pass on what can be passed on within `timeout_s` seconds, count the rest, stop."""
        deadline = time.monotonic() + timeout_s
        for lane in self._lanes.values():
            lane.finish(deadline)
        for lane in self._lanes.values():
            lane.end(deadline)


class _Lane:
    """One signal's queue and thread."""

    def __init__(
        self,
        signal: Signal,
        endpoint: Endpoint,
        guard: AbstractContextManager[object],
        max_bytes: int,
        settled: Callable[[Sequence[int]], None] | None,
    ) -> None:
        self._signal: Signal = signal
        self._endpoint = endpoint
        self._sender = OtlpSender(signal, endpoint)
        self._guard = guard
        self._max_bytes = max_bytes
        self._settled = settled
        self._changed = threading.Condition()
        self._waiting: deque[_QueuedBody] = deque()
        self._bytes = 0
        self._forwarded = self._rejected = 0
        self._failed: Counter[str] = Counter()
        self._deadline: float | None = None
        self._ended = False
        self._said = -_SAID_EVERY_S
        self._thread = threading.Thread(
            target=self._work, name=f"ragmeter-forward-{signal}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def has_room(self) -> bool:
        return self._bytes < self._max_bytes

    def put(self, waiting: _QueuedBody, *, force: bool) -> bool:
        size = len(waiting.body) + _BESIDE_BODY
        with self._changed:
            # One that is larger than all the room there is comes in when nothing else waits.
            full = self._bytes + size > self._max_bytes and bool(self._waiting)
            if (full and not force) or self._deadline is not None:
                return False
            self._waiting.append(waiting)
            self._bytes += size
            self._changed.notify_all()
        return True

    def stats(self) -> ForwardStats:
        with self._changed:
            return ForwardStats(
                forwarded=self._forwarded,
                failed=dict(self._failed),
                rejected=self._rejected,
                waiting=len(self._waiting),
                waiting_bytes=self._bytes - _BESIDE_BODY * len(self._waiting),
            )

    def finish(self, deadline: float) -> None:
        with self._changed:
            self._deadline = deadline
            self._changed.notify_all()

    def end(self, deadline: float) -> None:
        if self._thread.ident is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()) + _LAST_S)
        with self._changed:
            self._ended = True
            left = len(self._waiting)
            if left:
                self._failed["shutdown"] += left
                self._waiting.clear()
                self._bytes = 0
        self._sender.close()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and self._deadline is None:
                    self._changed.wait()
                if not self._waiting or self._is_over():
                    return
                several = self._next()
            if not self._pass_on(several):
                return

    def _next(self) -> list[_QueuedBody]:
        """Return those at the head of the queue that go together; they stay there until they are settled."""
        several: list[_QueuedBody] = []
        size = 0
        for waiting in self._waiting:
            size += len(waiting.body)
            if several and size > JOINED_BYTES:
                break
            several.append(waiting)
        return several

    def _pass_on(self, several: Sequence[_QueuedBody]) -> bool:
        """Send these until they are settled; return whether there is time for others."""
        answer = Answer("error")
        with self._guard:
            answer = self._sender.send_patiently(
                b"".join(waiting.body for waiting in several), self._rest, longest_s=LONGEST_PAUSE_S
            )
        if answer.passing:
            return False
        if len(several) > 1 and answer.problem is not None and answer.problem not in _OF_ALL:
            # One of them may be what it does not like.
            return all(self._pass_on([waiting]) for waiting in several)
        self._settle(several, answer)
        return True

    def _rest(self, seconds: float, answer: Answer) -> bool:
        """Wait so long; return whether there is time for another attempt."""
        self._say(f"waits ({answer.problem}) and is tried again")
        until = time.monotonic() + seconds
        with self._changed:
            while (left_s := until - time.monotonic()) > 0:
                if self._deadline is not None and self._deadline < until:
                    return False
                self._changed.wait(left_s)
            return not self._is_over()

    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _settle(self, several: Sequence[_QueuedBody], answer: Answer) -> None:
        with self._changed:
            if self._ended:
                return  # it was counted as lost
            for waiting in several:
                self._waiting.popleft()
                self._bytes -= len(waiting.body) + _BESIDE_BODY
            if answer.problem is None:
                self._forwarded += len(several)
                self._rejected += answer.rejected
            else:
                self._failed[answer.problem] += len(several)
        if answer.problem is not None:
            self._say(f"was refused for good ({answer.problem}) and is not tried again")
            with self._guard:
                requests = (parse_protobuf(self._signal, waiting.body) for waiting in several)
                found = [received_in(request) for request in requests]
                traces = {span.trace_id for one in found for span in one.spans}
                traces |= {note.trace_id for one in found for note in one.logs}
                _log.warning("forwarding: lost: %s", names_of(int(trace, 16) for trace in traces))
        positions = [waiting.position for waiting in several if waiting.position is not None]
        if self._settled is not None and positions:
            with self._guard:
                self._settled(positions)

    def _say(self, what: str) -> None:
        if time.monotonic() - self._said >= _SAID_EVERY_S:
            self._said = time.monotonic()
            _log.warning(
                "forwarding: what goes to %s %s (said once a minute)", self._endpoint.shown, what
            )
