"""From spans to scores: assembles traces, finds the requests in them, and passes them to the meter.

It works on its own thread, and waits while the meter has no room: spans then wait here, and once there are
too many, the intake refuses more, so that senders slow down and nothing is dropped.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry import RetrievalTool
from ragmeter.adapters.opentelemetry.assembly import AssembledTrace, TraceAssembler
from ragmeter.adapters.opentelemetry.reporter import Reporter

from ._journal import Journal
from ._limits import MIB, Limits

_PACE_S = 0.1
"""Seconds between two checks for complete traces, and for room."""
_WAITING_BYTES = 16 * MIB
"""Most bytes of requests waiting in the meter, whose queues drop data beyond a multiple of this."""
_IN_FLIGHT = 8
"""Ratio of all requests in the meter to those waiting at its beginning."""


class Backlog(NamedTuple):
    """The data waiting for the rest of its trace or for the meter."""

    traces: int
    spans: int
    bytes: int


class Scoring:
    """Turns spans into requests of the meter."""

    def __init__(
        self,
        meter: RagMeter,
        tools: Sequence[RetrievalTool],
        limits: Limits,
        *,
        grace_s: float,
        idle_s: float,
        outgoing: Callable[[], bool],
        journal: Journal,
    ) -> None:
        self._meter = meter
        self._limits = limits
        self._outgoing = outgoing
        self._journal = journal
        self._guard = meter.port.guard("serve.score")
        self.reporter = Reporter(meter, tools, remote=True, pace=self._wait_for_room)
        self.assembler = TraceAssembler(
            self._complete,
            grace_s=grace_s,
            idle_s=idle_s,
            # When the intake starts to refuse, there is still room here for the requests in progress.
            max_traces=2 * limits.held_spans,
            max_spans=2 * limits.held_spans,
            max_bytes=limits.held_bytes + 4 * limits.body_bytes,
        )
        self._ready: deque[AssembledTrace] = deque()
        self._lock = threading.Lock()
        self._spans: Counter[str] = Counter()
        self._ready_bytes = 0
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="ragmeter-serve", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def held(self) -> Backlog:
        """Return number and size of the waiting traces and spans."""
        stats = self.assembler.stats()
        with self._lock:
            spans, size = self._spans["ready"], self._ready_bytes
        return Backlog(stats.open_traces + len(self._ready), stats.open + spans, stats.open_bytes + size)

    def heard(self) -> list[dict[str, Any]]:
        """Return the received requests of each service, by outcome; ``to_score`` ones may still be waiting."""
        named = {"scored": "to_score"}
        return [
            {named.get(name, name): value for name, value in asdict(one).items()}
            for one in self.reporter.accounts()
        ]

    def partial(self) -> int:
        """Return the number of traces that were read without a parent that their spans name."""
        return self.assembler.stats().partial

    def spans_by_outcome(self) -> Mapping[str, int]:
        """Return the numbers of spans: ``read``, ``waiting``, or the reason why they are lost."""
        stats = self.assembler.stats()
        with self._lock:
            read, given_up = self._spans["read"], self._spans["shutdown"]
        counts = Counter(stats.lost)
        counts["read"] = read
        counts["shutdown"] = given_up
        counts["waiting"] = stats.spans - sum(counts.values())
        return {name: count for name, count in counts.items() if count}

    def drain(self, deadline: float) -> bool:
        """Pass everything to the meter, complete or not, until `deadline` (monotonic).

        Returns:
            Whether everything was passed on.
        """
        self._deadline = deadline
        self._wake.set()
        self._ended.wait(max(0.0, deadline - time.monotonic()) + 1.0)
        left = 0
        while self._ready:
            left += self._ready.popleft().fresh
        with self._lock:
            self._spans["shutdown"] += left
        return not left

    def _complete(self, trace: AssembledTrace) -> None:
        with self._lock:
            self._spans["ready"] += trace.fresh
            self._ready_bytes += trace.bytes
        self._ready.append(trace)

    def _run(self) -> None:
        while self._deadline is None:
            with self._guard:
                self.assembler.tick()
            self._look()
            self._report()
            self._wake.wait(_PACE_S)
        with self._guard:
            self.assembler.drain()
        self._report()
        # If time was too short, requests were offered to a meter without room for them, and so are not done.
        if not self._is_late():
            self._look(last=True)
        self._ended.set()

    def _look(self, *, last: bool = False) -> None:
        with self._guard:
            # All parts of a ready trace wait: they arrived before anything in the assembler.
            self._journal.look(
                lambda: self.assembler.waiting() | {trace.trace_id: -math.inf for trace in self._ready},
                last=last,
            )

    def _report(self) -> None:
        while self._ready and not self._is_late():
            trace = self._ready.popleft()
            with self._guard:
                self.reporter.report(trace)
            with self._lock:
                self._spans["ready"] -= trace.fresh
                self._ready_bytes -= trace.bytes
                self._spans["read"] += trace.fresh
            # After each trace: under constant load there is always another one.
            if not self._is_late():
                self._look()

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _wait_for_room(self) -> None:
        while not self._has_room() and not self._is_late():
            time.sleep(_PACE_S)

    def _has_room(self) -> bool:
        stats = self._meter.stats()
        most = self._limits.waiting_requests
        return (
            stats.queue_size < most
            and stats.queue_bytes + stats.backlog_bytes < _WAITING_BYTES
            and stats.in_flight < most * _IN_FLIGHT
            and all(count < most * 2 for count in stats.export_backlog.values())
            and self._outgoing()
        )
