"""The exporter protocol and its payload: one scored request, and where and when it ran.

An exporter needs no superclass: any object with these three methods will do.  The
meter calls each exporter from one thread of its own, never from the request's,
contains whatever it raises, and bounds how long it waits for it.

Adapters build a `RagRun`, the meter scores it and hands a `ScoredRun` to each exporter. Both are
defined on this floor because everything above needs them, and are handed out by ``ragmeter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from opentelemetry.trace import SpanContext

from ragmeter.metrics import RagSample, RetrievedContext, Score, ScoreDirection
from ragmeter.metrics.errors import loggable
from ragmeter.metrics.verdict import Verdict

if TYPE_CHECKING:
    from ragmeter.metrics._display.html import ShownRow
    from ragmeter.metrics.judge.protocol import JudgeCall

    from .semconv import Instrument, Term

__all__ = [
    "CarriesRequests",
    "Exporter",
    "HoldsRuns",
    "JudgeIdentity",
    "ListPoint",
    "MayLackDestination",
    "MeasuresEveryRequest",
    "MeterStats",
    "ObservesJudge",
    "ObservesLists",
    "ObservesMeter",
    "ObservesQuality",
    "QualitySums",
    "RagRun",
    "Retrieval",
    "RunsLostError",
    "ScoredRun",
    "TryLaterError",
    "UnbufferedExporter",
    "WriteCount",
]


class Exporter(Protocol):
    """Writes scored runs somewhere. One file per destination."""

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write `batch`. May block and may raise: the meter counts it, the host never notices.

        Raises:
            TryLaterError: Some runs could not be written now: the meter keeps these and asks again.
            RunsLostError: Some runs were not written, the others were; any other exception means
                that none was. They are lost, and counted.
        """
        ...

    def flush(self, timeout_s: float) -> bool:
        """Flush buffered results within `timeout_s` seconds; return whether all were sent."""
        ...

    def shutdown(self, timeout_s: float) -> None:
        """Release everything within `timeout_s` seconds. Called once."""
        ...


class UnbufferedExporter:
    """What exporters that hold nothing back have in common."""

    def flush(self, timeout_s: float) -> bool:
        """Return True: nothing waits here."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Release nothing: results can still be read."""
        del timeout_s


class RunsLostError(Exception):
    """Part of a batch could not be written.

    Attributes:
        lost: How many runs.
    """

    def __init__(self, message: str, lost: int) -> None:
        super().__init__(message)
        self.lost = lost


class TryLaterError(Exception):
    """What hinders an exporter may pass: a full disk, a backend that is away.

    The meter keeps the runs, asks again after a pause, and hands the exporter nothing else meanwhile. Until
    they are taken `RagMeter.flush` is False.

    Attributes:
        runs: Those of the batch that were not written. All others were.
    """

    def __init__(self, message: str, runs: Sequence[ScoredRun]) -> None:
        super().__init__(message)
        self.runs = runs


class WriteCount:
    """Counts the runs of a batch as they are written, so that a failure says how many were lost.

    A context manager around the writing; it lets every exception through, and turns one that comes
    after some runs were written into a `RunsLostError`. What one run alone raises within `alone`
    is raised at the end, so that the others are written.
    """

    def __init__(self, batch: Sequence[ScoredRun]) -> None:
        self._all = self._left = len(batch)
        self.failure: Exception | None = None
        """What the last unwritable run raised."""

    def add(self) -> None:
        """Note that one run was written."""
        self._left -= 1

    def alone(self) -> _Alone:
        """Return a context manager around what concerns one run only, e.g. turning it into text."""
        return _Alone(self)

    def __enter__(self) -> WriteCount:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if isinstance(error, TryLaterError):
            return  # it says itself which
        failure = error or self.failure
        if isinstance(failure, Exception) and self._left < self._all:
            message = f"{self._left} of {self._all} runs: {loggable(failure)}"
            raise RunsLostError(message, self._left) from failure
        if error is None and failure is not None:
            raise failure


