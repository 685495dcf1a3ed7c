"""What is noted about LangChain requests while they run, and which run belongs to which request.

`_events` notes every start and end in an `Attachment`; `_build` reads what was noted once the request is
over.  Handlers are cheap and may be made per request; what they share stands in an `Attachment`, one per
meter, found again by pickled handlers through a token: so a handler attached twice, or two
handlers of one meter, still yield one request.  Runs are identified by id only, never by thread, task or
instance.  No LangChain import here, and no work on texts: notes hold references and shallow copies.
"""

from __future__ import annotations

import sys
import uuid
import weakref
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from opentelemetry.trace import Span, SpanContext

from ragmeter import RagMeter
from ragmeter._runtime.guard import Guard
from ragmeter.adapters import default_meter
from ragmeter.adapters._open_requests import OpenRequests
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters._unseen import GaveOut, Lookout, RetrievalRules, Who
from ragmeter.adapters.reading.fields import Reader
from ragmeter.adapters.reading.prompts import Sent
from ragmeter.adapters.reading.route import Passage, Paste
from ragmeter.metrics._process import fork
from ragmeter.requests.lone_retrieval import LoneRetrieval
from ragmeter.requests.scope import RequestScope, parse_scope

from ._payloads import Question

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry import RetrievalTool


RunKind = Literal["chain", "llm", "retriever", "tool"]

MAX_LIVE_RUNS = 4096
"""Beyond this many runs in one request, those that have ended are forgotten."""

active_retriever: ContextVar[int | None] = ContextVar("ragmeter_active_retriever", default=None)
"""The retriever run around the current code: shows that a retriever is nested in another even
where the outer one does not forward its callbacks. Holds an id, so it keeps nothing alive."""


found_alone: ContextVar[tuple[LoneRetrieval, ...]] = ContextVar(
    "ragmeter_langchain_found", default=()
)
"""The calls of this context that may be lone retrievals: the next may be sent what they found."""

_LONGEST_PAUSE_S = 24 * 3600.0
_NO_ID = UUID(int=0)


class Family(set[int]):
    """The ids of one request's runs, and whether the request is over.

    A run that starts below a request that is over (a task that was not waited for) is not a request
    of its own. It finds this in its own context, so that nothing need be remembered here.
    """

    closed = False


current_family: ContextVar[Family | None] = ContextVar("ragmeter_langchain_family", default=None)
"""The family of the request that began last in this context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one handler wants its requests read."""

    question: Reader | None = None
    contexts: Reader | None = None
    answer: Reader | None = None
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    strict: bool = False
    name: str | None = None
    rules: RetrievalRules | None = None

    def portable(self) -> Options:
        """Return what of it can be pickled: functions only if another process can import them."""
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


class Run:
    """One run of LangChain's within a request.

    Made for every run on the request's own path, so without code of Python's: what few runs have stands on
    the class until it is set.
    """

    key = 0
    """Its id as an integer."""
    run_id = _NO_ID
    """The id itself, of a request's topmost run and of retrievers: nothing else asks for it."""
    request: OpenRequest
    parent: Run | None = None
    kind: RunKind = "chain"
    name: str | None = None
    started_ns = 0
    order = 0
    retriever: Run | None = None
    """The nearest retriever around it."""
    open = True
    failed = False
    transparent = False
    """A retriever that is not among those included: what is within it may be."""
    documents: Mapping[str, tuple[tuple[Any, str], ...]] | None = None
    """Document lists of the input as they were at the start: each document and its text."""
    strings: tuple[str, ...] = ()
    """Strings of the input, noted once something was retrieved."""
    tags: Sequence[str] | None = None
    sent: Sent = ()
    """What a model call was sent."""
    rule: RetrievalTool | None = None
    """By which its result is read: the user says that it retrieves."""
    taken: object = None
    """What it was given, if so."""
    note: RetrievalNote | None = None
    nested: RetrievalNote | None = None
    """A retrieval within another one: it counts as a stage only."""
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
class RetrievalNote:
    """One retrieval: its run and its documents."""

    run: Run
    query: object = None
    metadata: Mapping[str, Any] | None = None
    outer: Run | None = None
    """The retriever around it; of those that may count by context, where parent ids do not decide it."""
    contexts: tuple[ContextSnapshot, ...] | None = None
    documents: tuple[Any, ...] = ()
    ended_ns: int | None = None
    ended_order: int | None = None
    error_type: str | None = None
    rule: RetrievalTool | None = None
    """By which the documents are read from `result`; None: they are known."""
    result: object = None
    """What a tool or function gave out that the user has named."""
    retriever: object = None
    """LangChain's own object: the worker reads in it what was searched."""
    target: SpanContext | None = None

    @property
    def who(self) -> Who:
        """What it is, where it is no retriever."""
        return "tool" if self.run.kind == "tool" else "function"

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name or ""

    def note_around(self) -> None:
        """Note it, finished, with all runs around it."""
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
    """The words by which it refused, perhaps none; None: it did not."""
    response_id: str | None = None
    """What the model's provider calls this completion."""


class Ending(NamedTuple):
    """How a root run ended."""

    ended_ns: int
    kind: type[Any]
    """Class of the root's output; the object itself is the application's."""
    error: BaseException | None
    streamed: bool
    refusal: str | None = None
    """As in `LlmNote`, of the output itself."""


