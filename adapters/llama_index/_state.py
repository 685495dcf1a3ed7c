"""The record of a LlamaIndex request while it runs.

`SpanFollower` fills a `LlamaRequest` from span callbacks, on any thread and task the request uses; when it
ends, `LlamaRequest.ended` returns the record as `Notes`, from which the meter's worker builds the run. A
request is divided into scopes, numbered as they begin (the nearest query, chat, run or tool call): nodes
retrieved in one reach the model there. Knows neither LlamaIndex's classes nor the meter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ragmeter.adapters._other_spans import CallSpans, SeenSpan, choose_spans, seen_span
from ragmeter.adapters._parts import Enclosure, InnerRequest
from ragmeter.adapters._snapshots import bytes_of_new
from ragmeter.adapters._unseen import GaveOut
from ragmeter.adapters.reading.answer import is_pasted
from ragmeter.adapters.reading.fields import OutputString
from ragmeter.adapters.reading.prompts import Sent, new_bytes
from ragmeter.adapters.reading.route import Found, Run, Who, without_failures
from ragmeter.metrics.sample import SampleStatus
from ragmeter.requests.by_hand import error_type
from ragmeter.requests.lone_retrieval import (
    UNKNOWN_SURROUNDINGS,
    LoneRetrieval,
    RecentRetrievals,
    Surroundings,
    recent,
)
from ragmeter.requests.scope import RequestScope

from ._calls import refusal_in, response_id_in, said_in
from ._payloads import NO_FACTS, Kind, Nodes, RetrieverFacts
from ._streams import StreamedText

if TYPE_CHECKING:
    from typing_extensions import Self

NO_SPANS = CallSpans(None, None)
MAX_CALLS = 1_000
"""Maximum model calls recorded per request: the last ones."""


class LlamaRun(Run):
    """A call around others: the request itself, an engine, chat, workflow, tool, step or retriever in it."""

    def __init__(self, parent: Self | None, order: int, name: str = "", kind: str = "chain") -> None:
        self.parent, self.order, self.name, self.kind = parent, order, name, kind


@dataclass(slots=True, eq=False)
class CallNote:
    """A model call."""

    messages: Sent
    synthesis: Synthesis | None
    """The synthesis that made the call."""
    run: LlamaRun
    """The call around it."""
    answers: bool = False
    """Whether it was made by reading the request's own streamed answer."""
    started: int = 0
    """Its begin, as a position in the order of the request's events."""
    said: tuple[str, ...] = ()
    """Its reply; empty for a stream, which is not recorded."""
    is_stream: bool = False
    refusal: str | None = None
    """The words of its refusal, possibly empty; None if it did not refuse."""
    response_id: str | None = None

    def end(self, result: object) -> None:
        """Record its reply, and that of the model's own class within it."""
        said = said_in(result)
        if said != self.said:
            self.said = tuple(dict.fromkeys((*self.said, *said)))
        if self.refusal is None:
            self.refusal = refusal_in(result)
        self.response_id = self.response_id or response_id_in(result)
        if self.refusal and not self.said:
            self.said = (self.refusal,)
        self.is_stream = not self.said and self.refusal is None

    def fail(self, *, is_request: bool) -> None:
        """Record that it raised: within a request, another call answers."""
        self.is_stream = is_request
        if not is_request:
            self.messages = ()


@dataclass(slots=True, eq=False)
class StepNote:
    """The input and output of a workflow's step, as far as they contain documents."""

    run: LlamaRun
    taken: Nodes
    """Nodes in its input events."""
    strings: tuple[str, ...]
    """Texts in its input events."""
    given: Nodes = ()
    """Nodes in the event that it returned, unless that ended the run."""
    stops: bool = False
    """Whether it ended the run."""


