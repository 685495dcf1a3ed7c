"""Writes the spans of one scored request: ragmeter's own, or ``evaluation`` spans beside other tracers' spans.

`plan_spans`, which is pure, decides which spans a request gets and which scores are on each:

==============  ===================================================================
span mode       what is written
==============  ===================================================================
``auto``        The request's own spans where no other instrumentation recorded it,
                with the scores on them; otherwise one ``evaluation`` span per judged
                span.  Where others recorded the retrieval but not the request
                around it, one of each.
``own``         The request's own spans, whatever others recorded.
``evaluation``  ``evaluation`` spans only, about what others recorded or, failing
                that, about the application's span around the request.
``off``         No spans; events and metrics still point at the spans known.
==============  ===================================================================

Late scores are always on an ``evaluation`` span: an ended span cannot change.

Called by the exporter on its thread, after the request ended, so every span is started and ended at once,
with the request's true times. Contexts are built only from the request's ids: neither the thread's current
span nor a suppression key in its context can leak in. Spans of others are never written to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import attribute_of
from ragmeter.exporters._format import ContentPolicy, clean
from ragmeter.exporters._span_targets import JudgedSpans, recorded_spans
from ragmeter.exporters.protocol import Retrieval, ScoredRun
from ragmeter.metrics import Score

from ._attributes import (
    Group,
    document_groups,
    evaluation_groups,
    request_essentials,
    request_groups,
    retrieval_essentials,
    retrieval_groups,
    score_groups,
    shown_evaluation_groups,
    trace_groups,
    verdict_group,
    workflow_essentials,
)
from ._events import ATTEMPTED, result_events
from ._providers import PinnedIds, evaluation_span_id

HEADROOM = 8
"""Attributes left free below the SDK's limit, for those that the application's processors add."""
DEFAULT_LIMIT = 128
"""The SDK's default, used if its limits cannot be read."""
UNLIMITED = 1_000
"""The limit used if the SDK has none."""
_LIMIT_VARIABLES = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")


