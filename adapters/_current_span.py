"""Which OpenTelemetry span is the request, told from what was current when it began and ended.

Another instrumentation may make its own span for a call current.  If it was attached
before us, that span is current when we see the call begin and gone when we see it end; if
after us, the other way round.  So both are taken, and of the two the one whose parent is the
other is the call's own.  Nothing here attaches or detaches a context.
"""

from __future__ import annotations

from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext

from ._other_spans import ambient_context

__all__ = ["CallSpans", "SeenSpan", "choose_spans", "seen_span"]


_NEVER_END = frozenset({"opentelemetry.instrumentation.llamaindex"})
"""Leave spans open, and current, after errors and streams; what hangs on them hangs in the air."""


class SeenSpan(NamedTuple):
    """A span that was current, without the span itself."""

    context: SpanContext
    """Its context; always valid."""
    parent: SpanContext | None
    """Its parent; None: it has none, or does not tell."""
    tells_parent: bool
    """Whether it is a recorded span of this process, which knows its parent."""
    library: str
    """Name of the instrumentation that made it."""


class CallSpans(NamedTuple):
    """The spans of one call."""

    target: SpanContext | None
    """The span that another instrumentation recorded for the call itself."""
    parent: SpanContext | None
    """The span around the call."""


def seen_span() -> SeenSpan | None:
    """Note the span that is current here. None: there is none, or it has ended and was left behind."""
    if not ambient_context():  # nothing was ever attached to an empty context: no span either
        return None
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN:
        return None
    return _note(span)


def _note(span: Span) -> SeenSpan | None:
    context = span.get_span_context()
    if not context.is_valid or getattr(span, "end_time", None) is not None:
        return None
    parent = getattr(span, "parent", None)
    scope = getattr(span, "instrumentation_scope", None)
    return SeenSpan(
        context,
        parent,
        hasattr(span, "parent"),
        str(getattr(scope, "name", "")),
    )


def choose_spans(begin: SeenSpan | None, end: SeenSpan | None) -> CallSpans:
    """Choose the call's own span among what was current at its begin and at its end."""
    for own, around in ((begin, end), (end, begin)):
        if _is_child(own, around):
            return CallSpans(
                None if own is None else own.context, None if around is None else around.context
            )
    seen = begin or end
    if seen is None:
        return CallSpans(None, None)
    if seen.library in _NEVER_END and begin != end and seen.parent is not None:
        return CallSpans(None, seen.parent)
    return CallSpans(None, seen.context)


def _is_child(own: SeenSpan | None, around: SeenSpan | None) -> bool:
    if own is None or not own.tells_parent:
        return False
    if around is None:
        return own.parent is None
    return own.parent is not None and (own.parent.trace_id, own.parent.span_id) == (
        around.context.trace_id,
        around.context.span_id,
    )