class _Alone:
    """Keeps an exception from the other runs of the batch."""

    def __init__(self, written: WriteCount) -> None:
        self._written = written

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        if isinstance(error, Exception):
            self._written.failure = error
            return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterStats:
    """A snapshot of the meter's own counters. ``captured`` = ``exported`` + every drop + ``in_flight``."""

    captured: int = 0
    """Requests handed to the meter since its start."""
    exported: int = 0
    """Requests that every exporter is through with and at least one has taken (once each, late scores not
    counted again)."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Requests lost, by reason: ``queue_full``, ``sampled_out``, ``shutdown``, ``fork``, ``error``,
    ``export`` (no exporter has taken it), ``evicted``, ``detached``, ``interrupted``, ``no_provider``, and
    why spans of others were not sufficient (``content_off``, ``redacted``, ``truncated``, ...); in a worker of
    the fleet ``unreadable``."""
    judge_skipped: Mapping[str, int] = field(default_factory=dict)
    """Requests exported without some or all judged scores, by reason: ``sampled_out``, ``paced``,
    ``budget``, ``queue_full``, ``deadline``, ``unavailable`` (the judge's loop could not start),
    ``shutdown``."""
    in_flight: int = 0
    """Requests accepted and not yet exported or dropped; those that wait for an exporter among them."""
    queue_size: int = 0
    """Requests waiting to be scored."""
    queue_bytes: int = 0
    """Estimated size of their texts in bytes."""
    backlog_bytes: int = 0
    """The same of those that wait for the judge or an exporter, in the fullest of these queues."""
    internal_errors: Mapping[str, int] = field(default_factory=dict)
    """Exceptions contained by the guard, by component."""
    export_errors: Mapping[str, int] = field(default_factory=dict)
    """Exporter failures and drops, by exporter class."""
    export_backlog: Mapping[str, int] = field(default_factory=dict)
    """Runs that wait for an exporter or that it holds and has not delivered yet, by exporter class."""
    unseen_retrievals: Mapping[str, int] = field(default_factory=dict)
    """Requests whose retrieval was not seen, by reason: ``no_retrieval`` (a model was called, nothing that
    retrieves was recognised: they gave no sample), ``unreadable_result`` (a tool or function named as
    retrieving returned what holds no known document: they go out without contexts)."""
    amendments: Mapping[str, int] = field(default_factory=dict)
    """References and feedback that came after the fact: ``applied``, or ``unknown`` request."""
    judge_calls: int = 0
    """Calls made to the judge."""
    judge_budget_local: int = 0
    """Calls to the judge that this process granted itself, as the Redis of the shared budget was away."""
    judge_cache_hits: int = 0
    """Questions answered from the judge's cache."""
    input_tokens: int = 0
    """Tokens sent to the judge."""
    output_tokens: int = 0
    """Tokens the judge wrote."""


@runtime_checkable
class CarriesRequests(Protocol):
    """An exporter that hands requests on to be scored elsewhere, as ``ragmeter.fleet.FleetPublisher`` does.

    A request that it loses counts as dropped, whatever the other exporters have taken of it.
    """

    carries_requests: bool
    """Whether it does."""


@runtime_checkable
class HoldsRuns(Protocol):
    """An exporter that delivers later than it takes, and says what it has taken and not delivered."""

    @property
    def backlog(self) -> int:
        """Runs taken by `Exporter.export` and not delivered yet; must not block.

        What is left after `Exporter.shutdown` counts as lost.
        """
        ...


@runtime_checkable
class ObservesMeter(Protocol):
    """An exporter that also publishes the meter's own counters."""

    def observe_meter(self, stats: Callable[[], MeterStats]) -> None:
        """Remember `stats`; call it whenever a snapshot is wanted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySums:
    """Everything counted so far of one score of one workflow, from which means with intervals follow.

    Sums of several processes and times add up; `docs/quality.md` says what may be read off them.
    """

    score: str
    """Name of the score."""
    workflow: str
    """Name of the chain, engine or workflow; empty: it has none."""
    segment: str = ""
    """Which part of its requests; empty: all of them."""
    judge: str = ""
    """Short hash of judge, prompt and formula; empty for a free score."""
    direction: ScoreDirection = "higher"
    """Which way is better. The sums are of the score as it is, scaled to 0 … 1 by its range."""
    design_effect: float = 1.0
    """How much larger the variance of the mean is than if requests were independent."""
    budget: float | None = None
    """Share of the requests that the objective lets be bad; None: there is no objective."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The service whose requests they are, where that is another process: ``service.name`` and the like."""
    measurement: str = ""
    """Names what was measured, and by whom, of a free score, too; empty: as `judge`."""
    sums: Mapping[str, float]
    """The sums by name: those of `ragmeter.exporters.semconv.FREE_SUMS` or of ``JUDGED_SUMS``, without ``low``
    where there is no objective."""

    @property
    def measured_by(self) -> str:
        """Identifies formula and judge: values of different ones are different quantities."""
        return self.measurement or self.judge

    @property
    def values(self) -> tuple[float, float, float]:
        """Number, sum and sum of squares of the values that were not chosen for being bad, without weights."""
        sums = self.sums
        if "c" in sums:
            return sums["c"], sums["y"], sums["yy"]
        return sums["kd"], sums["x"], sums["xx"]


@runtime_checkable
class ObservesQuality(Protocol):
    """An exporter that also publishes the sums behind the means of quality."""

    def observe_quality(self, sums: Callable[[], Sequence[QualitySums]]) -> None:
        """Remember `sums`; call it whenever they are wanted. They only grow."""
        ...


