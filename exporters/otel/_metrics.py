"""Records scores, requests and judge calls on metric instruments.

Every attribute is of low cardinality: names pass a `Limiter`, their combinations a `SeriesBound`, and
no question, user, document, conversation or run id is ever among them.  Score and context histograms
are recorded in the judged span's context, so that exemplars point at the request.  A score of a
request is recorded once, with its first value, and so is its verdict: a counter takes nothing back.
"""

from __future__ import annotations

import time
from collections import Counter as Counted
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._format import clean, missing_inputs
from ragmeter.exporters._span_targets import JudgedSpans
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.exporters.semconv import Instrument
from ragmeter.metrics import Score, ScoreTarget
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.bounded_table import BoundedTable

from ._series import OTHER, SeriesBound

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

__all__ = ["MAX_DISTINCT", "OTHER", "Limiter", "MetricWriter"]

_NONE: frozenset[str] = frozenset()

MAX_DISTINCT = 100
"""Distinct values per attribute and exporter; further ones become `OTHER`."""
MAX_STAGES = 20
"""Names of stages, likewise: they are the application's own."""
_FUNNEL, _LOSS = "retrieval_funnel", "right_documents_dropped"
MAX_REMEMBERED = 10_000
"""Requests of which it is known which scores were recorded."""


class Limiter:
    """Lets the first `MAX_DISTINCT` values of each attribute through. Thread-safe.

    Names are meant to be few; an application that puts ids into a workflow's name
    must not cost it its metrics backend.
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT) -> None:
        self._max_distinct = max_distinct
        self._seen: dict[str, set[str]] = {}
        self._lock = fork.lock()

    def admit(self, attribute: str, value: str) -> str:
        """Return `value`, or `OTHER` when there are too many already."""
        seen = self._seen.get(attribute)
        if seen is not None and value in seen:
            return value  # what was let through is clean
        value = clean(value, 256)
        if seen is not None and value in seen:
            return value
        with self._lock:
            seen = self._seen.setdefault(attribute, set())
            if len(seen) < self._max_distinct:
                seen.add(value)
            return value if value in seen else OTHER


class MetricWriter:
    """Turns scored runs and judge calls into measurements.

    Args:
        meter: Returns the meter; called once, when the first measurement comes.
        context_of: Makes a context of a judged span.
        bound: Keeps the instruments small; shared by all who write to them.
        captured_elsewhere: Requests and their contexts are counted by the process that captured them, and
            scores bear the name of its service.
        clock_ns: What time it is, nanoseconds since the epoch.
    """

    def __init__(
        self,
        meter: Callable[[], Meter],
        *,
        context_of: Callable[[SpanContext | None], Context],
        bound: SeriesBound,
        captured_elsewhere: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._make_meter = meter
        self._clock_ns = clock_ns
        self._captured_elsewhere = captured_elsewhere
        self._context_of = context_of
        self._limiter = Limiter()
        self._stages = Limiter(MAX_STAGES)
        self._bound = bound
        self._recorded: BoundedTable[str, frozenset[str]] = BoundedTable(max_entries=MAX_REMEMBERED)
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._lock = fork.lock()
        self._meter: Meter | None = None
        self._instruments: dict[str, Any] = {}

    def write(self, scored: ScoredRun, judged: JudgedSpans) -> None:
        """Record an exported request (unless it was before) and its scores."""
        run_id = scored.run.run_id
        known = (self._recorded.peek(run_id) if scored.late else None) or _NONE
        self._record(scored, judged, known)
        valued = frozenset([s.name for s in scored.scores.values() if s.value is not None])
        if scored.verdict is not None:
            valued |= {semconv.VERDICT}
        # Most requests have the same scores: one set for all of them.
        self._recorded.put(run_id, self._sets.setdefault(known | valued, known | valued))
        if len(self._sets) > MAX_DISTINCT:
            self._sets.clear()  # they are shared to save memory, no more

    def measure(self, scored: ScoredRun, judged: JudgedSpans) -> None:
        """Record a request that is not exported, and its free scores."""
        self._record(scored, judged, _NONE)

    def retrieval_unseen(self, framework: str, reason: str) -> None:
        """Count a request that gave no score, as its retrieval was not seen."""
        attributes: dict[str, AttributeValue] = {semconv.REASON: reason}
        self._add(attributes, semconv.FRAMEWORK, framework)
        self._measure(semconv.REQUESTS, 1, attributes)

    def gap_found(self, diagnosis: str, language: str | None) -> None:
        """Count a new knowledge gap."""
        attributes: dict[str, AttributeValue] = {semconv.DIAGNOSIS: diagnosis}
        self._add(attributes, semconv.LANGUAGE, language)
        self._measure(semconv.GAPS, 1, attributes)

    def judge_called(self, call: JudgeCall) -> None:
        """Record one call to the judge, or one question its cache answered."""
        base: dict[str, AttributeValue] = {}
        self._add(base, semconv.GEN_AI_EVALUATION_NAME, call.metric)
        self._add(base, semconv.GEN_AI_REQUEST_MODEL, call.model)
        if call.cached:
            self._measure(semconv.JUDGE_CACHE_HITS, 1, base)
            return
        outcome = dict(base)
        self._add(outcome, semconv.ERROR_TYPE, call.error_type)
        self._measure(semconv.JUDGE_CALLS, call.calls, outcome)
        self._measure(semconv.JUDGE_DURATION, max(0.0, call.duration_s), outcome)
        for token_type, count in (("input", call.input_tokens), ("output", call.output_tokens)):
            if count > 0:
                self._measure(
                    semconv.JUDGE_TOKENS, count, {**base, semconv.GEN_AI_TOKEN_TYPE: token_type}
                )
        if call.cost is not None:
            self._measure(semconv.JUDGE_COST, max(0.0, call.cost), base)

    def _record(self, scored: ScoredRun, judged: JudgedSpans, known: frozenset[str]) -> None:
        if semconv.OVERFLOW.name not in self._instruments:
            # To Prometheus a counter's first value is no growth, so it begins with none.
            self._overflow(semconv.EVALUATION_SCORE_HISTOGRAM, 0)
        base: dict[str, AttributeValue] = {}
        self._add(base, semconv.GEN_AI_WORKFLOW_NAME, scored.run.name)
        if not scored.late:
            if not self._captured_elsewhere:
                self._write_request(scored, judged, base)
            for score in scored.scores.values():
                if score.name == _FUNNEL:
                    self._write_stages(score, base)
            for name in missing_inputs(scored):
                missing = dict(base)
                self._add(missing, semconv.MISSING, name)
                self._measure(semconv.MISSING_INPUTS, 1, missing)
        if self._captured_elsewhere:
            base = dict(base)
            self._add(base, semconv.SERVICE, scored.run.resource.get("service.name"))
            if not scored.late:
                waited_ns = max(0, self._clock_ns() - scored.run.ended_ns)
                self._measure(semconv.EVALUATION_DELAY, waited_ns / 1e9, base)
        if scored.verdict is not None and semconv.VERDICT not in known:
            counted: dict[str, AttributeValue] = {**base, semconv.VERDICT: scored.verdict.word}
            self._add(counted, semconv.VERDICT_CODE, next(iter(scored.verdict.codes), None))
            self._measure(semconv.VERDICTS, 1, counted)
        contexts: dict[ScoreTarget, Context] = {}
        for score in scored.scores.values():
            if score.status != "missing_input" and score.name not in known:
                context = contexts.get(score.target)
                if context is None:
                    context = self._context_of(judged.carrier(score.target))
                    contexts[score.target] = context
                self._write_score(scored, score, base, context)

    def _write_request(
        self, scored: ScoredRun, judged: JudgedSpans, base: dict[str, AttributeValue]
    ) -> None:
        run = scored.run
        attributes = {**base, semconv.REQUEST_STATUS: run.sample.status}
        if scored.verdict is not None:
            attributes[semconv.VERDICT] = scored.verdict.word
        self._add(attributes, semconv.FRAMEWORK, run.framework)
        self._add(attributes, semconv.ERROR_TYPE, run.error_type)
        self._measure(semconv.REQUESTS, 1, attributes)
        if run.sample.contexts is not None:
            self._measure(
                semconv.CONTEXT_COUNT,
                len(run.sample.contexts),
                base,
                self._context_of(judged.carrier("retrieval")),
            )

    def _write_stages(self, funnel: Score, base: dict[str, AttributeValue]) -> None:
        """Count the documents that left each stage; nothing is counted of a stage that was not recorded."""
        for item in funnel.items:
            if item.value:
                kind, _, _ = (item.reason or "").partition(",")
                attributes = dict(base)
                attributes[semconv.STAGE] = self._stages.admit(semconv.STAGE, item.id)
                self._add(attributes, semconv.STAGE_KIND, kind)
                self._measure(semconv.DOCUMENTS, item.value, attributes)

    def _write_fates(self, loss: Score, base: dict[str, AttributeValue]) -> None:
        """Count what became of right documents."""
        fates = Counted(item.reason for item in loss.items if item.reason)
        for said, count in fates.items():
            fate, _, stage = said.partition(" ")
            attributes = dict(base)
            self._add(attributes, semconv.FATE, fate)
            if stage:
                attributes[semconv.STAGE] = self._stages.admit(semconv.STAGE, stage)
            self._measure(semconv.RIGHT_DOCUMENTS, count, attributes)

    def _write_score(
        self,
        scored: ScoredRun,
        score: Score,
        base: dict[str, AttributeValue],
        context: Context,
    ) -> None:
        name = self._limiter.admit(semconv.GEN_AI_EVALUATION_NAME, score.name)
        named = {**base, semconv.GEN_AI_EVALUATION_NAME: name}
        result = {**named, semconv.SCORE_STATUS: score.status}
        if score.label:
            self._add(result, semconv.GEN_AI_EVALUATION_SCORE_LABEL, score.label)
        if score.error_type:
            self._add(result, semconv.ERROR_TYPE, score.error_type)
        self._measure(semconv.RESULTS, 1, result)
        if score.name == _LOSS:
            self._write_fates(score, base)
        lowest, highest = score.range
        # Buckets and dashboards are made for 0 to 1; counts and the like would drown them.
        if score.value is None or lowest is None or highest is None:
            return
        if lowest < 0.0 or highest > 1.0:
            return
        named[semconv.GEN_AI_OPERATION_NAME] = str(
            semconv.OPERATION_RETRIEVAL
            if score.target == "retrieval"
            else semconv.OPERATION_INVOKE_WORKFLOW
        )
        named[semconv.SCORE_DIRECTION] = score.direction
        selection = scored.selection_of(score)
        if selection is not None:
            named[semconv.SELECTION] = selection
        self._measure(semconv.EVALUATION_SCORE_HISTOGRAM, score.value, named, context)

    def _add(
        self, attributes: dict[str, AttributeValue], key: semconv.Term, value: str | None
    ) -> None:
        if value:
            attributes[key] = self._limiter.admit(key, value)

    def _measure(
        self,
        instrument: Instrument,
        amount: float,
        attributes: dict[str, AttributeValue],
        context: Context | None = None,
    ) -> None:
        """Add to a counter, or record in a histogram in a span's context."""
        made = self._instruments.get(instrument.name)
        if made is None:
            made = self._make(instrument)
        fitted = self._bound.fit(instrument.name, attributes)
        if OTHER in fitted.values():
            self._overflow(instrument, 1)
        if instrument.kind == "counter":
            made.add(amount, fitted)
        else:
            made.record(amount, fitted, context)

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
