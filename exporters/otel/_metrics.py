"""Records scores, requests and judge calls on metric instruments.

Every attribute is of low cardinality: names pass a `Limiter`, their combinations a `SeriesBound`, and no
question, user, document, conversation or run id is ever among them. Score and context histograms are recorded
in the judged span's context, so that exemplars point at the request. A score of a request is recorded once,
with its first value, and so is its verdict: a counter cannot decrease.

`SeriesBound` limits every instrument to the number of series that OpenTelemetry's SDK distinguishes: it
silently merges everything beyond 2,000 combinations of attributes into one nameless series, and a hundred
workflows times twenty-eight scores are more. The workflows that no longer fit are counted together, as
`OTHER`, each of them with all its scores or with none, and the caller is notified.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry.context import Context
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import ByIdentity
from ragmeter.exporters._format import clean, missing_inputs
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.exporters.semconv import Instrument
from ragmeter.metrics import Score, ScoreTarget
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.bounded_table import BoundedTable

V = TypeVar("V")

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

_NONE: frozenset[str] = frozenset()
_Contexts = Mapping[ScoreTarget, Context]
"""The context of the judged span by what a score is about."""
Attributes = dict[str, AttributeValue]
_Named = tuple[tuple[semconv.Term, "str | None"], ...]
"""Attributes of a measurement as passed; those without a value are left out."""
_Series = tuple[Callable[..., None], Attributes]
"""The bound measuring function of one series of an instrument, and its attributes."""

OTHER = "other"
MAX_DISTINCT = 100
"""Most distinct values per attribute and exporter; further ones become `OTHER`."""
MAX_STAGES = 20
"""Most names of stages, likewise: the application chooses them."""
_FUNNEL, _LOSS = "retrieval_funnel", "right_documents_dropped"
MAX_REMEMBERED = 10_000
"""Most requests whose recorded scores are remembered, and most names whose series is cached."""


class Limiter:
    """Admits the first `MAX_DISTINCT` values of each attribute. Thread-safe.

    Names should be few; ids in a workflow's name must not overload the application's metrics backend.
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT) -> None:
        self._max_distinct = max_distinct
        self._seen: dict[str, set[str]] = {}
        self._lock = fork.lock()

    def admit(self, attribute: str, value: str) -> str:
        """Return `value`, or `OTHER` if there are too many already."""
        value = clean(value, 256)
        with self._lock:
            seen = self._seen.setdefault(attribute, set())
            if len(seen) < self._max_distinct:
                seen.add(value)
            return value if value in seen else OTHER


