"""The exporter protocol and its payload: one scored request, with its place and time.

An exporter needs no superclass: any object with these three methods is one. The meter calls each exporter
from one separate thread, never from the request's, contains whatever it raises, and bounds how long it waits
for it.

Adapters build a `RagRun`, the meter scores it and passes a `ScoredRun` to each exporter. Both are defined in
this layer because everything above needs them, and are exported by ``ragmeter``.
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
    """Writes scored runs to one destination. One file per destination."""

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write `batch`. May block and may raise: errors are counted and never reach the host.

        Raises:
            TryLaterError: Some runs could not be written now: the meter keeps these and tries again.
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
    """Base class of exporters without a buffer."""

    def flush(self, timeout_s: float) -> bool:
        """Return True: nothing is buffered."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Do nothing: results can still be read."""
        del timeout_s


class RunsLostError(Exception):
    """Part of a batch could not be written.

    Attributes:
        lost: Number of lost runs.
    """

    def __init__(self, message: str, lost: int) -> None:
        super().__init__(message)
        self.lost = lost


class TryLaterError(Exception):
    """A temporary failure of an exporter: a full disk, an unreachable backend.

    The meter keeps the runs, tries again after a pause, and passes nothing else to the exporter meanwhile.
    Until they are accepted `RagMeter.flush` is False.

    Attributes:
        runs: The runs of the batch that were not written. All others were.
    """

    def __init__(self, message: str, runs: Sequence[ScoredRun]) -> None:
        super().__init__(message)
        self.runs = runs


class WriteCount:
    """Counts the runs of a batch as they are written, so that a failure states the number of lost ones.

    A context manager around the writing; it lets every exception through, and turns one after some written
    runs into a `RunsLostError`. An exception of one run within `alone` is raised at the end, so that the
    others are written.
    """

    def __init__(self, batch: Sequence[ScoredRun]) -> None:
        self._all = self._left = len(batch)
        self.failure: Exception | None = None
        """The error of the last run that could not be written."""

    def add(self) -> None:
        """Count one written run."""
        self._left -= 1

    def alone(self) -> _Alone:
        """Return a context manager for work on one run only, e.g. its serialisation."""
        return _Alone(self)

    def __enter__(self) -> WriteCount:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if isinstance(error, TryLaterError):
            return  # it has the number itself
        failure = error or self.failure
        if isinstance(failure, Exception) and self._left < self._all:
            message = f"{self._left} of {self._all} runs: {loggable(failure)}"
            raise RunsLostError(message, self._left) from failure
        if error is None and failure is not None:
            raise failure


class _Alone:
    """Isolates other runs of the batch from an exception."""

    def __init__(self, written: WriteCount) -> None:
        self._written = written

    def __enter__(self) -> None:
        """Begin the block of one run."""

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        if isinstance(error, Exception):
            self._written.failure = error
            return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterStats:
    """A snapshot of the meter's own counters. ``captured`` = ``exported`` + every drop + ``in_flight``."""

    captured: int = 0
    """Requests offered to the meter since its start."""
    exported: int = 0
    """Requests that every exporter has finished with and at least one has accepted (once each, late scores
    not counted again)."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Requests lost, by reason: ``queue_full``, ``sampled_out``, ``shutdown``, ``fork``, ``error``,
    ``export`` (no exporter has accepted it), ``evicted``, ``detached``, ``interrupted``, ``no_provider``, and
    why spans of others were not sufficient (``content_off``, ``redacted``, ``truncated``, ...); in a worker
    of the fleet ``unreadable``."""
    judge_skipped: Mapping[str, int] = field(default_factory=dict)
    """Requests exported without some or all judged scores, by reason: ``sampled_out``, ``paced``,
    ``budget``, ``queue_full``, ``deadline``, ``unavailable`` (the judge's loop could not start),
    ``shutdown``."""
    in_flight: int = 0
    """Requests accepted and not yet exported or dropped, including those that wait for an exporter."""
    queue_size: int = 0
    """Requests waiting to be scored."""
    queue_bytes: int = 0
    """Estimated size of their texts in bytes."""
    backlog_bytes: int = 0
    """The same of requests that wait for the judge or an exporter, in the fullest of these queues."""
    internal_errors: Mapping[str, int] = field(default_factory=dict)
    """Exceptions contained by the guard, by component."""
    export_errors: Mapping[str, int] = field(default_factory=dict)
    """Exporter failures and drops, by exporter class."""
    export_backlog: Mapping[str, int] = field(default_factory=dict)
    """Runs that wait for an exporter or that it has accepted and not delivered yet, by exporter class."""
    unseen_retrievals: Mapping[str, int] = field(default_factory=dict)
    """Requests whose retrieval was not seen, by reason: ``no_retrieval`` (a model was called, no retrieval
    was recognised: they have no sample), ``unreadable_result`` (a tool or function named as retrieving
    returned no known document: they are exported without contexts)."""
    unsampled: int = 0
    """Exported requests whose spans the application's trace sampler left out: their scores are in metrics and
    events alone."""
    amendments: Mapping[str, int] = field(default_factory=dict)
    """References and feedback that arrived later: ``applied``, or ``unknown`` request."""
    judge_calls: int = 0
    """Calls made to the judge."""
    judge_budget_local: int = 0
    """Calls to the judge that this process granted itself, as the Redis of the shared budget was
    unreachable."""
    judge_cache_hits: int = 0
    """Answers from the judge's cache."""
    input_tokens: int = 0
    """Tokens sent to the judge."""
    output_tokens: int = 0
    """Tokens written by the judge."""


