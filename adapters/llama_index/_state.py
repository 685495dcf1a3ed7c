"""What is noted about a LlamaIndex request while it runs.

`SpanFollower` fills a `LlamaRequest` from span callbacks, on any thread and task the
request uses; when it ends, `LlamaRequest.ended` hands them over as `Notes`, from which
the meter's worker builds the run.  A request is divided into scopes, numbered as they begin (the
nearest query, chat, run or tool call): what was retrieved in one reaches the model there.
Nothing here knows LlamaIndex's classes or the meter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ragmeter.adapters._other_spans import CallSpans, SeenSpan, choose_spans, seen_span
from ragmeter.adapters._snapshots import bytes_of_new
from ragmeter.adapters._unseen import GaveOut, Who
from ragmeter.adapters.reading.answer import is_pasted
from ragmeter.adapters.reading.fields import OutputString
from ragmeter.adapters.reading.prompts import Sent, new_bytes
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
from ._payloads import Kind, Nodes, RetrieverFacts
from ._streams import StreamedText

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry import RetrievalTool

NO_SPANS = CallSpans(None, None)
MAX_CALLS = 1_000
"""Model calls of one request that are noted: the last ones."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A call that may be made again: a step, or an engine or tool within a request."""

    outer: Attempt | None
    failed: bool = False


def _counts(attempt: Attempt | None) -> bool:
    """Return whether nothing around it failed, the request itself aside."""
    while attempt is not None:
        if attempt.failed:
            return False
        attempt = attempt.outer
    return True


@dataclass(slots=True, eq=False)
class CallNote:
    """A model call."""

    messages: Sent
    synthesis: Synthesis | None
    """The synthesis that made it."""
    attempt: Attempt | None
    answers: bool = False
    """It was made by reading the request's own streamed answer."""
    started: int = 0
    """When it began: a place in the order of the request's events."""
    said: tuple[str, ...] = ()
    """What it said; empty for a stream, which is not listened to."""
    is_stream: bool = False
    refusal: str | None = None
    """The words by which it refused, perhaps none; None: it did not."""
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


@dataclass(slots=True, eq=False)
class StepNote:
    """What a workflow's step was handed and what it handed on, as far as that carries documents."""

    name: str
    started: int
    """When it began: a place in the order of the request's events."""
    taken: Nodes
    """Nodes in the events that it was called with."""
    strings: tuple[str, ...]
    """Texts in the events that it was called with."""
    attempt: Attempt
    given: Nodes = ()
    """Nodes in the event that it returned, unless that ended the run."""
    stops: bool = False
    """It ended the run."""


@dataclass(slots=True, eq=False)
class RetrievalNote:
    """A retriever call; only the outermost ones count."""

    scope: int
    name: str
    query: str | None
    facts: RetrieverFacts
    attempt: Attempt | None
    within: RetrievalNote | None = None
    """The retriever that it is a part of: it counts as a stage only."""
    started: int = 0
    ended_order: int | None = None
    """Where it began and ended in the order of the request's events."""
    started_ns: int = field(default_factory=time.time_ns)
    began_in: SeenSpan | None = field(default_factory=seen_span)
    ended_ns: int = 0
    """0: it is still under way."""
    contexts: Nodes | None = None
    """What it returned; None: it raised."""
    error_type: str | None = None
    who: Who = "tool"
    """What it is, where it is no retriever."""
    rule: RetrievalTool | None = None
    """It is a call that the user named: by this its nodes are read from `result`, on the worker."""
    result: Any = None
    earlier: int = 0
    """Retrievals of the request that began before it."""
    spans: CallSpans = NO_SPANS

    def learn(self, facts: RetrieverFacts) -> None:
        """Fill in what the outer retriever does not show, from an inner one."""
        own = self.facts
        self.facts = RetrieverFacts(
            own.data_source_id or facts.data_source_id,
            own.top_k if own.top_k is not None else facts.top_k,
            own.embedding_model or facts.embedding_model,
        )

    def end(self, contexts: Nodes | None, error: BaseException | None = None) -> None:
        """Note its end."""
        self.ended_ns = max(time.time_ns(), self.started_ns)
        self.spans = choose_spans(self.began_in, seen_span(), "retrieval")
        self.contexts = contexts
        self.error_type = error_type(error)


class Postprocessed(NamedTuple):
    """What a postprocessor left."""

    name: str
    """Its class."""
    scope: int
    taken: frozenset[str]
    """Ids of the nodes that it was given."""
    contexts: Nodes
    """What it left."""
    attempt: Attempt | None


@dataclass(slots=True, eq=False)
class Synthesis:
    """The input of a synthesizer."""

    name: str
    """Its class."""
    scope: int
    contexts: Nodes
    attempt: Attempt | None
    combines: bool
    """It joins sub-answers: its nodes are no documents."""