class MetricWriter:
    """Turns scored runs and judge calls into measurements.

    Args:
        meter: Returns the meter; called once, with the first measurement.
        bound: Limits the series of the instruments; shared by all their writers.
        captured_elsewhere: Whether another process captured the requests, which counts them and their
            contexts; scores have the name of its service.
        clock_ns: Returns the time, nanoseconds since the epoch.
    """

    def __init__(
        self,
        meter: Callable[[], Meter],
        *,
        bound: SeriesBound,
        captured_elsewhere: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._make_meter = meter
        self._clock_ns = clock_ns
        self._captured_elsewhere = captured_elsewhere
        self._limiter = Limiter()
        self._stages = Limiter(MAX_STAGES)
        self._bound = bound
        self._recorded: BoundedTable[str, frozenset[str]] = BoundedTable(max_entries=MAX_REMEMBERED)
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._series: dict[object, _Series] = {}
        self._score_series: dict[object, tuple[_Series, _Series | None]] = {}
        self._lock = fork.lock()
        self._meter: Meter | None = None
        self._instruments: dict[str, Any] = {}

    def write(self, scored: ScoredRun, contexts: _Contexts) -> None:
        """Record an exported request (unless it was before) and its scores."""
        run_id = scored.run.run_id
        known = (self._recorded.peek(run_id) if scored.late else None) or _NONE
        self._record(scored, contexts, known)
        valued = frozenset([s.name for s in scored.scores.values() if s.value is not None])
        if scored.verdict is not None:
            valued |= {semconv.VERDICT}
        # Most requests have the same scores: one set for all of them.
        self._recorded.put(run_id, self._sets.setdefault(known | valued, known | valued))
        if len(self._sets) > MAX_DISTINCT:
            self._sets.clear()  # shared only to save memory

    def measure(self, scored: ScoredRun, contexts: _Contexts) -> None:
        """Record a request that is not exported, and its free scores."""
        self._record(scored, contexts, _NONE)

    def retrieval_unseen(self, framework: str, reason: str) -> None:
        """Count a request without scores, as its retrieval was not seen."""
        named = (semconv.REASON, reason), (semconv.FRAMEWORK, framework)
        self._measure(semconv.REQUESTS, 1, named)

    def gap_found(self, diagnosis: str, language: str | None) -> None:
        """Count a new knowledge gap."""
        self._measure(semconv.GAPS, 1, ((semconv.DIAGNOSIS, diagnosis), (semconv.LANGUAGE, language)))

    def judge_called(self, call: JudgeCall) -> None:
        """Record one call to the judge, or one answer from its cache."""
        base: _Named = (
            (semconv.GEN_AI_EVALUATION_NAME, call.metric),
            (semconv.GEN_AI_REQUEST_MODEL, call.model),
        )
        if call.cached:
            self._measure(semconv.JUDGE_CACHE_HITS, 1, base)
            return
        outcome = (*base, (semconv.ERROR_TYPE, call.error_type))
        self._measure(semconv.JUDGE_CALLS, call.calls, outcome)
        self._measure(semconv.JUDGE_DURATION, max(0.0, call.duration_s), outcome)
        for token_type, count in (("input", call.input_tokens), ("output", call.output_tokens)):
            if count > 0:
                named = (*base, (semconv.GEN_AI_TOKEN_TYPE, token_type))
                self._measure(semconv.JUDGE_TOKENS, count, named)
        if call.cost is not None:
            self._measure(semconv.JUDGE_COST, max(0.0, call.cost), base)

    def _record(self, scored: ScoredRun, contexts: _Contexts, known: frozenset[str]) -> None:
        if semconv.OVERFLOW.name not in self._instruments:
            # Prometheus sees no increase in a counter's first value, so the counter begins at 0.
            self._overflow(semconv.EVALUATION_SCORE_HISTOGRAM, 0)
        run = scored.run
        base: _Named = ((semconv.GEN_AI_WORKFLOW_NAME, run.sample.name),)
        if not scored.late:
            if not self._captured_elsewhere:
                self._write_request(scored, base, contexts["retrieval"])
            if (funnel := scored.scores.get(_FUNNEL)) is not None:
                self._write_stages(funnel, base)
            for name in missing_inputs(scored):
                self._measure(semconv.MISSING_INPUTS, 1, (*base, (semconv.MISSING, name)))
        if self._captured_elsewhere:
            base = (*base, (semconv.SERVICE, run.resource.get("service.name")))
            if not scored.late:
                waited_ns = max(0, self._clock_ns() - run.ended_ns)
                self._measure(semconv.EVALUATION_DELAY, waited_ns / 1e9, base)
        if scored.verdict is not None and semconv.VERDICT not in known:
            code = scored.verdict.codes[0] if scored.verdict.codes else None
            named = (semconv.VERDICT, scored.verdict.word), (semconv.VERDICT_CODE, code)
            self._measure(semconv.VERDICTS, 1, (*base, *named))
        for score in scored.scores.values():
            if score.status == "missing_input" or score.name in known:
                continue
            chosen = scored.late or score.method == "llm" or score.name in scored.judged
            selection = scored.selection_of(score) if chosen else None
            # The key of its series; a known one costs no further call.
            key = (
                base, score.name, score.status, score.label, score.error_type,
                score.range, score.target, score.direction, selection,
            )  # fmt: skip
            (count, result), measured = self._score_series.get(key) or self._series_of(key, *key)
            count(1, result)
            if score.value is not None and measured is not None:
                measured[0](score.value, measured[1], contexts[score.target])
            if score.name == _LOSS:
                self._write_fates(score, base)

    def _write_request(self, scored: ScoredRun, base: _Named, context: Context) -> None:
        run = scored.run
        verdict = None if scored.verdict is None else scored.verdict.word
        named = (
            *base,
            (semconv.REQUEST_STATUS, run.sample.status),
            (semconv.VERDICT, verdict),
            (semconv.FRAMEWORK, run.framework),
            (semconv.ERROR_TYPE, run.error_type),
        )
        self._measure(semconv.REQUESTS, 1, named)
        if run.sample.contexts is not None:
            self._measure(semconv.CONTEXT_COUNT, len(run.sample.contexts), base, context)

    def _write_stages(self, funnel: Score, base: _Named) -> None:
        """Count the documents after each stage; stages that were not recorded are not counted."""
        for item in funnel.items:
            if item.value:
                kind, _, _ = (item.reason or "").partition(",")
                named = (*base, (semconv.STAGE, item.id), (semconv.STAGE_KIND, kind))
                self._measure(semconv.DOCUMENTS, item.value, named)

    def _write_fates(self, loss: Score, base: _Named) -> None:
        for outcome, count in Counter(item.reason for item in loss.items if item.reason).items():
            fate, _, stage = outcome.partition(" ")
            named = (*base, (semconv.FATE, fate), (semconv.STAGE, stage))
            self._measure(semconv.RIGHT_DOCUMENTS, count, named)

    def _series_of(
        self,
        key: object,
        base: _Named,
        name: str,
        status: str,
        label: str | None,
        error_type: str | None,
        bounds: tuple[float | None, float | None],
        target: ScoreTarget,
        direction: str,
        selection: str | None,
    ) -> tuple[_Series, _Series | None]:
        """Return the counter series and, if its range is 0 to 1, the histogram series of a score."""
        named = (*base, (semconv.GEN_AI_EVALUATION_NAME, name))
        outcome: _Named = (
            (semconv.SCORE_STATUS, status),
            (semconv.GEN_AI_EVALUATION_SCORE_LABEL, label),
            (semconv.ERROR_TYPE, error_type),
        )
        counted, measured = self._bind(semconv.RESULTS, (*named, *outcome)), None
        lowest, highest = bounds
        # Buckets and dashboards are made for 0 to 1; counts and similar values would dominate them.
        if lowest is not None and highest is not None and lowest >= 0.0 and highest <= 1.0:
            operation = (
                semconv.OPERATION_RETRIEVAL if target == "retrieval" else semconv.OPERATION_INVOKE_WORKFLOW
            )
            how: _Named = (
                (semconv.GEN_AI_OPERATION_NAME, str(operation)),
                (semconv.SCORE_DIRECTION, direction),
                (semconv.SELECTION, selection),
            )
            measured = self._bind(semconv.EVALUATION_SCORE_HISTOGRAM, (*named, *how))
        _remember(self._score_series, key, (counted, measured), counted, measured)
        return counted, measured

    def _measure(
        self, instrument: Instrument, amount: float, named: _Named, context: Context | None = None
    ) -> None:
        """Add to a counter, or record in a histogram, in a span's context."""
        found = self._series.get((instrument.name, named))
        if found is None:
            found = self._bind(instrument, named)
            _remember(self._series, (instrument.name, named), found, found)
        measure, attributes = found
        if instrument.kind == "counter":
            measure(amount, attributes)
        else:
            measure(amount, attributes, context)

    def _bind(self, instrument: Instrument, named: _Named) -> _Series:
        """Return a bounded series of an instrument; an additional one beyond the bound is counted as such."""
        attributes: dict[str, AttributeValue] = {}
        for key, value in named:
            if value:
                limiter = self._stages if key is semconv.STAGE else self._limiter
                attributes[key] = limiter.admit(key, value)
        fitted = self._bound.fit(instrument.name, attributes)
        if OTHER in fitted.values():
            self._overflow(instrument, 1)
        made = self._make(instrument)
        return made.add if instrument.kind == "counter" else made.record, fitted

    def _overflow(self, instrument: Instrument, measurements: int) -> None:
        self._make(semconv.OVERFLOW).add(measurements, {semconv.INSTRUMENT: str(instrument.name)})

    def _make(self, instrument: Instrument) -> Any:
        with self._lock:
            if self._meter is None:
                self._meter = self._make_meter()
            name = str(instrument.name)
            if name not in self._instruments:
                self._instruments[name] = (
                    self._meter.create_counter(name, instrument.unit, instrument.description)
                    if instrument.kind == "counter"
                    else self._meter.create_histogram(
                        name,
                        instrument.unit,
                        instrument.description,
                        explicit_bucket_boundaries_advisory=instrument.buckets,
                    )
                )
            return self._instruments[name]


def _remember(known: dict[object, V], key: object, found: V, *series: _Series | None) -> None:
    """Store an entry, unless it exceeds the limit of measurements, which is counted each time."""
    if any(one is not None and OTHER in one[1].values() for one in series):
        return
    if len(known) >= MAX_REMEMBERED:
        known.clear()
    known[key] = found


MAX_SERIES = 1_500
"""Number of series beyond which no new workflow begins."""
_LIMIT = 1_900
"""Number beyond which no series begins; the range between the two is reserved for known workflows."""
_PARTS = 1_250
"""Number up to which segments of workflows begin, so that later workflows still have room."""
_DISPENSABLE = (
    semconv.ERROR_TYPE,
    semconv.VERDICT_CODE,
    semconv.GEN_AI_EVALUATION_SCORE_LABEL,
    semconv.STAGE,
    semconv.FRAMEWORK,
    semconv.GEN_AI_REQUEST_MODEL,
    semconv.GEN_AI_EVALUATION_NAME,
)
"""Attributes to drop next, in this order, if dropping the workflow is not enough."""

_Key = tuple[tuple[str, AttributeValue], ...]


class _InstrumentSeries:
    __slots__ = ("series", "sizes", "turned_away")

    def __init__(self) -> None:
        self.series: set[_Key] = set()
        self.sizes: Counter[AttributeValue] = Counter()
        self.turned_away: set[AttributeValue] = set()


class SeriesBound:
    """Admits new series until an instrument has enough. Thread-safe."""

    def __init__(self, most: int = MAX_SERIES, limit: int = _LIMIT) -> None:
        self._most = most
        self._limit = limit
        self._known: dict[str, _InstrumentSeries] = {}
        self._lock = fork.lock()

    @staticmethod
    def of(provider: MeterProvider) -> SeriesBound:
        """Return the provider's bound: exporters that share its instruments share the bound."""
        return _bounds.get_or_make(provider, SeriesBound)

    def fit(self, instrument: str, attributes: Attributes) -> Attributes:
        """Return `attributes`, or the same with `OTHER` if they would be one series too many."""
        known = self._known.get(instrument)
        if known is not None and tuple(attributes.items()) in known.series:
            return attributes
        with self._lock:
            return self._admit(self._known.setdefault(instrument, _InstrumentSeries()), attributes)

    def fit_part(self, instrument: str, attributes: Attributes) -> Attributes | None:
        """Return the permitted attributes of a segment's series; its whole workflow was fitted before.

        Returns:
            None: no room, not even in `OTHER`; it is counted only in its workflow.
        """
        known = self._known.get(instrument)
        if known is not None and tuple(attributes.items()) in known.series:
            return attributes
        with self._lock:
            known = self._known.setdefault(instrument, _InstrumentSeries())
            workflow = attributes.get(semconv.GEN_AI_WORKFLOW_NAME)
            if workflow in known.turned_away:
                attributes = {**attributes, semconv.GEN_AI_WORKFLOW_NAME: OTHER}
            name = str(attributes[semconv.SEGMENT]).partition(":")[0]
            among_others = {**attributes, semconv.SEGMENT: f"{name}:{OTHER}"}
            for each, most in ((attributes, _PARTS), (among_others, self._most)):
                key = tuple(each.items())
                if key in known.series or len(known.series) < most:
                    known.series.add(key)
                    return each
            return None

    def _admit(self, known: _InstrumentSeries, attributes: Attributes) -> Attributes:
        workflow = attributes.get(semconv.GEN_AI_WORKFLOW_NAME)
        if workflow is not None and not self._begins(known, workflow):
            attributes = {**attributes, semconv.GEN_AI_WORKFLOW_NAME: OTHER}
        key = tuple(attributes.items())
        for spare in (None, semconv.GEN_AI_WORKFLOW_NAME, *_DISPENSABLE):
            if spare in attributes:
                attributes = {**attributes, spare: OTHER}
                key = tuple(attributes.items())
            if key in known.series:
                return attributes
            if len(known.series) < self._limit:
                break
        # If nothing more can be dropped, only a few statuses are left.
        known.series.add(key)
        known.sizes[attributes.get(semconv.GEN_AI_WORKFLOW_NAME, "")] += 1
        return attributes

    def _begins(self, known: _InstrumentSeries, workflow: AttributeValue) -> bool:
        if workflow in known.sizes or workflow == OTHER:
            return True
        # A new one is expected to get as many series as the largest so far.
        expected = max(known.sizes.values(), default=1)
        if workflow in known.turned_away or len(known.series) + expected > self._most:
            known.turned_away.add(workflow)
            return False
        return True


_bounds: ByIdentity[SeriesBound] = ByIdentity()
