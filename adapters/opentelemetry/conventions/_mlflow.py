"""MLflow: ``mlflow.spanType``; every attribute is JSON, strings too."""

from __future__ import annotations

from collections.abc import Mapping

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.values import answer_in, opened, query_in, question_in

from ._reader import Reader, Role

__all__ = ["MLflow"]

_ROLES: Mapping[str, Role] = {
    "CHAIN": "step",
    "AGENT": "step",
    "WORKFLOW": "step",
    "TASK": "step",
    "UNKNOWN": "step",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "CHAT_MODEL": "model",
    "LLM": "model",
    "TOOL": "tool",
    "EVALUATOR": "evaluation",
}


class MLflow(Reader):
    """Reads MLflow's spans."""

    name = "mlflow"
    switch = "let mlflow record inputs and outputs"
    input_key = "mlflow.spanInputs"
    output_key = "mlflow.spanOutputs"

    def role(self, span: SpanRecord) -> Role | None:
        """See `Reader.role`."""
        kind = opened(span.attributes.get("mlflow.spanType"))
        return _ROLES.get(kind.upper(), "other") if isinstance(kind, str) else None

    def question(self, span: SpanRecord) -> str | None:
        """See `Reader.question`."""
        return question_in(opened(span.attributes.get(self.input_key)))

    def query(self, span: SpanRecord) -> str | None:
        """See `Reader.query`."""
        return query_in(opened(span.attributes.get(self.input_key)))

    def answer(self, span: SpanRecord) -> str | None:
        """See `Reader.answer`."""
        return answer_in(opened(span.attributes.get(self.output_key)))

    def result(self, span: SpanRecord) -> object:
        """See `Reader.result`."""
        return opened(span.attributes.get(self.output_key))
