"""Finds spans that other instrumentations of LangChain store by run: OpenInference, OpenLLMetry, OpenLIT, ...

They wrap `BaseCallbackManager.__init__` to add a handler to every call, which holds each run's span in a table,
often without making it current. Adapters look there during callbacks; nothing is changed, and only the span's
context is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager
from opentelemetry.trace import Span, SpanContext

from ragmeter.exporters._foreign import attribute_of

_HOLDERS = ("_callback_handler", "_tracer")
"""Names under which the wrappers hold their handler."""
_MOST_WRAPPERS = 20

Find = Callable[[UUID], Any]

_seen: list[tuple[object, tuple[Find, ...]]] = [(None, ())]
"""The method as it was last seen, and the tables of its wrappers."""


def tables() -> tuple[Find, ...]:
    """Return the look-ups of the instrumentations that are attached now."""
    method = vars(BaseCallbackManager).get("__init__")
    known, found = _seen[0]
    if known is not method:
        found = tuple(_tables_behind(method))
        _seen[0] = method, found
    return found


def stored_span(run_id: UUID) -> SpanContext | None:
    """Return the context of the span that an instrumentation stores for a run, or None."""
    for find in tables():
        held = find(run_id)
        span = attribute_of(held, "span", held)
        context = span.get_span_context() if isinstance(span, Span) else None
        if context is not None and context.is_valid:
            return context
    return None


def _tables_behind(method: object) -> Iterator[Find]:
    for _ in range(_MOST_WRAPPERS):
        wrapper = attribute_of(method, "_self_wrapper")
        for name in _HOLDERS:
            handler = attribute_of(wrapper, name)
            find = attribute_of(handler, "get_span") or attribute_of(attribute_of(handler, "spans"), "get")
            if callable(find):
                yield find
        method = attribute_of(method, "__wrapped__")