@dataclass(slots=True, eq=False)
class RetrievalNote(Found):
    """A retriever call; only the outermost ones count."""

    run: LlamaRun  # pyright: ignore[reportIncompatibleVariableOverride]
    facts: RetrieverFacts = NO_FACTS
    within: RetrievalNote | None = None
    """The enclosing retriever."""
    started_ns: int = field(default_factory=time.time_ns)
    began_in: SeenSpan | None = field(default_factory=seen_span)
    ended_ns: int = 0
    """0 while it runs."""
    who: Who = "tool"  # pyright: ignore[reportIncompatibleMethodOverride]
    earlier: int = 0
    """Number of the request's retrievals that began before it."""
    spans: CallSpans = NO_SPANS

    def learn(self, facts: RetrieverFacts) -> None:
        """Fill in details that the outer retriever does not show, from an inner one."""
        own = self.facts
        self.facts = RetrieverFacts(
            own.data_source_id or facts.data_source_id,
            own.top_k if own.top_k is not None else facts.top_k,
            own.embedding_model or facts.embedding_model,
        )

    def end(self, contexts: Nodes | None, error: BaseException | None = None) -> None:
        """Record its end."""
        self.ended_ns = max(time.time_ns(), self.started_ns)
        self.spans = choose_spans(self.began_in, seen_span(), "retrieval")
        self.contexts = contexts
        self.error_type = error_type(error)


class Postprocessed(NamedTuple):
    """The output of a postprocessor."""

    name: str
    """Its class."""
    run: LlamaRun
    """The call around it."""
    taken: frozenset[str]
    """Ids of its input nodes."""
    contexts: Nodes
    """Its output."""


@dataclass(slots=True, eq=False)
class Synthesis:
    """The input of a synthesizer."""

    name: str
    """Its class."""
    run: LlamaRun
    """The call around it."""
    contexts: Nodes
    combines: bool
    """Whether it joins sub-answers: its nodes are no documents."""


Passed = RetrievalNote | Postprocessed | StepNote | Synthesis
"""A stage that nodes passed."""


class Output(NamedTuple):
    """The output of a request, from which answer and contexts may have to be chosen."""

    strings: tuple[OutputString, ...] = ()
    """The strings of an output of unknown shape."""
    copied: tuple[OutputString, ...] = ()
    """The strings of the request's input."""
    nodes: Nodes = ()
    """Nodes named by an output of unknown shape."""
    contexts: Nodes | None = None
    """The contexts by the application's reader (``contexts=``); None without one."""


NO_OUTPUT = Output()


found_alone: ContextVar[tuple[LoneRetrieval, ...]] = ContextVar("ragmeter_llama_index_found", default=())
"""This context's retrievals outside a request: the next call may receive their nodes."""


@dataclass(slots=True, eq=False, kw_only=True)
class Notes:
    """The record of a request without the framework's objects, from which the worker builds the run."""

    run_id: str
    name: str
    top: LlamaRun
    """The request itself, as a run."""
    question: str | None
    scope: RequestScope | None
    tags: Mapping[str, Any]
    """Tags of the framework that were in force when it began."""
    status: SampleStatus = "ok"
    answer: str | None = None
    error_type: str | None = None
    started_ns: int = field(default_factory=time.time_ns)
    ended_ns: int = 0
    spans: CallSpans = NO_SPANS
    source_ids: tuple[str, ...] = ()
    """Ids of the nodes that the response names as its sources, in its order."""
    output: Output = NO_OUTPUT
    """The record of its output, beside the answer in it."""
    retrievals: list[RetrievalNote] = field(default_factory=list)
    """In start order, as are all lists of records."""
    calls: list[CallNote] = field(default_factory=list)
    steps: list[StepNote] = field(default_factory=list)
    trail: list[Passed] = field(default_factory=list)
    """The stages that nodes passed, in the order in which they ended; a synthesis when it began."""
    given: list[GaveOut] = field(default_factory=list)
    """The output of tools and steps while nothing was retrieved."""
    shaped: list[RetrievalNote] = field(default_factory=list)
    """Unnamed tools, while nothing was retrieved: their results may have a document's shape."""
    before: tuple[LoneRetrieval, ...] = ()
    """The retrievals outside a request before it began."""
    around: Surroundings = UNKNOWN_SURROUNDINGS
    parts: list[InnerRequest] = field(default_factory=list)
    """Requests of other frameworks within it."""
    is_part: bool = False
    """Whether a request of another framework reads it."""

    @property
    def tried(self) -> bool:
        """Whether there was a retrieval, or input of a synthesis, or contexts by the application's reader."""
        given = bool(self.retrievals) or any(map(is_document_synthesis, self.trail))
        return given or self.output.contexts is not None

    def leave_out_failures(self) -> None:
        """Leave out failed attempts that were followed by another one; on the meter's worker."""
        self.retrievals = [note for note in self.retrievals if note.ended_ns]
        self.shaped, self.steps = without_failures(self.shaped), without_failures(self.steps)
        if without_failures(filter(_brought_documents, self.trail)):
            self.calls, self.trail = without_failures(self.calls), without_failures(self.trail)
            kept = without_failures(self.retrievals)
            self.retrievals = [note for note in self.retrievals if note.contexts is None or note in kept]


