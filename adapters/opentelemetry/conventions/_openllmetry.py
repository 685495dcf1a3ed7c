"""OpenLLMetry (Traceloop): ``traceloop.span.kind``, input and output as JSON in one attribute each.

A retriever is a ``task`` like any other step; it is recognised by its name, or by documents in its output
without any in its input. Every text is on the span twice; one is read.
"""

from __future__ import annotations

import re
from typing import Any

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.documents import Document, documents_in
from ragmeter.adapters.reading.values import mapping_of, opened

from ._messages import said_in, sent_in
from ._reader import Documents, Reader, Role, rows_under

_KIND = "traceloop.span.kind"
_REQUEST = "llm.request.type"
_RETRIEVER = re.compile(r"(?:.*[a-z])?retriever|.*Retriever|vectorstore", re.IGNORECASE)
_RETRIEVES = re.compile(r"retriev|similarity_search", re.IGNORECASE)
_MORE = re.compile(r"engine|chain|agent|answer|generate|generation", re.IGNORECASE)
"""Functions that do more than retrieve."""
_RERANKER = re.compile(r".*(?:Rerank\w*|PostProcessor|Postprocessor)")
_RANKED = re.compile(r"Doc (\d{1,6}), Score: (-?[\d.]+(?:e-?\d+)?)")


class OpenLLMetry(Reader):
    """Reads OpenLLMetry's spans."""

    name = "openllmetry"
    switch = "set TRACELOOP_TRACE_CONTENT=true"
    input_key = "traceloop.entity.input"
    output_key = "traceloop.entity.output"

    def role(self, span: SpanRecord) -> Role | None:
        attributes = span.attributes
        kind = attributes.get(_KIND)
        if kind is None:
            return "rerank" if attributes.get(_REQUEST) == "rerank" else None
        operation = attributes.get("gen_ai.operation.name")
        if operation == "vector_db_retrieve":
            return "retrieval"
        if operation == "rerank":
            return "rerank"
        if kind == "tool":
            return "tool"
        name = str(attributes.get("traceloop.entity.name", span.name)).removesuffix(".task")
        if kind == "task" and operation is None:
            # LlamaIndex's: its other steps have nodes as input, or texts as output.
            if _RETRIEVER.fullmatch(name) or self._retrieves(span, name):
                return "retrieval"
            if "gen_ai.output.messages" in attributes:
                return "model"
            return self._by_nodes(span, name)
        return "step" if kind in ("workflow", "task", "agent") else "other"

    def _retrieves(self, span: SpanRecord, name: str) -> bool:
        """Return whether a function of the application's, traced as a task, is a retrieval by its name."""
        if _RETRIEVES.search(name) is None or _MORE.search(name) is not None:
            return False
        return documents_in(span.attributes.get(self.output_key)) is not None

    def _by_nodes(self, span: SpanRecord, name: str) -> Role:
        output = span.attributes.get(self.output_key)
        if isinstance(output, str) and '\\"node\\"' in output[:200]:
            return "rerank" if "nodes" in mapping_of(span.attributes.get(self.input_key)) else "retrieval"
        return "rerank" if output is None and _RERANKER.fullmatch(name) else "step"

    def documents(self, span: SpanRecord) -> Documents:
        if _REQUEST not in span.attributes:
            return super().documents(span)
        given = self.reranked(span)
        rows = rows_under(span.attributes, "gen_ai.completion.").values()
        ranked = [match for row in rows if (match := _RANKED.fullmatch(str(row.get("content"))))]
        kept = [
            given[int(match[1])]._replace(score=float(match[2]))
            for match in ranked
            if int(match[1]) < len(given)
        ]
        return Documents(tuple(kept), None if kept else "rerank_invisible")

    def reranked(self, span: SpanRecord) -> tuple[Document, ...]:
        # A reranker's documents and query are on its span as messages.
        given = tuple(Document(text) for role, text in sent_in(span) if role == "system")
        return given or super().reranked(span)

    def tool_name(self, span: SpanRecord) -> str:
        named = span.attributes.get("gen_ai.tool.name", span.attributes.get("traceloop.entity.name"))
        return str(named or span.name).removesuffix(".tool")

    def result(self, span: SpanRecord) -> Any:
        value = opened(span.attributes.get(self.output_key))
        return value["output"] if isinstance(value, dict) and "output" in value else value

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        return sent_in(span)

    def said(self, span: SpanRecord) -> str | None:
        return said_in(span)
