"""What every exporter receives: one scored request, and where and when it ran.

Adapters build a `RagRun` (handed out as ``ragmeter.RagRun``), the meter scores it
and hands a `ScoredRun` to each exporter.  It is defined on the exporters' floor
because everything above needs it.  It holds facts only; it must not
know OpenTelemetry's SDK nor any framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.trace import SpanContext

from ragmeter.metrics import RagSample, RetrievedContext, Score

__all__ = ["RagRun", "Retrieval", "ScoredRun"]

Selection = Literal["sampled", "worst"]
"""How a request came to be judged: by chance, or because it is among the worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """One retrieval within a request: the outermost retriever call, not its helpers."""

    started_ns: int
    """Start, nanoseconds since the epoch."""
    ended_ns: int
    """End, likewise; never before `started_ns`."""
    contexts: tuple[RetrievedContext, ...] = ()
    """What the retriever returned, before reranking or filtering by others."""
    query: str | None = None
    """The query the retriever was given, perhaps rewritten. Content: opt-in only."""
    name: str | None = None
    """The retriever's name (class or run name); low cardinality."""
    data_source_id: str | None = None
    """The knowledge base or store (``gen_ai.data_source.id``), e.g. ``InMemoryVectorStore``."""
    top_k: int | None = None
    """How many chunks were asked for, if known."""
    embedding_model: str | None = None
    """The embedding model (``gen_ai.request.model``), if known."""
    provider: str | None = None
    """The vector store's or embedding's provider (``gen_ai.provider.name``), if known."""
    error_type: str | None = None
    """Low-cardinality class of what it raised, or None."""
    target: SpanContext | None = None
    """The span that another instrumentation recorded for this retrieval, if any."""

    def __post_init__(self) -> None:
        _never_end_early(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RagRun:
    """One user-level request: the sample, and where and when it happened."""

    sample: RagSample
    """Question, contexts, answer, reference, status."""
    run_id: str
    """Unique id of the request; the framework's own where it has one."""
    framework: str
    """``langchain``, ``llama_index`` or ``manual``."""
    started_ns: int
    """Start, nanoseconds since the epoch."""
    ended_ns: int
    """End, likewise; never before `started_ns`."""
    retrievals: tuple[Retrieval, ...] = ()
    """Its retrievals, in start order."""
    parent: SpanContext | None = None
    """The application's span around the request; own spans become its children."""
    target: SpanContext | None = None
    """The span another instrumentation recorded for the request itself, if any: scores attach to it."""
    conversation_id: str | None = None
    """Session, thread or conversation id."""
    user_id: str | None = None
    """The user's id, as the application tells it. On spans only, never on metrics."""
    tags: tuple[str, ...] = ()
    """The application's tags. On spans only, never on metrics."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The application's metadata for ragmeter; scalars go on spans under ``ragmeter.metadata.*``."""
    error_type: str | None = None
    """Low-cardinality class of what the request raised, or None."""

    def __post_init__(self) -> None:
        _never_end_early(self)

    @property
    def name(self) -> str | None:
        """Name of the chain, engine or workflow; low cardinality."""
        return self.sample.name

    @property
    def trace_id(self) -> int | None:
        """The trace the request belongs to, or None when it has no span."""
        span = self.target or self.parent
        return span.trace_id if span is not None and span.is_valid else None


def _never_end_early(timed: Retrieval | RagRun) -> None:
    # Wall clocks are set back now and then; a span of negative length breaks backends.
    if timed.ended_ns < timed.started_ns:
        object.__setattr__(timed, "ended_ns", timed.started_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """A request and its scores: the payload of every exporter.

    A run whose judged scores come later than the meter's ``hold_s`` is exported
    twice: first with the scores that are ready, then, with ``late=True``, the
    rest.  Everything that describes the request is the same in both.
    """

    run: RagRun
    """The request."""
    scores: Mapping[str, Score]
    """The scores by name, in the order of the metrics."""
    late: bool = False
    """True: the request itself has been exported before, these are the scores that were missing."""
    sample_rate: float = 1.0
    """The probability with which this request was chosen to be scored; 1.0 when kept for being bad."""
    judge_sample_rate: float = 1.0
    """The probability with which it was chosen to be judged, given that it was scored; known before
    it was looked at, 1.0 when judged for being bad."""
    selection: Selection = "sampled"
    """Whether its place among all requests has it exported, or only that it is bad."""
    judge_selection: Selection = "sampled"
    """The same of its judged scores. Plain means of judged scores read the ``sampled`` ones; means
    that are weighted by the rates read all."""
    judged: frozenset[str] = frozenset()
    """Names of the scores that only requests chosen to be judged have."""
    revision: str = ""
    """Tells the n-th time that something was learned about the request after the fact from the
    others; empty for its first scores."""

    @property
    def sample(self) -> RagSample:
        """The request's sample."""
        return self.run.sample

    def selection_of(self, score: Score) -> Selection | None:
        """Return how `score` came to be measured for this request; None: as for every request."""
        if score.method == "llm" or score.name in self.judged:
            return self.judge_selection
        # What was measured at once was measured of every request. What is learned later is known of
        # those that were exported.
        return "worst" if self.late and self.selection == "worst" else None
