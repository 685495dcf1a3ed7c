"""`Forwarder`: forwards received export requests unchanged, in the order of their arrival.

There is one queue and one thread for spans, and one of each for log records. Waiting requests are sent
together: protobuf messages of one kind can be concatenated byte by byte, without being parsed. Temporary
failures are retried until they pass; meanwhile the queue fills, and callers of `has_room` ask the senders to
wait. Only requests that the endpoint refuses for good, and those left at the end, are dropped. A status of
401 or 403 counts as temporary, since a key can be corrected. One request at a time is slow over a slow line,
and several lanes would lose the order; so the receiver sees other batch sizes, and JSON is forwarded as
protobuf.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from ragmeter.adapters.opentelemetry.otlp import Signal, parse_protobuf, received_in

from ._endpoint import Endpoint
from ._otlp_outbox import names_of
from ._sender import Answer, OtlpSender

_log = logging.getLogger("ragmeter")

LONGEST_PAUSE_S = 30.0
"""Longest pause between two attempts, unless the endpoint asks for more."""
JOINED_BYTES = 1024 * 1024
"""Requests are joined up to this size, as gRPC servers accept 4 MiB by default."""
_OF_ALL = frozenset({"status_404", "status_405", "status_501", "unimplemented"})
"""Answers of an endpoint that do not depend on the content of the request."""
_SAID_EVERY_S = 60.0
_LAST_S = 0.5
"""Seconds after the deadline for an attempt in progress to end."""
_BESIDE_BODY = 200
"""Approximate bytes of a waiting request in addition to its body."""


class _QueuedBody(NamedTuple):
    body: bytes
    position: int


class Forwarder:
    """Forwards bodies to OTLP endpoints. Thread-safe. To be started and closed.

    Args:
        endpoints: The endpoint of each signal; others are not forwarded.
        guard: Contains unexpected errors.
        max_bytes: Most waiting bytes of each signal.
        settled: Called with the positions of requests that were accepted, or refused for good.
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
            signal: _Lane(signal, endpoint, guard, max_bytes, settled) for signal, endpoint in endpoints.items()
        }

    def start(self) -> None:
        """Start the threads."""
        for lane in self._lanes.values():
            lane.start()

    def has_room(self) -> bool:
        """Return whether there is room for another request of any signal."""
        return all(lane.has_room() for lane in self._lanes.values())

    def put(self, signal: Signal, body: bytes, position: int = 0) -> None:
        """Queue a serialised export request, whether or not there is room. Never blocks.

        Args:
            signal: Its signal; one without an endpoint is ignored.
            body: Its bytes.
            position: Its position in the spool, for `settled`.
        """
        if signal in self._lanes:
            self._lanes[signal].put(_QueuedBody(body, position))

    def stats(self) -> Counter[str]:
        """Return the number of requests so far by outcome.

        ``taken`` by the endpoint, ``waiting``, or the reason of a loss: the answer's (``status_400``,
        ``unimplemented``), ``error``, or ``shutdown``.
        """
        return sum((lane.stats() for lane in self._lanes.values()), Counter())

    def close(self, timeout_s: float) -> None:
        """Forward as much as possible within `timeout_s` seconds, count the rest, and stop."""
        deadline = time.monotonic() + timeout_s
        for lane in self._lanes.values():
            lane.finish(deadline)
        for lane in self._lanes.values():
            lane.end(deadline)


class _Lane:
    """Queue and thread of one signal."""

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
        self._outcomes: Counter[str] = Counter()
        self._deadline: float | None = None
        self._ended = False
        self._said = -_SAID_EVERY_S
        self._thread = threading.Thread(target=self._work, name=f"ragmeter-forward-{signal}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def has_room(self) -> bool:
        return self._bytes < self._max_bytes

    def put(self, waiting: _QueuedBody) -> None:
        with self._changed:
            if self._deadline is None:
                self._waiting.append(waiting)
                self._bytes += len(waiting.body) + _BESIDE_BODY
                self._changed.notify_all()

    def stats(self) -> Counter[str]:
        with self._changed:
            return self._outcomes + Counter(waiting=len(self._waiting))

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
                self._outcomes["shutdown"] += left
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
        """Return the requests at the head of the queue to send together; they stay there until finished."""
        several: list[_QueuedBody] = []
        size = 0
        for waiting in self._waiting:
            size += len(waiting.body)
            if several and size > JOINED_BYTES:
                break
            several.append(waiting)
        return several

    def _pass_on(self, several: Sequence[_QueuedBody]) -> bool:
        """Send requests until they are finished; return whether there is time for others."""
        answer = Answer("error")
        with self._guard:
            answer = self._sender.send_patiently(
                b"".join(waiting.body for waiting in several), self._rest, longest_s=LONGEST_PAUSE_S
            )
        if answer.passing:
            return False
        if len(several) > 1 and answer.problem is not None and answer.problem not in _OF_ALL:
            # Only one of them may be unacceptable.
            return all(self._pass_on([waiting]) for waiting in several)
        self._settle(several, answer)
        return True

    def _rest(self, seconds: float, answer: Answer) -> bool:
        """Wait for some seconds; return whether there is time for another attempt."""
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
                return  # already counted as lost
            for waiting in several:
                self._waiting.popleft()
                self._bytes -= len(waiting.body) + _BESIDE_BODY
            self._outcomes[answer.problem or "taken"] += len(several)
        if answer.problem is not None:
            self._say(f"was refused for good ({answer.problem}) and is not tried again")
            with self._guard:
                requests = (parse_protobuf(self._signal, waiting.body) for waiting in several)
                found = [received_in(request) for request in requests]
                traces = {span.trace_id for one in found for span in one.spans}
                traces |= {note.trace_id for one in found for note in one.logs}
                _log.warning("forwarding: lost: %s", names_of(int(trace, 16) for trace in traces))
        if self._settled is not None:
            with self._guard:
                self._settled([waiting.position for waiting in several])

    def _say(self, what: str) -> None:
        if time.monotonic() - self._said >= _SAID_EVERY_S:
            self._said = time.monotonic()
            _log.warning("forwarding: what goes to %s %s (said once a minute)", self._endpoint.shown, what)