ListPoint: TypeAlias = "tuple[Instrument, float, Mapping[Term, str]]"
"""What a list counts: which gauge, its value, its attributes."""


@runtime_checkable
class ObservesLists(Protocol):
    """An exporter that also counts new knowledge gaps, and publishes what lists count."""

    def observe_lists(self, points: Callable[[], Sequence[ListPoint]]) -> None:
        """Remember `points`; call it now and then: it takes up to some seconds."""
        ...

    def gap_found(self, diagnosis: str, language: str | None) -> None:
        """Count one.

        Args:
            diagnosis: What it lacks; see `ragmeter.quality.gaps.gap.Diagnosis`.
            language: Of most of its questions; None: unknown.
        """
        ...


@runtime_checkable
class ObservesJudge(Protocol):
    """An exporter that also publishes every call to the judge."""

    def judge_called(self, call: JudgeCall) -> None:
        """Record `call`. Must not block."""
        ...


class Suspects(NamedTuple):
    """Possible retrievers of a request without a seen retrieval; "" for one without a name."""

    line: str
    """What mends it, with ``{}`` for the arguments to add."""
    tools: tuple[str, ...] = ()
    """Names of tools whose text stood in a prompt."""
    functions: tuple[str, ...] = ()
    """Names of functions, likewise."""


@runtime_checkable
class ObservesUnseenRetrievals(Protocol):
    """An exporter that also counts requests whose retrieval was not seen."""

    def retrieval_unseen(self, framework: str, reason: str) -> None:
        """Count one. Must not block."""
        ...


@runtime_checkable
class MayLackDestination(Protocol):
    """An exporter that may have nowhere to write to yet, as OpenTelemetry without an SDK."""

    def delivers(self) -> bool:
        """Return whether what is exported now goes anywhere. Asked for every request: must be cheap.

        While no exporter of a meter delivers, its requests are neither scored nor judged, but
        counted as dropped, reason ``no_provider``.
        """
        ...


@runtime_checkable
class MeasuresEveryRequest(Protocol):
    """An exporter that aggregates free scores, those of requests included that are not exported."""

    def measure(self, scored: ScoredRun) -> None:
        """Take the free scores of a request that was scored and then sampled out.

        Only aggregates may come of it: the request itself is not exported. Called on the scoring
        thread, must not block.
        """
        ...