SpanMode = Literal["auto", "own", "evaluation", "off"]
SPAN_MODES: tuple[SpanMode, ...] = ("auto", "own", "evaluation", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPlan:
    """The spans to write for one `ScoredRun`."""

    request: bool = False
    """Whether to write the request's own ``invoke_workflow`` span."""
    retrievals: tuple[Retrieval, ...] = ()
    """The retrievals that get separate ``retrieval`` spans."""
    on_request: tuple[Score, ...] = ()
    """Scores on the own request span."""
    on_retrieval: tuple[Score, ...] = ()
    """Scores on the one own retrieval span."""
    beside: tuple[Score, ...] = ()
    """Scores on ``evaluation`` spans."""
    bare: bool = False
    """Whether the request consists of one retrieval only: its span is the request's span."""


def plan_spans(scored: ScoredRun, mode: SpanMode) -> SpanPlan:
    """Return the plan for `scored`."""
    run = scored.run
    scores = tuple(scored.scores.values())
    bare = run.sample.status == "retrieval_only" and len(run.retrievals) == 1
    if mode == "off":
        return SpanPlan(bare=bare)
    if scored.late or mode == "evaluation":
        return SpanPlan(beside=scores, bare=bare)
    everything = mode == "own"
    # If the request was recorded, a retrieval without a known span was most likely recorded, too.
    retrievals = tuple(
        [
            retrieval
            for retrieval in run.retrievals
            if everything or (run.target is None and retrieval.target is None)
        ]
    )
    request = not bare and (everything or run.target is None)
    if len(run.retrievals) == 1:
        elsewhere = run.retrievals[0].target is not None and not everything
        retrieval_home = "retrieval" if retrievals else "beside" if elsewhere else "request"
    else:
        retrieval_home = "request"
    answer_home = "retrieval" if bare and retrievals else "request"
    homes = {"retrieval": retrieval_home, "answer": answer_home}
    if not request:
        homes = {key: "beside" if home == "request" else home for key, home in homes.items()}
    at: dict[str, list[Score]] = {"request": [], "retrieval": [], "beside": []}
    for score in scores:
        at[homes[score.target]].append(score)
    return SpanPlan(
        request=request,
        retrievals=retrievals,
        on_request=tuple(at["request"]),
        on_retrieval=tuple(at["retrieval"]),
        beside=tuple(at["beside"]),
        bare=bare,
    )


class _RecordedSpan(NonRecordingSpan):
    """A span that was recorded elsewhere, marked as such for samplers that decide again on child spans."""

    # Azure Monitor's sampler limits the rate, unless the parent has one: a sampled request must keep its
    # scores.
    attributes: Mapping[str, object] = MappingProxyType({"_MS.sampleRate": 100.0})

    def is_recording(self) -> bool:
        return True


_NO_SPAN = set_span_in_context(INVALID_SPAN, Context())


def context_of(span: SpanContext | None) -> Context:
    """Return a context that has only `span`; never an empty one.

    The SDK takes an empty context for "use the current one", hence the invalid span.
    """
    if span is None:
        return _NO_SPAN
    kind = _RecordedSpan if span.trace_flags.sampled else NonRecordingSpan
    return set_span_in_context(kind(span), Context())


class SpanWriter:
    """Turns a `ScoredRun` into spans.

    Args:
        mode: When to write spans of the request itself and when only of its scores.
        span_events: Whether to write each score as a span event as well.
        content: Whether spans may include texts.
        tracer: Returns the current tracer.
        captured_elsewhere: Whether ``evaluation`` spans have the name of the request's service, and begin no
            earlier than it ended by that service's clock.
    """

    def __init__(
        self,
        mode: SpanMode,
        *,
        span_events: bool,
        content: ContentPolicy,
        tracer: Callable[[], Tracer],
        captured_elsewhere: bool = False,
    ) -> None:
        self._captured_elsewhere = captured_elsewhere
        self._mode: SpanMode = mode
        self._span_events = span_events
        self._content = content
        self._tracer = tracer
        self._limit: tuple[Tracer, int] | None = None
        self.describes_traces = False
        """Whether the request's span has Langfuse's trace fields."""

    def write(self, scored: ScoredRun, known: JudgedSpans | None) -> JudgedSpans:
        """Write the spans and return those the scores refer to.

        Args:
            scored: The request and its scores.
            known: The spans of the request's first export; None: never exported, or no longer stored.
        """
        run = scored.run
        plan = plan_spans(scored, self._mode)
        recorded = recorded_spans(run)
        request, retrieval = recorded.request, recorded.retrieval
        places = recorded.retrievals
        if known is not None:
            request, retrieval, places = known.request, known.retrieval, known.retrievals
        inner = run.parent
        if plan.request:
            request = inner = self._write_workflow(scored, plan.on_request) or run.parent
        written: dict[int, SpanContext | None] = {}
        for each in plan.retrievals:
            bare = scored if plan.bare else None
            alone = len(run.retrievals) == 1
            scores = plan.on_retrieval if alone else ()
            written[id(each)] = span = self._write_retrieval(each, inner, scores, scored, bare)
            if alone:
                retrieval = span or inner
        if written:
            places = tuple([written.get(id(each), each.target) for each in run.retrievals])
        if request is None and not (plan.bare and retrieval is not None):
            request = run.parent
        judged = JudgedSpans(request, retrieval, places)
        if not plan.beside:
            return judged
        spoken = plan.request or (plan.bare and bool(plan.retrievals))
        groups = [
            (carrier, beside)
            for carrier, beside in _by_carrier(plan.beside, judged)
            if any(score.status in ATTEMPTED for score in beside)
        ]
        # The verdict is on one span: the request's own, or the one beside the request's.
        home = judged.carrier("answer")
        for carrier, beside in sorted(groups, key=lambda group: group[0] != home):
            span = self._write_evaluation(scored, carrier, beside, with_verdict=not spoken)
            spoken = True
            if judged.request is None and carrier is None:
                judged = JudgedSpans(span)
        return judged

    def _write_workflow(self, scored: ScoredRun, scores: Sequence[Score]) -> SpanContext | None:
        run = scored.run
        tracer = self._tracer()
        span = tracer.start_span(
            _span_name(semconv.OPERATION_INVOKE_WORKFLOW, run.sample.name),
            context=context_of(run.parent),
            kind=SpanKind.INTERNAL,
            attributes=workflow_essentials(run),
            start_time=run.started_ns,
        )
        if span.is_recording():
            groups = [
                verdict_group(scored),
                *score_groups(scores),
                request_essentials(scored),
                *(trace_groups(run, self._content) if self.describes_traces else ()),
                *request_groups(scored, self._content, texts=True),
            ]
            carried = document_groups(run.sample.carried, self._content, semconv.CARRIED_DOCUMENTS)
            shown = shown_evaluation_groups(scored, scores, self._content, verdict=True)
            _fill(span, self._room(tracer, span), groups, carried, shown)
            self._add_events(span, scored, scores, run.ended_ns, with_verdict=True)
            if run.sample.status == "error":
                _mark_failure(span, run.error_type)
        span.end(end_time=max(run.started_ns, run.ended_ns))
        return _context_of(span)

    def _write_retrieval(
        self,
        retrieval: Retrieval,
        parent: SpanContext | None,
        scores: Sequence[Score],
        scored: ScoredRun,
        bare: ScoredRun | None,
    ) -> SpanContext | None:
        tracer = self._tracer()
        span = tracer.start_span(
            _span_name(semconv.OPERATION_RETRIEVAL, retrieval.data_source_id),
            context=context_of(parent),
            kind=SpanKind.CLIENT,
            attributes=retrieval_essentials(retrieval),
            start_time=retrieval.started_ns,
        )
        if span.is_recording():
            groups = score_groups(scores)
            if bare is not None:
                groups.insert(0, verdict_group(bare))
                groups.append(request_essentials(bare))
                groups += request_groups(bare, self._content, texts=False)
            question = bare.run.sample.question if bare else None
            groups += retrieval_groups(retrieval, self._content, question)
            documents = document_groups(retrieval.contexts, self._content)
            whole = bare is not None
            shown = shown_evaluation_groups(scored, scores, self._content, verdict=whole)
            _fill(span, self._room(tracer, span), groups, documents, shown)
            self._add_events(span, scored, scores, retrieval.ended_ns, with_verdict=whole)
            if retrieval.error_type is not None:
                _mark_failure(span, retrieval.error_type)
        span.end(end_time=max(retrieval.started_ns, retrieval.ended_ns))
        return _context_of(span)

    def _write_evaluation(
        self, scored: ScoredRun, carrier: SpanContext | None, scores: list[Score], *, with_verdict: bool
    ) -> SpanContext | None:
        tracer = self._tracer()
        essentials: Group = {
            semconv.GEN_AI_OPERATION_NAME: str(semconv.OPERATION_EVALUATION),
            semconv.OPENINFERENCE_SPAN_KIND: str(semconv.KIND_EVALUATOR),
        }
        name = scored.run.name
        if name:
            essentials[semconv.GEN_AI_WORKFLOW_NAME] = clean(name)
        if scored.late:
            essentials[semconv.LATE] = True
        if scored.revision:
            essentials[semconv.REVISION] = scored.revision
        now = time.time_ns()
        if self._captured_elsewhere:
            now = max(now, scored.run.ended_ns)
            service = scored.run.resource.get("service.name")
            if service:
                essentials[semconv.SERVICE] = clean(service)
        span_id = evaluation_span_id(
            carrier.trace_id if carrier else 0,
            carrier.span_id if carrier else 0,
            [(score.name, score.definition) for score in scores],
            run_id=scored.run.run_id,
            late=scored.late,
            revision=scored.revision,
        )
        with PinnedIds.pin(tracer, span_id):
            span = tracer.start_span(
                _span_name(semconv.OPERATION_EVALUATION, name),
                context=context_of(carrier),
                kind=SpanKind.INTERNAL,
                attributes=essentials,
                links=[Link(carrier)] if carrier else [],
                start_time=now,
            )
        if span.is_recording():
            first = [verdict_group(scored)] if with_verdict else []
            first += [*score_groups(scores), request_essentials(scored)]
            room = self._room(tracer, span)
            left = room - sum(map(len, first))
            evaluations = evaluation_groups(scored, scores, self._content, verdict=with_verdict, room=left)
            last = request_groups(scored, self._content, texts=carrier is None)
            _fill(span, room, first, evaluations, last=last)
            self._add_events(span, scored, scores, now, with_verdict=with_verdict)
        span.end(end_time=now)
        return _context_of(span)

    def _room(self, tracer: Tracer, span: Span) -> int:
        """Return how many attributes fit on a span just started."""
        if self._limit is None or self._limit[0] is not tracer:
            self._limit = tracer, _attribute_limit(tracer)
        room = self._limit[1]
        if room > 4 * HEADROOM:
            room -= HEADROOM
        there = attribute_of(span, "attributes")
        return room - (len(there) if isinstance(there, Mapping) else 0)

    def _add_events(
        self, span: Span, scored: ScoredRun, scores: Iterable[Score], timestamp_ns: int, *, with_verdict: bool
    ) -> None:
        if not self._span_events:
            return
        for event in result_events(scored, scores, self._content, verdict=with_verdict):
            span.add_event(semconv.EVENT_EVALUATION_RESULT, event.attributes, timestamp_ns)


def _span_name(operation: semconv.Term, what: str | None) -> str:
    return f"{operation} {clean(what)}" if what else str(operation)


def _fill(
    span: Span, room: int, groups: Iterable[Group], *lists: Iterable[Group], last: Iterable[Group] = ()
) -> None:
    """Add attributes to a span while there is room, each group whole or not at all.

    Nothing of `lists` follows the first group without room: readers interpret a missing index as the end.
    """
    fitting: Group = {}  # the span acquires its lock once for all of them
    for some in (groups, *lists, last):
        for group in some:
            if len(group) <= room:
                fitting.update(group)
                room -= len(group)
            elif some is not groups and some is not last:
                break
    if fitting:
        span.set_attributes(fitting)


def _attribute_limit(tracer: Tracer) -> int:
    # The SDK has no public access to its limits; reading them is the only way to protect the oldest
    # attributes from eviction. Without them, its variables and its default apply.
    limit = attribute_of(attribute_of(tracer, "_span_limits"), "max_span_attributes", "unknown")
    if limit is None or isinstance(limit, int):
        return UNLIMITED if limit is None else limit
    for variable in _LIMIT_VARIABLES:
        value = os.environ.get(variable, "").strip()
        if value.isdecimal():
            return int(value)
    return DEFAULT_LIMIT


def _context_of(span: Span) -> SpanContext | None:
    context: SpanContext | None = span.get_span_context()
    return context if context is not None and context.is_valid else None


def _mark_failure(span: Span, error_type: str | None) -> None:
    span.set_status(Status(StatusCode.ERROR, clean(error_type) if error_type else None))


def _by_carrier(scores: Iterable[Score], judged: JudgedSpans) -> list[tuple[SpanContext | None, list[Score]]]:
    carriers: dict[int, tuple[SpanContext | None, list[Score]]] = {}
    for score in scores:
        carrier = judged.carrier(score.target)
        key = carrier.span_id if carrier else 0
        carriers.setdefault(key, (carrier, []))[1].append(score)
    return list(carriers.values())
