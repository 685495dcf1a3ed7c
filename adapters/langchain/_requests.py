"""Begin and end of a request: the data recorded at its start, and the run offered to the meter at its end.

On the request's own path, called by `_events` under its guards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from sys import getsizeof
from types import MappingProxyType
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from opentelemetry.trace import Span

from ragmeter.adapters._open_requests import scope_around
from ragmeter.adapters._other_spans import ambient_context, ambient_span, captured, is_retrieval, is_workflow
from ragmeter.adapters._parts import NOT_CAPTURED, enclosure_around
from ragmeter.adapters._snapshots import bytes_of_new
from ragmeter.adapters._unseen import may_show
from ragmeter.adapters.reading.fields import CONVERSATION_KEYS, USER_KEYS, Reader
from ragmeter.adapters.reading.stages import joined
from ragmeter.requests.lone_retrieval import LoneRetrieval, Surroundings, recent
from ragmeter.requests.scope import current_scope, is_suppressed

from ._answers import note_output
from ._build import NOTHING_SAID, build_run, first_text, read_part
from ._passages import documents_beside_answer, documents_given
from ._payloads import Question, document_lists, field_of, find_question, last_refusal, snapshot_documents
from ._results import note_unseen
from ._state import Attachment, Ending, OpenRequest, Run, current_family, found_alone
from ._stored_spans import stored_span, tables_of_all

IGNORE_TAG = "ragmeter:ignore"
"""A request or retriever with this tag is not captured."""

_ID_KEYS = frozenset({*CONVERSATION_KEYS, *USER_KEYS})

NOTE_KEY = "ragmeter"
"""Key of the nested dictionary in a config's metadata."""

_TEXT_OF = attrgetter("text")
_NOTHING_MORE: Mapping[str, Any] = MappingProxyType({})


def begin_request(attached: Attachment, request: OpenRequest, event: Mapping[str, Any], inputs: object) -> None:
    """Record a request's data at its start: question, parent span, notes of the application."""
    current_family.set(request.family)
    attached.requests.open(request.root.key, request)
    options = request.options
    tags, metadata = event.get("tags"), event.get("metadata")
    if is_suppressed() or (tags and IGNORE_TAG in tags):
        request.ignored = True
        return
    if len(attached.finders) > 1 and (within := enclosure_around(attached.finders, "langchain")) is not None:
        request.within, request.clock = within, within.clock
        request.root.order = next(request.clock)
        if within is NOT_CAPTURED:
            request.ignored = True
            return
    if metadata:
        # A copy: the application may reuse the dictionary. Only the root's counts.
        request.metadata = dict(metadata)
    request.tags = tuple(tags or ())
    note = request.metadata.get(NOTE_KEY)
    request.scope = current_scope() if note is None else scope_around(note, attached.on_note)
    if hasattr(BaseCallbackManager.__init__, "__wrapped__"):
        request.tables = tables_of_all()
    request.context = context = ambient_context()
    # An empty context had nothing attached: no span either.
    span = ambient_span() if context else None
    if span is not None:
        request.span = span
        request.parent_span = span.get_span_context()
        if is_workflow(span):
            request.target = request.parent_span
    if not (options.strict or request.within):
        _look_back(attached, request, span)
    request.inputs = inputs
    if request.root.kind in ("chain", "tool"):
        request.question = find_question(inputs)
        if type(inputs).__name__ == "Command":
            request.resumes = True
            paused = attached.paused.close(str(request.metadata.get("thread_id")))
            request.question = paused or request.question
        if options.question is not None:
            with attached.on_override:
                _override_question(request, options.question, inputs)


def _look_back(attached: Attachment, request: OpenRequest, span: Span | None) -> None:
    """Record the retrievals before a request, and that it may be one itself.

    At its begin, because LangChain reports an asynchronous call's end in another context.
    """
    scope, metadata, run_id = request.scope or NOTHING_SAID, request.metadata, request.root.run_id
    is_own = span is None or is_workflow(span) or is_retrieval(span)
    conversation_id, user_id = scope.conversation_id, scope.user_id
    if not _ID_KEYS.isdisjoint(metadata):
        conversation_id = conversation_id or first_text(metadata, CONVERSATION_KEYS)
        user_id = user_id or first_text(metadata, USER_KEYS)
    parent = None if is_own else request.parent_span
    trace_id = None if parent is None else parent.trace_id
    around = Surroundings(trace_id, conversation_id, user_id)
    name = request.root.name or ""
    request.alone = LoneRetrieval(owner=attached.lookout.alone, run_id=run_id, name=name, around=around)
    earlier = found_alone.get() and recent(found_alone.get())
    if request.root.kind in ("chain", "llm"):
        request.before = attached.lookout.alone.before(earlier, around)
        for alone in request.before:
            alone.follow(run_id)
    if request.root.kind != "llm":
        found_alone.set((*earlier, request.alone))


def end_request(
    attached: Attachment,
    request: OpenRequest,
    ended_ns: int,
    outputs: object = None,
    error: BaseException | None = None,
    event: Mapping[str, Any] = _NOTHING_MORE,
) -> None:
    """Remove the request and offer it to the meter, if it retrieved."""
    try:
        _offer_request(attached, request, ended_ns, outputs, error, event)
    finally:
        if request.alone is not None and request.alone.ended_s == math.inf:
            request.alone.ended_s = time.monotonic()  # it is none
            if found_alone.get()[-1:] == (request.alone,):
                found_alone.set(found_alone.get()[:-1])
        for alone in request.before:
            alone.leave(request.root.run_id)


