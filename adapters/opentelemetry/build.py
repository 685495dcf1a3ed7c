"""Conversion of a request that was found in spans to a `RagRun` for the meter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.trace import SpanContext, TraceFlags

from ragmeter.adapters.reading.documents import Document
from ragmeter.adapters.reading.fields import CONVERSATION_KEYS, USER_KEYS
from ragmeter.adapters.reading.stages import SeenStage, SharedContexts, to_stages
from ragmeter.adapters.reading.values import mapping_of, opened
from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import RagSample, Reference
from ragmeter.metrics.sample import SampleStatus, StageKind, search_query_of
from ragmeter.requests.by_hand import GAVE_UP
from ragmeter.requests.scope import RequestScope

from ._contexts import Read, Seen
from ._sources import source_in, store_in
from .conventions import reading
from .record import SpanRecord
from .requests import FoundRequest

_LISTS = ("contexts", "context_ids", "alternative_answers")
_REFERENCES = [(f"ragmeter.reference.{name}", name) for name in ("answer", *_LISTS)]
_CONVERSATION = ("session.id", "langfuse.session.id", "gen_ai.conversation.id")


def _also_in_camel_case(names: Sequence[str]) -> list[str]:
    """Return each name, and as JavaScript writes it: ``sessionId``."""
    return [form for name in names for form in (name, re.sub("_(.)", lambda found: found[1].upper(), name))]


_CONVERSATION_NAMES = _also_in_camel_case(CONVERSATION_KEYS)
_USER_NAMES = _also_in_camel_case(USER_KEYS)
_METADATA = (
    "ragmeter.metadata.",
    "traceloop.association.properties.",
    "langfuse.trace.metadata.",
    "langsmith.metadata.",
    "ai.telemetry.metadata.",
)
"""Prefixes of attributes with a request's metadata. OpenInference has all of it in one, as JSON."""
_PLAIN = ("index_version", "prompt_version")
"""Metadata attributes without a prefix: the index and the prompt that were used."""
_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_USER = ("user.id", "langfuse.user.id", "enduser.id")


def is_scorable(found: FoundRequest) -> bool:
    """Return whether a request has anything to measure: a failed retrieval is a result, too."""
    return found.usable != "none" or found.reason == "retrieval_error"


def sample_of(found: FoundRequest, scope: RequestScope | None = None) -> RagSample:
    """Return the request as a sample for metrics.

    Args:
        found: The request.
        scope: The scope set by the code around it, if known.
    """
    return _sample(found, scope or RequestScope(), SharedContexts())


def _sample(found: FoundRequest, scope: RequestScope, context: SharedContexts) -> RagSample:
    question = found.question if scope.question is None else scope.question
    contexts = found.contexts if found.shown is None else found.shown
    # With only a part of the retrieved documents known, contexts are unknown.
    unknown = found.reason == "retrieval_error" or found.partial
    made = context.of(contexts)
    return RagSample(
        question=question,
        contexts=None if unknown else made,
        carried=found.carried,
        stages=to_stages(_stages(found), context)
        if found.usable == "full" and found.seen and not found.partial
        else None,
        search_query=search_query_of(question, [query for seen in found.seen for query in _queries(seen)]),
        contexts_by="ids" if found.usable == "ids_only" else "prompt" if found.shown is not None else "runs",
        # Without its own span, a model's last reply may be the input of a further step.
        answer=None if found.partial and found.span is None else found.answer,
        reference=scope.reference or reference_in(span.attributes for span in found.members),
        status=_status(found),
        name=scope.name or _name(found),
    )


def build_run(found: FoundRequest, scope: RequestScope | None = None, *, remote: bool = False) -> RagRun:
    """Build the run of a request.

    Args:
        found: The request.
        scope: The scope set by the code around it, if known.
        remote: Whether its spans were made in another process.
    """
    scope = scope or RequestScope()
    context = SharedContexts()
    spans = found.members if found.span is None else (found.span, *found.members)
    whole = spans[0] if found.span is not None else None
    started = whole.started_ns if whole else min(span.started_ns for span in spans)
    ended = whole.ended_ns if whole else max(span.ended_ns for span in spans)
    attributes = [span.attributes for span in spans]
    metadata = _metadata_in(attributes)
    first = found.first
    return RagRun(
        sample=_sample(found, scope, context),
        run_id=found.key,
        framework=found.convention,
        started_ns=started,
        ended_ns=ended,
        retrievals=tuple(_retrieval(found, seen, context, remote=remote) for seen in found.seen),
        parent=None if first.parent_id is None else _context_of(first, first.parent_id, remote=remote),
        target=None
        if (judged := found.span or found.answering) is None
        else _context_of(judged, judged.span_id, remote=remote),
        conversation_id=scope.conversation_id
        or _first(attributes, _CONVERSATION)
        or _first([metadata], _CONVERSATION_NAMES),
        response_id=found.response_id,
        user_id=scope.user_id or _first(attributes, _USER) or _first([metadata], _USER_NAMES),
        tags=scope.tags,
        metadata=scope.metadata,
        framework_metadata={**spans[0].deployed, **_model_in(spans), **metadata},
        error_type=(found.span or spans[0]).error_type if found.failed else None,
        resource=spans[0].resource,
    )


