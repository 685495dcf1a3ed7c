"""Langfuse's SDK: ``langfuse.observation.type``, input and output as text or JSON in one attribute each."""

from __future__ import annotations

from collections.abc import Mapping

from ragmeter.adapters.opentelemetry.record import SpanRecord

from ._reader import Reader, Role

__all__ = ["Langfuse"]

_ROLES: Mapping[str, Role] = {
    "chain": "step",
    "agent": "step",
    "span": "step",
    "retriever": "retrieval",
    "generation": "model",
    "tool": "tool",
    "evaluator": "evaluation",
}


class Langfuse(Reader):
    """Reads the spans of Langfuse's SDK."""

    name = "langfuse"
    switch = "let the handler record inputs and outputs, and take its mask away"
    input_key = "langfuse.observation.input"
    output_key = "langfuse.observation.output"

    def role(self, span: SpanRecord) -> Role | None:
        """See `Reader.role`."""
        kind = span.attributes.get("langfuse.observation.type")
        return _ROLES.get(kind.lower(), "other") if isinstance(kind, str) else None
