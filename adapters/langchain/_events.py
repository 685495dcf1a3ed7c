"""What happens at each LangChain event: the request's own path, so it is short.

Called by `RagMeterCallbackHandler`, always under a guard.  Each function notes ids, times and
shallow copies; texts are neither measured nor joined here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ragmeter.adapters._endings import error_type
from ragmeter.adapters._other_spans import (
    ambient_context,
    ambient_span,
    is_retrieval,
    keeps_spans,
    openinference_span,
    span_context,
)
from ragmeter.context import is_suppressed
from ragmeter.pipeline._weight import weight_of

from ._attachment import Attachment
from ._calls import Sent, new_bytes, tool_arguments
from ._passages import add_passage, enclosing_retriever, note_passage, note_paste, strings_of
from ._payloads import (
    document_lists,
    is_control_flow,
    is_interrupt,
    llm_text,
    snapshot_documents,
    tool_documents,
)
from ._requests import (
    IGNORE_TAG,
    begin_request,
    end_request,
    holds_state,
    look_for_workflow,
    take_late_inputs,
)
from ._state import (
    Ending,
    LlmNote,
    OpenRequest,
    Options,
    RetrievalNote,
    Run,
    RunKind,
    ToolText,
    active_retriever,
    copied_lists,
    current_family,
)
from ._tool_texts import may_hold_rows, text_of_tool

try:
    from langchain_core.runnables.config import var_child_runnable_config
except ImportError:  # not promised by LangChain: without it, fallbacks are requests of their own
    var_child_runnable_config = None  # type: ignore[assignment]

__all__ = [
    "begin",
    "chain_ended",
    "llm_ended",
    "llm_started",
    "retriever_ended",
    "retriever_failed",
    "retriever_started",
    "run_failed",
    "stand_in",
    "tool_ended",
]


_NOTHING = type(None)

COUNTED_FROM = 16 * 1024
"""Bytes of prompts from which on the table of requests in flight is told at once, not at the end."""


def begin(
    attached: Attachment,
    options: Options,
    kind: RunKind,
    run_id: UUID,
    parent_run_id: UUID | None,
    name: object,
    tags: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
    inputs: object,
) -> Run | None:
    """Note that a run starts; return it if it is new and its request is watched."""
    tracker = attached.tracker
    runs = tracker.runs
    if run_id.int in runs:
        return None
    now = time.time_ns()
    label = name if isinstance(name, str) else None
    parent = None if parent_run_id is None else runs.get(parent_run_id.int)
    if parent is None:
        parent = tracker.get(_ambient_run_id())
    if parent is None:
        if _comes_too_late(run_id, parent_run_id):
            return None
        begin_request(attached, options, kind, run_id, label, now, tags, metadata, inputs)
        return tracker.get(run_id) if kind != "chain" else None
    if is_suppressed() and not parent.request.ignored:
        tracker.hide(run_id, parent)
        return None
    run = tracker.add(run_id, kind, parent, label, now)
    request = run.request
    if request.ignored:
        return None
    if kind == "chain":
        run.tags = tags
        if type(inputs) is not str:
            lists = document_lists(inputs)
            if lists:
                run.documents = copied_lists(lists)
                request.reader = run
        if request.retrievals or request.passages:
            run.strings = (inputs,) if type(inputs) is str else strings_of(inputs)
    if request.target is None and ambient_context() is not request.context:
        look_for_workflow(request)
    return run


def stand_in(attached: Attachment, run_id: UUID, parent_run_id: UUID | None) -> None:
    """Note a prompt or parser: it shows nothing, but runs below it belong to its request."""
    tracker = attached.tracker
    parent = None if parent_run_id is None else tracker.runs.get(parent_run_id.int)
    if parent is not None and run_id.int not in tracker.runs:
        tracker.alias(run_id, parent)


def retriever_started(
    attached: Attachment,
    run: Run,
    query: object,
    tags: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
) -> None:
    """Note a retrieval if it counts: wanted, and not within another retriever."""
    request = run.request
    if request.ignored:
        return
    options = request.options
    names = {run.name, *(tags or ())}
    if IGNORE_TAG in names or not options.exclude.isdisjoint(names):
        return
    if options.include is not None and options.include.isdisjoint(names):
        run.transparent = True
        return
    if enclosing_retriever(run) is not None:
        return
    around = active_retriever.get()
    outer = None if around is None else attached.tracker.runs.get(around)
    note = RetrievalNote(run, query, metadata)
    if outer is not None and outer.open and outer.request is request and outer is not run:
        note.outer = outer
    run.note = note
    request.retrievals.append(note)
    if _may_show_span(request):
        _find_retrieval_span(attached, request, note)
    active_retriever.set(run.run_id.int)


def retriever_ended(attached: Attachment, run: Run, run_id: UUID, documents: Any) -> None:
    """Copy what an outermost retriever returned, at once: the application gets the very list."""
    now = time.time_ns()
    request = run.request
    run.open = False
    if request.ignored:
        _drop(attached, run, run_id)
        return
    note = run.note
    if note is not None:
        _leave_retriever(run_id)
        note.ended_ns = now
        note.ended_order = next(request.clock)
        note.contexts = contexts = snapshot_documents(documents)
        note.documents = tuple(documents) if isinstance(documents, (list, tuple)) else ()
        size_bytes = 0
        for item in contexts:
            size_bytes += item.size_bytes
        attached.tracker.requests.grow(request.root.run_id.int, size_bytes)
        if (note.target is None or request.target is None) and _may_show_span(request):
            _find_retrieval_span(attached, request, note)
        parent = run.parent
        while parent is not None:
            notes = parent.children_retrievals
            if notes is None:
                notes = parent.children_retrievals = []
            notes.append(note)
            parent = parent.parent
    if run is request.root:
        end_request(attached, request, Ending(now, _NOTHING, None, False), None)


def retriever_failed(attached: Attachment, run: Run, run_id: UUID, error: BaseException) -> None:
    """Note a retrieval that raised."""
    now = time.time_ns()
    note = run.note
    if note is not None:
        _leave_retriever(run_id)
        note.ended_ns = now
        note.ended_order = next(run.request.clock)
        note.error_type = error_type(error)
    run_failed(attached, run, run_id, error, {}, now)


def chain_ended(
    attached: Attachment, run: Run, run_id: UUID, outputs: object, kwargs: Mapping[str, Any]
) -> None:
    """Note documents that a chain gave out; end the request if it was the topmost run."""
    request = run.request
    if request.ignored or run_id.int != run.run_id.int:
        _drop(attached, run, run_id)
        return
    now = time.time_ns()
    run.open = False
    if type(outputs) is not str and (run is not request.root or not holds_state(request)):
        note_passage(attached, run, outputs, kwargs.get("inputs"), now)
    if run is not request.root and (request.retrievals or request.passages):
        note_paste(run, outputs, kwargs.get("inputs"))
    if run is request.root:
        streamed = "inputs" in kwargs
        if streamed:
            take_late_inputs(attached, request, kwargs["inputs"])
        end_request(attached, request, Ending(now, type(outputs), None, streamed), outputs)


def tool_ended(attached: Attachment, run: Run, run_id: UUID, output: object) -> None:
    """Note documents that a tool gave out beside its text."""
    now = time.time_ns()
    request = run.request
    if request.ignored:
        _drop(attached, run, run_id)
        return
    run.open = False
    if not run.children_retrievals and enclosing_retriever(run) is None:
        documents = tool_documents(output)
        if documents:
            add_passage(attached, run, now, None, {"": snapshot_documents(documents)})
        elif not request.options.strict:
            text = text_of_tool(output)
            if text is not None and may_hold_rows(text):
                note = ToolText(run, next(request.clock), now, text)
                request.tool_texts.append(note)
                attached.tracker.requests.grow(request.root.run_id.int, weight_of(text))
    if run is request.root:
        end_request(attached, request, Ending(now, _NOTHING, None, False), None)


def llm_started(
    attached: Attachment, run: Run, read: Callable[[Any], Sent], prompt: object
) -> None:
    """Note a model call in progress and what it was sent, unless it helps a retriever."""
    request = run.request
    if request.ignored:
        return
    request.open_llms[run.run_id.int] = run
    if run.retriever is not None or run is request.root:
        return
    run.sent = read(prompt)
    size_bytes = new_bytes(run.sent, request.known_texts) + request.loose_bytes
    request.loose_bytes = size_bytes
    if size_bytes >= COUNTED_FROM:
        request.loose_bytes = 0
        attached.tracker.requests.grow(request.root.run_id.int, size_bytes)


def llm_ended(attached: Attachment, run: Run, run_id: UUID, response: object) -> None:
    """Note what a model said, unless it helped a retriever."""
    request = run.request
    run.open = False
    if request.ignored:
        _drop(attached, run, run_id)
        return
    request.open_llms.pop(run_id.int, None)
    if run is request.root:
        attached.tracker.close_request(request)
        return
    if run.retriever is None:
        text = llm_text(response)
        arguments = () if text else tool_arguments(response)
        request.llms.append(LlmNote(run, text, arguments))


def run_failed(
    attached: Attachment,
    run: Run,
    run_id: UUID,
    error: BaseException,
    kwargs: Mapping[str, Any],
    now: int,
) -> None:
    """Note a failure; end the request if the topmost run failed."""
    request = run.request
    if request.ignored or run_id.int != run.run_id.int:
        _drop(attached, run, run_id)
        return
    run.open = False
    if request.open_llms.pop(run_id.int, None) is not None:
        request.failed_llms.append(run)
    if is_control_flow(error):
        request.interrupted = request.interrupted or is_interrupt(error)
    else:
        run.failed = True
    if run is request.root:
        streamed = "inputs" in kwargs
        if streamed:
            take_late_inputs(attached, request, kwargs["inputs"])
        end_request(attached, request, Ending(now, _NOTHING, error, streamed), None)


def _ambient_run_id() -> UUID | None:
    """Return the run that encloses the current code by LangChain's own context variable.

    It is right where the parent id is missing: for the attempts of ``with_fallbacks``
    (langchain#36072) and for chains that user code calls with explicit callbacks.
    """
    if var_child_runnable_config is None:
        return None
    config = var_child_runnable_config.get()
    if not config:
        return None
    parent = getattr(config.get("callbacks"), "parent_run_id", None)
    return parent if isinstance(parent, UUID) else None


def _comes_too_late(run_id: UUID, parent_run_id: UUID | None) -> bool:
    """Tell whether a run starts below a request that is over; then so do all runs below it."""
    family = current_family.get()
    if family is None or not family.closed or parent_run_id is None:
        return False
    if parent_run_id.int not in family.ids:
        return False
    family.ids.add(run_id.int)
    return True


def _leave_retriever(run_id: UUID) -> None:
    if active_retriever.get() == run_id.int:
        active_retriever.set(None)


def _drop(attached: Attachment, run: Run, run_id: UUID) -> None:
    """Forget a run that another one stands for; with an ignored root, its request."""
    if run_id.int == run.run_id.int:
        attached.tracker.close_request(run.request)
    else:
        attached.tracker.drop(run_id, run.request)


def _may_show_span(request: OpenRequest) -> bool:
    """Tell whether looking for another instrumentation's span can find any."""
    return ambient_context() is not request.context or keeps_spans()


def _find_retrieval_span(attached: Attachment, request: OpenRequest, note: RetrievalNote) -> None:
    """Note the span another instrumentation made for a retrieval, if it can be seen now.

    Asked at the retrieval's start and end: which of them shows it depends on whose handler
    comes first.
    """
    if ambient_context() is not request.context:
        span = ambient_span()
        if span is not None and span is not request.span and is_retrieval(span):
            note.target = span_context(span)
    if note.target is not None and request.target is not None:
        return
    with attached.on_span_lookup:
        if note.target is None:
            note.target = openinference_span(note.run.run_id)
        if request.target is None:
            request.target = openinference_span(request.root.run_id)
