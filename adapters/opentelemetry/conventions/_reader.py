"""The interface of a convention's reader of one span, and the code that all readers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.documents import Document, documents_in
from ragmeter.adapters.reading.literals import literal_in
from ragmeter.adapters.reading.messages import messages_in, refuses
from ragmeter.adapters.reading.request_texts import answer_in, query_in, question_in
from ragmeter.adapters.reading.values import is_broken, is_hidden

Role = Literal["step", "retrieval", "rerank", "join", "model", "tool", "evaluation", "other"]
"""The role of a span.

``step``: a chain, agent, workflow or pipeline, or a part of one; the outermost is the request.
``retrieval``: a retriever's call. ``rerank``: documents in, fewer or reordered ones out. ``join``: the same
by a step not marked as a reranking: it counts only after a retrieval. ``model``: a model's call.
``tool``: a tool's call, a retrieval if the user declares it.
``evaluation``: a judgement by a person or a judge.
"""

Missing = Literal[
    "content_off",
    "redacted",
    "truncated",
    "convention_has_no_text",
    "content_in_logs",
    "rerank_invisible",
    "unreadable_result",
]
"""The reason why a span does not contain its documents."""


class Documents(NamedTuple):
    """The documents of a retrieval, as far as its span contains them."""

    items: tuple[Document, ...] = ()
    """The documents, in rank order."""
    missing: Missing | None = None
    """The reason why they are incomplete, or None."""


class Reader(ABC):
    """Reads the spans of one convention. Every method takes any span and must not raise."""

    name: str
    """The convention's name."""
    switch: str = ""
    """The setting that turns its texts on."""
    input_key: str = ""
    """The attribute with the input of a step."""
    output_key: str = ""
    """The attribute with its output."""

    @abstractmethod
    def role(self, span: SpanRecord) -> Role | None:
        """Return the role of the span; None if this convention does not describe it."""

    def tool_name(self, span: SpanRecord) -> str:
        """Return the name of the tool that was called."""
        return span.name

    def question(self, span: SpanRecord) -> str | None:
        """Return the question of a request."""
        return question_in(span.attributes.get(self.input_key))

    def query(self, span: SpanRecord) -> str | None:
        """Return the query of a retriever or tool."""
        return query_in(span.attributes.get(self.input_key))

    def answer(self, span: SpanRecord) -> str | None:
        """Return the answer of a request."""
        return answer_in(span.attributes.get(self.output_key))

    def answer_beside(self, span: SpanRecord) -> str | None:
        """Return the answer on a span that also has the documents: a whole request in one span."""
        del span
        return None

    def documents(self, span: SpanRecord) -> Documents:
        """Return the output documents of a retrieval or a reranking."""
        # A retriever that found nothing reports so; one without an output may have found documents.
        absent: Missing | None = None if self.input_key in span.attributes else "content_off"
        return reported_documents(span, span.attributes.get(self.output_key), absent)

    def reranked(self, span: SpanRecord) -> tuple[Document, ...]:
        """Return the input documents of a reranking; empty if the span does not show them."""
        return documents_in(span.attributes.get(self.input_key)) or ()

    def input_text(self, span: SpanRecord) -> str:
        """Return the input of a step, as written on the span."""
        return str(span.attributes.get(self.input_key, ""))

    def result(self, span: SpanRecord) -> Any:
        """Return the output of a tool; None if its span does not show it."""
        return span.attributes.get(self.output_key)

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        """Return role and text of each message sent to a model."""
        value = span.attributes.get(self.input_key)
        sent = messages_in(value)
        text = None if sent else question_in(value)
        return sent if text is None else [("user", text)]

    def said(self, span: SpanRecord) -> str | None:
        """Return the reply of a model."""
        return self.answer(span)

    def refuses(self, span: SpanRecord) -> bool:
        """Return whether a model's or request's span reports a refusal or filtering by the provider."""
        return refuses(span.attributes, self.output_key)

    def variables(self, span: SpanRecord) -> Mapping[str, Any]:
        """Return the variables of a model's prompt, if the span has them."""
        del span
        return {}

    def hides(self, span: SpanRecord, side: Literal["input", "output"]) -> bool:
        """Return whether the user had the input, or the output, replaced."""
        return is_hidden(span.attributes.get(self.input_key if side == "input" else self.output_key))


@lru_cache(maxsize=4096)
def _place(key: str, start: int) -> tuple[int, str] | None:
    """Return row and field of a name. The same names come with every request."""
    number, _, field = key[start:].partition(".")
    return (int(number), field) if number.isdecimal() and len(number) < 10 else None


def rows_under(fields: Mapping[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """Return the values flattened under a prefix, by number: ``<prefix>0.a`` is ``a`` of row 0."""
    rows: dict[int, dict[str, Any]] = {}
    start = len(prefix)
    for key, value in fields.items():
        if key.startswith(prefix) and (place := _place(key, start)) is not None:
            row = rows.get(place[0])
            if row is None:
                row = rows[place[0]] = {}
            row[place[1]] = value
    return dict(sorted(rows.items()))


def reported_documents(
    span: SpanRecord, value: Any, absent: Missing | None, unread: Missing | None = None
) -> Documents:
    """Return the documents in a span's output.

    Args:
        span: The span.
        value: The output; None if the span has none.
        absent: The reason for that, if the span neither failed nor lost attributes.
        unread: The reason why an output has no documents; None: nothing was found.
    """
    if value is None:
        dropped: Missing | None = "truncated" if span.dropped else absent
        return Documents() if span.failed else Documents(missing=dropped)
    if is_hidden(value):
        return Documents(missing="redacted")
    found = documents_in(literal_in(value))
    if found is None:
        return Documents(missing="truncated" if is_broken(value) else unread)
    return Documents(found, "redacted" if any(item.hidden for item in found) else None)