class OpenRequest:
    """One request in flight: its root run and what its runs showed. Dropped when the root ends.

    As with `Run`, what most requests lack stands on the class.
    """

    ignored = False
    nested: Sequence[RetrievalNote] = ()
    """Retrievals within others."""
    passages: Sequence[Passage[ContextSnapshot]] = ()
    given: Sequence[GaveOut] = ()
    """What tools and functions gave out while nothing was retrieved."""
    shaped: Sequence[RetrievalNote] = ()
    """Tools that were not named: their results may show that they retrieve."""
    loose_bytes = 0
    """Bytes of noted strings that are not counted in the table yet."""
    reader: Run | None = None
    """The function that was given documents last."""
    handed: tuple[ContextSnapshot, ...] = ()
    """Documents that it was given, or that were found just before, and not those that it retrieved."""
    brought: Collection[str] = ()
    """Texts of the documents in its own input."""
    before: tuple[LoneRetrieval, ...] = ()
    """The retrievals that were called by themselves before it began."""
    alone: LoneRetrieval | None = None
    """What a later request sees of it."""
    hidden: OpenRequest | None = None
    """Stands for all its parts that run under `ragmeter.suppress`."""
    root: Run
    inputs: object = None
    question = Question(None)
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})
    scope: RequestScope | None = None
    span: Span | None = None
    """The span current at the start; compared by identity, never changed."""
    context: object = None
    """OpenTelemetry's context at the start; likewise. While it is in force no new span is."""
    parent_span: SpanContext | None = None
    target: SpanContext | None = None
    interrupted = False
    resumes = False
    """A ``Command`` resumed an earlier request: its question was asked there."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.most_members = MAX_LIVE_RUNS
        self.clock = count()
        self.family = Family()
        self.retrievals: list[RetrievalNote] = []
        self.pastes: list[Paste] = []
        self.calls: list[Run] = []
        """Calls of models, in the order in which they began."""
        self.llms: list[LlmNote] = []
        self.known_texts: set[int] = set()
        """Identities of the prompts' texts that were counted already."""
        self.filled: str | None = None
        """What a template was given as the context."""

    def note(self, kind: str, note: object) -> None:
        """Add a note of a kind that most requests lack: those have no list for it."""
        self.__dict__.setdefault(kind, []).append(note)

    def unfinished(self) -> list[Run]:
        """Return the model calls that failed or are still going on."""
        ended = {id(note.run) for note in self.llms}
        return [run for run in self.calls if id(run) not in ended]

    def dissolve(self) -> None:
        """Undo the circles among the request's notes once they have been read.

        Else every request would leave some twenty objects for the garbage collector to find, which
        runs on any thread of the application's. Lists stay lists: a run that ends
        after its request may just now be noting something.
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
        self.reader = self.hidden = None
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

    Ids are kept as integers (`UUID.int`): a `UUID` is hashed by Python code, five times a run.
    """

    def __init__(self, meter: RagMeter) -> None:
        self.meter = weakref.ref(meter)
        """Returns the meter, or None once it is not held any more."""
        self.token = uuid.uuid4().hex
        self.lookout = Lookout(meter, "langchain", "RagMeterCallbackHandler(meter, {})")
        self.runs: dict[int, Run] = {}
        """Runs of requests in flight; a run that shows nothing itself has its parent stand for it."""
        self.requests: OpenRequests[int, OpenRequest] = OpenRequests(self._evict)
        self.annotations: OpenRequests[UUID, RequestScope] = OpenRequests(lambda _key, _note: None)
        self.is_annotated = False
        """Whether any request was ever annotated."""
        self.paused: OpenRequests[str, Question] = OpenRequests(
            lambda _key, _question: None, max_age_s=_LONGEST_PAUSE_S
        )
        """What interrupted graphs were asked, by thread id: resumed, they are not asked again."""
        self.callbacks: Mapping[str, Guard] = {
            name: meter.port.guard(f"langchain.{name}") for name in _CALLBACKS
        }
        self.on_note = meter.port.guard("langchain.metadata")
        self.on_annotate = meter.port.guard("langchain.annotate")
        self.on_override = meter.port.guard("langchain.override")
        self.on_span_lookup = meter.port.guard("langchain.target_span")

    def annotate(self, run_id: UUID, note: Mapping[str, Any]) -> None:
        """Keep a note for the request with this root run."""
        scope = parse_scope(note)
        if scope is not None:
            earlier = self.annotations.close(run_id)
            self.annotations.open(run_id, scope.merged_over(earlier))
            self.is_annotated = True

    def hide(self, run_id: UUID, parent: Run) -> None:
        """Note a run below `parent` that is not captured, nor is what runs below it."""
        request = parent.request
        hidden = request.hidden
        if hidden is None:
            hidden = request.hidden = OpenRequest(request.options)
            hidden.ignored = True
            hidden.family = request.family  # its runs are forgotten with the request's
            hidden.root = Run()
            hidden.root.request = hidden
        self.runs[run_id.int] = hidden.root
        request.family.add(run_id.int)

    def close_request(self, request: OpenRequest) -> int | None:
        """Forget a request and all its runs; return the bytes it held, None if it was gone."""
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
    """Return the state of the process's default meter, or None when there is none."""
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
