"""Conventions whose spans have their kind, their input and their output in one attribute each."""

from __future__ import annotations

from collections.abc import Mapping

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.values import opened

from ._reader import Reader, Role

_ROLES: Mapping[str, Role] = {
    "agent": "step",
    "chain": "step",
    "chat_model": "model",
    "evaluator": "evaluation",
    "generation": "model",
    "llm": "model",
    "reranker": "rerank",
    "retriever": "retrieval",
    "span": "step",
    "task": "step",
    "tool": "tool",
    "unknown": "step",
    "workflow": "step",
}


def role_of_kind(kind: object) -> Role | None:
    """Return the role of a span of this kind; None if it has none."""
    return _ROLES.get(kind.lower(), "other") if isinstance(kind, str) else None


class KindReader(Reader):
    """Reads the spans of such a convention; where every attribute is JSON, texts are, too."""

    def __init__(
        self, name: str, kind_key: str, input_key: str, output_key: str, switch: str, system_key: str = ""
    ) -> None:
        self.name = name
        self.input_key = input_key
        self.output_key = output_key
        self.switch = switch
        self._kind_key = kind_key
        self._system_key = system_key
        """The attribute with a model's instructions, if they are not in the input."""

    def role(self, span: SpanRecord) -> Role | None:
        return role_of_kind(opened(span.attributes.get(self._kind_key)))

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        system = span.attributes.get(self._system_key)
        sent = super().prompt(span)
        return [("system", system), *sent] if isinstance(system, str) and system else sent