Selection = Literal["sampled", "worst"]
"""How a request came to be judged: by chance, or because of what it scored: it is among the worst, or a cascade
asked as something cheaper was undecided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """One retrieval within a request: the outermost retriever call, not its helpers."""

    started_ns: int
    """Start, nanoseconds since the epoch."""
    ended_ns: int
    """End, likewise; never before `started_ns`."""
    contexts: tuple[RetrievedContext, ...] = ()
    """What the retriever returned, before reranking or filtering by others."""
    query: str | None = None
    """The query the retriever was given, perhaps rewritten. Content: opt-in only."""
    name: str | None = None
    """The retriever's name (class or run name); low cardinality."""
    data_source_id: str | None = None
    """What was searched (``gen_ai.data_source.id``): the collection or index, else the class of the store."""
    top_k: int | None = None
    """How many chunks were asked for, if known."""
    embedding_model: str | None = None
    """The embedding model (``gen_ai.request.model``), if known."""
    provider: str | None = None
    """The vector store's or embedding's provider (``gen_ai.provider.name``), if known."""
    error_type: str | None = None
    """Low-cardinality class of what it raised, or None."""
    target: SpanContext | None = None
    """The span that another instrumentation recorded for this retrieval, if any."""

    def __post_init__(self) -> None:
        _never_end_early(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RagRun:
    """One user-level request: the sample, and where and when it happened."""

    sample: RagSample
    """Question, contexts, answer, reference, status."""
    run_id: str
    """Unique id of the request; the framework's own where it has one."""
    framework: str
    """``langchain``, ``llama_index``, ``manual``, or the convention of the spans that it was found in."""
    started_ns: int
    """Start, nanoseconds since the epoch."""
    ended_ns: int
    """End, likewise; never before `started_ns`."""
    retrievals: tuple[Retrieval, ...] = ()
    """Its retrievals, in start order."""
    parent: SpanContext | None = None
    """The application's span around the request; own spans become its children."""
    target: SpanContext | None = None
    """The span another instrumentation recorded for the request itself, if any: scores attach to it."""
    conversation_id: str | None = None
    """Session, thread or conversation id."""
    response_id: str | None = None
    """What the model's provider calls the completion that answered; None: unknown, or several did."""
    user_id: str | None = None
    """The user's id, as the application gives it. On spans only, never on metrics."""
    tags: tuple[str, ...] = ()
    """The application's tags. On spans only, never on metrics."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The application's metadata for ragmeter; scalars go on spans under ``ragmeter.metadata.*``."""
    framework_metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the application gave the framework as metadata of the request: that of LangChain's config,
    LlamaIndex's tags, metadata on spans and short attributes of their resource. Read for segments; never
    exported."""
    error_type: str | None = None
    """Low-cardinality class of what the request raised, or None."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The service that the request ran in, where that is another process: ``service.name`` and the like."""

    def __post_init__(self) -> None:
        _never_end_early(self)

    @property
    def name(self) -> str | None:
        """Name of the chain, engine or workflow; low cardinality."""
        return self.sample.name

    @property
    def trace_id(self) -> int | None:
        """The trace the request belongs to, or None when it has no span."""
        for span in (self.target, self.parent, *[one.target for one in self.retrievals]):
            if span is not None:
                return span.trace_id if span.is_valid else None
        return None


def _never_end_early(timed: Retrieval | RagRun) -> None:
    # Wall clocks are set back now and then; a span of negative length breaks backends.
    if timed.ended_ns < timed.started_ns:
        object.__setattr__(timed, "ended_ns", timed.started_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeIdentity:
    """The judge's model, and the price of its tokens."""

    model: str
    """The model that was asked."""
    endpoint: str = "custom"
    """What kind of endpoint that was: ``openai``, ``azure``, ``local``, ``compatible`` or ``custom``."""
    input_price: float | None = None
    """Price of a million prompt tokens; None: not known."""
    output_price: float | None = None
    """Price of a million completion tokens; None: not known."""

    def cost_of(self, score: Score) -> float | None:
        """Return what asking for a score cost, in the currency of the prices; None: that is not known.

        Prompt tokens that the endpoint read from a cache of its own count as the others.
        """
        if self.input_price is None or self.output_price is None:
            return None
        tokens = score.input_tokens * self.input_price + score.output_tokens * self.output_price
        return tokens / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """A request and its scores: the payload of every exporter.

    A run whose judged scores come later than the meter's ``hold_s`` is exported
    twice: first with the scores that are ready, then, with ``late=True``, the
    rest.  Everything that describes the request is the same in both.
    """

    run: RagRun
    """The request."""
    scores: Mapping[str, Score]
    """The scores by name, in the order of the metrics."""
    late: bool = False
    """True: the request itself has been exported before, these are the scores that were missing."""
    sample_rate: float = 1.0
    """The probability with which this request was chosen to be scored; 1.0 when kept for being bad."""
    judge_sample_rate: float = 1.0
    """The probability with which it was chosen to be judged, given that it was scored; known before
    it was looked at, 1.0 when judged for being bad."""
    selection: Selection = "sampled"
    """Whether its place among all requests has it exported, or only that it is bad."""
    judge_selection: Selection = "sampled"
    """The same of its judged scores. Plain means of judged scores read the ``sampled`` ones; means
    that are weighted by the rates read all."""
    judged: frozenset[str] = frozenset()
    """Names of the scores that only requests chosen to be judged have."""
    verdict: Verdict | None = None
    """What all scores of the request that are known by now say together. None: nothing that could be
    judged by was measured; in a ``late`` result also: as it was before."""
    segments: Mapping[str, str] = field(default_factory=dict)
    """Its segments, among those the application distinguishes, by name."""
    judge: JudgeIdentity | None = None
    """Who gave the verdicts; None: there is no judge, or it is unknown."""
    alarms: bool = False
    """Whether its meter notifies of changes of quality itself."""
    revision: str = ""
    """Distinguishes the revisions of a request that late references and feedback cause; empty for
    its first scores."""

    @property
    def sample(self) -> RagSample:
        """The request's sample."""
        return self.run.sample

    def table_row(self) -> ShownRow:
        """Return the row of a table."""
        from ragmeter.metrics._display.html import ShownRow  # noqa: PLC0415 -- only for who looks

        return ShownRow(self.sample.question, self.scores, self.verdict)

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per score: ``score``, ``value``, ``status``, ``label``, ``explanation``.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        from ragmeter.metrics._display.data_frames import frame_of_scores  # noqa: PLC0415 -- likewise

        return frame_of_scores(self.scores.values())

    def _repr_html_(self) -> str:
        from ragmeter.metrics._display import html  # noqa: PLC0415 -- likewise

        return html.fragment(html.request(self.table_row()))

    def selection_of(self, score: Score) -> Selection | None:
        """Return how `score` came to be measured for this request; None: as for every request."""
        if score.method == "llm" or score.name in self.judged:
            # A cascade that asked as something cheaper was undecided chose by what that said, too.
            return self.judge_selection if score.asked_by_chance else "worst"
        # What was measured at once was measured of every request. What is learned later is known of
        # those that were exported.
        return "worst" if self.late and self.selection == "worst" else None
