"""The conventions of RAG requests' spans: one reader each, chosen by the span itself."""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.adapters.opentelemetry.record import UNREAD, SpanRecord

from ._any import AnySpan, OneSpan, is_indexing, is_writing
from ._genai import GenAI, PydanticAI, VercelAI
from ._haystack import Haystack
from ._kinds import KindReader
from ._messages import holds_content, holds_messages, with_logs
from ._openinference import OpenInference
from ._openllmetry import OpenLLMetry
from ._own_shapes import hits_in, whole_request_in
from ._reader import Documents, Missing, Reader, Role

__all__ = [
    "ANY_SPAN",
    "ONE_SPAN",
    "READERS",
    "AnySpan",
    "Documents",
    "Missing",
    "Reader",
    "Role",
    "hits_in",
    "holds_content",
    "holds_messages",
    "is_indexing",
    "is_writing",
    "reading",
    "whole_request_in",
    "with_logs",
]

ANY_SPAN = AnySpan()
"""Reads spans of no known convention."""
ONE_SPAN = OneSpan()
"""Reads spans that have a whole request each."""

READERS: Sequence[Reader] = (
    OpenInference(),
    OpenLLMetry(),
    KindReader(
        "langfuse",
        "langfuse.observation.type",
        "langfuse.observation.input",
        "langfuse.observation.output",
        "let the handler record inputs and outputs, and take its mask away",
        "langfuse.observation.metadata.instructions",
    ),
    KindReader(
        "mlflow",
        "mlflow.spanType",
        "mlflow.spanInputs",
        "mlflow.spanOutputs",
        "let mlflow record inputs and outputs",
    ),
    KindReader(
        "langsmith",
        "langsmith.span.kind",
        "gen_ai.prompt",
        "gen_ai.completion",
        "take LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS out of the environment",
    ),
    Haystack(),
    PydanticAI(),
    VercelAI(),
    GenAI(),
    ANY_SPAN,
)
"""In the order in which they are tried; only the first that recognises a span reads it."""


def reading(span: SpanRecord) -> tuple[Reader, Role] | None:
    """Return the reader of the span and the span's role; None if it belongs to no known convention."""
    if span.reading is UNREAD:
        span.reading = None
        for reader in READERS:
            role = reader.role(span)
            if role is not None:
                span.reading = reader, role
                break
    known: tuple[Reader, Role] | None = span.reading
    return known
