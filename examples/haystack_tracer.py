"""A framework that ragmeter does not know, in one file: Haystack, by its own tracer.

    from haystack import tracing
    tracing.enable_tracing(RagMeterTracer(meter))

It notes what components take and give out.  What that means (which call answered, which documents stood in its
prompt, what of them) is decided by `ragmeter.adapters.reading`, as for every other framework.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from haystack import Document
from haystack.dataclasses import ChatMessage
from haystack.tracing import Span, Tracer
from opentelemetry.trace import SpanContext, get_current_span

from ragmeter import RagMeter
from ragmeter.adapters import check_meter
from ragmeter.adapters.reading.answer import choose_answer, heard, strings_in
from ragmeter.adapters.reading.contexts import shown_documents
from ragmeter.adapters.reading.prompt_documents import asked_in
from ragmeter.adapters.reading.request_texts import question_in
from ragmeter.adapters.reading.stages import SeenStage, SharedContexts, to_stages
from ragmeter.adapters.reading.step import Message, Step
from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import RagSample
from ragmeter.metrics.sample import SampleStatus
from ragmeter.requests.by_hand import error_type, status_of_error
from ragmeter.requests.scope import RequestScope, current_scope, is_suppressed

__all__ = ["RagMeterTracer"]


class Found(NamedTuple):
    """A document as it was when it was seen."""

    text: str
    id: str
    score: float | None
    metadata: Mapping[str, Any]


def found_in(values: object) -> tuple[Found, ...] | None:
    """Return copies of the documents under ``documents``; None: the component has no such field."""
    listed = values.get("documents") if isinstance(values, Mapping) else None
    if not isinstance(listed, list):
        return None
    flat = [one for each in listed for one in (each if isinstance(each, list) else [each])]
    return tuple(
        Found(one.content or "", one.id, one.score, dict(one.meta)) for one in flat if isinstance(one, Document)
    )


class Note(Span):
    """One component's run, or the pipeline's, as it was noted on the request's path."""

    def __init__(self, tags: Mapping[str, Any]) -> None:
        self.name = str(tags.get("haystack.component.name", ""))
        self.kind = str(tags.get("haystack.component.type", ""))
        self.given: Any = tags.get("haystack.pipeline.input_data")
        self.out: Any = None
        self.took: tuple[Found, ...] | None = None
        self.gave: tuple[Found, ...] | None = None
        self.error: BaseException | None = None
        self.started_ns = time.time_ns()
        self.ended_ns = 0

    def set_tag(self, key: str, value: Any) -> None:
        """Haystack's other tags are not needed."""

    def set_content_tag(self, key: str, value: Any) -> None:
        """Keep what a component was given and gave out; nothing of it is sent anywhere from here."""
        if key.endswith("component.input"):
            self.given, self.took = value, found_in(value)
        elif key.endswith(("component.output", "pipeline.output_data")):
            self.out, self.gave = value, found_in(value)

    def call(self) -> Step | None:
        """Return the model's call that this was; None: it was none."""
        replies = self.out.get("replies") if isinstance(self.out, Mapping) else None
        sent = (
            (self.given.get("messages") or self.given.get("prompt"))
            if isinstance(self.given, Mapping)
            else None
        )
        if not sent or (replies is None and self.error is None):
            return None
        messages = (
            [("user", sent)] if isinstance(sent, str) else [(one.role.value, one.text or "") for one in sent]
        )
        said = [one if isinstance(one, str) else one.text for one in replies or ()]
        return Step(
            id=f"{id(self):x}",
            started_ns=self.started_ns,
            ended_ns=self.ended_ns,
            messages=tuple(Message(role, text) for role, text in messages),
            said=next(filter(None, said), None),
        )


