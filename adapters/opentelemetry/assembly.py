"""Assembly of traces from spans and log records of many traces, in any order and in pieces.

Nothing marks a trace as complete. One is taken as complete when its first span in this process has arrived
and every parent that its spans name, and `grace_s` has passed since the last arrival; or when nothing arrived
for `idle_s`, as spans that were cut off by an exception never arrive. Later spans open it once more: it is
delivered again, whole, as late.

A trace may last for hours: a job, a session. If one does not become idle, its idle parts (spans below a
parent that is not here, without new data for `idle_s`) are delivered separately.

The clock is passed in and there is no timer: `TraceAssembler.tick` closes the traces that are due.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragmeter.adapters.reading.letters import weight_of
from ragmeter.metrics._process import fork

from ._repeats import RecentCalls, is_unanswered
from ._sources import names_source
from ._tree import SpanTree
from .conventions import holds_content, holds_messages, reading
from .record import UNREAD, LogNote, SpanNote, SpanRecord
from .requests import OWN_SCOPE

_KEPT = (
    "http.response.status_code",
    "http.status_code",
    "error.type",
    "session.id",
    "user.id",
    "mcp.method.name",
)
_REFERENCE = "ragmeter."
_PASSAGE = 40
"""Minimum weight of a text that may be a passage, in letters."""
_TRACE_BYTES = 700
"""Approximate bytes of a trace beside its spans: its sets, lists and tables."""
_OWN_BYTES = 200
"""Approximate bytes of the record of one of ragmeter's own spans."""


@dataclass(slots=True)
class ScoreMarks:
    """Data of ragmeter's own spans and events about requests that were already scored."""

    judged: set[str] = field(default_factory=set)
    """Ids of the spans that they judge."""
    periods: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of requests that ragmeter itself wrote spans for, nanoseconds since the epoch."""

    def covers(self, span_ids: Iterable[str], started_ns: int, ended_ns: int) -> bool:
        """Return whether the request of these spans was scored: by its spans, or by its time."""
        return not self.judged.isdisjoint(span_ids) or any(
            begun <= ended_ns and started_ns <= ended for begun, ended in self.periods
        )


@dataclass(frozen=True, slots=True)
class AssembledTrace:
    """The received spans and log records of one trace."""

    trace_id: str
    """32 hex digits."""
    spans: Sequence[SpanRecord]
    """In order of arrival."""
    logs: Sequence[LogNote]
    """In order of arrival."""
    late: bool = False
    """Whether the trace was delivered before, without some of these."""
    fresh: int = 0
    """Spans among them that were not delivered before."""
    bytes: int = 0
    """Estimated bytes of all of it."""
    scored: ScoreMarks | None = None
    """The marks of requests of the trace that the application itself scored."""
    repeats: bool = False
    """Whether it is one model call that is in another trace, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyStats:
    """The received records, by outcome. ``spans`` = ``delivered`` + every reason in ``lost`` + ``open``."""

    spans: int = 0
    """Received spans."""
    logs: int = 0
    """Received log records."""
    delivered: int = 0
    """Spans delivered, each once."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Spans not delivered, by reason: ``own`` (ragmeter's), ``duplicate`` (sent before), ``late`` (their
    trace was delivered twice), ``revoked`` (dropped: another process reads them again), and the limit that
    was reached: ``traces``, ``spans``, ``bytes``."""
    partial: int = 0
    """Traces delivered without a parent that their spans name: the rest is elsewhere, or was never written."""
    evicted: Mapping[str, int] = field(default_factory=dict)
    """Traces dropped, by the limit that was reached."""
    open: int = 0
    """Spans of traces that are not complete."""
    open_traces: int = 0
    """Traces that are not complete."""
    open_bytes: int = 0
    """Estimated bytes of these."""
    bytes: int = 0
    """Estimated bytes of all stored traces, delivered ones included."""


