"""The OpenTelemetry SDK of a worker process: made after the fork, with a separate identity.

Scores go to the endpoints of the standard ``OTEL_EXPORTER_OTLP_*`` variables, if any are set.  Rejected
telemetry is counted, so that its message can be requeued.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import uuid4

from opentelemetry import _logs, metrics, trace

from ragmeter.exporters._bounded_http import own_session
from ragmeter.metrics import MissingDependencyError

_SERVICE = "ragmeter-worker"
_METRICS_EVERY_MS = 10_000
"""Interval of exports, whose counts a killed process loses, unless ``OTEL_METRIC_EXPORT_INTERVAL`` is set."""
_EXPORTERS = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
}


class _WatchedExporter:
    """Counts the items that an exporter of the SDK could not deliver."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.lost = 0

    def export(self, items: Any, *more: Any, **named: Any) -> Any:
        result = self._inner.export(items, *more, **named)
        if result.name != "SUCCESS":
            self.lost += len(items)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class WorkerTelemetry:
    """The global providers of this process, for each signal with an endpoint.

    An existing SDK, such as that of ``opentelemetry-instrument``, is used as it is.

    Raises:
        MissingDependencyError: An endpoint is set, and the SDK or its exporters are not installed.
    """

    def __init__(self) -> None:
        self._watched: list[_WatchedExporter] = []
        self._providers: list[Any] = []
        if not has_provider():
            wanted = wanted_signals()
            if wanted:
                try:
                    self._begin(wanted)
                except ImportError:
                    raise MissingDependencyError(
                        "opentelemetry-sdk", "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT"
                    ) from None

    def unsent(self) -> int:
        """Return the number of spans and events that could not be delivered."""
        return sum(one.lost for one in self._watched)

    def shutdown(self, timeout_s: float) -> None:
        """Flush within about `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        for provider in self._providers:
            provider.force_flush(max(1, int((deadline - time.monotonic()) * 1000)))
            provider.shutdown()

    def _begin(self, wanted: set[str]) -> None:
        from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        named = bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        # A separate instance id, as counters of two processes with the same one would overwrite each other.
        own = {"service.instance.id": str(uuid4())} | ({} if named else {"service.name": _SERVICE})
        resource = Resource.create(own)
        if "traces" in wanted:
            tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
            tracers.add_span_processor(BatchSpanProcessor(self._watch("traces")))
            trace.set_tracer_provider(tracers)
            self._providers.append(tracers)
        if "logs" in wanted:
            loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
            loggers.add_log_record_processor(BatchLogRecordProcessor(self._watch("logs")))
            _logs.set_logger_provider(loggers)
            self._providers.append(loggers)
        if "metrics" in wanted:
            every_ms = None if os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") else _METRICS_EVERY_MS
            reader = PeriodicExportingMetricReader(_exporter("metrics"), every_ms)
            meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
            metrics.set_meter_provider(meters)
            self._providers.append(meters)

    def _watch(self, signal: str) -> Any:
        watched = _WatchedExporter(_exporter(signal))
        self._watched.append(watched)
        return watched


def wanted_signals() -> set[str]:
    """Return the signals with an endpoint."""
    return {signal for signal in _EXPORTERS if _is_wanted(signal)}


def _is_wanted(signal: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none":
        return False
    return bool(
        os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        or os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    )


def _exporter(signal: str) -> Any:
    """Return the SDK's exporter, which reads OpenTelemetry's variables."""
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    module, name = _EXPORTERS[signal]
    way = "grpc" if protocol.strip().lower() == "grpc" else "http"
    kind: Callable[..., Any] = getattr(import_module(f"opentelemetry.exporter.otlp.proto.{way}.{module}"), name)
    # A redirect must not count as accepted, or messages whose scores are lost would be acknowledged.
    return kind() if way == "grpc" else kind(session=own_session())


def has_provider() -> bool:
    """Return whether this process has an SDK already."""
    return not type(trace.get_tracer_provider()).__module__.startswith("opentelemetry.trace")
