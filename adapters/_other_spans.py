"""Finds the span that another instrumentation recorded for a request or a retrieval.

Adapters ask at callback time, because only then the span can be seen: as the current
span (OpenTelemetry's GenAI instrumentations, Traceloop), or by run id in OpenInference's
own table, which is looked up only if the application has loaded it.  Spans are
recognised by what they say of themselves.  Nothing here attaches, detaches,
changes or keeps a span: only its `SpanContext` is handed out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any
from uuid import UUID

import opentelemetry.context
from opentelemetry.context import get_current
from opentelemetry.trace import Span, SpanContext, get_current_span

__all__ = [
    "ambient_context",
    "ambient_span",
    "is_retrieval",
    "is_workflow",
    "keeps_spans",
    "openinference_span",
    "span_context",
]

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
"""Traceloop records a retriever as a ``task`` that is told from others by its name only."""

_OPENINFERENCE = "openinference.instrumentation.langchain"


def _context_reader() -> Callable[[], object]:
    """Return the variable's own method where OpenTelemetry keeps its context in one, as it does."""
    variable = getattr(
        getattr(opentelemetry.context, "_RUNTIME_CONTEXT", None), "_current_context", None
    )
    return variable.get if isinstance(variable, ContextVar) else get_current


ambient_context = _context_reader()
"""OpenTelemetry's current context, compared by identity only, at every event: that nothing was
attached since the request began is all it has to tell."""


def ambient_span() -> Span | None:
    """Return the current span, or None if there is none or it has already ended.

    Some instrumentations leave their own ended span current after an asynchronous call; what
    comes next in that context does not belong to it.
    """
    span = get_current_span()
    if not span.get_span_context().is_valid or getattr(span, "end_time", None) is not None:
        return None
    return span


def span_context(span: Span | None) -> SpanContext | None:
    """Return the context of a span, or None."""
    return None if span is None else span.get_span_context()


def is_workflow(span: Span) -> bool:
    """Tell whether an instrumentation recorded a whole request, chain or agent as `span`."""
    return _marked(span, _WORKFLOW_MARKS)


def is_retrieval(span: Span) -> bool:
    """Tell whether an instrumentation recorded a retrieval as `span`."""
    if _marked(span, _RETRIEVAL_MARKS):
        return True
    attributes = _attributes(span)
    if attributes.get("traceloop.span.kind") != "task":
        return False
    name = str(attributes.get("traceloop.entity.name", "")).lower()
    return any(mark in name for mark in _RETRIEVAL_TASKS)


def keeps_spans() -> bool:
    """Tell whether OpenInference's instrumentation, which keeps spans by run, has been loaded."""
    return _OPENINFERENCE in sys.modules


def openinference_span(run_id: UUID) -> SpanContext | None:
    """Return the span OpenInference keeps for a LangChain run, if it is instrumenting."""
    module = sys.modules.get(_OPENINFERENCE)
    if module is None:
        return None
    instrumentor = module.LangChainInstrumentor()
    if getattr(instrumentor, "_tracer", None) is None:
        return None
    return span_context(instrumentor.get_span(run_id))


def _marked(span: Span, marks: Mapping[str, frozenset[str]]) -> bool:
    attributes = _attributes(span)
    return any(attributes.get(key) in values for key, values in marks.items())


def _attributes(span: Span) -> Mapping[str, Any]:
    attributes = getattr(span, "attributes", None)
    return attributes if isinstance(attributes, Mapping) else {}