@dataclass(slots=True)
class _Open:
    changed: float
    checked: float
    spans: list[SpanRecord] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    logs: list[LogNote] = field(default_factory=list)
    size: int = 0
    undelivered: int = 0
    rooted: bool = False
    ids: set[str] = field(default_factory=set)
    awaited: set[str] = field(default_factory=set)
    times: int = 0
    scored: ScoreMarks | None = None
    is_unanswered: bool = False
    """Whether it is one model call without the reply, which may arrive in a separate trace."""

    @property
    def looks_complete(self) -> bool:
        return self.rooted and not self.awaited and not self.is_unanswered

    def take(self, span: SpanRecord) -> None:
        self.spans.append(span)
        self.arrived.append(self.changed)
        self.undelivered += 1
        self.ids.add(span.span_id)
        self.awaited.discard(span.span_id)
        if span.parent_id is None or span.is_entry:
            self.rooted = True  # its parent, if it has one, is another process's
        elif span.parent_id not in self.ids:
            self.awaited.add(span.parent_id)
        self.is_unanswered = len(self.spans) == 1 and is_unanswered(span)


class TraceAssembler:
    """Assembles traces. Thread-safe; `deliver` is called outside the lock.

    Args:
        deliver: Called with each trace that is complete.
        grace_s: Seconds without new data after which a trace without known gaps is complete.
        idle_s: Seconds without new data after which any trace is.
        late_s: Seconds for which a delivered trace is stored for late spans.
        max_traces: Maximum number of stored traces; beyond that the oldest is dropped, delivered ones first.
        max_spans: Maximum number of stored spans.
        max_bytes: Maximum of their estimated bytes.
        clock: Seconds on a monotonic clock.
    """

    def __init__(
        self,
        deliver: Callable[[AssembledTrace], None],
        *,
        grace_s: float = 1.0,
        idle_s: float = 30.0,
        late_s: float = 60.0,
        max_traces: int = 10_000,
        max_spans: int = 200_000,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deliver = deliver
        self._grace_s = grace_s
        self._idle_s = idle_s
        self._late_s = late_s
        self._limits = {"traces": max_traces, "spans": max_spans, "bytes": max_bytes}
        self._clock = clock
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)  # in a child: they are the parent's

    def _fresh(self) -> None:
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._closed: OrderedDict[str, _Open] = OrderedDict()
        self._held = Counter({"traces": 0, "spans": 0, "bytes": 0})
        self._open_bytes = 0
        self._received = self._received_logs = self._delivered = self._waiting = self._partial = 0
        self._calls = RecentCalls()
        self._lost: Counter[str] = Counter()
        self._evicted: Counter[str] = Counter()

    def add(self, spans: Iterable[SpanRecord], logs: Iterable[LogNote] = ()) -> None:
        """Add spans and log records of any traces, in any order."""
        with self._lock:
            now = self._clock()
            for span in spans:
                self._received += 1
                if span.scope == OWN_SCOPE:
                    self._lost["own"] += 1
                    self._note_own(span, now)
                    continue
                known = self._open.get(span.trace_id) or self._closed.get(span.trace_id)
                if known is not None and span.span_id in known.ids:
                    # A sender without a response sends all of it again.
                    self._lost["duplicate"] += 1
                    continue
                kept = _slim(span)
                trace = self._trace(span.trace_id, now)
                if trace is None:
                    self._lost["late"] += 1
                    continue
                trace.take(kept)
                self._calls.note(kept)
                self._waiting += 1
                self._held["spans"] += 1
                self._grow(trace, kept.size_bytes())
                if self._is_too_much():
                    self._shrink(span.trace_id)
            for note in logs:
                self._received_logs += 1
                if note.scope == OWN_SCOPE:
                    self._own(note.trace_id, now).judged.add(note.span_id)
                    continue
                if not holds_messages(note):
                    continue  # most records of an application have other subjects
                trace = self._trace(note.trace_id, now)
                if trace is not None:
                    trace.logs.append(note)
                    self._grow(trace, note.size_bytes())
                    if self._is_too_much():
                        self._shrink(note.trace_id)

    def tick(self) -> None:
        """Deliver complete traces, and drop those for which no more spans are expected."""
        with self._lock:
            now = self._clock()
            due = [
                key
                for key, trace in self._open.items()
                if now - trace.changed >= (self._grace_s if trace.looks_complete else self._idle_s)
            ]
            done = [self._close(key, now) for key in due]
            for key, trace in tuple(self._open.items()):
                if now - trace.checked >= self._idle_s:
                    trace.checked = now
                    done.extend(self._take_rested(key, trace, now))
            while self._closed:
                key, trace = next(iter(self._closed.items()))
                if now - trace.changed < self._late_s:
                    break
                self._forget(key)
        self._hand_over(done)

    def drain(self, *, running: bool = True) -> None:
        """Deliver all stored traces, complete or not, or only those without a parent that is still to end."""
        with self._lock:
            now = self._clock()
            done = [
                self._close(key, now) for key, one in tuple(self._open.items()) if running or not one.awaited
            ]
        self._hand_over(done)

    def forget(self, traces: Iterable[str]) -> None:
        """Drop traces that are not complete, by id: another process receives all of their spans."""
        with self._lock:
            for key in traces:
                trace = self._open.get(key)
                if trace is not None:
                    self._lost["revoked"] += trace.undelivered
                    self._forget(key)

    def waiting(self) -> dict[str, float]:
        """Return the traces that are not complete, each with the arrival time of its first stored span."""
        with self._lock:
            return {key: trace.arrived[0] if trace.arrived else 0.0 for key, trace in self._open.items()}

    def stats(self) -> AssemblyStats:
        """Return the number of received spans, by outcome."""
        with self._lock:
            return AssemblyStats(
                spans=self._received,
                logs=self._received_logs,
                delivered=self._delivered,
                lost=dict(self._lost),
                partial=self._partial,
                evicted=dict(self._evicted),
                open=self._waiting,
                open_traces=len(self._open),
                open_bytes=self._open_bytes,
                bytes=self._held["bytes"],
            )

    def _note_own(self, span: SpanRecord, now: float) -> None:
        """Record the subject of one of ragmeter's own spans; the span itself is never stored."""
        scored = self._own(span.trace_id, now)
        if span.attributes.get("gen_ai.operation.name") != "evaluation":
            scored.periods.append((span.started_ns, span.ended_ns))
        elif span.parent_id is not None:
            scored.judged.add(span.parent_id)

    def _own(self, key: str, now: float) -> ScoreMarks:
        trace = self._closed.get(key)
        if trace is None:
            trace = self._trace(key, now) or _Open(now, now)
            self._grow(trace, _OWN_BYTES)
            self._shrink(key)
        if trace.scored is None:
            trace.scored = ScoreMarks()
        return trace.scored

    def _trace(self, key: str, now: float) -> _Open | None:
        """Return the open trace; a delivered one is opened once more, None: it was delivered twice."""
        trace = self._open.get(key)
        if trace is None:
            trace = self._closed.get(key)
            if trace is None:
                trace = self._open[key] = _Open(now, now)
                self._held["traces"] += 1
                self._grow(trace, _TRACE_BYTES)
            elif trace.times > 1:
                return None
            else:
                del self._closed[key]
                self._open[key] = trace
                self._open_bytes += trace.size
        trace.changed = now
        return trace

    def _grow(self, trace: _Open, size: int) -> None:
        trace.size += size
        self._open_bytes += size
        self._held["bytes"] += size

    def _is_too_much(self) -> bool:
        held, most = self._held, self._limits
        return held["bytes"] > most["bytes"] or held["spans"] > most["spans"] or held["traces"] > most["traces"]

    def _shrink(self, growing: str) -> None:
        """Drop the oldest traces until the stored data is within its limits."""
        for reason, limit in self._limits.items():
            while self._held[reason] > limit:
                key = next(iter(self._closed), None)
                if key is None:
                    key = next(iter(self._open))
                    if key == growing and len(self._open) > 1:
                        self._open.move_to_end(key)
                        continue
                    self._lost[reason] += self._open[key].undelivered
                    self._evicted[reason] += 1
                self._forget(key)

    def _forget(self, key: str) -> None:
        trace = self._open.pop(key, None)
        if trace is None:
            trace = self._closed.pop(key)
        else:
            self._open_bytes -= trace.size
        self._waiting -= trace.undelivered
        self._held.subtract({"traces": 1, "spans": len(trace.spans), "bytes": trace.size})

    def _close(self, key: str, now: float) -> AssembledTrace:
        trace = self._open.pop(key)
        trace.times += bool(trace.spans)
        self._partial += trace.times == 1 and bool(trace.awaited)
        trace.changed = now
        fresh, trace.undelivered = trace.undelivered, 0
        self._delivered += fresh
        self._waiting -= fresh
        self._open_bytes -= trace.size
        self._closed[key] = trace
        late = trace.times > 1
        return AssembledTrace(
            key,
            tuple(trace.spans),
            tuple(trace.logs),
            late,
            fresh=fresh,
            bytes=trace.size,
            scored=trace.scored,
            repeats=self._calls.repeat(trace.spans),
        )

    def _take_rested(self, key: str, trace: _Open, now: float) -> Iterator[AssembledTrace]:
        """Remove and return the parts of a trace that are complete or idle."""
        if trace.times:
            return  # late spans: they belong to the delivered part
        tree = SpanTree(trace.spans)
        tops = {
            key: None if top is None else _part_of(tree.spans[top])
            for key, top in tree.outermost(trace.ids, itself=True).items()
        }
        last: dict[str | None, float] = {}
        for span, when in zip(trace.spans, trace.arrived, strict=True):
            top = tops[span.span_id]
            last[top] = max(when, last.get(top, when))
        rested = {top for top, when in last.items() if now - when >= self._idle_s}
        if not rested:
            return
        pairs = [*zip(trace.spans, trace.arrived, strict=True)]
        parts = [span for span, _ in pairs if tops[span.span_id] in rested]
        left = [one for one in pairs if tops[one[0].span_id] not in rested]
        ids = {span.span_id for span in parts}
        logs = [note for note in trace.logs if note.span_id in ids]
        size = sum(span.size_bytes() for span in parts) + sum(note.size_bytes() for note in logs)
        trace.spans, trace.arrived = [span for span, _ in left], [when for _, when in left]
        trace.logs = [note for note in trace.logs if note.span_id not in ids]
        trace.ids -= ids
        trace.undelivered -= len(parts)
        trace.size -= size
        self._open_bytes -= size
        self._held.subtract({"spans": len(parts), "bytes": size})
        self._waiting -= len(parts)
        self._delivered += len(parts)
        if not trace.spans:
            self._forget(key)
        yield AssembledTrace(key, tuple(parts), tuple(logs), fresh=len(parts), bytes=size, scored=trace.scored)

    def _hand_over(self, done: Iterable[AssembledTrace]) -> None:
        for assembled in done:
            if assembled.spans:  # else there are only ragmeter's own spans, or log records
                self._deliver(assembled)


