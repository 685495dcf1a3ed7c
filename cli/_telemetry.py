"""The command line's own OpenTelemetry SDK: keeps telemetry in memory and can send it to a backend.

Only the command line brings an SDK, because here ragmeter is the application.  Nothing is registered
globally.  Used by `demo` and `doctor`; `run` and `worker` send with its providers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import getproxies

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as log_export
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmeter.cli._otlp import signal_address, why_unreachable
from ragmeter.exporters._otlp import SIGNALS, Protocol, host_and_port, named_resource, otlp_exporter
from ragmeter.exporters.otel import EventMode, OpenTelemetryExporter, SpanMode

CONNECT_TIMEOUT_S = 5.0
SEND_TIMEOUT_S = 8.0
"""Seconds a backend may take to accept one signal, retries included."""


@dataclass(frozen=True, slots=True)
class CollectedTelemetry:
    """The emitted telemetry."""

    spans: Sequence[ReadableSpan]
    """Finished spans, the application's own and ragmeter's."""
    events: Sequence[Any]
    """Log records, one per score."""
    metrics: MetricsData | None
    """The last state of all instruments."""

    @property
    def points_by_metric(self) -> Mapping[str, int]:
        """Number of data points (one per set of attributes) of each instrument."""
        points: dict[str, int] = {}
        for resource in self.metrics.resource_metrics if self.metrics else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points[metric.name] = points.get(metric.name, 0) + len(metric.data.data_points)
        return points


class LocalTelemetry:
    """Three SDK providers that keep the telemetry of a service in memory."""

    def __init__(self, service_name: str) -> None:
        resource = Resource.create({"service.name": service_name})
        self._spans = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False)
        # Renamed in SDK 1.39; the old name will be removed later.
        in_memory: Any = getattr(log_export, "InMemoryLogRecordExporter", None) or getattr(
            log_export, "InMemoryLogExporter", None
        )
        self._events = in_memory()
        self.logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(log_export.SimpleLogRecordProcessor(self._events))

    def exporter(self, span_mode: SpanMode = "auto", events: EventMode = "log") -> OpenTelemetryExporter:
        """Return an exporter for a meter that writes into these providers."""
        return OpenTelemetryExporter(
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
            logger_provider=self.logger_provider,
            span_mode=span_mode,
            events=events,
        )

    def collect(self) -> CollectedTelemetry:
        """Return everything emitted so far."""
        return CollectedTelemetry(
            spans=self._spans.get_finished_spans(),
            events=self._events.get_finished_logs(),
            metrics=self._reader.get_metrics_data(),
        )

    def shutdown(self) -> None:
        """Release the providers."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()
        self.logger_provider.shutdown()


@dataclass(frozen=True, slots=True)
class SignalDelivery:
    """The outcome of sending one signal."""

    signal: str
    """``traces``, ``logs`` or ``metrics``."""
    endpoint: str
    items: int
    """Number of spans, log records or metric data points sent."""
    accepted: bool
    detail: str = ""
    """Error message of the endpoint or the network."""


