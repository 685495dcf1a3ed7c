"""Find the span that a score belongs to, for exporters that attach scores by span id.

Retrieval scores belong to the retrieval span when the request has exactly one, and to the request's
own span when it has several or none, as they describe all contexts together. Answer scores always
belong to the request's span. `SpanDirectory` remembers the spans of recent requests; it is bounded
and never blocks longer than its time limit.

An exporter sees a run at about the same time as the one that writes its spans, on another thread, so it asks
that exporter and waits briefly. Spans of other instrumentations are known from the run itself.
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
from ._http import Delivery, DeliveryError
from .protocol import MayLackDestination, RagRun, ScoredRun, UnbufferedExporter

T = TypeVar("T")
PATIENCE_S = 5.0
"""Seconds to wait for the spans of a run, while earlier waits were successful."""
LITTLE_PATIENCE_S = 0.05
"""Seconds to wait after a failed wait, so that a wrong set-up does not fill the queue."""


@dataclass(frozen=True, slots=True)
class TargetedAnnotation:
    """An annotation and its span."""

    annotation: Annotation
    """The annotation."""
    span: SpanContext
    """A sampled span: one that reaches the backend."""
    document: int | None = None
    """Index of its document on the span, from 0; None: about the whole span."""
    around: SpanContext | None = None
    """The application's span around the request, if sampled, in this process, and not `span`."""
    beside_verdict: bool = False
    """Whether the request has a verdict as well."""


class AnnotatingExporter(UnbufferedExporter):
    """Base class of exporters that attach annotations to spans through a backend's API.

    Args:
        sink: The backend's name in messages.
        address: Its address.
        headers: Sent with every request.
        spans: The exporter that writes the spans; None: only spans of other instrumentations are known.
        scores: Names of the scores to send; None: the verdict and the default scores of `_annotations`.
        include_explanations: Whether to export explanations, which quote contexts.
        documents: Whether to annotate single documents.
        timeout_s: Seconds for one attempt.
        deadline_s: Seconds for all attempts of one request.

    Raises:
        ConfigurationError: `address` is not one, or `scores` is a string.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        sink: str,
        address: str,
        headers: Mapping[str, str],
        *,
        spans: KnowsSpans | None,
        scores: Iterable[str] | None,
        include_explanations: bool,
        documents: bool = False,
        timeout_s: float,
        deadline_s: float,
    ) -> None:
        self._delivery = Delivery(sink, address, headers, timeout_s=timeout_s, deadline_s=deadline_s)
        if isinstance(scores, str):
            raise ConfigurationError(f"scores={scores!r}: pass a list of names, e.g. [{scores!r}]")
        self._address = address.rstrip("/")
        self._headers = headers
        self._chosen = None if scores is None else frozenset(scores)
        self._sink = sink
        self._spans = spans
        self._texts = include_explanations
        self._documents = documents
        self._patience_s = PATIENCE_S

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._delivery.shown_address!r})"

    def delivers(self) -> bool:
        """Return whether the spans to attach scores to are written anywhere."""
        return delivers(self._spans)

    def shutdown(self, timeout_s: float) -> None:
        """Stop retries and close the connections."""
        del timeout_s
        self._delivery.close()

    def _place(self, batch: Sequence[ScoredRun]) -> tuple[list[list[TargetedAnnotation]], DeliveryError | None]:
        """Return annotations with spans by run, and the error to raise for runs without a span."""
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
        for annotation in request_annotations(scored, self._chosen, texts=self._texts):
            target: ScoreTarget = "answer" if annotation.target == "request" else annotation.target
            span = spans.carrier(target)
            # An unsampled span never reaches the backend: its scores would wait there forever.
            if span is not None and span.trace_flags.sampled:
                around = _around(scored.run, span)
                yield TargetedAnnotation(annotation, span, around=around, beside_verdict=judged)
        if self._documents:
            places = _document_places(scored.run, spans)
            for annotation in chunk_annotations(scored, self._chosen, texts=self._texts):
                for span, document in places.get(annotation.chunk, ()):
                    yield TargetedAnnotation(annotation, span, document)


def _around(run: RagRun, span: SpanContext) -> SpanContext | None:
    parent = run.parent
    if parent is None or parent.is_remote or not parent.trace_flags.sampled:
        return None
    return parent if parent.span_id != span.span_id and parent.trace_id == span.trace_id else None


def _document_places(run: RagRun, spans: JudgedSpans) -> Mapping[int | None, Sequence[tuple[SpanContext, int]]]:
    """Return the document indices of each context of the sample on sampled retrieval spans.

    The model may have seen other chunks than retrieved, or in another order; a text found by two retrievals
    has two places.
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
    """The spans that a request's scores belong to."""

    request: SpanContext | None
    """The request's own span (workflow, query), or the application's span around it."""
    retrieval: SpanContext | None = None
    """The request's only retrieval span; None when it has none, several, or none was recorded."""
    retrievals: tuple[SpanContext | None, ...] = ()
    """The span of each retrieval, in order; None: not recorded."""

    def carrier(self, target: ScoreTarget) -> SpanContext | None:
        """Return the span for scores about `target`, or None."""
        if target == "retrieval" and self.retrieval is not None:
            return self.retrieval
        return self.request or self.retrieval

    def by_target(self, make: Callable[[SpanContext | None], T]) -> dict[ScoreTarget, T]:
        """Call `make` on the span of each target; return the results by target."""
        answer = self.carrier("answer")
        made = make(answer)
        alike = self.retrieval is None or self.retrieval is answer
        return {"answer": made, "retrieval": made if alike else make(self.retrieval)}


class SpansAddress(NamedTuple):
    """A backend's address for spans over OTLP/HTTP."""

    url: str
    """The whole address."""
    headers: Mapping[str, str]
    """With its keys."""
    resource: Mapping[str, str]
    """Resource attributes for the backend, such as its project."""


class KnowsSpans(Protocol):
    """Returns the spans of a request; `OpenTelemetryExporter` implements it."""

    def judged_spans(self, run: RagRun, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans of `run`, waiting at most `timeout_s` seconds; None: unknown."""
        ...


def delivers(exporter: object) -> bool:
    """Return whether an exporter has a destination; None and one that does not say count as such."""
    return not isinstance(exporter, MayLackDestination) or exporter.delivers()


def recorded_spans(run: RagRun) -> JudgedSpans:
    """Return the known spans of other instrumentations for `run`."""
    each = tuple([_valid(retrieval.target) for retrieval in run.retrievals])
    return JudgedSpans(_valid(run.target), each[0] if len(each) == 1 else None, each)


def _valid(span: SpanContext | None) -> SpanContext | None:
    return span if span is not None and span.is_valid else None


class SpanDirectory:
    """The spans of the most recent requests, by run id. Thread-safe and bounded.

    Args:
        max_runs: Most remembered requests; the oldest is dropped first.
    """

    def __init__(self, max_runs: int = MAX_REMEMBERED) -> None:
        self._runs: BoundedTable[str, JudgedSpans] = BoundedTable(max_entries=max_runs)
        self._lock = fork.lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._runs)

    def remember(self, run_id: str, spans: JudgedSpans) -> None:
        """Store the spans of a request."""
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
