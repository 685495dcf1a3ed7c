"""What applications write on a span of their own: passages as events, a whole request as JSON."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ragmeter.adapters.opentelemetry.record import UNREAD, SpanRecord
from ragmeter.adapters.reading.documents import Document, documents_in
from ragmeter.adapters.reading.fields import FIELD_NAMES
from ragmeter.adapters.reading.literals import literal_in
from ragmeter.adapters.reading.request_texts import answer_in, question_in
from ragmeter.adapters.reading.results import ANY_TOOL, cut, reads_as_retrieved
from ragmeter.adapters.reading.values import mapping_of, opened

DOCUMENTS = frozenset(
    ("document", "documents", "docs", "context", "contexts", "chunks", "hits", "passages", "nodes", "matches")
)
"""Names of attributes and fields with documents; others end with one of them."""
_LOGS = re.compile(r"log|exception|error|message|warn|debug", re.IGNORECASE)


class WholeRequest(NamedTuple):
    """A request of which one span has question, documents and answer."""

    question: str
    documents: tuple[Document, ...]
    answer: str


def hits_in(span: SpanRecord) -> list[dict[str, Any]]:
    """Return the rows that a span has as events, one for each passage."""
    if span.rows is UNREAD:
        span.rows = _rows_in(span) if span.events else []
    rows: list[dict[str, Any]] = span.rows
    return rows


def _rows_in(span: SpanRecord) -> list[dict[str, Any]]:
    named: dict[str, list[dict[str, Any]]] = {}
    for event in span.events:
        row = {key.rpartition(".")[2]: literal_in(opened(value)) for key, value in event.attributes.items()}
        named.setdefault(event.kind, []).append(row)
    for name, rows in named.items():
        if name.endswith("query.result") and any(rows):
            return rows
        if not name.startswith("gen_ai.") and _LOGS.search(name) is None and _are_passages(rows):
            return rows
    return []


def _are_passages(rows: list[dict[str, Any]]) -> bool:
    found = cut(rows, ANY_TOOL) or ()
    return len(found) == len(rows) and reads_as_retrieved(found) is not None


def whole_request_in(span: SpanRecord) -> WholeRequest | None:
    """Return the request in the mappings on a span and its events; None unless all three parts are there."""
    homes = [event.attributes for event in span.events]
    homes += filter(None, (mapping_of(value) for home in (span.attributes, *homes) for value in home.values()))
    homes += filter(None, (mapping_of(value) for home in homes for value in home.values()))
    fields: dict[str, Any] = {}
    for home in homes:
        fields = {**{key: opened(value) for key, value in home.items()}, **fields}
    rows = [value for key, value in fields.items() if isinstance(value, list) and _are_documents(key, value)]
    documents = documents_in(rows[0]) if len(rows) == 1 else None
    if not documents or not all(item.text for item in documents) or not reads_as_retrieved(documents):
        return None
    question = question_in(fields)
    answer = next((answer_in(fields[key]) for key in FIELD_NAMES["answer"] if key in fields), None)
    if question is None or answer is None or answer == question:
        return None
    return WholeRequest(question, documents, answer)


def _are_documents(key: str, rows: list[Any]) -> bool:
    """Return whether a list is named as one of documents, or has rows with more than a text."""
    if key.lower().endswith(tuple(DOCUMENTS)):
        return True
    return all(isinstance(row, dict) and len(row) > 1 for row in rows) and bool(documents_in(rows))
