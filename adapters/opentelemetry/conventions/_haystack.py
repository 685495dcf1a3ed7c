"""Haystack's own tracer: ``haystack.pipeline.run`` around ``haystack.component.run``.

All components have one span name; their function follows from the component's type and from its declared
inputs and outputs, which the span has even without content.
"""

from __future__ import annotations

import re
from typing import Any

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.documents import Document
from ragmeter.adapters.reading.request_texts import answer_in, query_in, question_in
from ragmeter.adapters.reading.values import mapping_of

from ._reader import Documents, Reader, Role

_PIPELINE = re.compile(r"haystack\.(?:async_)?pipeline\.run")
_FIELDS = frozenset({"id", "content", "score", "blob", "embedding", "sparse_embedding", "dataframe", "meta"})
_MAKERS = re.compile(r".*(?:Joiner|Converter|Splitter|Cleaner|Writer|Fetcher|Embedder|Preprocessor)")


class Haystack(Reader):
    """Reads the spans of Haystack's tracer."""

    name = "haystack"
    switch = "set HAYSTACK_CONTENT_TRACING_ENABLED=true"
    input_key = "haystack.component.input"
    output_key = "haystack.component.output"

    def role(self, span: SpanRecord) -> Role | None:
        attributes = span.attributes
        kind = attributes.get("haystack.component.type")
        if not isinstance(kind, str):
            if "haystack.pipeline.input_data" in attributes or _PIPELINE.fullmatch(span.name):
                return "step"
            return None
        if kind.endswith("Retriever"):
            return "retrieval"
        if kind.endswith("Ranker"):
            return "rerank"
        if "Generator" in kind or kind in ("LLM", "Agent"):
            return "model" if kind != "Agent" else "step"
        if kind == "ToolInvoker":
            return "tool"
        gives = "documents" in mapping_of(attributes.get("haystack.component.output_spec"))
        if not gives or _MAKERS.fullmatch(kind):
            return "other"
        given = mapping_of(attributes.get("haystack.component.input_types"))
        if "documents" in given:
            return "join"
        return "retrieval" if any("query" in key for key in given) else "other"

    def question(self, span: SpanRecord) -> str | None:
        inputs = mapping_of(span.attributes.get("haystack.pipeline.input_data"))
        return super().question(span) or question_in(inputs) or (query_in(inputs) if inputs else None)

    def answer(self, span: SpanRecord) -> str | None:
        value = span.attributes.get("haystack.pipeline.output_data")
        return super().answer(span) if value is None else answer_in(value)

    def documents(self, span: SpanRecord) -> Documents:
        found = super().documents(span)
        raw = mapping_of(span.attributes.get(self.output_key)).get("documents")
        if not isinstance(raw, list) or len(raw) != len(found.items):
            return found
        # Flattened: the store's metadata is beside the document's own fields.
        return Documents(tuple(map(_with_metadata, found.items, raw)), found.missing)


def _with_metadata(item: Document, raw: Any) -> Document:
    if not isinstance(raw, dict):
        return item
    beside = {key: value for key, value in raw.items() if key not in _FIELDS}
    return item._replace(metadata={**item.metadata, **beside})