Passed = RetrievalNote | Postprocessed | StepNote | Synthesis
"""A stage that nodes passed."""


class Output(NamedTuple):
    """What a request gave out, for what its answer and contexts may have to be chosen from."""

    strings: tuple[OutputString, ...] = ()
    """The strings of an output of unknown shape."""
    copied: tuple[OutputString, ...] = ()
    """The strings of the request's input."""
    nodes: Nodes = ()
    """Nodes that the output of unknown shape names."""
    contexts: Nodes | None = None
    """What the application says to be the contexts (``contexts=``); None: it does not."""


NO_OUTPUT = Output()


found_alone: ContextVar[tuple[LoneRetrieval, ...]] = ContextVar(
    "ragmeter_llama_index_found", default=()
)
"""The retrievals of this context that were called by themselves: the next call may be sent what they found."""


@dataclass(slots=True, eq=False, kw_only=True)
class Notes:
    """What is noted of a request, free of the framework's objects: what the worker builds the run from."""

    run_id: str
    name: str
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
    """What was noted of an output, beside the answer that stands in it."""
    retrievals: list[RetrievalNote] = field(default_factory=list)
    """In start order, as are all notes."""
    calls: list[CallNote] = field(default_factory=list)
    steps: list[StepNote] = field(default_factory=list)
    trail: list[Passed] = field(default_factory=list)
    """The stages that nodes passed, in the order in which they ended; a synthesis when it began."""
    given: list[GaveOut] = field(default_factory=list)
    """What tools and steps gave out while nothing was retrieved."""
    shaped: list[RetrievalNote] = field(default_factory=list)
    """Tools that were not named, while nothing was retrieved: their results may show it."""
    before: tuple[LoneRetrieval, ...] = ()
    """The retrievals that were called by themselves before it began."""
    around: Surroundings = UNKNOWN_SURROUNDINGS

    @property
    def tried(self) -> bool:
        """Whether anything was retrieved or given to a model, or was named as the contexts."""
        given = bool(self.retrievals) or any(map(is_document_synthesis, self.trail))
        return given or self.output.contexts is not None


@dataclass(slots=True, eq=False)
class Frame:
    """An open span, as its children need to know it."""

    id: str
    kind: Kind | Literal["step"]
    request: LlamaRequest
    scope: int
    attempt: Attempt | None = None
    """The innermost call around it that may fail while the request goes on."""
    is_root: bool = False
    notes_steps: bool = False
    """It is a workflow whose steps' events are noted."""
    step: StepNote | None = None
    """The step that this span is."""
    call: CallNote | None = None
    """The model call that this span is, or is within."""
    retrieval: RetrievalNote | None = None
    """The retriever call that this span is, or is within."""
    result: RetrievalNote | None = None
    """It is a call that the user says retrieves."""
    instance: Any = None
    """The tool that is called, while it may be of interest what it gives out."""
    synthesis: Synthesis | None = None
    """The synthesis that this span is, or is within."""


