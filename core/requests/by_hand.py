"""Record one request by hand, or combine several framework runs into one.

``with meter.request(question) as request:`` is for RAG code without a framework. ``with
ragmeter.request(...):`` groups what frameworks report within the block (a retriever here, a synthesizer
there) into one request. Both are a `Request`, which collects parts and offers one run to the meter when the
block ends.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import SpanContext

from ragmeter._runtime.guard import Guard, front_door
from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import ConfigurationError, RagSample, Reference, RetrievalStage, RetrievedContext
from ragmeter.metrics.sample import SampleStatus, StageKind, search_query_of

from ._grouping import alike, contexts_of, joined_stages, rule_of, status_of
from .inputs import as_context, as_contexts, as_metadata, as_tags, as_text, stage_kind
from .references import as_reference
from .refusals import is_refusal_error
from .scope import RequestScope, apply_scope, current_scope, is_suppressed
from .size import weight_of, weight_of_scope

if TYPE_CHECKING:
    from ragmeter._port import MeterPort

RunBuilder = Callable[[], "RagRun | None"]
"""Builds a run on the meter's worker; returns None if it turns out not to be a request."""


GAVE_UP = frozenset({"CancelledError", "GeneratorExit", "KeyboardInterrupt"})
"""Errors by which the caller ends a request."""


def status_of_error(error: BaseException | None) -> SampleStatus:
    """Return ``cancelled`` when the caller gave up, ``refused`` when the model did, else ``error``."""
    if is_refusal_error(error):
        return "refused"
    return "cancelled" if any(kind.__name__ in GAVE_UP for kind in type(error).__mro__) else "error"


def error_type(error: BaseException | None) -> str | None:
    """Return the low-cardinality name of an exception (``error.type``): its class."""
    return None if error is None else type(error).__name__


def current_span_context() -> SpanContext | None:
    """Return the context of the span that is current here, or None."""
    context: SpanContext | None = trace.get_current_span().get_span_context()  # MLflow's may be None
    return context if context is not None and context.is_valid else None


class SubmittedSample:
    """A finished sample with the current span and time; calling it on the worker makes its run.

    A sample without a reference gets that of the surrounding `ragmeter.reference` block.
    """

    __slots__ = ("_ended_ns", "_sample", "parent", "run_id")

    def __init__(self, sample: RagSample) -> None:
        scope = current_scope()
        if sample.reference is None and scope is not None and scope.reference is not None:
            sample = sample.model_copy(update={"reference": scope.reference})
        self._sample = sample
        self._ended_ns = time.time_ns()
        self.parent = current_span_context()
        self.run_id = os.urandom(16).hex()

    def __call__(self) -> RagRun:
        """Make the run."""
        return RagRun(
            sample=self._sample,
            run_id=self.run_id,
            framework="manual",
            started_ns=self._ended_ns,
            ended_ns=self._ended_ns,
            parent=self.parent,
        )


class _RecordedRetrieval(NamedTuple):
    """One retrieval, recorded manually."""

    started_ns: int
    ended_ns: int
    contexts: tuple[Any, ...]
    query: str | None
    name: str | None
    data_source_id: str | None
    top_k: int | None


class _RecordedStage(NamedTuple):
    """The output of a stage, recorded manually."""

    contexts: tuple[Any, ...]
    name: object
    kind: object