@dataclass
class Request:
    """A pipeline's run from outside, and the components' runs in it."""

    whole: Note
    scope: RequestScope | None = field(default_factory=current_scope)
    notes: list[Note] = field(default_factory=list)
    parent: SpanContext = field(default_factory=lambda: get_current_span().get_span_context())
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def build(self) -> RagRun | None:
        """Return the run; None: nothing in it retrieved. Called on the meter's worker."""
        retrievals = [
            note for note in self.notes if note.took is None and (note.gave is not None or _looked(note))
        ]
        if not retrievals:
            return None
        calls = [call for note in self.notes if (call := note.call()) is not None]
        documents = [one for note in retrievals for one in note.gave or ()]
        texts = [one.text for one in documents]
        question = question_in(self.whole.given) or asked_in(calls, texts)
        said = heard(calls, texts)
        answer = choose_answer(strings_in(_fields(self.whole.out)), said, contexts=texts)
        shared = SharedContexts()
        stages, last = self._stages(retrievals)
        failed = all(note.error is not None for note in retrievals)
        stood = shown_documents(
            calls,
            documents,
            answer=answer,
            question=question,
            queries=[question_in(note.given) for note in retrievals],
            after_ns=max(note.ended_ns for note in retrievals),
            are_whole=True,
        )
        contexts = shared.of(last if stood is None else [shown for _, shown in stood])
        return RagRun(
            sample=RagSample(
                question=question,
                contexts=None if failed else contexts,
                contexts_by="runs" if stood is None else "prompt",
                stages=to_stages(stages, shared),
                answer=answer,
                status=self._status(answer, asked_model=bool(calls)),
                reference=None if self.scope is None else self.scope.reference,
            ),
            run_id=self.id,
            framework="haystack",
            started_ns=self.whole.started_ns,
            ended_ns=self.whole.ended_ns,
            retrievals=tuple(
                Retrieval(
                    started_ns=note.started_ns,
                    ended_ns=note.ended_ns,
                    name=note.kind,
                    query=question_in(note.given),
                    contexts=shared.of(note.gave or ()),
                    error_type=error_type(note.error),
                )
                for note in retrievals
            ),
            parent=self.parent if self.parent.is_valid else None,
            error_type=error_type(self.whole.error),
        )

    def _status(self, answer: str | None, *, asked_model: bool) -> SampleStatus:
        if self.whole.error is not None:
            return status_of_error(self.whole.error)
        return "ok" if answer is not None else "no_answer" if asked_model else "retrieval_only"

    def _stages(self, retrievals: list[Note]) -> tuple[list[SeenStage], tuple[Found, ...]]:
        """Return the stages that documents passed, and what left the last ones."""
        stages: list[SeenStage] = []
        left: dict[int, tuple[Found, ...]] = {}
        for note in self.notes:
            if note.gave is None:
                continue
            inputs: tuple[int, ...] = ()
            if note not in retrievals:
                ids = {one.id for one in note.took or ()}
                inputs = tuple(place for place, found in left.items() if any(one.id in ids for one in found))
            for place in inputs:
                del left[place]
            left[len(stages)] = note.gave
            stages.append(
                SeenStage(note.kind, "postprocessor" if note.took else "retriever", note.gave, inputs)
            )
        return stages, tuple(one for found in left.values() for one in found)


def _fields(out: object) -> list[dict[str, Any]]:
    """Return what each component gave out, messages as their texts: components' names say nothing of it."""
    return [
        {
            key: [one.text if isinstance(one, ChatMessage) else one for one in value]
            if isinstance(value, list)
            else value
            for key, value in given.items()
        }
        for given in (out.values() if isinstance(out, Mapping) else ())
        if isinstance(given, Mapping)
    ]


def _looked(note: Note) -> bool:
    """Return whether a component failed that would have given documents out."""
    return note.error is not None and note.kind.endswith("Retriever")


class RagMeterTracer(Tracer):
    """Hands a meter every pipeline run that retrieved.

    Args:
        meter: Takes the requests.
    """

    def __init__(self, meter: RagMeter) -> None:
        check_meter(meter)
        self._meter = meter
        self._guard = meter.port.guard("haystack.trace")  # contains, counts and logs what we raise
        self._current: ContextVar[tuple[Request, Note] | None] = ContextVar("haystack", default=None)
        meter.port.expect_requests("haystack")

    @contextlib.contextmanager
    def trace(
        self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Span | None = None
    ) -> Iterator[Span]:
        """Note a run; the outermost pipeline's is the request."""
        del operation_name, parent_span
        around = self._current.get()
        note = Note(tags or {})
        if around is None and is_suppressed():
            yield note
            return
        request = Request(note) if around is None else around[0]
        token = self._current.set((request, note))
        try:
            yield note
        except BaseException as error:
            note.error = error
            raise
        finally:
            note.ended_ns = time.time_ns()
            with contextlib.suppress(ValueError):  # ended in another context
                self._current.reset(token)
            with self._guard:
                if around is not None:
                    request.notes.append(note)
                else:
                    trace_id = request.parent.trace_id or None
                    self._meter.port.offer(
                        request.build, run_id=request.id, trace_id=trace_id, scope=request.scope
                    )

    def current_span(self) -> Span | None:
        """See `Tracer.current_span`."""
        around = self._current.get()
        return None if around is None else around[1]