@dataclass(slots=True, eq=False, kw_only=True)
class LlamaRequest(Notes):
    """One request under way.

    There is no lock: its stream may be ended by the garbage collector, on any thread and in the
    middle of anything. Where two ends may meet, the first to take the token out of `close` wins.
    """

    kind: Kind
    grow: Callable[[str, int], None]
    """Counts the bytes that it holds in the table of open requests."""
    in_scope: bool
    has_failed_attempts: bool = False
    """Something within it failed, and it went on."""
    weighed: set[int] = field(default_factory=set)
    """Identities of the texts that were counted: they are held until the end."""
    size_bytes: int = 0
    """Bytes of the nodes' texts and of the prompts so far."""
    no_text: bool = False
    """A synthesizer ran that asks no model."""
    text: StreamedText | None = None
    """The streamed answer, once there is one."""
    returned: bool = False
    """The root has returned; only its stream is still open."""
    _begun: SeenSpan | None = field(default_factory=seen_span)
    _scopes: Iterator[int] = field(default_factory=count)
    _ticks: Iterator[int] = field(default_factory=count)
    _open: list[bool] = field(default_factory=lambda: [True])

    def open_scope(self) -> int:
        """Begin the next scope."""
        return next(self._scopes)

    def tick(self) -> int:
        """Return the next place in the order of the request's events."""
        return next(self._ticks)

    @property
    def closed(self) -> bool:
        """Whether it has ended or was abandoned."""
        return not self._open

    def close(self) -> bool:
        """End it; return whether this was the first end."""
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def hold(self, size_bytes: int) -> None:
        """Add to the bytes it holds."""
        self.size_bytes += size_bytes
        self.grow(self.run_id, size_bytes)

    def hold_nodes(self, nodes: Nodes) -> None:
        """Count nodes; the same texts come by again, at the synthesis: they are held once."""
        size_bytes = bytes_of_new(nodes, self.weighed)
        if size_bytes:
            self.hold(size_bytes)

    def begin_call(self, note: CallNote) -> None:
        """Note a model call, and count what its prompt adds: a conversation is sent again each time."""
        if len(self.calls) >= MAX_CALLS:
            del self.calls[0]
        note.started = self.tick()
        self.calls.append(note)
        self.hold(new_bytes(note.messages, self.weighed))

    def forget_retrieval(self, note: RetrievalNote | None) -> None:
        """Treat a retriever call as if it had not been."""
        if note in self.retrievals:
            self.retrievals.remove(note)

    def found_by_itself(self, note: RetrievalNote, owner: RecentRetrievals) -> LoneRetrieval | None:
        """Remember, for calls that come later in this context, what it found; None: nothing."""
        alone = LoneRetrieval(
            owner=owner, run_id=self.run_id, name=self.name, around=self.around
        ).end(note.query, note.contexts or ())
        if alone is not None:
            found_alone.set((*recent(found_alone.get()), alone))
        return alone

    def look_around(self) -> None:
        """Note where it begins."""
        seen, scope = self._begun, self.scope or RequestScope()
        trace_id = None if seen is None or seen.kind is not None else seen.context.trace_id
        self.around = Surroundings(trace_id, scope.conversation_id, scope.user_id)

    def follow(self, known: RecentRetrievals) -> None:
        """Note the retrievals that were called by themselves before it began."""
        before = self.before = known.before(recent(found_alone.get()), self.around)
        for alone in before:
            alone.follow(self.run_id)
            self.hold_nodes(alone.documents)
        if before:
            self.name = self.name or before[-1].name

    def leave(self) -> None:
        """Note that it was offered to the meter, if it is a request at all."""
        for alone in self.before:
            alone.leave(self.run_id)

    def root_left(self) -> None:
        """Note the spans around the root's end."""
        self.spans = choose_spans(self._begun, seen_span())

    @property
    def may_have_retrieved(self) -> bool:
        """Whether a model may have been sent the output of a tool or of an earlier retriever."""
        return bool(self.calls and (self.shaped or self.before))

    def only_pasted(self, answer: str) -> bool:
        """Return whether `answer` is just the nodes' texts, put together without a model."""
        if not (self.no_text or self.kind == "call"):
            return False
        left = {
            passed.scope: passed.contexts or ()
            for passed in self.trail
            if isinstance(passed, Synthesis)
            or (self.kind == "call" and not isinstance(passed, StepNote))
        }
        return is_pasted(answer, [item.text for nodes in left.values() for item in nodes])

    def ended(
        self, status: SampleStatus, answer: str | None, error: str | None, ended_ns: int
    ) -> Notes:
        """Hand over what was noted, without what failed attempts left, and let go of all texts.

        The caller's response object may keep this request for ever. Its notes are not changed any more:
        calls that are still running find it closed.
        """
        failures = self.has_failed_attempts
        all_attempts = not failures or not any(
            _counts(passed.attempt)
            for passed in self.trail
            if is_document_synthesis(passed)
            or (
                isinstance(passed, RetrievalNote)
                and not passed.within
                and passed.contexts is not None
            )
        )
        ended = Notes(**{one.name: getattr(self, one.name) for one in fields(Notes)})
        ended.status, ended.answer, ended.error_type = status, answer, error
        ended.ended_ns = max(ended_ns, self.started_ns)
        retrievals = [note for note in self.retrievals if note.ended_ns]
        ended.retrievals = _of_attempts(retrievals) if failures else retrievals
        ended.shaped = [note for note in self.shaped if _counts(note.attempt)]
        if not all_attempts:
            ended.calls = [note for note in self.calls if _counts(note.attempt)]
            ended.trail = [passed for passed in self.trail if _counts(passed.attempt)]
        if failures:
            ended.steps = [note for note in self.steps if _counts(note.attempt)]
        self.retrievals, self.calls, self.steps, self.trail = [], [], [], []
        self.given, self.shaped, self.weighed, self.output = [], [], set(), NO_OUTPUT
        return ended


def is_document_synthesis(passed: Passed) -> bool:
    """Return whether a stage is a synthesizer that was given documents, not sub-answers."""
    return isinstance(passed, Synthesis) and not passed.combines


def _of_attempts(notes: list[RetrievalNote]) -> list[RetrievalNote]:
    """Leave out what attempts found that failed and were followed by another one."""
    if not any(note.contexts is not None and _counts(note.attempt) for note in notes):
        return notes
    return [note for note in notes if note.contexts is None or _counts(note.attempt)]
