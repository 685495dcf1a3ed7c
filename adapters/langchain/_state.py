"""The records of LangChain requests while they run, and the mapping of runs to requests.

`_events` records every start and end in an `Attachment`; `_build` reads the record of an ended request.
Handlers are cheap and may be created per request; they share an `Attachment`, one per meter, which pickled
handlers find by a token: so a handler attached twice, or two handlers of one meter, still yield one request.
Runs are identified by id only, never by thread, task or instance. Imports only a context variable of LangChain
and does no work on texts: records hold references and shallow copies.
"""

from __future__ import annotations

import sys
import time
import uuid
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from opentelemetry.trace import Span, SpanContext

from ragmeter import RagMeter
from ragmeter._runtime.guard import Guard
from ragmeter.adapters import default_meter
from ragmeter.adapters._open_requests import OpenRequests
from ragmeter.adapters._parts import NOT_CAPTURED, Enclosure, InnerRequest, register
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters._unseen import GaveOut, Lookout, RetrievalRules
from ragmeter.adapters.reading import route
from ragmeter.adapters.reading.fields import Reader
from ragmeter.adapters.reading.prompts import Sent
from ragmeter.adapters.reading.route import Found, Passage, Paste
from ragmeter.metrics._process import fork
from ragmeter.requests.lone_retrieval import LoneRetrieval
from ragmeter.requests.scope import RequestScope, parse_scope

from ._answers import OutputNote
from ._payloads import Question
from ._stored_spans import Find

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry import RetrievalTool

current_config: ContextVar[Any] | None = None
"""LangChain's own variable: the configuration of the run around the current code."""
with suppress(ImportError):  # not promised by LangChain: without it, fallbacks are requests of their own
    from langchain_core.runnables.config import var_child_runnable_config

    current_config = var_child_runnable_config


MAX_LIVE_RUNS = 4096
"""Runs in one request beyond which the ended ones are dropped."""

active_retriever: ContextVar[int | None] = ContextVar("ragmeter_active_retriever", default=None)
"""The retriever run around the current code: shows that a retriever is nested in another even where the outer
one does not forward its callbacks. Holds an id, so it keeps nothing alive."""


found_alone: ContextVar[tuple[LoneRetrieval, ...]] = ContextVar("ragmeter_langchain_found", default=())
"""The calls of this context that may be lone retrievals: the next call may receive their documents."""

_LONGEST_PAUSE_S = 24 * 3600.0
_NO_ID = UUID(int=0)


class Family(set[int]):
    """The ids of one request's runs, and whether the request has ended.

    A run that starts below an ended request (a task that was not awaited) is no separate request. It finds
    this object in its own context, so that nothing need be stored here.
    """

    closed = False


current_family: ContextVar[Family | None] = ContextVar("ragmeter_langchain_family", default=None)
"""The family of the request that began last in this context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One handler's settings for reading its requests."""

    question: Reader | None = None
    contexts: Reader | None = None
    answer: Reader | None = None
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    strict: bool = False
    name: str | None = None
    rules: RetrievalRules | None = None

    def portable(self) -> Options:
        """Return the settings that can be pickled: functions only if another process can import them."""
        return replace(
            self,
            question=_importable(self.question),
            contexts=_importable(self.contexts),
            answer=_importable(self.answer),
        )


def _importable(reader: Reader | None) -> Reader | None:
    if reader is None or isinstance(reader, str):
        return reader
    module, name = getattr(reader, "__module__", None), getattr(reader, "__qualname__", "<unknown>")
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return reader if found is reader else None