class Request:
    """A request being recorded. A context manager, sync and async; thread-safe.

    Never raises: invalid values are left out, counted and logged.
    """

    def __init__(self, meter: MeterPort | None, scope: RequestScope, guard: Guard) -> None:
        self._meter = meter
        self._own = scope
        self._guard = guard
        self._scope: AbstractContextManager[RequestScope] | None = None
        self._open = False
        # Without a lock: a finalizer may add a part on a thread that is adding one.
        self._parts: deque[tuple[RunBuilder, int]] = deque()
        self._recorded: list[_RecordedRetrieval | _RecordedStage] = []
        self._parent: SpanContext | None = None
        self._outer: RequestScope | None = None
        self._suppressed = False
        self._started_ns = 0
        self._answer: Any = None
        self._last_ns = 0
        self.run_id = uuid.uuid4().hex
        """The request's id, e.g. for `RagMeter.attach_reference`."""

    def retrieved(
        self,
        contexts: Iterable[object],
        *,
        query: str | None = None,
        name: str | None = None,
        data_source_id: str | None = None,
        top_k: int | None = None,
        started_ns: int | None = None,
    ) -> None:
        """Record a retrieval, best context first. Call it once per retrieval, in order.

        Args:
            contexts: Texts, `RetrievedContext`s or their fields, or a framework's documents. An empty list is
                a retrieval that found nothing.
            query: The query sent to the store, if it is not the question.
            name: The retriever's name.
            data_source_id: The store's name (``gen_ai.data_source.id``).
            top_k: Number of contexts requested.
            started_ns: Its start, nanoseconds since the epoch; default: the start of the request or the end
                of the retrieval before.
        """
        with self._guard:
            self._check_open("retrieved")
            now = time.time_ns()
            given = as_contexts(contexts, "retrieved")
            began = started_ns if type(started_ns) is int and 0 < started_ns < now else self._last_ns
            self._recorded.append(
                _RecordedRetrieval(began or now, now, given, query, name, data_source_id, top_k)
            )
            self._last_ns = now

    def kept(self, contexts: Iterable[object], *, stage: str, kind: str = "function") -> None:
        """Record the output of a reranker, a filter or another stage on all contexts so far, best first.

        It replaces them as what reached the model. Later calls apply to it in the same way.

        Args:
            contexts: As for `retrieved`. Pass ids, or unchanged texts, so that a document can be followed.
            stage: The stage's name; low cardinality.
            kind: Its kind, as `RetrievalStage.kind`: ``postprocessor``, ``fusion``, ``function``.
        """
        with self._guard:
            self._check_open("kept")
            self._recorded.append(_RecordedStage(as_contexts(contexts, "kept"), stage, kind))

    def answered(self, text: str) -> None:
        """Record the answer. A second call replaces the first."""
        with self._guard:
            self._check_open("answered")
            self._answer = text

    def _check_open(self, what: str) -> None:
        if not self._open:
            raise ConfigurationError(f"{what}() counts within `with meter.request(...) as request:` alone")

    def collect(self, meter: MeterPort, build: RunBuilder, *, size_bytes: int) -> bool:
        """Add a framework's run to this request; return whether it was still open."""
        if not self._open:
            return False
        if self._meter is None:
            self._meter = meter
        part = (build, size_bytes)
        self._parts.append(part)
        if self._open:
            return True
        # Closed meanwhile: the result says whether it accepted the part.
        try:
            self._parts.remove(part)
        except ValueError:
            return True
        return False

    def __enter__(self) -> Request:
        with self._guard:
            self._parent = current_span_context()
            self._suppressed = is_suppressed()
            self._started_ns = self._last_ns = time.time_ns()
            # The surrounding scope, e.g. of `ragmeter.reference`, applies here, too.
            self._outer = current_scope()
            self._own = self._own.merged_over(self._outer)
            self._scope = apply_scope(RequestScope(group=self).merged_over(self._own))
            self._scope.__enter__()
            self._open = True
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self._open = False
        with self._guard:
            scope, self._scope = self._scope, None
            if scope is not None:
                scope.__exit__(None, None, None)
        with self._guard:
            self._finish(error)

    async def __aenter__(self) -> Request:
        return self.__enter__()

    async def __aexit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self.__exit__(None, error)

    def _finish(self, error: BaseException | None) -> None:
        collected = [self._parts.popleft() for _ in range(len(self._parts))]
        if self._meter is None or self._suppressed or not (collected or self._recorded):
            return
        parts = tuple(build for build, _ in collected)
        size = sum(size for _, size in collected) + weight_of(self._answer)
        size += sum([weight_of(recorded.contexts) for recorded in self._recorded])
        size += weight_of_scope(self._own)
        ended_ns = time.time_ns()
        parent = self._parent
        status = None if error is None else status_of_error(error)
        self._meter.offer(
            partial(self._build, parts, ended_ns, status, error_type(error)),
            run_id=self.run_id,
            trace_id=None if parent is None else parent.trace_id,
            size_bytes=size,
            scope=self._outer,
        )

    def _contexts_of(self, recorded: _RecordedRetrieval | _RecordedStage) -> tuple[RetrievedContext, ...]:
        contexts: list[RetrievedContext] = []
        for context in recorded.contexts:
            with self._guard:
                contexts.append(as_context(context))
        return tuple(contexts)

    def _as_retrieval(self, recorded: _RecordedRetrieval) -> Retrieval:
        texts: dict[str, str | None] = {}
        for field in ("query", "name", "data_source_id"):
            with self._guard:
                texts[field] = as_text(getattr(recorded, field))
        return Retrieval(
            started_ns=recorded.started_ns,
            ended_ns=recorded.ended_ns,
            contexts=self._contexts_of(recorded),
            query=texts.get("query"),
            name=texts.get("name"),
            data_source_id=texts.get("data_source_id"),
            top_k=recorded.top_k if type(recorded.top_k) is int else None,
        )

    def _by_hand(
        self, stages: list[RetrievalStage]
    ) -> tuple[list[Retrieval], tuple[RetrievedContext, ...] | None]:
        """Add the recorded stages to those of the parts; return retrievals and what reached the model."""
        retrievals: list[Retrieval] = []
        contexts: tuple[RetrievedContext, ...] | None = None
        taken = {place for stage in stages for place in stage.inputs}
        given = tuple(place for place in range(len(stages)) if place not in taken)
        for item in self._recorded:
            if isinstance(item, _RecordedRetrieval):
                retrieval = self._as_retrieval(item)
                retrievals.append(retrieval)
                found = retrieval.contexts
                stages.append(
                    RetrievalStage(name=retrieval.name or "retriever", kind="retriever", contexts=found)
                )
                given = (*given, len(stages) - 1)
                contexts = (*(contexts or ()), *found)
                continue
            name = "unknown"
            kind: StageKind = "unknown"
            with self._guard:
                name = as_text(item.name) or name
            with self._guard:
                kind = stage_kind(item.kind)
            contexts = alike(contexts or (), self._contexts_of(item))
            stages.append(RetrievalStage(name=name, kind=kind, contexts=contexts, inputs=given))
            given = (len(stages) - 1,)
        return retrievals, contexts

    def _build(
        self, parts: Sequence[RunBuilder], ended_ns: int, status: SampleStatus | None, error_type: str | None
    ) -> RagRun | None:
        runs = [run for run in (part() for part in parts) if run is not None]
        samples = [run.sample for run in runs]
        stages = joined_stages(sample.stages for sample in samples)
        recorded, contexts = self._by_hand(stages)
        if not runs and contexts is None:
            return None
        by_hand = contexts is not None
        if contexts is None:
            contexts = contexts_of(samples)
        answer: str | None = None
        with self._guard:
            answer = as_text(self._answer)
        if answer is None:
            answer = next((s.answer for s in reversed(samples) if s.answer is not None), None)
        own = self._own
        question = own.question
        if question is None:
            question = next((s.question for s in samples if s.question is not None), None)
        retrievals = sorted(
            (*recorded, *(item for run in runs for item in run.retrievals)), key=lambda item: item.started_ns
        )
        return RagRun(
            sample=RagSample(
                question=question,
                contexts=contexts,
                carried=[item for sample in samples for item in sample.carried],
                contexts_by="given" if by_hand else rule_of(samples),
                stages=stages or None,
                answer=answer,
                reference=own.reference
                or next((s.reference for s in samples if s.reference is not None), None),
                status=status or status_of(samples, answer),
                name=own.name or next((s.name for s in samples if s.name), None),
                search_query=search_query_of(question, [item.query for item in retrievals]),
            ),
            run_id=self.run_id,
            framework=runs[0].framework if runs and not by_hand else "manual",
            started_ns=self._started_ns,
            ended_ns=ended_ns,
            retrievals=tuple(retrievals),
            parent=self._parent,
            conversation_id=own.conversation_id,
            user_id=own.user_id,
            tags=own.tags,
            metadata=own.metadata,
            framework_metadata={
                key: value for run in reversed(runs) for key, value in run.framework_metadata.items()
            },
            error_type=error_type or next((r.error_type for r in runs if r.error_type), None),
        )


def request(
    question: str | None = None,
    *,
    reference: Reference | Mapping[str, Any] | str | None = None,
    name: str | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    meter: MeterPort | None = None,
) -> Request:
    """Group everything that frameworks report within the block into one request.

    Args:
        question: The user's question; default: the first part's.
        reference: The expected answer and contexts: a `Reference`, its fields, or just the answer.
        name: Name of the workflow; low cardinality.
        session_id: Session, thread or conversation id.
        user_id: The user's id.
        tags: Tags of the request.
        metadata: Anything else; scalars go on spans.
        meter: The port of the meter; default: that of its first part.
    """
    guard = Guard("request", front_door)
    with guard:
        guard = guard if meter is None else meter.guard("request")
    given: dict[str, Any] = {}
    for name_, value, read in (
        ("question", question, as_text),
        ("reference", reference, partial(as_reference, where="request(reference=)")),
        ("name", name, as_text),
        ("conversation_id", session_id, as_text),
        ("user_id", user_id, as_text),
        ("tags", tags, as_tags),
        ("metadata", metadata, as_metadata),
    ):
        if value is not None:
            with guard:  # an invalid argument is left out, the others count
                given[name_] = read(value)
    return Request(meter, RequestScope(**given), guard)
