"""The callbacks of each LangChain event: they run on the request's own path and are short.

`on_start` and `on_end` create the callbacks of `RagMeterCallbackHandler`, which contain their errors. Each
function records ids, times and shallow copies; texts are not joined here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from sys import getsizeof
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ragmeter.adapters._other_spans import ambient_context, ambient_span, is_retrieval
from ragmeter.adapters._snapshots import bytes_of_new
from ragmeter.adapters._unseen import context_in
from ragmeter.adapters.reading.prompts import Sent, new_bytes
from ragmeter.adapters.reading.route import Paste
from ragmeter.requests.by_hand import error_type
from ragmeter.requests.refusals import refusal_of
from ragmeter.requests.scope import is_suppressed

from ._calls import tool_arguments
from ._passages import MIN_LENGTH, enclosing_retriever, note_passage, note_paste, strings_of
from ._payloads import (
    copied_lists,
    document_lists,
    is_control_flow,
    is_interrupt,
    llm_text,
    response_id,
    snapshot_documents,
)
from ._requests import IGNORE_TAG, begin_request, end_request, holds_state, look_for_workflow
from ._results import note_result, note_tool
from ._state import (
    Attachment,
    LlmNote,
    OpenRequest,
    RetrievalNote,
    Run,
    active_retriever,
    current_config,
    current_family,
    default_attachment,
)
from ._stored_spans import stored_span, tables_of

if TYPE_CHECKING:
    from ._handler import RagMeterCallbackHandler


COUNTED_FROM = 16 * 1024
"""Bytes of recorded texts from which they are added to the table of open requests at once, not at the end."""


Note = Callable[[Attachment, Run, Any, Mapping[str, Any], int], None]
"""Records the end of a run: its result or error, the framework's other data, the time."""


def on_start(  # noqa: PLR0915 -- what `start` does
    kind: str, given: str, read: Callable[[Any], Sent] | None = None
) -> Callable[..., None]:
    """Return the callback for the start of runs of a kind; the topmost run begins a request.

    Most events of a request are irrelevant, so a callback does as much as possible without further calls.

    Args:
        kind: The kind of run.
        given: The framework's name of the run's input.
        read: For model calls: returns the sent texts.
    """

    def start(  # noqa: PLR0915 -- on the request's path a further function costs more than reading a long one
        watcher: RagMeterCallbackHandler,
        serialized: Any = None,  # noqa: ARG001 -- the framework's
        inputs: Any = None,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        name: object = None,
        **event: Any,
    ) -> None:
        attached = watcher._own or default_attachment()  # noqa: SLF001 -- a method of it
        if attached is None:
            return
        try:
            inputs = event.get(given) if inputs is None else inputs
            runs, key = attached.runs, run_id.int
            if key in runs:
                return
            parent = (parent_run_id and runs.get(parent_run_id.int)) or attached.run_around()
            if event.get("run_type") in _PASSING:
                # It neither retrieves nor replies, but runs below it belong to its request.
                if parent is not None:
                    runs[key] = parent
                    parent.request.family.add(key)
                    if type(inputs) is dict:
                        parent.request.filled = context_in(inputs) or parent.request.filled
                return
            now = time.time_ns()
            label = name if isinstance(name, str) and read is None else None
            if parent is None:
                if parent_run_id is not None and _comes_too_late(run_id, parent_run_id):
                    return
                request = OpenRequest(watcher._options)  # noqa: SLF001 -- as above
            elif is_suppressed() and not parent.request.ignored:
                attached.hide(run_id, parent)
                return
            else:
                request = parent.request
            if request.ignored:
                run = request.root
            else:
                run = Run()
                run.key, run.request, run.kind, run.parent = key, request, kind, parent
                run.name, run.started_ns, run.order = label, now, next(request.clock)
                if parent is not None:
                    run.retriever = parent if parent.kind == "retriever" else parent.retriever
            runs[key] = run
            request.family.add(key)
            if parent is None:
                request.root, run.run_id = run, run_id
                begin_request(attached, request, event, None if read else inputs)
            elif len(request.family) > request.most_members:
                attached.forget_ended(request)
            if request.ignored:
                return
            if run is not request.root:
                if run.parent is request.root and request.config is None and current_config is not None:
                    request.config = current_config.get() or _NO_CONFIG
                if request.target is None and (request.tables or ambient_context() is not request.context):
                    look_for_workflow(attached, request, run)
                if kind == "chain":
                    run.tags = event.get("tags")
                    if type(inputs) is not str:
                        _note_inputs(request, run, inputs)
                    elif request.retrievals or request.passages:
                        run.strings = (inputs,)
            if kind in ("tool", "chain") and request.options.rules is not None:
                run.rule = request.options.rules.rule_for(run.name, is_tool=kind == "tool")
            if kind == "tool" or run.rule is not None:
                run.taken = dict(inputs) if type(inputs) is dict else inputs
            if kind == "retriever":
                run.run_id = run_id
                _retriever_started(attached, run, inputs, event)
            elif read is not None:
                request.calls.append(run)
                if run.retriever is None:  # else it helps a retriever
                    run.sent = read(inputs)
                    request.loose_bytes += new_bytes(run.sent, request.known_texts)
            if request.loose_bytes >= COUNTED_FROM:
                attached.requests.grow(request.root.key, request.loose_bytes)
                request.loose_bytes = 0
        except Exception as error:
            if not attached.callbacks[f"on_{kind}_start"].contains(error):
                raise

    return start


