"""Which span a score belongs to, and where sinks that attach scores by span id look it up.

Retrieval scores belong to the retrieval span when the request has exactly one, and to the request's
own span when it has several or none, as they describe all contexts together. Answer scores always
belong to the request's span. `SpanDirectory` remembers the spans of recent requests; it is bounded
and never blocks longer than its time limit.

A sink sees a run at about the same time as the exporter that writes its spans, on
another thread, so it asks that exporter and waits a little.  Spans that others recorded
are known from the run itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from opentelemetry.trace import SpanContext

from ragmeter.metrics import ConfigurationError, ScoreTarget
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.bounded_table import BoundedTable

from ._annotations import Annotation, chunk_annotations, request_annotations
from ._http import DeliveryError
from .protocol import MayLackDestination, RagRun, ScoredRun

__all__ = [
    "JudgedSpans",
    "KnowsSpans",
    "Placement",
    "SpanDirectory",
    "SpansAddress",
    "TargetedAnnotation",
    "delivers",
    "recorded_spans",
]


T = TypeVar("T")
PATIENCE_S = 5.0
"""Seconds to wait for the spans of a run, as long as that has been worth it."""
LITTLE_PATIENCE_S = 0.05
"""Seconds to wait once it was not, so that a wrong wiring does not fill the queue."""


@dataclass(frozen=True, slots=True)
class TargetedAnnotation:
    """Something said about a request, and the span it belongs to."""

    said: Annotation
    """What is said."""
    span: SpanContext
    """A sampled span: one that reaches the backend."""
    document: int | None = None
    """The place of the document among those of the span, from 0; None: it is about the span."""
    around: SpanContext | None = None
    """The application's span around the request, if there is one besides `span` that is sampled and of
    this process."""
    beside_verdict: bool = False
    """Whether the request has a verdict as well."""


class Placement:
    """Which score goes where.

    Args:
        sink: The sink's name in messages.
        spans: Who writes the spans; None: only spans recorded by others are known.
        scores: Names of the scores to send; None: the verdict and what people are to see, as
            `_annotations` chooses.
        include_explanations: Whether explanations, which quote contexts, may leave.
        documents: Whether the backend takes what is said about single documents.

    Raises:
        ConfigurationError: `scores` is a string.
    """

    def __init__(
        self,
        sink: str,
        spans: KnowsSpans | None,
        *,
        scores: Iterable[str] | None,
        include_explanations: bool,
        documents: bool = False,
    ) -> None:
        if isinstance(scores, str):
            raise ConfigurationError(f"scores={scores!r}: pass a list of names, e.g. [{scores!r}]")
        self._chosen = None if scores is None else frozenset(scores)
        self._sink = sink
        self._spans = spans
        self._texts = include_explanations
        self._documents = documents
        self._patience_s = PATIENCE_S

    def delivers(self) -> bool:
        """Return whether the spans that scores are to be attached to are written at all."""
        return delivers(self._spans)

    def place(
        self, batch: Sequence[ScoredRun]
    ) -> tuple[list[list[TargetedAnnotation]], DeliveryError | None]:
        """Return what has a span, run by run, and the error to raise for runs without one."""
        placed: list[list[TargetedAnnotation]] = []
        unknown = 0
        for scored in batch:
            spans = self._find(scored.run)
            if spans.request is None and spans.retrieval is None:
                unknown += 1
            else:
                placed.append(list(self._of(scored, spans)))
        if not unknown:
            return placed, None
        fix = (
            "pass spans=, the OpenTelemetryExporter that writes them"
            if self._spans is None
            else "the exporter given as spans= has not written them; is it one of the meter's?"
        )
        return placed, DeliveryError(f"{self._sink}: {unknown} requests have no known span; {fix}")

    def _find(self, run: RagRun) -> JudgedSpans:
        if self._spans is None:
            return recorded_spans(run)
        found = self._spans.judged_spans(run, self._patience_s)
        self._patience_s = LITTLE_PATIENCE_S if found is None else PATIENCE_S
        return found or recorded_spans(run)

    def _of(self, scored: ScoredRun, spans: JudgedSpans) -> Iterator[TargetedAnnotation]:
        judged = scored.verdict is not None
        for said in request_annotations(scored, self._chosen, texts=self._texts):
            target: ScoreTarget = "answer" if said.target == "request" else said.target
            span = spans.carrier(target)
            # An unsampled span never reaches the backend: its scores would wait there forever.
            if span is not None and span.trace_flags.sampled:
                around = _around(scored.run, span)
                yield TargetedAnnotation(said, span, around=around, beside_verdict=judged)
        if self._documents:
            places = _document_places(scored.run, spans)
            for said in chunk_annotations(scored, self._chosen, texts=self._texts):
                for span, document in places.get(said.chunk, ()):
                    yield TargetedAnnotation(said, span, document)


def _around(run: RagRun, span: SpanContext) -> SpanContext | None:
    parent = run.parent
    if parent is None or parent.is_remote or not parent.trace_flags.sampled:
        return None
    return parent if parent.span_id != span.span_id and parent.trace_id == span.trace_id else None


def _document_places(
    run: RagRun, spans: JudgedSpans
) -> Mapping[int | None, Sequence[tuple[SpanContext, int]]]:
    """Return where each context of the sample stands among the documents of sampled retrieval spans.

    The model may have seen other chunks than were retrieved, or in another order; a text that two
    retrievals found stands in both.
    """
    found: dict[int | None, list[tuple[SpanContext, int]]] = {}
    chunks: dict[tuple[str, str | None], list[int]] = {}
    for place, context in enumerate(run.sample.contexts or ()):
        chunks.setdefault((context.text, context.id), []).append(place)
    for retrieval, span in zip(run.retrievals, spans.retrievals, strict=False):
        if span is None or not span.trace_flags.sampled:
            continue
        left = {key: iter(places) for key, places in chunks.items()}
        for document, context in enumerate(retrieval.contexts):
            chunk = next(left.get((context.text, context.id), iter(())), None)
            if chunk is not None:
                found.setdefault(chunk, []).append((span, document))
    return found


MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class JudgedSpans:
    """The spans that a request's scores are about."""

    request: SpanContext | None
    """The request's own span (workflow, query), or the application's span around it."""
    retrieval: SpanContext | None = None
    """The request's only retrieval span; None when it has none, several, or none was recorded."""
    retrievals: tuple[SpanContext | None, ...] = ()
    """The span of each of its retrievals, in their order; None: not recorded."""

    def carrier(self, target: ScoreTarget) -> SpanContext | None:
        """Return the span that scores about `target` belong to, or None when there is none."""
        if target == "retrieval" and self.retrieval is not None:
            return self.retrieval
        return self.request or self.retrieval

    def by_target(self, make: Callable[[SpanContext | None], T]) -> dict[ScoreTarget, T]:
        """Return what is made of the span that the scores belong to, by what they are about."""
        answer = self.carrier("answer")
        made = make(answer)
        alike = self.retrieval is None or self.retrieval is answer
        return {"answer": made, "retrieval": made if alike else make(self.retrieval)}


