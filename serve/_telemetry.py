"""The server's OpenTelemetry SDK, and the exporter that writes scores through it.

Scores are reported under the name of the service of their request, as by ragmeter within that service, so
that its dashboards, filters and projects show them. So there is a provider for each service, all with the
same processors; the server's own telemetry has the server's name. The instrumentation scope identifies
ragmeter.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider, MetricsTimeoutError
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ragmeter.adapters.opentelemetry.otlp import Signal
from ragmeter.exporters._otlp import SIGNALS, named_resource, otlp_exporter
from ragmeter.exporters.changes import ChangeEvidence, QualityChange
from ragmeter.exporters.otel import EventMode, OpenTelemetryExporter, SpanMode
from ragmeter.exporters.protocol import MeterStats, QualitySums, RagRun, ScoredRun, WriteCount

from ._endpoint import Endpoint, endpoint_of
from ._otlp_outbox import Outbox

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

_MAX_SERVICES = 64
"""Most distinguished services; scores of others have the server's name."""
_QUEUE = 65_536
"""Most items in the SDK's processors; the server stops accepting data long before."""


def endpoints(
    url: str | None, protocol: str | None = None, signals: Sequence[str] = SIGNALS
) -> dict[str, Endpoint]:
    """Return the endpoint of each signal, without signals that are not sent.

    Args:
        url: Base address of all signals; None: from the standard ``OTEL_EXPORTER_OTLP_*`` variables. Their
            default, a port of this machine, is not used: the server itself listens there.
        protocol: ``grpc`` or ``http/protobuf``; None: from the variables.
        signals: The signals to send.

    Raises:
        ConfigurationError: A variable is invalid.
    """
    found: dict[str, Endpoint] = {}
    for signal in signals:
        if os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none":
            continue
        where = endpoint_of(signal, os.environ, url=url, protocol=protocol)
        if where is not None:
            found[signal] = where
    return found


class _CountedSpans(BatchSpanProcessor):
    """The SDK's batch processor, with a count of the spans passed to it."""

    def __init__(self, outbox: Any) -> None:
        super().__init__(outbox, max_queue_size=_QUEUE)
        self._outbox: Outbox = outbox

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._outbox.written()
            super().on_end(span)


class _CountedRecords(BatchLogRecordProcessor):
    """The SDK's batch processor for log records, with a count of those passed to it."""

    def __init__(self, outbox: Any) -> None:
        super().__init__(outbox, max_queue_size=_QUEUE)
        self._outbox: Outbox = outbox

    def on_emit(self, log_record: Any) -> None:
        self._outbox.written()
        super().on_emit(log_record)


class _Service:
    """The providers of one service, and the exporter that writes through them."""

    def __init__(
        self,
        resource: Resource,
        spans: SpanProcessor | None,
        records: LogRecordProcessor | None,
        reader: PeriodicExportingMetricReader | None,
        *,
        span_mode: SpanMode,
        events: EventMode,
    ) -> None:
        self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        if spans is not None:
            self.tracers.add_span_processor(spans)
        self.loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
        if records is not None:
            self.loggers.add_log_record_processor(records)
        self.meters = MeterProvider(
            [] if reader is None else [reader], resource=resource, shutdown_on_exit=False
        )
        self.exporter = OpenTelemetryExporter(
            tracer_provider=self.tracers,
            meter_provider=self.meters,
            logger_provider=self.loggers,
            span_mode="off" if spans is None else span_mode,
            events="off" if records is None and events == "log" else events,
            metrics=reader is not None,
        )


_Key = tuple[tuple[str, str], ...]
_Item = TypeVar("_Item", QualitySums, ChangeEvidence)


def _key_of(resource: Mapping[str, str]) -> _Key:
    return tuple(sorted(resource.items()))