def reference_in(given: Iterable[Mapping[str, object]]) -> Reference | None:
    """Return the reference in ``ragmeter.reference.*`` attributes: texts, lists, or lists as JSON.

    Args:
        given: Attributes of spans, or baggage; the first that has a field counts.
    """
    fields: dict[str, object] = {}
    for one in given:
        for key, name in _REFERENCES:
            if key in one:
                fields.setdefault(name, one[key])
    if not fields:
        return None
    known: dict[str, Any] = {}
    answer = fields.get("answer")
    if isinstance(answer, str):
        known["answer"] = answer
    for name in _LISTS:
        value = opened(fields.get(name))
        if isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)) and all(isinstance(item, (str, int)) for item in value):
            known[name] = tuple(str(item) for item in value)
    return Reference(**known) if known else None


def _stages(found: FoundRequest) -> Iterator[SeenStage]:
    """Yield the output of each retriever, and of each reranking after it."""
    place = 0
    for seen in found.seen:
        before = seen.from_spans or seen.within
        inputs = tuple(range(place, place + len(before)))
        for read in before:
            yield SeenStage(read.span.name, _kind_of(read), read.documents().items)
        kind: StageKind = "postprocessor" if before else _kind_of(seen.read)
        yield SeenStage(seen.read.span.name, kind, seen.documents.items, inputs)
        place += len(before) + 1


def _kind_of(read: Read) -> StageKind:
    return "retriever" if read.tool is None else "tool"


def _status(found: FoundRequest) -> SampleStatus:
    # One that finished without its retrieval was answered nevertheless.
    lost = found.reason == "retrieval_error" and (found.span is None or found.answer is None)
    if lost or (found.failed and not found.refused):
        spans = [span for span in found.members if span.failed] if found.span is None else [found.span]
        raised = {span.error_type for span in spans}
        if found.span is None and raised == {_CLOSED}:
            return "partial"  # the span around a stream ends with it only
        return "cancelled" if raised and raised <= GAVE_UP else "error"
    if found.partial or _was_left_early(found):
        return "partial"
    if found.refused:
        return "refused"
    if found.answer is not None:
        return "ok"
    return "no_answer" if found.asked_model else "retrieval_only"


_CLOSED = "GeneratorExit"
"""What is raised in a stream that is closed before its end."""


def _was_left_early(found: FoundRequest) -> bool:
    """Return whether the reader of a stream left: a call that ran on was closed, or said more than was read."""
    if found.span is None:
        return False
    late = [s for s in found.members if s.ended_ns > found.span.ended_ns or found.answer is None]
    for span, (reader, role) in ((span, known) for span in late if (known := reading(span)) is not None):
        if role == "model":
            said, answer = reader.said(span) or "", found.answer or ""
            if span.error_type == _CLOSED or (answer and said != answer and said.startswith(answer)):
                return True
    return False


def _name(found: FoundRequest) -> str | None:
    if found.span is None:
        return None
    for key in (
        "gen_ai.workflow.name",
        "gen_ai.agent.name",
        "traceloop.workflow.name",
        "ai.telemetry.functionId",
    ):
        named = found.span.attributes.get(key)
        if isinstance(named, str) and named:
            return named
    return found.span.name or None


def _retrieval(found: FoundRequest, seen: Seen, context: SharedContexts, *, remote: bool) -> Retrieval:
    """Return a retrieval, or the reranking that replaced it; its span receives the judgement."""
    read = seen.read
    first = seen.retrievals[0].span
    limit = read.span.attributes.get("gen_ai.retrieval.top_k", read.span.attributes.get("reranker.top_k"))
    return Retrieval(
        started_ns=first.started_ns,
        ended_ns=read.span.ended_ns,
        contexts=context.of(_brought(seen)),
        query=next(filter(None, _queries(seen)), None),
        name=first.name or None,
        data_source_id=source_in(first.attributes)
        or found.sources.get(first.span_id)
        or store_in(first.attributes),
        top_k=limit if isinstance(limit, int) else None,
        error_type=read.span.error_type if read.span.failed else None,
        target=_context_of(read.span, read.span.span_id, remote=remote),
    )


def _brought(seen: Seen) -> tuple[Document, ...]:
    if not seen.from_spans:
        return seen.documents.items
    return tuple(item for read in seen.from_spans for item in read.documents().items)


def _queries(seen: Seen) -> tuple[str | None, ...]:
    """Return the query of each retrieval; if none reports one, the reranking's."""
    queries = tuple(read.reader.query(read.span) for read in seen.retrievals)
    return queries if any(queries) else (seen.read.reader.query(seen.read.span),)


def _context_of(span: SpanRecord, span_id: str, *, remote: bool) -> SpanContext:
    return SpanContext(
        trace_id=int(span.trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=remote,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if span.sampled else TraceFlags.DEFAULT),
    )


def _metadata_in(attributes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metadata on spans; that of the request's own span has precedence."""
    found: dict[str, Any] = {}
    for given in attributes:
        for key, value in given.items():
            if key.startswith(_METADATA):
                prefix = next(one for one in _METADATA if key.startswith(one))
                found.setdefault(key.removeprefix(prefix), value)
            elif key in _PLAIN:
                found.setdefault(key, value)
        for key, value in mapping_of(given.get("metadata")).items():
            found.setdefault(key, value)
    return found


def _model_in(spans: Sequence[SpanRecord]) -> dict[str, str]:
    """Return the model that was called last, which answered."""
    found = (_first([span.attributes], _MODEL) for span in sorted(spans, key=lambda one: -one.ended_ns))
    return next(({"model": name} for name in found if name is not None), {})


def _first(attributes: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> str | None:
    given = list(attributes)
    for key in keys:
        for item in given:
            value = item.get(key)
            if value is not None and isinstance(value, (str, int)) and str(value):
                text = opened(value)
                return text if isinstance(text, str) else json.dumps(text)
    return None