class SpansAddress(NamedTuple):
    """Where a backend takes spans over OTLP's HTTP."""

    url: str
    """The whole address."""
    headers: Mapping[str, str]
    """With its keys."""
    resource: Mapping[str, str]
    """Attributes by which it sorts what comes, such as its project."""


class KnowsSpans(Protocol):
    """Where a sink asks for the spans of a request; `OpenTelemetryExporter` is one."""

    def judged_spans(self, run: RagRun, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans of `run`, waiting at most `timeout_s` seconds; None: unknown."""
        ...


def delivers(spans: KnowsSpans | None) -> bool:
    """Return whether who writes spans has somewhere to write to."""
    return not isinstance(spans, MayLackDestination) or spans.delivers()


def recorded_spans(run: RagRun) -> JudgedSpans:
    """Return the spans that other instrumentations recorded for `run`, as far as known."""
    each = tuple([_valid(retrieval.target) for retrieval in run.retrievals])
    return JudgedSpans(_valid(run.target), each[0] if len(each) == 1 else None, each)


def _valid(span: SpanContext | None) -> SpanContext | None:
    return span if span is not None and span.is_valid else None


class SpanDirectory:
    """The spans of the most recent requests, by run id. Thread-safe and bounded.

    Args:
        max_runs: How many requests are remembered; the oldest is forgotten first.
    """

    def __init__(self, max_runs: int = MAX_REMEMBERED) -> None:
        self._runs: BoundedTable[str, JudgedSpans] = BoundedTable(max_entries=max_runs)
        self._lock = fork.lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._runs)

    def remember(self, run_id: str, spans: JudgedSpans) -> None:
        """Note the spans of a request."""
        with self._lock:
            self._runs.put(run_id, spans)
            if self._waiting:
                self._changed.notify_all()

    def find(self, run_id: str, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans of a request, waiting at most `timeout_s` seconds for them."""
        with self._lock:
            if timeout_s > 0:
                self._waiting += 1
                try:
                    self._changed.wait_for(lambda: run_id in self._runs, timeout_s)
                finally:
                    self._waiting -= 1
            return self._runs.peek(run_id)