class Telemetry:
    """All telemetry sent by the server, and the exporter that writes each request under its service's name."""

    def __init__(
        self, endpoints: Mapping[str, Endpoint], *, span_mode: SpanMode = "auto", events: EventMode = "log"
    ) -> None:
        self.endpoints = endpoints
        self._modes: dict[str, Any] = {"span_mode": span_mode, "events": events}
        self._outboxes: dict[Signal, Outbox] = {
            signal: Outbox(signal, self.endpoints[signal])
            for signal in get_args(Signal)
            if signal in self.endpoints
        }
        self._spans = _CountedSpans(self._outboxes["traces"]) if "traces" in self._outboxes else None
        self._records = _CountedRecords(self._outboxes["logs"]) if "logs" in self._outboxes else None
        self._processors: list[Any] = [one for one in (self._spans, self._records) if one]
        instance = {"service.instance.id": str(uuid.uuid4())}
        self._resource = Resource.create(named_resource("ragmeter", **instance))
        self._lock = threading.Lock()
        self._services: dict[_Key, _Service] = {}
        self._observed: list[Callable[[_Key, _Service], None]] = []
        self._own = self._service({})
        self._flushing: threading.Thread | None = None

    @property
    def meter_provider(self) -> MeterProvider:
        """The provider of the server's own counters."""
        return self._own.meters

    def unsent(self) -> Mapping[str, int]:
        """Return the number of items of each signal that no endpoint accepted."""
        return {signal: outbox.lost for signal, outbox in self._outboxes.items() if outbox.lost}

    def waiting(self) -> Mapping[str, int]:
        """Return the number of items of each signal that wait to be sent."""
        return {signal: outbox.waiting for signal, outbox in self._outboxes.items()}

    @property
    def own_exporter(self) -> OpenTelemetryExporter:
        """The exporter that writes under the server's own name."""
        return self._own.exporter

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write every run of `batch`."""
        with WriteCount(batch) as written:
            for scored in batch:
                with written.alone():
                    self._for(scored.run).export([scored])
                    written.add()

    def measure(self, scored: ScoredRun) -> None:
        """Record the free scores of a request that is not exported."""
        self._for(scored.run).measure(scored)

    def observe_meter(self, stats: Callable[[], MeterStats]) -> None:
        """Publish the meter's own counters under the server's name."""
        self._own.exporter.observe_meter(stats)

    def observe_quality(self, sums: Callable[[], Sequence[QualitySums]]) -> None:
        """Publish the sums behind the quality means under the names of their services."""
        self._observe(
            lambda key, service: service.exporter.observe_quality(lambda: self._of_service(key, sums()))
        )

    def observe_changes(self, evidence: Callable[[], Sequence[ChangeEvidence]]) -> None:
        """Publish the evidence for changes under the names of their services."""
        self._observe(
            lambda key, service: service.exporter.observe_changes(lambda: self._of_service(key, evidence()))
        )

    def changed(self, change: QualityChange, sentence: str, resource: Mapping[str, str]) -> None:
        """Write the event of a change under the name of its service."""
        self._service(resource).exporter.changed(change, sentence, resource)

    def judge_called(self, call: JudgeCall) -> None:
        """Record one call to the judge under the server's name."""
        self._own.exporter.judge_called(call)

    def judged_spans(self, run: RagRun, timeout_s: float = 0.0) -> Any:
        """Return the spans that the scores of `run` went to, for sinks that need their ids."""
        return self._for(run).judged_spans(run, timeout_s)

    def _for(self, run: RagRun) -> OpenTelemetryExporter:
        return self._service(run.resource).exporter

    def _observe(self, observe: Callable[[_Key, _Service], None]) -> None:
        """Have something published for every service, those of later included."""
        with self._lock:
            self._observed.append(observe)
            services = list(self._services.items())
        for key, service in services:
            observe(key, service)

    def _of_service(self, key: _Key, items: Sequence[_Item]) -> Sequence[_Item]:
        """Return the items of one service; for the server itself, those of services beyond the bound."""
        if key:
            return [one for one in items if _key_of(one.resource) == key]
        with self._lock:
            is_full = len(self._services) >= _MAX_SERVICES
            known = set(self._services) if is_full else set()
        return [one for one in items if not one.resource or (is_full and _key_of(one.resource) not in known)]

    def flush(self, timeout_s: float) -> bool:
        """Send all waiting data; return whether that succeeded within `timeout_s` seconds."""
        with self._lock:
            flushing = self._flushing
            if flushing is None or not flushing.is_alive():
                # The SDK's flush waits for as long as an endpoint takes.
                flushing = threading.Thread(target=self._flush_all, name="ragmeter-flush", daemon=True)
                self._flushing = flushing
                flushing.start()
        flushing.join(timeout_s)
        return not flushing.is_alive()

    def end(self, deadline: float) -> None:
        """Make no more attempts after `deadline` (monotonic)."""
        for outbox in self._outboxes.values():
            outbox.end(deadline)

    def shutdown(self, timeout_s: float) -> None:
        """Stop publishing the meter's counters; the rest goes on until `close`."""
        self._own.exporter.shutdown(timeout_s)

    def close(self, deadline: float) -> None:
        """Send as much as possible until `deadline` (monotonic), and release everything."""
        self.end(deadline)
        ending = threading.Thread(target=self._shut_down_all, name="ragmeter-end", daemon=True)
        ending.start()
        ending.join(max(0.1, deadline - time.monotonic()))

    def _flush_all(self) -> None:
        for processor in self._processors:
            processor.force_flush()
        for service in self._all():
            with suppress(MetricsTimeoutError):
                service.meters.force_flush()

    def _shut_down_all(self) -> None:
        for processor in self._processors:
            processor.shutdown()
        for service in self._all():
            service.meters.shutdown()

    def _all(self) -> list[_Service]:
        with self._lock:
            return list(self._services.values())

    def _service(self, resource: Mapping[str, str]) -> _Service:
        key = _key_of(resource)
        with self._lock:
            known = self._services.get(key)
            is_new = known is None
            if known is None:
                if len(self._services) >= _MAX_SERVICES:
                    return self._own
                reader = None
                if "metrics" in self.endpoints:
                    to = self.endpoints["metrics"]
                    reader = PeriodicExportingMetricReader(
                        otlp_exporter("metrics", to.protocol, endpoint=to.url)
                    )
                known = self._services[key] = _Service(
                    self._resource.merge(Resource(dict(resource))),
                    self._spans,
                    self._records,
                    reader,
                    **self._modes,
                )
            observed = list(self._observed) if is_new else []
        for observe in observed:
            observe(key, known)
        return known
