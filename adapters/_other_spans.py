"""Finds the span that another instrumentation recorded for a request or a retrieval.

Adapters call this during callbacks, because only then can the span be seen: as the current span
(OpenTelemetry's GenAI instrumentations, Traceloop), or in a table (`langchain/_stored_spans.py`). Spans are
recognised by their attributes.

Without such attributes, the spans current at a call's begin and end decide (`choose_spans`): an
instrumentation that was attached before us has made its span current when we see the call begin, and removed
it when we see it end; one attached after us, the other way round. Of the two spans seen, the one whose parent
is the other is the call's own; else one with the attributes of such a call.

Nothing here attaches, detaches, changes or stores a span: only its `SpanContext` is returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import opentelemetry.context
from opentelemetry.context import get_current
from opentelemetry.trace import Span, SpanContext, get_current_span

from ragmeter.exporters._foreign import attribute_of

_WORKFLOW_MARKS: Mapping[str, frozenset[str]] = {
    "gen_ai.operation.name": frozenset({"invoke_workflow", "invoke_agent"}),
    "traceloop.span.kind": frozenset({"workflow"}),
    "openinference.span.kind": frozenset({"CHAIN", "AGENT"}),
}
_RETRIEVAL_MARKS: Mapping[str, frozenset[str]] = {
    "gen_ai.operation.name": frozenset({"retrieval"}),
    "openinference.span.kind": frozenset({"RETRIEVER"}),
}
_RETRIEVAL_TASKS = ("retriev", "vectorstore")
"""Traceloop records a retriever as a ``task`` that only its name distinguishes."""


_variable = getattr(getattr(opentelemetry.context, "_RUNTIME_CONTEXT", None), "_current_context", None)
ambient_context: Callable[[], object] = _variable.get if isinstance(_variable, ContextVar) else get_current
"""Return OpenTelemetry's current context; compared by identity only, at every event, to detect an attachment
since the request began."""


def ambient_span() -> Span | None:
    """Return the current span, or None if there is none or it has already ended.

    Some instrumentations leave their own ended span current after an asynchronous call; later events in that
    context do not belong to it.
    """
    span = get_current_span()
    context: SpanContext | None = span.get_span_context()  # MLflow's may be None
    # Only an SDK's span has its end: as a number.
    if context is None or not context.is_valid or isinstance(attribute_of(span, "end_time"), int):
        return None
    return span


def is_workflow(span: Span) -> bool:
    """Return whether an instrumentation recorded a whole request, chain or agent as `span`."""
    return _has_mark(span, _WORKFLOW_MARKS)


def is_retrieval(span: Span) -> bool:
    """Return whether an instrumentation recorded a retrieval as `span`."""
    if _has_mark(span, _RETRIEVAL_MARKS):
        return True
    attributes = _attributes(span)
    if attributes.get("traceloop.span.kind") != "task":
        return False
    name = str(attributes.get("traceloop.entity.name", "")).lower()
    return any(mark in name for mark in _RETRIEVAL_TASKS)


def _has_mark(span: Span, marks: Mapping[str, frozenset[str]]) -> bool:
    attributes = _attributes(span)
    return any(
        isinstance(value := attributes.get(key), str) and value in values for key, values in marks.items()
    )


def _attributes(span: Span) -> Mapping[str, Any]:
    attributes = attribute_of(span, "attributes")
    return attributes if isinstance(attributes, Mapping) else {}


_UNKNOWN = object()
_NEVER_END = frozenset({"opentelemetry.instrumentation.llamaindex"})
"""Instrumentations that leave spans open, and current, after errors and streams: never a parent."""


SpanKind = Literal["workflow", "retrieval"]


class SeenSpan(NamedTuple):
    """A span that was current, without the span itself."""

    context: SpanContext
    """Its context; always valid."""
    parent: SpanContext | None
    """Its parent; None if it has none, or it is not known."""
    knows_parent: bool
    """Whether it is a recorded span of this process, which knows its parent."""
    library: str
    """Name of the instrumentation that made it."""
    kind: SpanKind | None = None
    """Its kind by its attributes."""


class CallSpans(NamedTuple):
    """The spans of one call."""

    target: SpanContext | None
    """The span that another instrumentation recorded for the call itself."""
    parent: SpanContext | None
    """The span around the call."""


def seen_span() -> SeenSpan | None:
    """Return the current span. None if there is none, or if a span that has ended is still current."""
    # An empty context had nothing attached: no span either.
    span = ambient_span() if ambient_context() else None
    if span is None:
        return None
    parent = attribute_of(span, "parent", _UNKNOWN)
    knows_parent = parent is None or isinstance(parent, SpanContext)
    library = attribute_of(attribute_of(span, "instrumentation_scope"), "name")
    return SeenSpan(
        span.get_span_context(),
        parent if knows_parent else None,
        knows_parent,
        library if isinstance(library, str) else "",
        "workflow" if is_workflow(span) else "retrieval" if is_retrieval(span) else None,
    )


def choose_spans(begin: SeenSpan | None, end: SeenSpan | None, kind: SpanKind = "workflow") -> CallSpans:
    """Return the spans of a call of this kind, from those current at its begin and at its end."""
    seen = begin or end
    if seen is None:
        return CallSpans(None, None)
    for own, around in ((begin, end), (end, begin)):
        if _is_child(own, around):
            return CallSpans(None if own is None else own.context, None if around is None else around.context)
    for marked in (begin, end):
        if marked is not None and marked.kind == kind and marked.library not in _NEVER_END:
            return CallSpans(marked.context, marked.context)
    if seen.library in _NEVER_END and begin != end and seen.parent is not None:
        return CallSpans(None, seen.parent)
    return CallSpans(None, seen.context)


def _is_child(own: SeenSpan | None, around: SeenSpan | None) -> bool:
    if own is None or not own.knows_parent:
        return False
    if around is None:
        return own.parent is None
    return own.parent is not None and (own.parent.trace_id, own.parent.span_id) == (
        around.context.trace_id,
        around.context.span_id,
    )


class CapturedSpans:
    """Spans of the requests that callbacks captured, lest spans capture them again. Lock-free and bounded.

    Nothing is recorded until there is a watcher.
    """

    def __init__(self) -> None:
        self._watched = False
        self._requests: dict[int, tuple[_CapturedSpan, ...]] = {}

    def watch(self) -> None:
        """Start recording requests."""
        self._watched = True

    def note(self, own: SpanContext | None, around: SpanContext | None, started_ns: int) -> None:
        """Record a request that a callback captured and that ends now, by its own span, else by its time."""
        span = own or around
        if not self._watched or span is None:
            return
        one = _CapturedSpan(None if own is None else own.span_id, started_ns, time.time_ns())
        self._requests[span.trace_id] = (*self._requests.get(span.trace_id, ()), one)[-MOST_IN_TRACE:]
        while len(self._requests) > MOST_TRACES:
            for oldest in tuple(self._requests)[: MOST_TRACES // 10]:
                self._requests.pop(oldest, None)

    def covers(self, trace_id: str, span_ids: Collection[str], started_ns: int, ended_ns: int) -> bool:
        """Return whether a callback captured the request of these spans.

        By its span; where the callback did not know it, by its time: within the trace.
        """
        for one in self._requests.get(int(trace_id, 16), ()):
            if one.span_id is not None:
                if f"{one.span_id:016x}" in span_ids:
                    return True
            elif one.started_ns <= ended_ns and started_ns <= one.ended_ns:
                return True
        return False


class _CapturedSpan(NamedTuple):
    span_id: int | None
    started_ns: int
    ended_ns: int


MOST_TRACES = 5_000
MOST_IN_TRACE = 100

captured = CapturedSpans()
"""The requests captured by all callbacks of this process."""