def _part_of(top: SpanRecord) -> str | None:
    """Return the key of a part of a trace, by its uppermost span.

    A step is a request of its own; calls below one missing parent may be one request.
    """
    known = reading(top)
    return top.span_id if known is None or known[1] == "step" else top.parent_id


def _holds_text(event: SpanNote) -> bool:
    """Return whether an event may be of a passage, or of a whole request."""
    values = event.attributes.values()
    return any(
        isinstance(value, (list, dict)) or (isinstance(value, str) and weight_of(value) >= _PASSAGE)
        for value in values
    )


def _slim(span: SpanRecord) -> SpanRecord:
    """Return the span without the attributes that no reader uses."""
    if not span.events and (not span.attributes or reading(span) is not None):
        return span
    is_read = reading(span) is not None
    kept = {event.kind for event in span.events if is_read and _holds_text(event)}
    events = tuple(
        event
        if event.name != "exception"
        else SpanNote(event.name, {"exception.type": event.attributes["exception.type"]})
        for event in span.events
        if (
            "exception.type" in event.attributes
            if event.name == "exception"
            else is_read and (holds_content(event.name) or event.kind in kept)
        )
    )
    if is_read:
        return replace(span, events=events, rows=UNREAD)
    attributes = {
        key: value
        for key, value in span.attributes.items()
        if key in _KEPT or key.startswith(_REFERENCE) or names_source(key)
    }
    return replace(span, events=events, attributes=attributes, rows=UNREAD)