_PASSING = frozenset({"prompt", "parser"})
_NO_CONFIG: Mapping[str, Any] = MappingProxyType({})


def on_end(callback: str, given: str, note: Note) -> Callable[..., None]:
    """Return the callback for the end of a run, which is recorded if its request is watched.

    Args:
        callback: The name under which its failures are counted.
        given: The framework's name of the run's result.
        note: The function that records it.
    """

    def end(watcher: RagMeterCallbackHandler, result: Any = None, *, run_id: UUID, **event: Any) -> None:
        attached = watcher._own or default_attachment()  # noqa: SLF001 -- a method of it
        run = None if attached is None else attached.runs.get(run_id.int)
        if attached is None or run is None:
            return
        try:
            if run.key != run_id.int:  # another run replaces it, and it has no open runs below it
                attached.runs.pop(run_id.int, None)
                run.request.family.discard(run_id.int)
            elif run.request.ignored:
                attached.close_request(run.request)
            else:
                run.open = False
                if result is None:
                    result = event.get(given)
                note(attached, run, result, event, time.time_ns())
                request = run.request
                if request.loose_bytes >= COUNTED_FROM and run.parent is not None:
                    attached.requests.grow(request.root.key, request.loose_bytes)
                    request.loose_bytes = 0
        except Exception as error:
            if not attached.callbacks[callback].contains(error):
                raise

    return end


def _note_inputs(request: OpenRequest, run: Run, inputs: object) -> None:
    """Record a chain's input documents and, after a retrieval, its input strings."""
    lists = document_lists(inputs)
    if lists:
        run.documents = copied_lists(lists)
        request.reader = run
    if "" not in lists and (request.retrievals or request.passages):
        run.strings = strings_of(inputs)


def _retriever_started(attached: Attachment, run: Run, query: object, event: Mapping[str, Any]) -> None:
    """Record a retrieval if it counts: not excluded, and not within another retriever."""
    request = run.request
    options = request.options
    names = {run.name, *(event.get("tags") or ())}
    if IGNORE_TAG in names or not options.exclude.isdisjoint(names):
        return
    if options.include is not None and options.include.isdisjoint(names):
        run.transparent = True
        return
    if run.retriever is not None and (enclosing := enclosing_retriever(run)) is not None:
        run.nested = RetrievalNote(run, outer=enclosing)
        request.note("nested", run.nested)
        return
    around = active_retriever.get()
    outer = None if around is None else attached.runs.get(around)
    note = RetrievalNote(run, query if isinstance(query, str) else None, metadata=event.get("metadata"))
    note.retriever = _calling_retriever()
    if outer is not None and outer.open and outer.request is request and outer is not run:
        note.outer = outer
    run.note = note
    request.retrievals.append(note)
    # Not at the request's start: only the context of a run below has the configuration with all handlers.
    config = None if current_config is None else current_config.get()
    handlers = getattr((config or _NO_CONFIG).get("callbacks"), "handlers", ())
    if len(handlers) > 1 and not request.tables:
        request.tables = tables_of(handlers)
    if request.tables or ambient_context() is not request.context:
        _find_retrieval_span(attached, request, note)
    active_retriever.set(run.key)


def _calling_retriever() -> object:
    """Return the retriever whose call is running, which callbacks do not pass; None if unknown."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- the documented way to the callers
    for _ in range(_MAX_CALLERS):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == "langchain_core.retrievers":
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


_MAX_CALLERS = 15
"""Frames between a retriever's call and its callback: dispatching, and ragmeter's."""


def retriever_ended(attached: Attachment, run: Run, documents: Any, event: Mapping[str, Any], now: int) -> None:
    """Copy an outermost retriever's documents, at once: the application receives the same list."""
    del event
    request = run.request
    note = run.note
    if note is not None:
        if active_retriever.get() == run.key:
            active_retriever.set(None)
        note.ended_ns = now
        note.ended_order = next(request.clock)
        note.contexts = contexts = snapshot_documents(documents)
        note.documents = tuple(documents) if isinstance(documents, (list, tuple)) else ()
        request.loose_bytes += bytes_of_new(contexts, request.known_texts)
        if (note.target is None or request.target is None) and (
            request.tables or ambient_context() is not request.context
        ):
            _find_retrieval_span(attached, request, note)
        note.note_around()
    elif run.nested is not None:
        run.nested.contexts = contexts = snapshot_documents(documents)
        request.loose_bytes += bytes_of_new(contexts, request.known_texts)
    if run is request.root:
        end_request(attached, request, now)


