"""Begins and ends one LangChain request: what is read at its root's start and end.

The request's own path: at the start the question, the scope and the surrounding span are noted, at
the end the answer, and then the request leaves the tracker and is offered to the meter.  The
sample itself is built later, on the meter's worker, by `_capture`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ragmeter.adapters._other_spans import (
    ambient_context,
    ambient_span,
    is_workflow,
    keeps_spans,
    openinference_span,
)
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.context import RequestScope, current_scope, is_suppressed, parse_scope
from ragmeter.pipeline._weight import weight_of

from ._attachment import Attachment
from ._build import build_run, has_retrieved
from ._outputs import note_output
from ._payloads import (
    DOCUMENT_KEYS,
    Question,
    document_lists,
    field_of,
    find_answer,
    find_question,
    snapshot_documents,
)
from ._state import Ending, OpenRequest, Options, RunKind

__all__ = [
    "IGNORE_TAG",
    "begin_request",
    "end_request",
    "holds_state",
    "look_for_workflow",
    "take_late_inputs",
]

IGNORE_TAG = "ragmeter:ignore"
"""A request or retriever with this tag is not ours."""

NOTE_KEY = "ragmeter"
"""Key of the nested dictionary in a config's metadata."""


def begin_request(
    attached: Attachment,
    options: Options,
    kind: RunKind,
    run_id: UUID,
    name: str | None,
    now: int,
    tags: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
    inputs: object,
) -> None:
    request = attached.tracker.open_request(run_id, kind, name, now, options)
    if is_suppressed() or (tags and IGNORE_TAG in tags):
        request.ignored = True
        return
    if metadata:
        # A copy: the application may reuse the dictionary. Only the root's counts.
        request.metadata = dict(metadata)
        note = request.metadata.get(NOTE_KEY)
        if note is not None:
            with attached.on_note:
                request.scope = _scope(note)
    if tags:
        request.tags = _own_tags(tags, request.metadata)
    if request.scope is None:
        request.scope = current_scope()
    request.context = context = ambient_context()
    # Nothing was ever attached to an empty context: no span either.
    span = ambient_span() if context else None
    if span is not None:
        request.span = span
        request.parent_span = span.get_span_context()
        if is_workflow(span):
            request.target = request.parent_span
    request.inputs = inputs
    if kind in ("chain", "tool"):
        request.question = find_question(inputs)
        if type(inputs).__name__ == "Command":
            request.resumes = True
        if options.question is not None:
            with attached.on_override:
                _override_question(request, options.question, inputs)


def end_request(
    attached: Attachment, request: OpenRequest, ending: Ending, outputs: object
) -> None:
    """Take the request out and offer it to the meter, if it retrieved."""
    run_id = request.root.run_id
    size_bytes = attached.tracker.close_request(request)
    if size_bytes is None:
        return
    annotation = attached.take_annotation(run_id)
    options = request.options
    given = output_contexts = None
    if options.contexts is not None and ending.error is None:
        with attached.on_override:
            read = _read(options.contexts, outputs)
            given = None if read is None else snapshot_documents(read)
    if given is None and not request.retrievals and not has_retrieved(request):
        output_contexts = _output_documents(request, outputs)
        if output_contexts is None:
            request.dissolve()
            return
    output = note_output(outputs, request.inputs)
    if options.answer is not None and ending.error is None:
        with attached.on_override:
            output = note_output(_read(options.answer, outputs))
    if annotation is not None:
        request.scope = annotation.merged_over(request.scope)
    if request.question.text is None and request.root.kind == "chain":
        request.question = _question_in_state(request, outputs)
    if request.target is None:
        if ambient_context() is not request.context:
            look_for_workflow(request)
        if keeps_spans() and request.target is None:
            with attached.on_span_lookup:
                request.target = openinference_span(run_id)
    _release(request)
    meter = attached.meter
    if meter is None:
        request.dissolve()
        return
    span = request.target or request.parent_span
    meter.offer(
        lambda: build_run(request, ending, output, given, output_contexts),
        run_id=run_id,
        trace_id=None if span is None else span.trace_id,
        size_bytes=size_bytes
        + request.loose_bytes
        + output.size_bytes
        + weight_of(request.question.text),
        scope=request.scope,
    )


def take_late_inputs(attached: Attachment, request: OpenRequest, inputs: object) -> None:
    """Take the input a streamed run was really given; at its start it was empty."""
    request.inputs = inputs
    if request.root.kind != "chain":
        return
    found = find_question(inputs)
    if found.text is not None or found.others:
        request.question = found
    if request.options.question is not None:
        with attached.on_override:
            _override_question(request, request.options.question, inputs)


def _release(request: OpenRequest) -> None:
    """Let go of the application's objects; what is needed of them has been copied."""
    request.inputs = None
    request.span = None
    request.context = None
    for note in request.retrievals:
        note.documents = ()


def _output_documents(request: OpenRequest, outputs: object) -> tuple[ContextSnapshot, ...] | None:
    """Return documents that stand beside an answer in the root's output; the last resort.

    This is all that is seen of a chain whose own constructor got the handler. Never for a graph
    that remembers: its state may hold documents of earlier turns.
    """
    if request.options.strict or holds_state(request):
        return None
    lists = document_lists(outputs)
    if not lists or find_answer(outputs, request.inputs) is None:
        return None
    given = document_lists(request.inputs)
    for key in DOCUMENT_KEYS:
        if lists.get(key) and key not in given:
            return snapshot_documents(lists[key])
    return None


def holds_state(request: OpenRequest) -> bool:
    return "thread_id" in request.metadata


def _question_in_state(request: OpenRequest, outputs: object) -> Question:
    """Look for the question of a resumed graph in the state it ends with."""
    if request.question.others or not (request.resumes or request.inputs is None):
        return request.question
    messages = field_of(outputs, "messages")
    return find_question(messages) if messages is not None else _question_key(outputs)


def _question_key(outputs: object) -> Question:
    """Return the question that a final state holds under its plainest keys."""
    for key in ("question", "query"):
        value = field_of(outputs, key)
        if isinstance(value, str):
            return find_question(value)
    return find_question(None)


def _override_question(
    request: OpenRequest, reader: str | Callable[[Any], Any], inputs: object
) -> None:
    value = _read(reader, inputs)
    if value is not None:
        request.question = find_question(value)


def _read(reader: str | Callable[[Any], Any], payload: object) -> Any:
    return field_of(payload, reader) if isinstance(reader, str) else reader(payload)


def _scope(note: object) -> RequestScope | None:
    scope = parse_scope(note)
    return current_scope() if scope is None else scope.merged_over(current_scope())


def _own_tags(tags: Sequence[str] | None, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the application's tags, without those LangChain adds for its own purposes."""
    if not tags:
        return ()
    classes = {
        metadata.get("ls_vector_store_provider"),
        metadata.get("ls_embedding_provider"),
    }
    return tuple(
        tag
        for tag in tags
        if tag not in classes
        and not tag.startswith(("seq:step:", "map:key:", "graph:step:", "retry:attempt:"))
    )


def look_for_workflow(request: OpenRequest) -> None:
    """Note the span another instrumentation made for the whole request, if it is current now."""
    span = ambient_span()
    if span is not None and span is not request.span and is_workflow(span):
        request.target = span.get_span_context()