def send(
    collected: CollectedTelemetry,
    url: str,
    protocol: Protocol,
    signals: Sequence[str] = SIGNALS,
    *,
    full_address: bool = False,
) -> list[SignalDelivery]:
    """Send `collected` to an OTLP endpoint, all signals at once, and return its answer to each.

    Args:
        collected: The telemetry to send.
        url: Base URL; over HTTP ``/v1/traces`` and so on is appended. The standard
            ``OTEL_EXPORTER_OTLP_HEADERS`` apply.
        protocol: The protocol of the endpoint.
        signals: The signals to send, of `SIGNALS`.
        full_address: `url` is the address of the only signal; nothing is appended.
    """
    points = sum(collected.points_by_metric.values())
    payloads: dict[str, tuple[int, Any]] = {
        "traces": (len(collected.spans), collected.spans),
        "logs": (len(collected.events), collected.events),
        "metrics": (points, collected.metrics),
    }
    jobs = [signal for signal in SIGNALS if signal in signals and payloads[signal][0]]
    endpoints = {signal: url if full_address else signal_address(url, protocol, signal) for signal in jobs}
    exporters = {signal: _exporter_to(signal, protocol, endpoints[signal]) for signal in jobs}
    unreachable = _unreachable(url)
    if unreachable is not None:
        return [
            SignalDelivery(signal, endpoints[signal], payloads[signal][0], False, unreachable)
            for signal in jobs
        ]
    with _messages() as said, ThreadPoolExecutor(max_workers=len(SIGNALS)) as pool:

        def deliver(signal: str) -> SignalDelivery:
            items, payload = payloads[signal]
            result = exporters[signal].export(payload)
            accepted = result.name == "SUCCESS"
            exporters[signal].shutdown()
            detail = "" if accepted else said(threading.get_ident())
            return SignalDelivery(signal, endpoints[signal], items, accepted, detail)

        return list(pool.map(deliver, jobs))


def sending_providers(
    url: str, protocol: str, signals: Sequence[str], service_name: str, *, token: str | None = None
) -> dict[str, Any]:
    """Return providers that send to an OTLP endpoint, as arguments of `OpenTelemetryExporter`; none is global.

    Address, protocol and signals are as for `send`; a `token` is sent in the header ``Authorization``.
    """
    exporters = {
        signal: _exporter_to(signal, protocol, signal_address(url, protocol, signal), token)
        for signal in signals
    }
    return providers_of(exporters, service_name)


def providers_of(
    exporters: Mapping[str, Any], service_name: str, metrics_every_ms: int | None = None, **resource: str
) -> dict[str, Any]:
    """Return providers that write to the exporters of signals, as arguments of `OpenTelemetryExporter`.

    OpenTelemetry's variables win over `service_name`, and where `metrics_every_ms` is None.
    """
    named = Resource.create(named_resource(service_name, **resource))
    about: dict[str, Any] = {"resource": named, "shutdown_on_exit": False}
    made: dict[str, Any] = {}
    for signal, exporter in exporters.items():
        if signal == "traces":
            made["tracer_provider"] = TracerProvider(**about)
            made["tracer_provider"].add_span_processor(BatchSpanProcessor(exporter))
        elif signal == "logs":
            made["logger_provider"] = LoggerProvider(**about)
            made["logger_provider"].add_log_record_processor(log_export.BatchLogRecordProcessor(exporter))
        else:
            reader = PeriodicExportingMetricReader(exporter, metrics_every_ms)
            made["meter_provider"] = MeterProvider([reader], **about)
    return made


def _unreachable(url: str) -> str | None:
    """Return why nothing listens at `url`, or None; the exporters would retry for seconds, in silence.

    Not tried behind a proxy, which may reach what this process cannot.
    """
    if getproxies():
        return None
    host, port = host_and_port(url)
    why = why_unreachable((host, port), CONNECT_TIMEOUT_S)
    return None if why is None else f"cannot connect to {host}:{port}: {why}"


def _exporter_to(signal: str, protocol: str, endpoint: str, token: str | None = None) -> Any:
    options: dict[str, Any] = {"endpoint": endpoint, "timeout": SEND_TIMEOUT_S}
    if token:
        options["headers"] = {"authorization": f"Bearer {token}"}
    return otlp_exporter(signal, protocol, **options)


class _Remember(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.said[record.thread] = record.getMessage()


@contextmanager
def _messages() -> Iterator[Callable[[int], str]]:
    """Collect the OTLP exporters' log messages by thread instead of printing them."""
    remember = _Remember()
    logger = logging.getLogger("opentelemetry.exporter.otlp")
    propagate = logger.propagate
    logger.propagate = False
    logger.addHandler(remember)
    try:
        yield lambda thread: remember.said.get(thread, "the endpoint did not accept it")
    finally:
        logger.removeHandler(remember)
        logger.propagate = propagate
