"""Access to OpenTelemetry's SDK: spans and log records → records; the processors of a provider.

The SDK is not imported: it belongs to the application.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from inspect import signature
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode

from ragmeter.exporters._foreign import attribute_of
from ragmeter.metrics import ConfigurationError

from .conventions import holds_messages
from .record import LogNote, SpanNote, SpanRecord

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
        attributes=_plain_attributes(span.attributes),
        events=tuple(
            [SpanNote(event.name, _plain_attributes(event.attributes)) for event in span.events or ()]
        ),
        failed=status is not None and status.status_code is StatusCode.ERROR,
        dropped=getattr(span, "dropped_attributes", 0) or 0,
        is_linked=any(link.context.trace_id != context.trace_id for link in span.links or ()),
        scope="" if scope is None else scope.name,
        sampled=context.trace_flags.sampled,
    )


def note_of(emitted: Any) -> LogNote | None:
    """Return a log record with a model's input or reply; None for any other."""
    record = emitted.log_record
    if not record.trace_id or not record.span_id:
        return None
    scope = emitted.instrumentation_scope
    note = LogNote(
        trace_id=f"{record.trace_id:032x}",
        span_id=f"{record.span_id:016x}",
        event=getattr(record, "event_name", None) or "",
        body=record.body,
        attributes=_plain_attributes(record.attributes),
        scope="" if scope is None else scope.name,
    )
    return note if holds_messages(note) else None


def join(processor: Any, provider: Any, former: Collection[Any] = ()) -> None:
    """Put `processor` before the others of `provider`, in place of those in `former`.

    Raises:
        ConfigurationError: `provider` accepts no processors.
    """
    # In the SDK's own attribute. A provider's own `add_span_processor` may do more: Phoenix's
    # removes and shuts down the processor that exports.
    if _put_first(processor, _line_of(provider), "_span_processors", former):
        return
    add = attribute_of(provider, "add_span_processor")
    if callable(add):
        # Behind a wrapper that hides it, the parameter that replaces others is set to False.
        add(processor, **{name: False for name in _parameters(add) if name.startswith("replace")})
    elif os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true":
        kind = type(provider)
        raise ConfigurationError(
            f"{kind.__module__}.{kind.__qualname__} takes no span processors: attach after the application "
            "has set its SDK's provider, or pass that provider; where there is none, or no span comes to it, "
            "as MLflow's, use a callback handler or instrument(), or have them sent to `ragmeter serve`"
        )


def processors_of(provider: Any) -> Iterable[Any]:
    """Return the processors of an SDK's provider; none of one that hides them."""
    found = attribute_of(_line_of(provider), "_span_processors")
    return found if isinstance(found, (tuple, list)) else ()


def _line_of(provider: Any) -> Any:
    """Return what holds the processors of an SDK's provider, or of one around it, as Logfire's."""
    name = "_active_span_processor"
    found = attribute_of(provider, name)
    return attribute_of(attribute_of(provider, "provider"), name) if found is None else found


def join_logs(processor: Any, provider: Any, former: Collection[Any] = ()) -> bool:
    """Put `processor` before the others of a provider of loggers, if it is an SDK's, in place of `former`."""
    line = attribute_of(provider, "_multi_log_record_processor")
    return _put_first(processor, line, "_log_record_processors", former)


def _put_first(processor: Any, line: Any, name: str, former: Collection[Any]) -> bool:
    """Put `processor` first in an SDK's private sequence of processors; return whether there is one."""
    if not isinstance(attribute_of(line, name), (tuple, list)):
        return False
    with attribute_of(line, "_lock") or nullcontext():
        others = attribute_of(line, name)
        left = [processor, *former]
        kept = [each for each in others if not any(each is one for one in left)]
        setattr(line, name, type(others)([processor, *kept]))
    return True


def _parameters(function: Any) -> Iterable[str]:
    try:
        return signature(function).parameters
    except (TypeError, ValueError):  # of C code
        return ()


def _plain_attributes(attributes: Any) -> Mapping[str, Any]:
    """Return a plain dictionary of a span's attributes: their own class returns them one by one."""
    try:
        copied = attributes.copy()
    except AttributeError:
        copied = attributes or {}
    return copied if type(copied) is dict else dict(copied)
