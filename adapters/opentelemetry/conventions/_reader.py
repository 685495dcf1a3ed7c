"""What a reader of a convention answers about one span, and the few things all readers do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.values import (
    Document,
    answer_in,
    documents_in,
    is_broken,
    is_hidden,
    messages_in,
    query_in,
    question_in,
    refuses,
)

Role = Literal["step", "retrieval", "rerank", "join", "model", "tool", "evaluation", "other"]
"""What a span is about.

``step``: a chain, agent, workflow or pipeline, or a part of one; the outermost is the request.
``retrieval``: a retriever's call. ``rerank``: documents in, fewer or reordered ones out. ``join``: the same
by a step that does not say so of itself: it counts only after a retrieval. ``model``: a model's call.
``tool``: a tool's call, a retrieval if the user says so. ``evaluation``: a judgement by a person or a judge.
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
"""Why a span does not hold its documents."""


class Documents(NamedTuple):
    """The documents of a retrieval, as far as its span holds them."""

    items: tuple[Document, ...] = ()
    """The documents, in rank order."""
    missing: Missing | None = None
    """Why they are not all there; None: they are."""


class Reader(ABC):
    """Reads the spans of one convention. Every method takes any span and must not raise."""

    name: str
    """The convention's name."""
    switch: str = ""
    """What turns its texts on where they are off."""
    input_key: str = ""
    """The attribute with what a step was called with."""
    output_key: str = ""
    """The attribute with what it gave back."""

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
        """Return the answer on a span that has its documents, too: all of a request in one."""
        del span
        return None

    def documents(self, span: SpanRecord) -> Documents:
        """Return the documents that a retrieval or a reranking gave back."""
        # A retriever that found nothing says so; one that says nothing may not.
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
        """Return role and text of each message that a model was sent."""
        value = span.attributes.get(self.input_key)
        sent = messages_in(value)
        text = None if sent else question_in(value)
        return sent if text is None else [("user", text)]

    def said(self, span: SpanRecord) -> str | None:
        """Return the reply of a model."""
        return self.answer(span)

    def refuses(self, span: SpanRecord) -> bool:
        """Return whether a model, or a request, says that the provider refused or filtered the answer."""
        return refuses(span.attributes, self.output_key)

    def variables(self, span: SpanRecord) -> Mapping[str, Any]:
        """Return the variables of the prompt that a model was sent, where the span has them."""
        del span
        return {}

    def hides(self, span: SpanRecord, side: Literal["input", "output"]) -> bool:
        """Return whether the user had what went in, or what came out, replaced."""
        return is_hidden(
            span.attributes.get(self.input_key if side == "input" else self.output_key)
        )


@lru_cache(maxsize=4096)
def _place(key: str, start: int) -> tuple[int, str] | None:
    """Return row and field of a name. The same names come with every request."""
    number, _, field = key[start:].partition(".")
    return (int(number), field) if number.isdecimal() and len(number) < 10 else None


def rows_under(fields: Mapping[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """Return what is flattened under a prefix, by number: ``<prefix>0.a`` is ``a`` of row 0."""
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
        value: What came out; None: the span does not say.
        absent: Why it does not, where it neither failed nor lost attributes.
        unread: Why what holds no documents holds none; None: nothing was found.
    """
    if value is None:
        dropped: Missing | None = "truncated" if span.dropped else absent
        return Documents() if span.failed else Documents(missing=dropped)
    if is_hidden(value):
        return Documents(missing="redacted")
    found = documents_in(value)
    if found is None:
        return Documents(missing="truncated" if is_broken(value) else unread)
    if any(item.hidden for item in found):
        return Documents(found, "redacted")
    return Documents(found)