def _offer_request(
    attached: Attachment,
    request: OpenRequest,
    ended_ns: int,
    outputs: object,
    error: BaseException | None,
    event: Mapping[str, Any],
) -> None:
    if "inputs" in event:
        _take_late_inputs(attached, request, event["inputs"])
    size_bytes = attached.close_request(request)
    if size_bytes is None:
        return
    annotation = attached.annotations.close(request.root.run_id) if attached.is_annotated else None
    options = request.options
    given = output_contexts = None
    if options.contexts is not None and error is None:
        with attached.on_override:
            read = _read(options.contexts, outputs)
            given = None if read is None else snapshot_documents(read)
    if request.interrupted or not request.retrievals:
        _remember(attached, request)
    # Documents from functions count only beside a model call: programs that load and split documents output
    # such lists, too, without a question.
    found = request.retrievals or (request.llms and (request.shaped or request.passages))
    known = given is not None or request.handed or found
    if not (known or options.strict or holds_state(request)):
        output_contexts = documents_beside_answer(outputs, request.inputs)
    if known or output_contexts is not None:
        attached.lookout.looks -= attached.lookout.looks > 0
    elif request.within is None and (
        options.strict or not (request.parts or may_show(note.run.sent for note in request.llms))
    ):
        note_unseen(attached.lookout, request)
        request.dissolve()
        return
    output = note_output(outputs, request.inputs)
    if options.answer is not None and error is None:
        with attached.on_override:
            output = note_output(_read(options.answer, outputs))
    if annotation is not None:
        request.scope = annotation.merged_over(request.scope)
    if request.question.text is None and request.root.kind == "chain":
        request.question = _question_in_state(request, outputs)
    if request.tables or ambient_context() is not request.context:
        look_for_workflow(attached, request, request.root)
    # All that is needed of the application's objects was copied.
    request.inputs = request.span = request.context = None
    for note in request.retrievals:
        note.documents = ()
    if (meter := attached.meter()) is None:
        request.dissolve()
        return
    texts = (request.question.text, output.text, *map(_TEXT_OF, output.strings))
    size_bytes += request.loose_bytes + sum(map(getsizeof, filter(None, texts)))
    span = request.target or request.parent_span
    if span is not None:
        captured.note(request.target, request.parent_span, request.root.started_ns)
    ending = Ending(
        ended_ns,
        kind := type(outputs),
        error,
        "inputs" in event,
        None if issubclass(kind, str) else last_refusal(outputs),
        output,
        given,
        output_contexts,
    )
    build = partial(build_run, request, ending, attached.lookout)
    if request.within is not None and request.within.offer(
        partial(read_part, request, build), retrieved=bool(known or output_contexts), size_bytes=size_bytes
    ):
        return
    meter.port.offer(
        build,
        run_id=request.before[-1].run_id
        if request.before
        else request.root.run_id,  # both or neither is sampled
        trace_id=None if span is None else span.trace_id,
        size_bytes=size_bytes,
        scope=request.scope,
        alone=None
        if request.llms or request.parts or request.alone is None
        else request.alone.end(
            next((note.query for note in request.retrievals if note.query is not None), None),
            tuple([item for note in request.retrievals for item in note.contexts or ()]),
            is_paused=request.interrupted,
        ),
    )


def _remember(attached: Attachment, request: OpenRequest) -> None:
    """Store data of this request that a later one needs, and load those of an earlier one."""
    if request.interrupted and "thread_id" in request.metadata:
        attached.paused.open(str(request.metadata["thread_id"]), request.question)
    if request.calls and not (request.retrievals or request.options.strict):
        reader = request.reader
        if reader is None:
            found = [item for alone in request.before for item in alone.documents]
            request.handed = joined([found])
        else:
            request.handed = documents_given(reader, request.inputs)
            if request.passages and document_lists(request.inputs):
                request.brought = {item.text for item in request.handed}
        request.loose_bytes += bytes_of_new(request.handed, request.known_texts)


def _take_late_inputs(attached: Attachment, request: OpenRequest, inputs: object) -> None:
    """Record the actual input of a streamed run; at its start it was empty."""
    request.inputs = inputs
    if request.root.kind != "chain":
        return
    found = find_question(inputs)
    if found.text is not None or found.others:
        request.question = found
    if request.options.question is not None:
        with attached.on_override:
            _override_question(request, request.options.question, inputs)


def _question_in_state(request: OpenRequest, outputs: object) -> Question:
    """Look for the question of a resumed graph in the state it ends with."""
    if request.question.others or not (request.resumes or request.inputs is None):
        return request.question
    messages = field_of(outputs, "messages")
    if messages is not None:
        return find_question(messages)
    named = (field_of(outputs, key) for key in ("question", "query"))
    return find_question(next((value for value in named if isinstance(value, str)), None))


def _override_question(request: OpenRequest, reader: Reader, inputs: object) -> None:
    value = _read(reader, inputs)
    if value is not None:
        request.question = find_question(value)


def _read(reader: Reader, payload: object) -> Any:
    return field_of(payload, reader) if isinstance(reader, str) else reader(payload)


def look_for_workflow(attached: Attachment, request: OpenRequest, run: Run) -> None:
    """Record the span that another instrumentation made for the whole request, if it is current or stored."""
    if request.target is not None:
        return
    # At deeper runs than the root's children, the current span may be that of a graph's node.
    is_near = run.parent in (None, request.root) and ambient_context() is not request.context
    span = ambient_span() if is_near else None
    if span is not None and span is not request.span and is_workflow(span):
        request.target = span.get_span_context()
    elif request.tables:
        with attached.on_span_lookup:
            request.target = stored_span(request.root.run_id, request.tables)


def holds_state(request: OpenRequest) -> bool:
    """Return whether a graph has a memory: its state may contain documents of earlier turns."""
    return "thread_id" in request.metadata
