"""`OpenTelemetryExporter`: scores as spans, events and metrics, through the application's own SDK.

Needs the OpenTelemetry API only. The meter calls `export` on a separate thread; judges report through
`judge_called` from theirs. It never configures, replaces or shuts down a provider, and without an SDK it is a
cheap no-op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from opentelemetry import context as otel_context
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from ragmeter.exporters._format import ContentPolicy
from ragmeter.exporters._http import DeliveryError
from ragmeter.exporters._span_targets import JudgedSpans, SpanDirectory, SpansAddress, recorded_spans
from ragmeter.exporters.changes import ChangeEvidence, JudgeDrift, QualityChange, RetrieverDifference
from ragmeter.exporters.protocol import ListPoint, MeterStats, QualitySums, RagRun, ScoredRun, WriteCount
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process import fork

from ._boards import StatsBoard
from ._events import ChangeWriter, EventWriter
from ._metrics import MetricWriter, SeriesBound
from ._providers import Providers, is_of_the_api
from ._spans import SPAN_MODES, SpanMode, SpanWriter, context_of

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

EventMode = Literal["log", "span_event", "both", "off"]


class OpenTelemetryExporter:
    """Writes scored runs as OpenTelemetry spans, events and metrics.

    Names and units are in ``exporters/semconv.py``; the spans of each `span_mode` are described in
    ``exporters/README.md``.

    Spans follow the sampling decision of their parent; events and metrics are exported in any case. No
    question, query, context, answer or explanation is exported unless content capture is on.

    Args:
        tracer_provider: Destination of spans. None: the global provider, looked up at each export, so that
            the application may set it later.
        meter_provider: Destination of metrics, likewise.
        logger_provider: Destination of events, likewise.
        span_mode: ``auto``: own spans where no other instrumentation recorded the request, otherwise
            ``evaluation`` spans; ``own``: always own spans; ``evaluation``: never; ``off``: none.
        events: Each result as a ``log`` record, as a ``span_event`` on the spans written here (for
            backends without logs), ``both`` or ``off``.
        metrics: Whether to record metrics.
        capture_content: ``SPAN_ONLY``, ``EVENT_ONLY``, ``SPAN_AND_EVENT``, ``NO_CONTENT`` or a boolean. None:
            by ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``.
        captured_elsewhere: Requests come from other processes, which count them and their contexts: these are
            not counted here, and all telemetry written here has the ``service.name`` of the application.

    Raises:
        ConfigurationError: An argument has another value.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        span_mode: SpanMode = "auto",
        events: EventMode = "log",
        metrics: bool = True,
        capture_content: bool | str | None = None,
        captured_elsewhere: bool = False,
    ) -> None:
        if span_mode not in SPAN_MODES:
            raise ConfigurationError(f"span_mode={span_mode!r} is unknown; allowed: {', '.join(SPAN_MODES)}")
        if events not in get_args(EventMode):
            raise ConfigurationError(f"events={events!r} is unknown; allowed: {', '.join(get_args(EventMode))}")
        content = ContentPolicy.resolve(capture_content)
        self._providers = Providers(tracer_provider, meter_provider, logger_provider)
        self._writes_spans = span_mode != "off"
        self._spans = SpanWriter(
            span_mode,
            span_events=events in ("span_event", "both"),
            content=content,
            tracer=self._providers.tracer,
            captured_elsewhere=captured_elsewhere,
        )
        self._events = (
            EventWriter(content, logger=self._providers.logger, captured_elsewhere=captured_elsewhere)
            if events in ("log", "both")
            else None
        )
        bound = SeriesBound.of(self._providers.meter_provider())
        self._metrics = (
            MetricWriter(self._providers.meter, bound=bound, captured_elsewhere=captured_elsewhere)
            if metrics
            else None
        )
        self._bound = bound
        self._change_writer: ChangeWriter | None = None
        self._directory = SpanDirectory()
        self._fresh()
        fork.forget(self._fresh)
        self._observed: dict[str, Callable[[], None]] = {}
        """Functions that stop publishing observed values, by kind of value."""

    def _fresh(self) -> None:
        self.n_unsampled = 0
        """Requests exported so far whose spans the application's sampler left out."""

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write every run of `batch`; a failing one does not affect the others.

        Raises:
            DeliveryError: The provider was shut down after they were scored.
        """
        if self._providers.has_ended() and not self.delivers():
            raise DeliveryError(
                "the tracer provider was shut down before: call meter.flush() or shutdown() first"
            )
        # The meter's threads suppress instrumentation, so that none of their work is traced; some processors
        # (Logfire's) look for that in the current context, whatever context a span was given.
        token = otel_context.attach(context_of(None))
        try:
            with WriteCount(batch) as written:
                for scored in batch:
                    with written.alone():
                        self._export_one(scored, written)
        finally:
            otel_context.detach(token)
        self._providers.send()

    def send_straight(self, addresses: Sequence[SpansAddress]) -> None:
        """Send spans directly to backends over OTLP, while the process has no SDK.

        Nothing is registered globally, and metrics and events are not sent. To be called before the first
        request.
        """
        self._providers.send_straight(addresses)

    def follow_spans(self, provider: TracerProvider) -> None:
        """Write spans to the provider whose spans are judged, if none was given and the process has none."""
        if is_of_the_api(self.tracer_provider()):
            self._providers.given["traces"] = provider

    def flush(self, timeout_s: float) -> bool:
        """Flush the application's providers."""
        return self._providers.force_flush(timeout_s)

    def shutdown(self, timeout_s: float) -> None:
        """Stop publishing the meter's counters; given providers belong to the application."""
        del timeout_s
        self._providers.shutdown()
        while self._observed:
            _, leave = self._observed.popitem()
            leave()

    def delivers(self) -> bool:
        """Return whether any of the signals written here has an SDK provider."""
        return self._providers.deliver(
            spans=self._writes_spans, events=self._events is not None, metrics=self._metrics is not None
        )

    def measure(self, scored: ScoredRun) -> None:
        """Record the free scores of a request that is not exported: metrics, no span, no event."""
        if self._metrics is not None and self._providers.measure():
            recorded = recorded_spans(scored.run)
            around = recorded.request or scored.run.parent
            judged = JudgedSpans(around, recorded.retrieval)
            self._metrics.measure(scored, judged.by_target(context_of))

    def observe_meter(self, stats: Callable[[], MeterStats]) -> None:
        """Publish the meter's own counters, read at each collection of metrics."""
        self._observe("meter", lambda boards: boards, stats)

    def observe_quality(self, sums: Callable[[], Sequence[QualitySums]]) -> None:
        """Publish the sums behind the meter's means of quality, read at each collection."""
        self._observe("quality", lambda boards: boards.quality, sums)

    def observe_changes(self, evidence: Callable[[], Sequence[ChangeEvidence]]) -> None:
        """Publish the evidence for changes of quality, read at each collection."""
        self._observe("changes", lambda boards: boards.changes, evidence)

    def observe_drift(self, drifts: Callable[[], Sequence[JudgeDrift]]) -> None:
        """Publish the drift of judges, read at each collection."""
        self._observe("drift", lambda boards: boards.drift, drifts)

    def observe_shadow(self, differences: Callable[[], Sequence[RetrieverDifference]]) -> None:
        """Publish the comparison with another retriever, read at each collection; there may be several."""
        self._observe(f"shadow {len(self._observed)}", lambda boards: boards.shadows, differences)

    def observe_lists(self, points: Callable[[], Sequence[ListPoint]]) -> None:
        """Publish the counts of lists, read at each collection."""
        self._observe("lists", lambda boards: boards.lists, points)

    def _observe(self, what: str, board_of: Callable[[StatsBoard], Any], source: object) -> None:
        if self._metrics is not None and what not in self._observed:
            boards = StatsBoard.of(self._providers.meter_provider(), self._providers.meter)
            board = board_of(boards)
            board.join(source)
            self._observed[what] = partial(board.leave, source)

    def gap_found(self, diagnosis: str, language: str | None) -> None:
        """Count a new knowledge gap."""
        if self._metrics is not None:
            self._metrics.gap_found(diagnosis, language)

    def changed(self, change: QualityChange, sentence: str, resource: Mapping[str, str]) -> None:
        """Write the event of a change of quality, and count it if it is for the worse."""
        del resource  # this exporter writes only one metric name
        if self._change_writer is None:
            self._change_writer = ChangeWriter(
                None if self._events is None else self._providers.logger,
                None if self._metrics is None else self._providers.meter,
                self._bound,
            )
        token = otel_context.attach(context_of(None))
        try:
            self._change_writer.write(change, sentence)
        finally:
            otel_context.detach(token)

    def judge_called(self, call: JudgeCall) -> None:
        """Record one call to the judge. Does not block."""
        if self._metrics is not None:
            self._metrics.judge_called(call)

    def retrieval_unseen(self, framework: str, reason: str) -> None:
        """Count a request whose retrieval was not seen. Does not block."""
        if self._metrics is not None:
            self._metrics.retrieval_unseen(framework, reason)

    def describe_traces(self) -> None:
        """Set Langfuse's trace fields: name, question, answer. To be called before the first request."""
        self._spans.describes_traces = True

    def tracer_provider(self) -> TracerProvider:
        """Return the current destination of spans: the given provider, the global one, or the direct sender."""
        return self._providers.tracer_provider()

    def given_providers(self) -> Mapping[str, object]:
        """Return the given providers, by signal: ``traces``, ``metrics``, ``logs``."""
        return self._providers.given

    def judged_spans(self, run: RagRun, timeout_s: float = 0.0) -> JudgedSpans | None:
        """Return the spans with the scores of `run`, for exporters that need their ids.

        Args:
            run: The request; one of the last 10,000.
            timeout_s: Longest wait for its export here, in seconds.

        Returns:
            None if it was not exported here, or is no longer stored.
        """
        return self._directory.find(run.run_id, timeout_s)

    def _export_one(self, scored: ScoredRun, written: WriteCount) -> None:
        run = scored.run
        known = self._directory.find(run.run_id) if scored.late else None
        judged = self._spans.write(scored, known)
        if not scored.late:
            self._directory.remember(run.run_id, judged)
            home = judged.carrier("answer")
            if self._writes_spans and home is not None and not home.trace_flags.sampled:
                self.n_unsampled += 1
        events = self._events if self._events is not None and self._events.is_enabled() else None
        metrics = self._metrics if self._metrics is not None and self._providers.measure() else None
        if events is not None or metrics is not None:
            contexts = judged.by_target(context_of)
            if events is not None:
                events.write(scored, contexts)
            if metrics is not None:
                metrics.write(scored, contexts)
        written.add()
