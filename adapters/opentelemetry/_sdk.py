"""An ended span of an OpenTelemetry SDK → a record. The SDK is not imported: it belongs to the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode

from .record import SpanNote, SpanRecord

__all__ = ["record_of"]

_KINDS = {kind: kind.name.lower() for kind in SpanKind}


def record_of(span: Any) -> SpanRecord:
    """Return the record of a ``ReadableSpan``: a copy, so this is not for the request's path."""
    context = span.context
    parent = span.parent
    scope = span.instrumentation_scope
    status = span.status
    return SpanRecord(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=None if parent is None else f"{parent.span_id:016x}",
        parent_is_remote=parent is not None and parent.is_remote,
        name=span.name,
        kind=_KINDS.get(span.kind, "internal"),
        started_ns=span.start_time or 0,
        ended_ns=span.end_time or 0,
        attributes=_copied(span.attributes),
        events=tuple(
            [SpanNote(event.name, _copied(event.attributes)) for event in span.events or ()]
        ),
        failed=status is not None and status.status_code is StatusCode.ERROR,
        dropped=getattr(span, "dropped_attributes", 0) or 0,
        scope="" if scope is None else scope.name,
        sampled=context.trace_flags.sampled,
    )


def _copied(attributes: Any) -> Mapping[str, Any]:
    """Return a plain dictionary of a span's attributes: their own class hands them out one by one."""
    try:
        copied = attributes.copy()
    except AttributeError:
        copied = attributes or {}
    return copied if type(copied) is dict else dict(copied)
