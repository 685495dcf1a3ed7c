"""Records scores, requests and judge calls on metric instruments.

Every attribute is of low cardinality: names pass a `Limiter`, and no question, user,
document, conversation or run id is ever among them.  Score and context histograms are
recorded in the judged span's context, so that exemplars point at the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters.judged_spans import JudgedSpans
from ragmeter.exporters.outgoing_text import clean
from ragmeter.exporters.run import ScoredRun
from ragmeter.exporters.semconv import Instrument
from ragmeter.metrics import Score

if TYPE_CHECKING:
    from ragmeter.metrics.judge.contract import JudgeCall

__all__ = ["OTHER", "Limiter", "MetricWriter"]

MAX_DISTINCT = 100
"""At most so many distinct values per attribute and exporter; the next ones become `OTHER`."""
OTHER = "other"


class Limiter:
    """Lets the first `MAX_DISTINCT` values of each attribute through. Thread-safe.

    Names are meant to be few; an application that puts ids into a workflow's name
    must not cost it its metrics backend.
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT) -> None:
        self._max_distinct = max_distinct
        self._seen: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def admit(self, attribute: str, value: str) -> str:
        """Return `value`, or `OTHER` when there are too many already."""
        value = clean(value, 256)
        seen = self._seen.get(attribute)
        if seen is not None and value in seen:
            return value
        with self._lock:
            seen = self._seen.setdefault(attribute, set())
            if len(seen) < self._max_distinct:
                seen.add(value)
            return value if value in seen else OTHER

    def reset_after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = threading.Lock()


class MetricWriter:
    """Turns scored runs and judge calls into measurements.

    Args:
        meter: Returns the meter; called once, when the first measurement comes.
        context_of: Makes a context of a judged span.
        judge_prices: US dollars per million input and output tokens, by model.
    """

    def __init__(
        self,
        meter: Callable[[], Meter],
        *,
        context_of: Callable[[SpanContext | None], Context],
        judge_prices: Mapping[str, tuple[float, float]],
    ) -> None:
        self._judge_prices = dict(judge_prices)
        self._make_meter = meter
        self._context_of = context_of
        self._limiter = Limiter()
        self._lock = threading.Lock()
        self._meter: Meter | None = None
        self._instruments: dict[str, Any] = {}

    def write(self, scored: ScoredRun, judged: JudgedSpans) -> None:
        """Record the request (unless it was before) and its scores."""
        base: dict[str, AttributeValue] = {}
        self._add(base, semconv.GEN_AI_WORKFLOW_NAME, scored.run.name)
        if not scored.late:
            self._write_request(scored, judged, base)
        for score in scored.scores.values():
            self._write_score(score, judged, base)

    def judge_called(self, call: JudgeCall) -> None:
        """Record one call to the judge, or one question its cache answered."""
        base: dict[str, AttributeValue] = {}
        self._add(base, semconv.GEN_AI_EVALUATION_NAME, call.metric)
        self._add(base, semconv.GEN_AI_REQUEST_MODEL, call.model)
        if call.cached:
            self._counter(semconv.JUDGE_CACHE_HITS).add(1, base)
            return
        outcome = dict(base)
        self._add(outcome, semconv.ERROR_TYPE, call.error_type)
        self._counter(semconv.JUDGE_CALLS).add(1, outcome)
        self._histogram(semconv.JUDGE_DURATION).record(max(0.0, call.duration_s), outcome)
        for token_type, count in (("input", call.input_tokens), ("output", call.output_tokens)):
            if count > 0:
                attributes = {**base, semconv.GEN_AI_TOKEN_TYPE: token_type}
                self._counter(semconv.JUDGE_TOKENS).add(count, attributes)
        prices = self._judge_prices.get(call.model)
        if prices is not None:
            dollars = (
                max(0, call.input_tokens) * prices[0],
                max(0, call.output_tokens) * prices[1],
            )
            self._counter(semconv.JUDGE_COST).add(sum(dollars) / 1e6, base)

    def reset_after_fork(self) -> None:
        """Replace the locks, which a thread of the parent may have held."""
        self._lock = threading.Lock()
        self._limiter.reset_after_fork()

    def _write_request(
        self, scored: ScoredRun, judged: JudgedSpans, base: dict[str, AttributeValue]
    ) -> None:
        run = scored.run
        attributes = {**base, semconv.REQUEST_STATUS: run.sample.status}
        self._add(attributes, semconv.FRAMEWORK, run.framework)
        self._add(attributes, semconv.ERROR_TYPE, run.error_type)
        self._counter(semconv.REQUESTS).add(1, attributes)
        if run.sample.contexts is not None:
            self._histogram(semconv.CONTEXT_COUNT).record(
                len(run.sample.contexts), base, self._context_of(judged.carrier("retrieval"))
            )

    def _write_score(
        self, score: Score, judged: JudgedSpans, base: dict[str, AttributeValue]
    ) -> None:
        named = dict(base)
        self._add(named, semconv.GEN_AI_EVALUATION_NAME, score.name)
        result = {**named, semconv.SCORE_STATUS: score.status}
        self._add(result, semconv.GEN_AI_EVALUATION_SCORE_LABEL, score.label)
        self._add(result, semconv.ERROR_TYPE, score.error_type)
        self._counter(semconv.RESULTS).add(1, result)
        lowest, highest = score.range
        # Buckets and dashboards are made for 0 to 1; counts and the like would drown them.
        if score.value is None or lowest < 0.0 or highest is None or highest > 1.0:
            return
        operation = (
            semconv.OPERATION_RETRIEVAL
            if score.target == "retrieval"
            else semconv.OPERATION_INVOKE_WORKFLOW
        )
        self._histogram(semconv.EVALUATION_SCORE_HISTOGRAM).record(
            score.value,
            {**named, semconv.GEN_AI_OPERATION_NAME: str(operation)},
            self._context_of(judged.carrier(score.target)),
        )

    def _add(
        self, attributes: dict[str, AttributeValue], key: semconv.Term, value: str | None
    ) -> None:
        if value:
            attributes[key] = self._limiter.admit(key, value)

    def _counter(self, instrument: Instrument) -> Counter:
        counter: Counter = self._instruments.get(instrument.name) or self._make(instrument)
        return counter

    def _histogram(self, instrument: Instrument) -> Histogram:
        histogram: Histogram = self._instruments.get(instrument.name) or self._make(instrument)
        return histogram

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