@runtime_checkable
class CarriesRequests(Protocol):
    """An exporter that passes requests on to be scored elsewhere, such as ``ragmeter.fleet.FleetPublisher``.

    A request that it loses counts as dropped, even if other exporters have accepted it.
    """

    carries_requests: bool
    """Whether it passes requests on."""


@runtime_checkable
class HoldsRuns(Protocol):
    """An exporter that delivers later than it accepts, and reports the undelivered runs."""

    @property
    def backlog(self) -> int:
        """Number of runs accepted by `Exporter.export` and not delivered yet; must not block.

        Runs left after `Exporter.shutdown` count as lost.
        """
        ...


@runtime_checkable
class CountsUnsampled(Protocol):
    """An exporter of spans, some of which the application's sampler may leave out."""

    n_unsampled: int
    """Requests exported so far whose spans were left out."""


@runtime_checkable
class FollowsSpans(Protocol):
    """An exporter of spans that writes where the judged ones are, if it is given nothing else."""

    def follow_spans(self, provider: Any) -> None:
        """Take the tracer provider whose spans are judged."""
        ...


@runtime_checkable
class ObservesMeter(Protocol):
    """An exporter that also publishes the meter's own counters."""

    def observe_meter(self, stats: Callable[[], MeterStats]) -> None:
        """Store `stats`, to be called when a snapshot is needed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySums:
    """The sums of one score of one workflow since the start, for means with intervals.

    Sums of several processes and times add up; `docs/quality.md` explains what may be concluded.
    """

    score: str
    """Name of the score."""
    workflow: str
    """Name of the chain, engine or workflow; empty: unnamed."""
    segment: str = ""
    """Segment of its requests; empty: all."""
    judge: str = ""
    """Short hash of judge, prompt and formula; empty for a free score."""
    direction: ScoreDirection = "higher"
    """The better direction. The sums are of the unchanged score, scaled to 0 … 1 by its range."""
    design_effect: float = 1.0
    """Ratio of the variance of the mean to that of independent requests."""
    budget: float | None = None
    """Share of the requests that may be bad by the objective; None: no objective."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The resource of the requests' service, if that is another process: ``service.name`` and others."""
    measurement: str = ""
    """Identifies formula and judge, also for a free score; empty: as `judge`."""
    sums: Mapping[str, float]
    """The sums by name: those of `ragmeter.exporters.semconv.FREE_SUMS` or of ``JUDGED_SUMS``, without
    ``low`` if there is no objective."""

    @property
    def measured_by(self) -> str:
        """Identifies formula and judge: values of different ones are different quantities."""
        return self.measurement or self.judge

    @property
    def values(self) -> tuple[float, float, float]:
        """Number, sum and sum of squares of the values not selected for being bad, without weights."""
        sums = self.sums
        if "c" in sums:
            return sums["c"], sums["y"], sums["yy"]
        return sums["kd"], sums["x"], sums["xx"]


