"""A request, as reported by its spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragmeter.adapters.reading.documents import Document
from ragmeter.metrics import RetrievedContext
from ragmeter.requests.lone_retrieval import LoneRetrieval

from ._contexts import Seen
from .record import SpanRecord

Usable = Literal["full", "ids_only", "none"]
"""``full``: everything can be scored. ``ids_only``: ids, counts and emptiness. ``none``: nothing."""

Reason = Literal[
    "convention_has_no_text",
    "content_off",
    "content_in_logs",
    "redacted",
    "truncated",
    "retrieval_error",
    "rerank_invisible",
    "no_retrieval_span",
    "unreadable_result",
    "prompt_not_divided",
]
"""The reason why a request cannot be scored in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRequest:
    """One request, as reported by its spans."""

    convention: str
    """Name of the convention of its retrieval."""
    scope: str
    """Name of the instrumentation of its retrieval."""
    question: str | None
    contexts: tuple[Document, ...]
    """The documents that reached the model, in order."""
    answer: str | None
    failed: bool
    """Whether the request raised."""
    usable: Usable
    """The extent to which it can be scored."""
    reason: Reason | None
    """The reason why it is not scored in full, or None."""
    span: SpanRecord | None
    """The request's own span; None if it was never sent."""
    answering: SpanRecord | None = None
    """The call that answered, if nothing else in the trace belongs to the request: its span receives the
    scores."""
    seen: tuple[Seen, ...] = ()
    """Its retrievals and rerankings, in start order."""
    refused: bool = False
    """Whether the model's provider reports a refusal."""
    asked_model: bool = False
    """Whether a model was called for it."""
    members: tuple[SpanRecord, ...] = ()
    """All its spans that belong to a convention, and those above them."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The searched sources, by the retrieval's span, from spans of stores' clients below it."""
    response_id: str | None = None
    """The provider's id of the completion that answered; None if unknown or several."""
    shown: tuple[Document, ...] | None = None
    """The documents as the prompts show them, cut where they are, in their order; None if no prompt shows
    any."""
    carried: tuple[RetrievedContext, ...] = ()
    """Documents retrieved in earlier turns that the answering call was sent again."""
    cut_off: tuple[SpanRecord, ...] = ()
    """Spans whose parents should be in the request, or above it as the request's own, and did not arrive."""
    earlier: tuple[LoneRetrieval, ...] = ()
    """The retrievals with which it began, which were traces of their own."""
    partial: bool = False
    """Whether so much of it is missing that nothing can be measured. Never set by `read_trace`, as this only
    follows from other requests."""

    @property
    def trace_id(self) -> str:
        """32 hex digits."""
        return self.members[0].trace_id

    @property
    def missing(self) -> Mapping[str, str]:
        """The unknown ones of ``question``, ``contexts`` and ``answer``, each with its reason."""
        why = self.reason if self.reason in ("redacted", "truncated", "content_off") else None
        found: dict[str, str] = {}
        if self.question is None:
            found["question"] = why or "question_unknown"
        if self.usable != "full" and self.reason is not None:
            found["contexts"] = self.reason
        if self.answer is None:
            found["answer"] = "error" if self.failed else why or "answer_unknown"
        return found

    @property
    def first(self) -> SpanRecord:
        """The request's span, or that of its first retrieval."""
        own = self.seen and not self.earlier
        return self.span or (self.seen[0].retrievals[0].span if own else self.members[0])

    @property
    def key(self) -> str:
        """The stable id, when spans arrive later."""
        return f"{self.first.trace_id}-{self.first.span_id}"
