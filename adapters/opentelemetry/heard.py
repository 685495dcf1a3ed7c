"""What was heard of each service, and how much of it is scored: values alone, which are quick to import."""

from __future__ import annotations

from dataclasses import dataclass, field

NO_REQUESTS = frozenset(("indexing", "evaluation", "captured", "repeated"))
"""Reasons without anything to configure."""


@dataclass(frozen=True, slots=True)
class UnscoredReason:
    """A reason why received spans are not scored."""

    reason: str
    count: int
    """Number of requests and other spans."""
    tools: tuple[str, ...]
    """Tools that were called, some of which may retrieve."""
    line: str
    """The line to add."""


@dataclass(frozen=True, slots=True)
class Account:
    """The received spans of one instrumentation of one service: ``heard`` = ``scored`` + the causes' counts."""

    service: str
    """``service.name``; empty: unknown."""
    scope: str
    """Name of the instrumentation."""
    heard: int
    """Requests, and groups of spans that are none."""
    requests: int
    scored: int
    """Requests that were scored."""
    causes: tuple[UnscoredReason, ...]
    """Reasons for the others, the most frequent first."""

    def shortfalls(self) -> list[str]:
        """Return a line for each cause: service, instrumentation, number, reason, and the line to add."""
        return [
            f"{self.service or 'spans'}, {self.scope}: {cause.count} of {self.heard} not scored: "
            f"{cause.reason}; {cause.line}"
            for cause in self.causes
        ]


@dataclass(slots=True, kw_only=True)
class HeardService:
    """The data received from a service since the server began, and how much of it is scored."""

    service: str
    """Its `service.name`; empty if its spans name none."""
    traces: int = 0
    """Received traces."""
    heard: int = 0
    """Requests that were found in them, and groups of spans that are none: ``scored`` and all ``reasons``."""
    requests: int = 0
    """Requests that were found in them."""
    scored: int = 0
    """Those of them that are scored, in full or in part."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Reasons for the others, with their number. ``no_retrieval_seen``: models were called, and nothing
    retrieved; ``no_model_call``: no span is of a model or a retrieval; else as requests are counted."""
    scopes: dict[str, int] = field(default_factory=dict)
    """The instrumentations whose spans are not scored, with their number."""
    tools: list[str] = field(default_factory=list)
    """Tools that ran in traces without a retrieval: one of them may be the retriever."""
    fix: str = ""
    """The remedy for the commonest reason: a line to add, or a sentence; empty if nothing is missing."""
    accounts: tuple[Account, ...] = ()
    """The same by instrumentation."""
