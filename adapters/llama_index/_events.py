"""Follows LlamaIndex's spans and finds the requests among them.

The public handler delegates to `SpanFollower`: enter, exit, drop. A request is the outermost span of a root
kind; its children are identified by the parent id only, so that threads, tasks and other tracers have no
influence. Spans that are not followed cost one dictionary look-up. It stores snapshots, never events,
responses or engines, and raises nothing on purpose: the handler calls it under guards.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ragmeter.adapters._callers import is_preparation
from ragmeter.adapters._open_requests import OpenRequests, reported_once, scope_around
from ragmeter.adapters._other_spans import captured
from ragmeter.adapters._parts import NOT_CAPTURED, Enclosure, enclosure_around, register
from ragmeter.adapters._unseen import Lookout, RetrievalRules, may_show
from ragmeter.adapters.reading.fields import OutputString, strings_in
from ragmeter.adapters.reading.prompts import Sent, new_bytes
from ragmeter.metrics._process import fork
from ragmeter.metrics.sample import SampleStatus
from ragmeter.requests.by_hand import error_type, status_of_error
from ragmeter.requests.lone_retrieval import LoneRetrieval
from ragmeter.requests.refusals import words_of_error
from ragmeter.requests.scope import is_suppressed
from ragmeter.requests.size import weight_of

from ._answers import Answer, Readers, answer_of, inputs_of, source_ids_of
from ._build import build_run, read_part
from ._calls import is_flattened, messages_of
from ._passages import begin_step, end_step, is_of_application, is_workflow_step
from ._payloads import (
    ROOT_KINDS,
    Kind,
    Nodes,
    TextMode,
    kind_of,
    nodes_in,
    nodes_of,
    payload_of,
    question_of,
    searched_for,
    snapshot_nodes,
)
from ._results import begin_result, end_result, note_given, note_unseen
from ._retrievals import begin_retrieval, end_retrieval, nested_retrieval
from ._state import CallNote, Frame, LlamaRequest, LlamaRun, Output, Postprocessed, Synthesis
from ._streams import StreamedText, being_read, watch

if TYPE_CHECKING:
    from ragmeter import RagMeter

_UUID = 37
MAX_FRAMES = 200_000
"""Maximum open spans that are followed at once; beyond that the oldest are dropped."""

_SCOPES: frozenset[Kind | None] = frozenset({"query", "chat", "run", "tool"})

_RUN_BY_APPLICATIONS: frozenset[str] = frozenset({"run", "step", "tool"})
"""Calls in which code of the application runs, which may also index or evaluate."""

_MAY_FAIL: frozenset[str] = frozenset({"query", "chat", "run", "tool", "step"})
"""Calls after whose failure a request may continue without their results."""

_ASK_NO_MODEL = frozenset({"NoText", "ContextOnly"})
"""Synthesizers that return nothing, or the nodes' texts one after the other."""