class Run(route.Run):
    """One run of LangChain's within a request.

    Created for every run on the request's own path, so without Python code of its own: attributes that few
    runs have are set on the class as defaults.
    """

    key = 0
    """Its id as an integer."""
    run_id = _NO_ID
    """The id itself, of a request's topmost run and of retrievers: only these need it."""
    request: OpenRequest
    started_ns = 0
    retriever: Run | None = None
    """The nearest retriever around it."""
    open = True
    transparent = False
    """Whether it is a retriever that is not included: retrievers within it may be."""
    documents: Mapping[str, tuple[tuple[Any, str], ...]] | None = None
    """Document lists of the input in their state at the start: each document and its text."""
    strings: tuple[str, ...] = ()
    """Strings of the input, recorded after a retrieval."""
    tags: Sequence[str] | None = None
    sent: Sent = ()
    """The input of a model call."""
    rule: RetrievalTool | None = None
    """The rule for reading the result of a run that the user named a retrieval."""
    taken: object = None
    """The input of such a run."""
    note: RetrievalNote | None = None
    nested: RetrievalNote | None = None
    """The record of a retrieval within another one: it counts as a stage only."""
    children_retrievals: list[RetrievalNote] | None = None
    """Finished retrievals below this run, in the order they finished."""

    @property
    def texts(self) -> list[str]:
        """Texts of the documents it received."""
        return [text for pairs in (self.documents or {}).values() for _, text in pairs]

    @property
    def is_part_of_state(self) -> bool:
        """Whether its output becomes part of a larger state: a graph's, or a mapping."""
        if any(tag.startswith(("map:key:", "graph:step:")) for tag in self.tags or ()):
            return True
        return self.parent is not None and (self.parent.name or "").startswith("RunnableAssign")


@dataclass(slots=True, eq=False)
class RetrievalNote(Found):
    """One retrieval: its run and its documents."""

    run: Run  # pyright: ignore[reportIncompatibleVariableOverride]
    outer: Run | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    """The retriever around it; of those that may count by context, where parent ids do not decide it."""
    metadata: Mapping[str, Any] | None = None
    documents: tuple[Any, ...] = ()
    ended_ns: int | None = None
    retriever: object = None
    """LangChain's own object, in which the worker reads the searched source."""
    target: SpanContext | None = None

    def note_around(self) -> None:
        """Record it, finished, with all runs around it."""
        parent = self.run.parent
        while parent is not None:
            if parent.children_retrievals is None:
                parent.children_retrievals = []
            parent.children_retrievals.append(self)
            parent = parent.parent


class LlmNote(NamedTuple):
    """A finished model call."""

    run: Run
    text: str | None
    arguments: tuple[Mapping[str, Any], ...] = ()
    """Arguments of the tools that it called."""
    refusal: str | None = None
    """The words of its refusal, possibly empty; None if it did not refuse."""
    response_id: str | None = None
    """The provider's id of this completion."""


class Ending(NamedTuple):
    """The end of a root run."""

    ended_ns: int
    kind: type[Any]
    """Class of the root's output; the object itself is the application's."""
    error: BaseException | None
    streamed: bool
    refusal: str | None
    """As in `LlmNote`, of the output itself."""
    output: OutputNote
    """The data of its output from which the answer is chosen."""
    given: tuple[ContextSnapshot, ...] | None
    """Contexts by the application's reader (``contexts=``), which have precedence."""
    contexts: tuple[ContextSnapshot, ...] | None
    """Documents of an output that also contains an answer: the last resort."""


