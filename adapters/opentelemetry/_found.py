"""A request, as far as its spans report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragmeter.adapters.reading.values import Document
from ragmeter.metrics import RetrievedContext

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
"""Why a request cannot be scored in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRequest:
    """One request, as far as its spans report it."""

    convention: str
    """Name of the convention its retrieval is written by."""
    scope: str
    """Name of the instrumentation that wrote it."""
    question: str | None
    """What was asked."""
    contexts: tuple[Document, ...]
    """What reached the model, in order."""
    answer: str | None
    """What was answered."""
    failed: bool
    """Whether the request raised."""
    usable: Usable
    """What of it can be scored."""
    reason: Reason | None
    """Why no more; None when all."""
    span: SpanRecord | None
    """The request's own span; None: it was never sent."""
    answering: SpanRecord | None = None
    """The call that answered, where nothing else in the trace is the request's: it is the one to be judged."""
    seen: tuple[Seen, ...] = ()
    """Its retrievals and rerankings, in start order."""
    refused: bool = False
    """Whether the model's provider says that it refused."""
    asked_model: bool = False
    """Whether a model was called for it."""
    members: tuple[SpanRecord, ...] = ()
    """All its spans that belong to a convention, and those above them."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """What retrievals searched, by the retrieval's span, where spans of stores' clients below it say."""
    response_id: str | None = None
    """What the model's provider calls the completion that answered; None: unknown, or there are several."""
    shown: tuple[Document, ...] | None = None
    """The documents as the prompts show them, cut where they are, in their order; None: none shows any."""
    carried: tuple[RetrievedContext, ...] = ()
    """What earlier turns retrieved and the answering call was sent again."""
    cut_off: tuple[SpanRecord, ...] = ()
    """Spans whose parents should stand in the request, or above it as the request's own, and did not come."""
    partial: bool = False
    """Whether so much of it is known to be missing that nothing of it can be measured. What
    `read_trace` returns never says so, as that shows in other requests."""

    @property
    def trace_id(self) -> str:
        """32 hex digits."""
        return self.members[0].trace_id

    @property
    def missing(self) -> Mapping[str, str]:
        """Which of ``question``, ``contexts`` and ``answer`` are not known, each with its reason."""
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
    def key(self) -> str:
        """What stays the same when spans come later: the span of the request, or of its first retrieval."""
        first = self.span or (self.seen[0].retrievals[0].span if self.seen else self.members[0])
        return f"{first.trace_id}-{first.span_id}"
