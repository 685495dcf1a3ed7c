"""The server's counters, as OpenTelemetry metrics under its own name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from ragmeter.exporters import semconv

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
    meter = provider.get_meter(semconv.SCOPE)
    for instrument in semconv.SERVER_INSTRUMENTS:
        create: Any = {
            "observable_counter": meter.create_observable_counter,
            "observable_updowncounter": meter.create_observable_up_down_counter,
        }[instrument.kind]
        observe = partial(_observe, instrument, stats)
        create(str(instrument.name), [observe], instrument.unit, instrument.description)


def _observe(instrument: semconv.Instrument, stats: Stats, _: CallbackOptions) -> Iterable[Observation]:
    part, name = _PARTS[instrument]
    parts = stats()
    counts = parts.get(part, {})
    if name is not None:
        if part in parts or part not in _OPTIONAL:
            yield Observation(counts.get(name, 0))
        return
    (key,) = instrument.attributes
    for value, count in counts.items():
        if value != "waiting":
            yield Observation(count, {str(key): value})
