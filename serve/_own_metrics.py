"""The server's counters, as OpenTelemetry metrics under its own name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opentelemetry.metrics import MeterProvider

from ragmeter.exporters import semconv
from ragmeter.exporters.otel._boards import Reading, register

Stats = Callable[[], Mapping[str, Mapping[str, int]]]

_PARTS: Mapping[semconv.Instrument, tuple[str, str | None]] = {
    semconv.SERVE_EXPORTS: ("exports", None),
    semconv.SERVE_SPANS: ("spans", None),
    semconv.SERVE_UNSENT: ("unsent", None),
    semconv.SERVE_MESSAGES: ("messages", None),
    semconv.SERVE_CONNECTIONS: ("connections", None),
    semconv.SERVE_LAG: ("lag", None),
    semconv.SERVE_PARTIAL: ("partial", "requests"),
    semconv.SERVE_WAITING: ("spans", "waiting"),
    semconv.SERVE_SPOOL_ENTRIES: ("spool", "kept"),
    semconv.SERVE_SPOOL_AGE: ("kept", "oldest_s"),
    semconv.SERVE_SPOOL_BYTES: ("kept", "bytes"),
    semconv.SERVE_CONNECTED: ("kafka", "connected"),
    semconv.SERVE_OPEN: ("open", "connections"),
}
"""The part of the statistics that each instrument reads, and the count in it; None: all, by attribute."""
_OPTIONAL = ("spool", "kept", "kafka")
"""Parts that are missing if nothing is stored, or without Kafka."""


def publish(provider: MeterProvider, stats: Stats) -> None:
    """Register the server's instruments with a provider.

    Args:
        provider: Of the server's own SDK.
        stats: Returns `Server.stats`, with the number and age of acknowledged waiting requests as ``kept``, the
            number of connections as ``open``, and for Kafka ``lag`` by partition, and ``connected``.
    """

    def read(instrument: semconv.Instrument) -> Reading:
        part, name = _PARTS[instrument]
        parts = stats()
        counts = parts.get(part, {})
        if name is not None:
            if part in parts or part not in _OPTIONAL:
                yield counts.get(name, 0), {}
            return
        (key,) = instrument.attributes
        for value, count in counts.items():
            if value != "waiting":
                yield count, {str(key): value}

    register(provider.get_meter(semconv.SCOPE), semconv.SERVER_INSTRUMENTS, read)