class OpenRequest:
    """One open request: its root run and the records of its runs. Dropped when the root ends.

    As with `Run`, attributes that few requests have are set on the class as defaults.
    """

    ignored = False
    nested: Sequence[RetrievalNote] = ()
    """Retrievals within others."""
    passages: Sequence[Passage] = ()
    given: Sequence[GaveOut] = ()
    """The output of tools and functions while nothing was retrieved."""
    shaped: Sequence[RetrievalNote] = ()
    """Unnamed tools: their results may have a document's shape."""
    parts: Sequence[InnerRequest] = ()
    """Requests of other frameworks within it."""
    within: Enclosure | None = None
    """The request of another framework around it."""
    is_part = False
    """Whether that one reads it."""
    loose_bytes = 0
    """Bytes of recorded strings that are not counted in the table yet."""
    reader: Run | None = None
    """The last function with input documents."""
    handed: tuple[ContextSnapshot, ...] = ()
    """Its input documents, or those found just before it, without those that it retrieved."""
    brought: Collection[str] = ()
    """Texts of the documents in its own input."""
    before: tuple[LoneRetrieval, ...] = ()
    """The retrievals outside a request before it began."""
    alone: LoneRetrieval | None = None
    """Its record for later requests, as a possible lone retrieval."""
    hidden: OpenRequest | None = None
    """Replaces all its parts that run under `ragmeter.suppress`."""
    root: Run
    inputs: object = None
    question = Question(None)
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})
    scope: RequestScope | None = None
    span: Span | None = None
    """The span current at the start; compared by identity, never changed."""
    context: object = None
    """OpenTelemetry's context at the start; likewise. While it is current there is no new span."""
    parent_span: SpanContext | None = None
    target: SpanContext | None = None
    tables: tuple[Find, ...] = ()
    """Where other instrumentations store the spans of its runs."""
    config: Mapping[str, Any] | None = None
    """The root's configuration, which the context of the runs below it contains."""
    interrupted = False
    resumes = False
    """Whether a ``Command`` resumed an earlier request, which has the question."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.most_members = MAX_LIVE_RUNS
        self.clock: Iterator[int] = count()
        self.family = Family()
        self.retrievals: list[RetrievalNote] = []
        self.pastes: list[Paste] = []
        self.calls: list[Run] = []
        """Calls of models, in the order in which they began."""
        self.llms: list[LlmNote] = []
        self.known_texts: set[int] = set()
        """Identities of the prompts' texts that were counted already."""
        self.filled: str | None = None
        """The context passed to a template."""

    def note(self, kind: str, note: object) -> None:
        """Add a record of a kind that most requests lack, creating its list."""
        self.__dict__.setdefault(kind, []).append(note)

    def unfinished(self) -> list[Run]:
        """Return the model calls that failed or are still running."""
        ended = {id(note.run) for note in self.llms}
        return [run for run in self.calls if id(run) not in ended]

    def dissolve(self) -> None:
        """Break the reference cycles among the request's records once they have been read.

        Otherwise every request would leave some twenty objects for the garbage collector, which runs on any
        thread of the application's. Lists stay lists: a run that ends after its request may be recording at
        this moment.
        """
        for note in self.retrievals:
            run: Run | None = note.run
            note.run.note = None
            while run is not None:
                run.children_retrievals = None
                run = run.parent
        for note in self.nested:
            note.run.nested = None
        self.retrievals, self.nested, self.passages, self.llms = [], [], [], []
        self.pastes, self.calls, self.given, self.shaped = [], [], [], []
        self.reader = self.hidden = self.within = None
        self.parts = ()
        self.root = _NO_RUN


_NO_RUN = Run()
_NO_RUN.request = OpenRequest(Options())


_CALLBACKS = (
    *[f"on_{kind}_start" for kind in ("chain", "llm", "retriever", "tool")],
    *[f"on_{event}" for event in ("chain_end", "retriever_end", "llm_end", "tool_end")],
    "on_retriever_error",
    "on_error",
)