@runtime_checkable
class ObservesQuality(Protocol):
    """An exporter that also publishes the sums behind the means of quality."""

    def observe_quality(self, sums: Callable[[], Sequence[QualitySums]]) -> None:
        """Store `sums`, to be called when needed. They only grow."""
        ...


ListPoint: TypeAlias = "tuple[Instrument, float, Mapping[Term, str]]"
"""A count of a list: its gauge, value and attributes."""


@runtime_checkable
class ObservesLists(Protocol):
    """An exporter that also counts new knowledge gaps, and publishes the counts of lists."""

    def observe_lists(self, points: Callable[[], Sequence[ListPoint]]) -> None:
        """Store `points`, to be called from time to time: a call may take seconds."""
        ...

    def gap_found(self, diagnosis: str, language: str | None) -> None:
        """Count a new gap.

        Args:
            diagnosis: Its cause; see `ragmeter.quality.gaps.gap.Diagnosis`.
            language: Language of most of its questions; None: unknown.
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
    """Text of the fix, with ``{}`` for the arguments to add."""
    tools: tuple[str, ...] = ()
    """Names of tools whose text was in a prompt."""
    functions: tuple[str, ...] = ()
    """Names of functions, likewise."""


@runtime_checkable
class ObservesUnseenRetrievals(Protocol):
    """An exporter that also counts requests whose retrieval was not seen."""

    def retrieval_unseen(self, framework: str, reason: str) -> None:
        """Count one request. Must not block."""
        ...


@runtime_checkable
class MayLackDestination(Protocol):
    """An exporter that may have nowhere to write to yet, as OpenTelemetry without an SDK."""

    def delivers(self) -> bool:
        """Return whether an export would have a destination now. Called for every request: must be cheap.

        While no exporter of a meter delivers, its requests are neither scored nor judged, but
        counted as dropped, reason ``no_provider``.
        """
        ...


@runtime_checkable
class MeasuresEveryRequest(Protocol):
    """An exporter that aggregates free scores, including those of requests that are not exported."""

    def measure(self, scored: ScoredRun) -> None:
        """Record the free scores of a request that was scored and then sampled out.

        Only aggregates may result: the request itself is not exported. Called on the scoring thread, must not
        block.
        """
        ...


Selection = Literal["sampled", "worst"]
"""Why a request was judged: by chance, or because of its scores: it is among the worst, or a cascade
continued as a cheaper step was undecided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """One retrieval within a request: the outermost retriever call, not its helpers."""

    started_ns: int
    """Start, nanoseconds since the epoch."""
    ended_ns: int
    """End, likewise; never before `started_ns`."""
    contexts: tuple[RetrievedContext, ...] = ()
    """The retriever's result, before reranking or filtering by others."""
    query: str | None = None
    """The query passed to the retriever, perhaps rewritten. Content: opt-in only."""
    name: str | None = None
    """The retriever's name (class or run name); low cardinality."""
    data_source_id: str | None = None
    """The searched store (``gen_ai.data_source.id``): the collection or index, else the class of the store."""
    top_k: int | None = None
    """Number of chunks requested, if known."""
    embedding_model: str | None = None
    """The embedding model (``gen_ai.request.model``), if known."""
    provider: str | None = None
    """The vector store's or embedding's provider (``gen_ai.provider.name``), if known."""
    error_type: str | None = None
    """Low-cardinality class of its exception, or None."""
    target: SpanContext | None = None
    """The span of another instrumentation for this retrieval, if any."""

    def __post_init__(self) -> None:
        _never_end_early(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RagRun:
    """One user-level request: the sample, with its place and time."""

    sample: RagSample
    """Question, contexts, answer, reference, status."""
    run_id: str
    """Unique id of the request; the framework's own where it has one."""
    framework: str
    """``langchain``, ``llama_index``, ``manual``, or the convention of the spans that contained it."""
    started_ns: int
    """Start, nanoseconds since the epoch."""
    ended_ns: int
    """End, likewise; never before `started_ns`."""
    retrievals: tuple[Retrieval, ...] = ()
    """Its retrievals, in start order."""
    parent: SpanContext | None = None
    """The application's span around the request; own spans become its children."""
    target: SpanContext | None = None
    """The span of another instrumentation for the request itself, if any: scores attach to it."""
    conversation_id: str | None = None
    """Session, thread or conversation id."""
    response_id: str | None = None
    """The provider's id of the completion that answered; None: unknown, or several."""
    user_id: str | None = None
    """The user's id, from the application. On spans only, never on metrics."""
    tags: tuple[str, ...] = ()
    """The application's tags. On spans only, never on metrics."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The application's metadata for ragmeter; scalars go on spans under ``ragmeter.metadata.*``."""
    framework_metadata: Mapping[str, Any] = field(default_factory=dict)
    """The application's metadata of the request for the framework: that of LangChain's config, LlamaIndex's
    tags, metadata on spans and short attributes of their resource. Used for segments; never exported."""
    error_type: str | None = None
    """Low-cardinality class of the request's exception, or None."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The resource of the request's service, if that is another process: ``service.name`` and others."""

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
    # Wall clocks are occasionally set back; a span of negative length breaks backends.
    if timed.ended_ns < timed.started_ns:
        object.__setattr__(timed, "ended_ns", timed.started_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeIdentity:
    """The judge's model, and the price of its tokens."""

    model: str
    """The name of the model."""
    endpoint: str = "custom"
    """Kind of its endpoint: ``openai``, ``azure``, ``local``, ``compatible`` or ``custom``."""
    input_price: float | None = None
    """Price of a million prompt tokens; None: unknown."""
    output_price: float | None = None
    """Price of a million completion tokens; None: unknown."""

    def cost_of(self, score: Score) -> float | None:
        """Return the cost of judging a score, in the currency of the prices; None: unknown.

        Prompt tokens that the endpoint read from its cache count as the others.
        """
        if self.input_price is None or self.output_price is None:
            return None
        tokens = score.input_tokens * self.input_price + score.output_tokens * self.output_price
        return tokens / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """A request and its scores: the payload of every exporter.

    A run whose judged scores arrive later than the meter's ``hold_s`` is exported twice: first with the
    scores that are ready, then, with ``late=True``, the rest. The description of the request is the same in
    both.
    """

    run: RagRun
    """The request."""
    scores: Mapping[str, Score]
    """The scores by name, in the order of the metrics."""
    late: bool = False
    """True: the request itself has been exported before, and these are the missing scores."""
    sample_rate: float = 1.0
    """The probability of being selected for scoring; 1.0 when selected for being bad."""
    judge_sample_rate: float = 1.0
    """The probability of being selected for judging, given that it was scored; independent of the request,
    1.0 when judged for being bad."""
    selection: Selection = "sampled"
    """Whether it was sampled, or selected only for being bad."""
    judge_selection: Selection = "sampled"
    """The same for its judged scores. Plain means of judged scores use the ``sampled`` ones; weighted means
    use all."""
    judged: frozenset[str] = frozenset()
    """Names of the scores that only requests selected for judging have."""
    verdict: Verdict | None = None
    """The verdict on all known scores of the request. None: no score for a verdict was measured; in a
    ``late`` result also: unchanged."""
    segments: Mapping[str, str] = field(default_factory=dict)
    """Its segments, among those the application distinguishes, by name."""
    judge: JudgeIdentity | None = None
    """The judge; None: no judge, or unknown."""
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
        """Return why `score` was measured for this request; None: it is for every request."""
        if score.method == "llm" or score.name in self.judged:
            # A cascade that continued as a cheaper step was undecided selected by its value, too.
            return self.judge_selection if score.asked_by_chance else "worst"
        # Scores measured at once exist for every request. Later ones exist only for exported requests.
        return "worst" if self.late and self.selection == "worst" else None