@dataclass(slots=True, eq=False)
class Frame:
    """The data of an open span that its children need."""

    id: str
    kind: Kind | Literal["step"]
    request: LlamaRequest
    run: LlamaRun
    """The innermost call around it, or itself, that may fail while the request continues."""
    is_root: bool = False
    notes_steps: bool = False
    """Whether it is a workflow whose steps' events are recorded."""
    step: StepNote | None = None
    """The step of this span."""
    call: CallNote | None = None
    """The model call of this span, or around it."""
    retrieval: RetrievalNote | None = None
    """The retriever call of this span, or around it."""
    result: RetrievalNote | None = None
    """The record of a call that the user named a retrieval."""
    instance: Any = None
    """The tool that is called, while its output may be of interest."""
    synthesis: Synthesis | None = None
    """The synthesis of this span, or around it."""


@dataclass(slots=True, eq=False, kw_only=True)
class LlamaRequest(Notes):
    """One open request.

    There is no lock: the garbage collector may end its stream, on any thread and at any point. Where two ends
    may coincide, the first to take the token out of `close` wins.
    """

    kind: Kind
    grow: Callable[[str, int], None]
    """Counts the bytes that it holds in the table of open requests."""
    in_scope: bool
    within: Enclosure | None
    """The request of another framework around it."""
    weighed: set[int] = field(default_factory=set)
    """Identities of the counted texts, which are held until the end."""
    size_bytes: int = 0
    """Bytes of the nodes' texts and of the prompts so far."""
    no_text: bool = False
    """Whether a synthesizer ran that calls no model."""
    text: StreamedText | None = None
    """The streamed answer, once there is one."""
    returned: bool = False
    """Whether the root has returned; only its stream is still open."""
    closed: bool = False
    """Whether it has ended or was abandoned."""
    announced_by: str = ""
    """The span that events about a model's call name, if that call is the request."""
    clock: Iterator[int] = field(default_factory=count)
    """The further positions in the order of the request's events."""
    _begun: SeenSpan | None = field(default_factory=seen_span)
    _open: list[bool] = field(default_factory=lambda: [True])

    def close(self) -> bool:
        """End the request; return whether this was the first end."""
        try:
            self._open.pop()
        except IndexError:
            return False
        self.closed = True
        return True

    def hold(self, size_bytes: int) -> None:
        """Add to the bytes that the request holds."""
        self.size_bytes += size_bytes
        self.grow(self.run_id, size_bytes)

    def hold_nodes(self, nodes: Nodes) -> None:
        """Count the bytes of nodes; texts that occur again, at the synthesis, are counted once."""
        size_bytes = bytes_of_new(nodes, self.weighed)
        if size_bytes:
            self.hold(size_bytes)

    def begin_call(self, note: CallNote) -> None:
        """Record a model call, and count its prompt's new texts: a conversation is sent repeatedly."""
        if len(self.calls) >= MAX_CALLS:
            del self.calls[0]
        note.started = next(self.clock)
        self.calls.append(note)
        self.hold(new_bytes(note.messages, self.weighed))

    def take_part(self, around: LlamaRun, part: InnerRequest) -> bool:
        """Add a request of another framework within a call; return whether this one is still open."""
        if self.closed:
            return False
        self.parts.append(part)
        self.hold(part.size_bytes)
        if part.retrieved:
            run = LlamaRun(around, next(self.clock), kind="retriever")
            note = RetrievalNote(run, ended_order=next(self.clock), part=part)
            note.end(None)
            self.retrievals.append(note)
        return True

    def found_by_itself(self, note: RetrievalNote, owner: RecentRetrievals) -> LoneRetrieval | None:
        """Record this retrieval's nodes for later calls in this context; None if it found none."""
        if self.within is not None:
            return None
        alone = LoneRetrieval(owner=owner, run_id=self.run_id, name=self.name, around=self.around).end(
            note.query, note.contexts or ()
        )
        if alone is not None:
            found_alone.set((*recent(found_alone.get()), alone))
        return alone

    def look_around(self) -> None:
        """Record the trace, conversation and user in which it begins."""
        seen, scope = self._begun, self.scope or RequestScope()
        trace_id = None if seen is None or seen.kind is not None else seen.context.trace_id
        self.around = Surroundings(trace_id, scope.conversation_id, scope.user_id)

    def follow(self, known: RecentRetrievals) -> None:
        """Record the retrievals outside a request before it began."""
        before = self.before = known.before(recent(found_alone.get()), self.around)
        for alone in before:
            alone.follow(self.run_id)
            self.hold_nodes(alone.documents)
        if before:
            self.name = self.name or before[-1].name

    def leave(self) -> None:
        """Record at these retrievals that it was offered to the meter, or is no request."""
        for alone in self.before:
            alone.leave(self.run_id)

    def root_left(self) -> None:
        """Record the spans around the root's end."""
        self.spans = choose_spans(self._begun, seen_span())

    @property
    def may_have_retrieved(self) -> bool:
        """Whether a model may have been sent the output of a tool or of an earlier retriever."""
        return bool(self.calls and (self.shaped or self.before))

    def only_pasted(self, answer: str) -> bool:
        """Return whether `answer` is only the nodes' texts, joined without a model."""
        if not (self.no_text or self.kind == "call"):
            return False
        left = {
            passed.run.scope: passed.contexts or ()
            for passed in self.trail
            if isinstance(passed, Synthesis) or (self.kind == "call" and not isinstance(passed, StepNote))
        }
        return is_pasted(answer, [item.text for nodes in left.values() for item in nodes])

    def ended(self, status: SampleStatus, answer: str | None, error: str | None, ended_ns: int) -> Notes:
        """Return the record, and release all texts.

        The caller's response object may hold this request for ever. The returned record does not change any
        more: calls that are still running find the request closed.
        """
        ended = Notes(**{one.name: getattr(self, one.name) for one in fields(Notes)})
        ended.status, ended.answer, ended.error_type = status, answer, error
        ended.ended_ns = max(ended_ns, self.started_ns)
        self.retrievals, self.calls, self.steps, self.trail = [], [], [], []
        self.given, self.shaped, self.weighed, self.output, self.parts = [], [], set(), NO_OUTPUT, []
        return ended


def is_document_synthesis(passed: Passed) -> bool:
    """Return whether a stage is a synthesizer with documents, not sub-answers, as its input."""
    return isinstance(passed, Synthesis) and not passed.combines


def _brought_documents(passed: Passed) -> bool:
    if isinstance(passed, RetrievalNote):
        return passed.outer is None and passed.contexts is not None
    return is_document_synthesis(passed)