def retriever_failed(
    attached: Attachment, run: Run, error: BaseException, event: Mapping[str, Any], now: int
) -> None:
    """Record a retrieval that raised."""
    note = run.note
    if run.nested is not None:
        run.nested.error_type = error_type(error)
    if note is not None:
        if active_retriever.get() == run.key:
            active_retriever.set(None)
        note.ended_ns = now
        note.ended_order = next(run.request.clock)
        note.error_type = error_type(error)
    run_failed(attached, run, error, event, now)


def chain_ended(attached: Attachment, run: Run, outputs: Any, event: Mapping[str, Any], now: int) -> None:
    """Record a chain's output documents; end the request if it was the topmost run."""
    request = run.request
    kind = type(outputs)
    is_text = issubclass(kind, str) or (kind is dict and _TEXTS.issuperset(map(type, outputs.values())))
    if run is request.root:
        if not (is_text or holds_state(request)):
            note_passage(run, outputs, event.get("inputs"), now)
        end_request(attached, request, now, outputs, None, event)
        return
    has_found = request.retrievals or request.passages
    is_watched = attached.lookout.looks and not has_found
    if (is_watched or run.rule is not None) and note_result(attached, run, outputs, now):
        return
    if not is_text:
        note_passage(run, outputs, event.get("inputs"), now)
    late_inputs = event.get("inputs")
    if not (has_found or request.passages) or request.options.strict or run.retriever is not None:
        return
    if kind is not str or late_inputs is not None:
        note_paste(run, outputs, late_inputs)
    elif len(outputs) >= MIN_LENGTH:
        request.pastes.append(Paste(run, next(request.clock), (), run.strings, (outputs,)))
        request.loose_bytes += getsizeof(outputs)


_TEXTS = frozenset({str})


def tool_ended(attached: Attachment, run: Run, output: Any, event: Mapping[str, Any], now: int) -> None:
    """Record a tool's output: documents beside its text, or a text that may hold some."""
    del event
    request = run.request
    if enclosing_retriever(run) is None and not note_result(attached, run, output, now):
        note_tool(run, output, now)
    if run is request.root:
        end_request(attached, request, now)


def llm_ended(attached: Attachment, run: Run, response: Any, event: Mapping[str, Any], now: int) -> None:
    """Record a model's reply, unless it helped a retriever."""
    del event
    request = run.request
    if run.retriever is None:
        generations = getattr(response, "generations", None)
        first = generations[0][0] if generations and generations[0] else None
        message, info = getattr(first, "message", None), getattr(first, "generation_info", None)
        refusal = refusal_of(message, {"generation_info": info}) if info else refusal_of(message)
        text = llm_text(first) or refusal or None
        arguments = () if text else tool_arguments(first)
        request.llms.append(LlmNote(run, text, arguments, refusal, response_id(first, response)))
        if run is request.root:
            end_request(attached, request, now, text)


def run_failed(
    attached: Attachment, run: Run, error: BaseException, event: Mapping[str, Any], now: int
) -> None:
    """Record a failure; end the request if the topmost run failed."""
    request = run.request
    if is_control_flow(error):
        request.interrupted = request.interrupted or is_interrupt(error)
    else:
        run.failed = True
    if run is request.root:
        end_request(attached, request, now, None, error, event)


def _comes_too_late(run_id: UUID, parent_run_id: UUID) -> bool:
    """Return whether a run starts below an ended request; then so do all runs below it."""
    family = current_family.get()
    if family is None or not family.closed or parent_run_id.int not in family:
        return False
    family.add(run_id.int)
    return True


def _find_retrieval_span(attached: Attachment, request: OpenRequest, note: RetrievalNote) -> None:
    """Record the span that another instrumentation made for a retrieval, if visible now.

    Called at the retrieval's start and end: which of them shows it depends on the order of handlers.
    """
    if ambient_context() is not request.context:
        span = ambient_span()
        if span is not None and span is not request.span and is_retrieval(span):
            note.target = span.get_span_context()
    if note.target is None and request.tables:
        with attached.on_span_lookup:
            note.target = stored_span(note.run.run_id, request.tables)
    look_for_workflow(attached, request, note.run)
