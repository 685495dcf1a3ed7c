"""Runs the processes of ``ragmeter worker``, each with an OpenTelemetry SDK made after the fork.

Scores go to the endpoints of the standard ``OTEL_EXPORTER_OTLP_*`` variables, if any are set. Rejected
telemetry is counted, so that its message can be requeued.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from opentelemetry import _logs, metrics, trace

from ragmeter.exporters._otlp import SIGNALS, otlp_exporter, otlp_setting
from ragmeter.fleet.transport import address_shown, engine_of, run_worker
from ragmeter.fleet.worker import BatchWorker, worker_from_settings
from ragmeter.metrics import ConfigurationError, MissingDependencyError
from ragmeter.metrics.text import limit_texts
from ragmeter.settings.config import Settings, read_settings
from ragmeter.settings.from_settings import worker_arguments

_SERVICE = "ragmeter-worker"
_METRICS_EVERY_MS = 10_000
"""Interval of exports, whose counts a killed process loses, unless ``OTEL_METRIC_EXPORT_INTERVAL`` is set."""
_SETTERS: Mapping[str, Callable[[Any], None]] = {
    "tracer_provider": trace.set_tracer_provider,
    "logger_provider": _logs.set_logger_provider,
    "meter_provider": metrics.set_meter_provider,
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
        self._watched: dict[str, _WatchedExporter] = {}
        self._providers: dict[str, Any] = {}
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
        return sum(one.lost for one in self._watched.values())

    def shutdown(self, timeout_s: float) -> None:
        """Flush within about `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        for provider in self._providers.values():
            provider.force_flush(max(1, int((deadline - time.monotonic()) * 1000)))
            provider.shutdown()

    def _begin(self, wanted: list[str]) -> None:
        from ragmeter.cli._telemetry import providers_of  # noqa: PLC0415 -- needs an extra

        exporters: dict[str, Any] = {
            signal: otlp_exporter(signal, otlp_setting(signal, "PROTOCOL", os.environ).lower())
            for signal in wanted
        }
        # The SDK's metrics are totals, sent again with the next export.
        self._watched = {one: _WatchedExporter(exporters[one]) for one in exporters if one != "metrics"}
        every_ms = None if os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") else _METRICS_EVERY_MS
        # A separate instance id, as counters of two processes with the same one would overwrite each other.
        own = {"service.instance.id": str(uuid4())}
        self._providers = providers_of({**exporters, **self._watched}, _SERVICE, every_ms, **own)
        for name, provider in self._providers.items():
            _SETTERS[name](provider)


def wanted_signals() -> list[str]:
    """Return the signals with an endpoint."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    return [
        signal
        for signal in SIGNALS
        if os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() != "none"
        and otlp_setting(signal, "ENDPOINT", os.environ)
    ]


def has_provider() -> bool:
    """Return whether this process has an SDK already."""
    return not type(trace.get_tracer_provider()).__module__.startswith("opentelemetry.trace")


def queue_of(given: str | None, settings: Settings) -> str:
    """Return the URL of the queue.

    Raises:
        ConfigurationError: No queue is set.
    """
    if given:
        return given
    if settings.queue_url is None:
        raise ConfigurationError(
            "which queue? Pass --queue spool:///var/lib/ragmeter/queue or a broker's address, or set "
            "RAGMETER_QUEUE_URL to what the applications have there"
        )
    return settings.queue_url.get_secret_value()


def run(
    queue: str | None, *, processes: int | None, once: bool, require_export: bool, say: Callable[[str], None]
) -> bool:
    """Score messages until a signal ends it; return whether everything succeeded.

    Args:
        queue: URL of the queue; None: that of the settings.
        processes: Number of processes; None: that of the settings, else one per core.
        once: End when the queue is empty.
        require_export: Requeue a message whose scores could not be exported.
        say: Prints a line.

    Raises:
        ConfigurationError: An option or a variable is invalid.
        MissingDependencyError: A required package is not installed.
    """
    settings = read_settings()
    url = queue_of(queue, settings)
    worker_arguments()  # report their errors here, not in each process
    if not (wanted_signals() or settings.writes_elsewhere or has_provider()):
        raise ConfigurationError(
            "the worker has nowhere to write scores to; set OTEL_EXPORTER_OTLP_ENDPOINT, RAGMETER_JSONL or "
            "RAGMETER_CONSOLE"
        )

    if settings.judge_model is not None and settings.worker_limit_s < settings.judge_deadline_s + 60:
        raise ConfigurationError(
            f"RAGMETER_WORKER_LIMIT_S={settings.worker_limit_s:g} would end what a judge is still asked for; "
            f"give RAGMETER_JUDGE_DEADLINE_S ({settings.judge_deadline_s:g}) and 60 s more"
        )

    def make() -> BatchWorker:
        limit_texts()
        telemetry = WorkerTelemetry()
        return worker_from_settings(
            require_export=require_export, unsent=telemetry.unsent, closed=telemetry.shutdown
        )

    number = processes or settings.worker_processes or os.cpu_count() or 1
    engine_of(url)  # refuse an invalid URL before printing
    end = "what waits there" if once else "what comes there, until SIGTERM or Ctrl-C"
    who = "1 process scores" if number == 1 else f"{number} processes score"
    say(f"ragmeter worker: {address_shown(url)}: {who} {end}")
    return run_worker(url, make, processes=number, once=once, limit_s=settings.worker_limit_s)
