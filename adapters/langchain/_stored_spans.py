"""Finds spans that handlers of other instrumentations store by run, often without making them current.

OpenInference, OpenLLMetry and OpenLIT wrap `BaseCallbackManager.__init__` to add theirs to every call;
Langfuse's and LangWatch's stand in a request's own configuration. Asynchronous calls run such handlers in other
contexts, so that what they make current is not seen. Nothing is changed, and only a span's context is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager
from opentelemetry.trace import Span, SpanContext

from ragmeter.exporters._foreign import attribute_of

_HOLDERS = ("_callback_handler", "_tracer")
"""Names under which the wrappers hold their handler."""
_TABLES = ("spans", "_runs", "runs")
_SPANS = ("span", "_otel_span", "_span")
"""Names under which the values of tables hold their span, if they are not the span."""
_MOST_WRAPPERS = 20

Find = Callable[[UUID], Any]


def tables_of_all() -> tuple[Find, ...]:
    """Return the look-ups in the tables of handlers that every call has now."""
    handlers, method = list[object](), vars(BaseCallbackManager).get("__init__")
    for _ in range(_MOST_WRAPPERS):
        if method is None:
            break
        if (wrapper := attribute_of(method, "_self_wrapper")) is not None:
            handlers += [attribute_of(wrapper, name) for name in _HOLDERS]
        method = attribute_of(method, "__wrapped__")
    return tables_of(handlers)


def tables_of(handlers: Iterable[object]) -> tuple[Find, ...]:
    """Return the look-ups in the tables of handlers."""
    found: list[Find] = []
    for handler in handlers:
        find = attribute_of(handler, "get_span")
        if callable(find):
            found.append(find)
        tables = (attribute_of(handler, name) for name in _TABLES)
        found += [partial(_find, table) for table in tables if isinstance(table, dict)]
    return tuple(found)


def stored_span(run_id: UUID, tables: Iterable[Find]) -> SpanContext | None:
    """Return the context of the span that one of the tables has for a run, or None."""
    for find in tables:
        held = find(run_id)
        for span in (held, *(attribute_of(held, name) for name in _SPANS)):
            # MLflow's may be None.
            context: SpanContext | None = span.get_span_context() if isinstance(span, Span) else None
            if context is not None and context.is_valid:
                return context
    return None


def _find(table: dict[Any, object], run_id: UUID) -> object:
    return table.get(run_id) or table.get(str(run_id))  # LangWatch's keys are texts