class SpanFollower:
    """Finds requests among LlamaIndex's spans and offers them to a meter. Thread-safe.

    Requests count only if an instance for which `is_engine` is true takes part; None: all count.
    """

    def __init__(
        self,
        meter: RagMeter,
        *,
        text_mode: TextMode,
        is_engine: Callable[[Any], bool] | None,
        active_tags: Callable[[], Mapping[str, Any]],
        active_span: Callable[[], str | None],
        readers: Readers,
        name: str | None = None,
        rules: RetrievalRules | None = None,
        **open_requests: Any,
    ) -> None:
        self._meter = meter
        self._name = name
        self._rules = rules
        self._lookout = Lookout(meter, "llama_index", "RagMeterHandler(meter, {})")
        self._once = reported_once(meter)
        self._finders = register(meter, "llama_index", self)
        self._text_mode: TextMode = text_mode
        self._is_engine = is_engine
        self._active_tags = active_tags
        self._active_span = active_span
        self._readers = readers
        self._frames: dict[str | None, Frame | None] = {}
        self._requests: OpenRequests[str, LlamaRequest] = OpenRequests(self._evict, **open_requests)
        self._announced: dict[str, LlamaRequest] = {}
        """Models' calls that are requests and whose ends are events, by the span that these name."""
        fork.forget(self._leave_to_parent)
        self._stream_guard = meter.port.guard("llama_index.stream_end")
        self._scope_guard = meter.port.guard("llama_index.scope")

    def __len__(self) -> int:
        """Return the entries of all tables: 0 when no request is open."""
        return len(self._frames) + len(self._requests)

    def enter(
        self,
        id_: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """Record the begin of a span."""
        frames = self._frames
        kind = None
        if instance is not None:  # a span's id is ``<class>.<method>-<uuid>``
            kind = kind_of(type(instance), id_[:-_UUID])  # type: ignore[arg-type]  # hashable
        if parent_id in frames:
            parent = frames[parent_id]
            if parent is None:  # within a request that is not captured
                frames[id_] = None
                return
            if kind == "llm" and parent.call is None and self._is_read_by_caller(id_, arguments):
                return
            # Steps have spans of their own. A span directly below a run is not the run's own work:
            # workflows 1 leave the run's id behind in the context of the code that started it.
            beside = parent.kind == "run" and parent.id == parent_id and kind in ROOT_KINDS
            if not (parent.request.returned or beside):
                self._enter_within(kind, parent, id_, arguments, instance, parent_id)
                return
            if kind == "write_history":
                self._watch_chat(parent.request, instance)
                return
            if not parent.is_root and not beside:  # outlived its request
                frames[id_] = None
                return
        elif kind == "llm":
            if not self._is_read_by_caller(id_, arguments) and parent_id is None:
                self._enter_root(kind, id_, arguments, instance, tags)
            return
        if kind in ROOT_KINDS:
            self._enter_root(kind, id_, arguments, instance, tags)

    def exit(self, id_: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Record the end of a span without an error."""
        frame = self._frames.pop(id_, None)
        # The record of a closed request has been passed on.
        if frame is None or frame.id != id_ or frame.request.closed:
            return
        kind = frame.kind
        if frame.result is not None:
            end_result(frame, frame.result, result, self._text_mode)
        elif kind == "tool" or (kind == "step" and self._lookout.looks):
            note_given(frame, frame.instance, result, looks=self._lookout.looks > 0)
        if frame.call is not None:
            frame.call.end(result)
        elif frame.step is not None:
            end_step(frame, frame.step, result, self._text_mode)
            frame.request.trail.append(frame.step)
        elif kind == "retrieve":
            end_retrieval(frame, result, self._text_mode)
        elif kind == "postprocess" and isinstance(result, (list, tuple)):
            taken = frozenset(str(getattr(item, "node_id", "")) for item in nodes_of(arguments))
            left = snapshot_nodes(result, self._text_mode)
            frame.request.trail.append(Postprocessed(id_.partition(".")[0], frame.run, taken, left))
        if frame.is_root:
            self._exit_root(frame, arguments, result)

    def drop(self, id_: str, error: BaseException | None) -> None:
        """Record the end of a span with an exception."""
        frame = self._frames.pop(id_, None)
        # The record of a closed request has been passed on.
        if frame is None or frame.id != id_ or frame.request.closed:
            return
        if frame.kind == "retrieve" and frame.retrieval is not None:
            frame.retrieval.end(None, error)
        if frame.call is not None:
            frame.call.fail(is_request=frame.is_root)
        elif frame.kind in _MAY_FAIL:
            frame.run.failed = True
        if frame.is_root:
            frame.request.root_left()
            self._fail(frame.request, error)

    def enclosure(self) -> Enclosure | None:
        """Return the request around the current code; the rest of a workflow's caller is not within it."""
        text, id_ = being_read.get(), self._active_span()
        request = None if text is None else text.owner
        if isinstance(request, LlamaRequest) and self._requests.get(request.run_id) is request:
            return Enclosure(request.clock, partial(request.take_part, request.top))
        if id_ not in self._frames:
            return None
        frame = self._frames[id_]
        if frame is None or frame.retrieval is not None:
            return NOT_CAPTURED
        if frame.request.returned or (frame.kind == "run" and frame.id == id_):
            return None
        return Enclosure(frame.request.clock, partial(frame.request.take_part, frame.run))

    def announce(self, id_: str | None) -> None:
        """Record that an event will report the end of a model's call, of whose spans this is the innermost."""
        frame = None if id_ is None else self._frames.get(id_)
        if id_ is not None and frame is not None and frame.request.kind == "llm":
            request = frame.request
            request.announced_by = request.announced_by or id_
            self._announced[request.announced_by] = request

    def end_announced(self, event: object) -> None:
        """End the model's call whose end an event reports, if it is a request whose stream was read."""
        request = self._announced.pop(getattr(event, "span_id", None) or "", None)
        if request is None or not request.returned:
            return
        error, call = getattr(event, "exception", None), request.calls[-1]
        if isinstance(error, GeneratorExit):
            self._finish(request, "partial", None, None)
        elif error is not None:
            self._fail(request, error)
        else:
            call.end(getattr(event, "response", None))
            self._finish(request, "ok" if call.said else "no_answer", next(iter(call.said), None), None)

    def forget(self) -> int:
        """Drop all requests with running calls; return their number. Open streams stay."""
        self._frames.clear()
        running = [item for item in self._requests.values() if not item.returned]
        for request in running:
            request.close()
            self._requests.close(request.run_id)
        return len(running)

    def _leave_to_parent(self) -> None:
        # In a forked child: the open calls are the parent's.
        self._frames = {}
        self._announced = {}

    def _enter_root(
        self, kind: Kind, id_: str, arguments: Mapping[str, Any], instance: Any, tags: Mapping[str, Any] | None
    ) -> None:
        if len(self._frames) >= MAX_FRAMES:
            for key in tuple(self._frames)[: MAX_FRAMES // 2]:
                self._frames.pop(key, None)
        self._frames[id_] = None
        if is_suppressed() or kind == "transform" or is_preparation():
            return
        messages = messages_of(arguments) if kind == "llm" else ()
        if messages and self._is_read_now(messages):
            return
        tags = tags or self._active_tags()
        question = None if kind == "llm" else question_of(kind, arguments)
        wanted, question = self._readers.begin(kind, instance, question, arguments, tags)
        within = enclosure_around(self._finders, "llama_index") if len(self._finders) > 1 else None
        if not wanted or within is NOT_CAPTURED:
            return
        request = LlamaRequest(
            run_id=id_,
            top=LlamaRun(None, -1),
            kind=kind,
            name=self._name or ("" if kind == "llm" else type(instance).__name__),
            question=question,
            scope=scope_around(tags.get("ragmeter"), self._scope_guard),
            tags={**tags},
            grow=self._requests.grow,
            in_scope=self._is_engine is None or self._is_engine(instance),
            within=within,
        )
        if within is not None:
            request.clock = within.clock
        frame = Frame(id_, kind, request, request.top, is_root=True)
        frame.notes_steps = kind == "run" and is_of_application(instance)
        self._requests.open(id_, request)
        request.look_around()
        if kind == "retrieve":
            begin_retrieval(frame, arguments, instance)
        elif within is None:
            request.follow(self._lookout.alone)
        if kind == "synthesize":
            self._begin_synthesis(frame, arguments, instance)
        elif kind == "llm":  # no engine, agent or workflow made the call
            frame.call = CallNote(messages, None, request.top)
            request.begin_call(frame.call)
        self._frames[id_] = frame

    def _is_read_now(self, messages: Sent) -> bool:
        """Return whether the caller reads a stream for which the model is called with its own messages now."""
        texts, open_ = _ids_of_texts(messages), self._announced.copy().values()
        return any(one.returned and _ids_of_texts(one.calls[-1].messages) == texts for one in open_)

    def _enter_within(
        self,
        kind: Kind | None,
        parent: Frame,
        id_: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_id: str | None,
    ) -> None:
        frames = self._frames
        request = parent.request
        if kind is None:
            is_step = parent.kind == "run" and parent.id == parent_id and is_workflow_step(id_, instance)
            frame = begin_step(parent, id_, arguments, self._text_mode) if is_step else parent
            if self._rules is not None and self._rules.functions and parent.result is None:
                own = frame if is_step else Frame(id_, "step", request, parent.run)
                own.synthesis = parent.synthesis
                if begin_result(self._rules, own, instance, arguments):
                    frame = own
            frames[id_] = frame
            return
        if is_suppressed() or kind == "transform":
            frames[id_] = None
            return
        if not request.in_scope and self._is_engine is not None and self._is_engine(instance):
            request.in_scope = True
        retrieval = parent.retrieval
        if retrieval is not None:  # calls inside a retriever do not count
            frames[id_] = nested_retrieval(parent, retrieval, id_, instance) if kind == "retrieve" else parent
            return
        if kind == "llm":
            frames[id_] = self._call(parent, id_, arguments)
            return
        if kind == "write_history":
            self._watch_chat(request, instance)
            frames[id_] = parent
            return
        if kind == "call":
            frames[id_] = parent
            return
        if (kind == "query" or parent.kind in _RUN_BY_APPLICATIONS) and is_preparation():
            frames[id_] = None
            return
        if kind in _SCOPES:
            frame = Frame(id_, kind, request, LlamaRun(parent.run, next(request.clock)))
            frame.notes_steps = kind == "run" and is_of_application(instance)
            if kind == "tool":
                frame.instance = instance
                if self._rules is not None and parent.result is None:
                    begin_result(self._rules, frame, instance, arguments)
        else:
            frame = Frame(id_, kind, request, parent.run)
            frame.synthesis = parent.synthesis
        if kind == "retrieve":
            begin_retrieval(frame, arguments, instance)
        elif kind == "synthesize":
            self._begin_synthesis(frame, arguments, instance)
        frames[id_] = frame

    def _call(self, parent: Frame, id_: str, arguments: Mapping[str, Any]) -> Frame:
        """Record a model call; calls of a model's own class within it are the same call."""
        if parent.kind == "postprocess":  # a reranker's call does not answer
            return parent
        request = parent.request
        messages = messages_of(arguments)
        note = parent.call
        if note is None:
            note = CallNote(messages, parent.synthesis, parent.run)
            request.begin_call(note)
        elif messages and not is_flattened(messages, note.messages):
            request.hold(new_bytes(messages, request.weighed))
            note.messages = messages  # nearer to the model
        frame = Frame(id_, "llm", request, parent.run)
        frame.synthesis = parent.synthesis
        frame.call = note
        return frame

    def _is_read_by_caller(self, id_: str, arguments: Mapping[str, Any]) -> bool:
        """Record a model call that begins only when a request's stream is read, if it is one."""
        text = being_read.get()
        request = None if text is None else text.owner
        if not isinstance(request, LlamaRequest) or request.closed:
            return False
        # A refining synthesis makes its last call only when its stream is read.
        given = [passed for passed in request.trail if isinstance(passed, Synthesis)]
        own = next((one for one in reversed(given) if one.contexts and not one.combines), None)
        note = CallNote(messages_of(arguments), own, request.top, answers=True)
        request.begin_call(note)
        frame = Frame(id_, "llm", request, request.top)
        frame.call = note
        self._frames[id_] = frame
        return True

    def _begin_synthesis(self, frame: Frame, arguments: Mapping[str, Any], instance: Any) -> None:
        request = frame.request
        if type(instance).__name__ in _ASK_NO_MODEL:
            request.no_text = True
        nodes = snapshot_nodes(nodes_of(arguments), self._text_mode)
        request.hold_nodes(nodes)
        if frame.synthesis is not None:  # an override that delegates to its base: the inner one counts
            frame.synthesis.contexts = nodes
            return
        # It joins sub-answers: its nodes are generated texts, no documents.
        combines = arguments.get("additional_source_nodes") is not None
        frame.synthesis = Synthesis(type(instance).__name__, frame.run, nodes, combines=combines)
        request.trail.append(frame.synthesis)

    def _exit_root(self, frame: Frame, arguments: Mapping[str, Any], result: Any) -> None:
        request = frame.request
        request.root_left()
        if frame.kind == "retrieve":
            note = frame.retrieval
            alone = None if note is None else request.found_by_itself(note, self._lookout.alone)
            self._finish(request, "retrieval_only", None, None, alone)
            return
        if frame.kind == "run" and result is None:
            # Workflows 2 end a cancelled run like this, workflows 1 also a failed one.
            cancelled = "init_state" in arguments
            self._finish(request, "cancelled" if cancelled else "error", None, None)
            return
        if frame.kind == "run" and request.question is None:
            request.question = searched_for(arguments, [note.query for note in request.retrievals])
        request.source_ids = source_ids_of(result)
        answer = answer_of(result)
        contexts: Nodes | None = None
        if self._readers.reads_output:
            contexts = self._readers.contexts(result, self._text_mode)
            answer = self._readers.answer(result, answer)
        if contexts is not None or answer.strings:
            nodes: Nodes = ()
            copied: tuple[OutputString, ...] = ()
            if answer.strings:
                nodes = snapshot_nodes(nodes_in(payload_of(result)), self._text_mode)
                copied = strings_in(inputs_of(arguments))
            request.output = Output(answer.strings, copied, nodes, contexts)
        if frame.kind == "llm" and not (answer.text or answer.strings):  # it is streamed
            if request.announced_by in self._announced:
                request.returned = True
                return
            request.leave()
            request.before = ()
            self._finish(request, "ok", None, None)
        elif answer.stream is not None:
            self._await_stream(frame, answer)
        elif answer.text and not request.only_pasted(answer.text):
            self._finish(request, "ok", answer.text, None)
        elif answer.strings:  # the worker chooses among them
            self._finish(request, "ok", None, None)
        else:
            # A text that reaches this branch was pasted from the nodes: no model was called.
            asked = not (answer.nodes_only or request.no_text or answer.text)
            self._finish(request, "no_answer" if asked else "retrieval_only", None, None)

    def _await_stream(self, frame: Frame, answer: Answer) -> None:
        request = frame.request
        holder = answer.holder
        if answer.stream == "query":
            if holder.response_gen is None:
                self._finish(request, "no_answer", None, None)
                return
            request.text = StreamedText(partial(self._stream_ended, request), request)
            holder.response_gen = watch(holder.response_gen, request.text)
        else:
            if not getattr(holder, "is_writing_to_memory", True):
                self._watch_chat(request, holder)
            # The writer's thread or task comes later, or has already come, or never comes.
            self._frames[frame.id] = frame
            weakref.finalize(holder, self._stream_dropped, request).atexit = False
        request.returned = True
        # The order matters: of the stream's end and this check, the later one sees the other.
        if request.text is not None and request.text.status is not None:
            self._finish_stream(request, request.text)

    def _watch_chat(self, request: LlamaRequest, response: Any) -> None:
        if request.text is not None or request.closed:
            return
        request.text = StreamedText(partial(self._stream_ended, request), request)
        for name in ("chat_stream", "achat_stream"):
            stream = getattr(response, name, None)
            if stream is not None:
                setattr(response, name, watch(stream, request.text))

    def _stream_dropped(self, request: LlamaRequest) -> None:
        with self._stream_guard:
            text = request.text
            if text is not None:
                text.drop()
            else:
                self._finish(request, "partial", None, None)

    def _stream_ended(self, request: LlamaRequest, text: StreamedText) -> None:
        with self._stream_guard:
            if request.returned:
                self._finish_stream(request, text)

    def _finish_stream(self, request: LlamaRequest, text: StreamedText) -> None:
        status = text.status or "partial"
        answer = text.take() or text.refusal or None
        if status == "ok" and text.refusal is not None:
            status = "refused"
        elif status == "ok" and answer is None:
            status = "retrieval_only" if request.no_text else "no_answer"
        self._finish(request, status, answer, text.error_type)

    def _fail(self, request: LlamaRequest, error: BaseException | None) -> None:
        status = status_of_error(error)
        words = words_of_error(error) if status == "refused" else None
        self._finish(request, status, words, None if status == "cancelled" else error_type(error))

    def _finish(
        self,
        request: LlamaRequest,
        status: SampleStatus,
        answer: str | None,
        error: str | None,
        alone: LoneRetrieval | None = None,
    ) -> None:
        if not request.close():
            return
        try:
            request.returned = True
            self._requests.close(request.run_id)
            self._frames.pop(request.run_id, None)
            self._announced.pop(request.announced_by, None)
            if not request.in_scope or not self._once.is_first(request.run_id):
                return
            retrieved = request.tried or request.may_have_retrieved
            if retrieved:
                self._lookout.looks -= self._lookout.looks > 0
            elif not (request.within or request.parts or may_show(call.messages for call in request.calls)):
                note_unseen(self._lookout, request)
                return
            ended = request.ended(status, answer, error, time.time_ns())
            span = ended.spans.target or ended.spans.parent
            captured.note(ended.spans.target, ended.spans.parent, ended.started_ns)
            size_bytes = request.size_bytes + weight_of(answer, ended.question)
            read = partial(read_part, ended, self._lookout)
            if request.within and request.within.offer(read, retrieved=retrieved, size_bytes=size_bytes):
                return
            self._meter.port.offer(
                partial(build_run, ended, self._lookout),
                # Both or neither is sampled.
                run_id=request.before[-1].run_id if request.before else request.run_id,
                trace_id=None if span is None else span.trace_id,
                size_bytes=size_bytes,
                scope=request.scope,
                alone=alone,
            )
        finally:
            request.leave()

    def _evict(self, _: str, request: LlamaRequest) -> None:
        if request.returned:  # its call returned earlier: an answer that is not read to the end
            self._stream_dropped(request)
            return
        request.close()
        for key, frame in tuple(self._frames.items()):
            if frame is not None and frame.request is request:
                self._frames.pop(key, None)
        self._meter.port.count_lost("evicted")


def _ids_of_texts(messages: Sent) -> list[int]:
    return [id(text) for _, texts in messages for text in texts]