class Attachment:
    """The shared state of one meter's handlers: runs by id, requests by root id. Thread-safe and bounded.

    Ids are stored as integers (`UUID.int`): a `UUID` is hashed by Python code, five times a run.
    """

    def __init__(self, meter: RagMeter) -> None:
        self.meter = weakref.ref(meter)
        """Returns the meter, or None once it is no longer held."""
        self.token = uuid.uuid4().hex
        self.lookout = Lookout(meter, "langchain", "RagMeterCallbackHandler(meter, {})")
        self.runs: dict[int, Run] = {}
        """Runs of open requests; a run without data of interest is mapped to its parent."""
        self.requests: OpenRequests[int, OpenRequest] = OpenRequests(self._evict)
        self.annotations: OpenRequests[UUID, RequestScope] = OpenRequests(lambda _key, _note: None)
        self.is_annotated = False
        """Whether any request was ever annotated."""
        self.paused: OpenRequests[str, Question] = OpenRequests(
            lambda _key, _question: None, max_age_s=_LONGEST_PAUSE_S
        )
        """The questions of interrupted graphs, by thread id: a resumed graph does not receive it again."""
        self.callbacks: Mapping[str, Guard] = {
            name: meter.port.guard(f"langchain.{name}") for name in _CALLBACKS
        }
        self.on_note = meter.port.guard("langchain.metadata")
        self.on_annotate = meter.port.guard("langchain.annotate")
        self.on_override = meter.port.guard("langchain.override")
        self.on_span_lookup = meter.port.guard("langchain.target_span")
        self.finders = register(meter, "langchain", self)

    def run_around(self) -> Run | None:
        """Return the run that encloses the current code by LangChain's own context variable.

        It is right where the parent id is missing: for the attempts of ``with_fallbacks``
        (langchain#36072) and for chains that user code calls with explicit callbacks.
        """
        if current_config is None:
            return None
        config = current_config.get() or {}
        parent = getattr(config.get("callbacks"), "parent_run_id", None)
        return self.runs.get(parent.int) if isinstance(parent, UUID) else None

    def enclosure(self) -> Enclosure | None:
        """Return the request around the current code; one of a tool alone has no answer, and is none."""
        retriever, run = self.runs.get(active_retriever.get() or 0), self.run_around()
        if retriever is not None and retriever.open:
            return NOT_CAPTURED
        if run is None or run.request.root.kind == "tool":
            return None
        if run.request.ignored or run.retriever is not None:
            return NOT_CAPTURED
        return Enclosure(run.request.clock, partial(self._take_part, run))

    def _take_part(self, around: Run, part: InnerRequest) -> bool:
        request = around.request
        if request.family.closed:
            return False
        request.note("parts", part)
        if part.retrieved:
            run = Run()
            run.request, run.kind, run.parent, run.order = request, "retriever", around, next(request.clock)
            note = RetrievalNote(run, part=part, ended_ns=time.time_ns(), ended_order=next(request.clock))
            request.retrievals.append(note)
            note.note_around()
        self.requests.grow(request.root.key, part.size_bytes)
        return True

    def annotate(self, run_id: UUID, note: Mapping[str, Any]) -> None:
        """Store a note for the request with this root run."""
        scope = parse_scope(note)
        if scope is not None:
            earlier = self.annotations.close(run_id)
            self.annotations.open(run_id, scope.merged_over(earlier))
            self.is_annotated = True

    def hide(self, run_id: UUID, parent: Run) -> None:
        """Record that a run below `parent`, with all runs below it, is not captured."""
        request = parent.request
        hidden = request.hidden
        if hidden is None:
            hidden = request.hidden = OpenRequest(request.options)
            hidden.ignored = True
            hidden.family = request.family  # its runs are dropped with the request's
            hidden.root = Run()
            hidden.root.request = hidden
        self.runs[run_id.int] = hidden.root
        request.family.add(run_id.int)

    def close_request(self, request: OpenRequest) -> int | None:
        """Drop a request and all its runs; return the bytes it held, None if it was gone."""
        taken = self.requests.take(request.root.key)
        request.family.closed = True
        for key in tuple(request.family):
            self.runs.pop(key, None)
        return None if taken is None else taken[1]

    def forget_ended(self, request: OpenRequest) -> None:
        """Drop the ended runs of a request that has many."""
        ids = request.family
        for key in tuple(ids):
            run = self.runs.get(key)
            if run is None or not run.open:
                self.runs.pop(key, None)
                ids.discard(key)
        request.most_members = max(MAX_LIVE_RUNS, 2 * len(ids))

    def _evict(self, root_key: int, request: OpenRequest) -> None:
        del root_key
        self.close_request(request)
        meter = self.meter()
        if meter is not None and not request.ignored:
            meter.port.count_lost("evicted")


_lock = fork.lock()
_attachments: weakref.WeakKeyDictionary[RagMeter, Attachment] = weakref.WeakKeyDictionary()
_latest: list[Attachment | None] = [None]


def attachment_of(meter: RagMeter) -> Attachment:
    """Return the shared state of a meter's handlers."""
    with _lock:
        attached = _attachments.get(meter)
        if attached is None:
            attached = _attachments[meter] = Attachment(meter)
            meter.port.expect_requests("langchain")
        return attached


def default_attachment() -> Attachment | None:
    """Return the state of the process's default meter, or None."""
    meter = default_meter()
    if meter is None:
        return None
    latest = _latest[0]
    if latest is None or latest.meter() is not meter:
        latest = _latest[0] = attachment_of(meter)
    return latest


def restore_handler(kind: type[Any], token: str | None, options: Options) -> Any:
    """Rebuild a pickled handler: with its meter in the same process, else with the default one."""
    meter = None
    if token is not None:
        with _lock:
            found = [known for known, attached in _attachments.items() if attached.token == token]
        meter = found[0] if found else None
    handler = kind(meter)
    handler._options = options  # noqa: SLF001 -- this is the handler's own constructor
    return handler
