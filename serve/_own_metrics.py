"""The server's counters, as OpenTelemetry metrics under its own name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from ragmeter.exporters import semconv

if TYPE_CHECKING:
    from ._kafka import KafkaHealth

_PARTS: Mapping[str, str] = {
    semconv.SERVE_EXPORTS.name: "exports",
    semconv.SERVE_SPANS.name: "spans",
    semconv.SERVE_UNSENT.name: "unsent",
    semconv.SERVE_MESSAGES.name: "messages",
    semconv.SERVE_CONNECTIONS.name: "connections",
}
_SINGLE: Mapping[semconv.Instrument, tuple[str, str]] = {
    semconv.SERVE_PARTIAL: ("partial", "requests"),
    semconv.SERVE_WAITING: ("spans", "waiting"),
    semconv.SERVE_SPOOL_ENTRIES: ("spool", "kept"),
    semconv.SERVE_SPOOL_AGE: ("kept", "oldest_s"),
    semconv.SERVE_SPOOL_BYTES: ("kept", "bytes"),
    semconv.SERVE_OPEN: ("open", "connections"),
}


def publish(
    provider: MeterProvider,
    stats: Callable[[], Mapping[str, Mapping[str, int]]],
    kafka: Callable[[], KafkaHealth | None],
) -> None:
    """Register the server's instruments with a provider.

    Args:
        provider: Of the server's own SDK.
        stats: Returns `Server.stats`, with the number and age of acknowledged waiting requests as ``kept``,
            and the number of connections as ``open``.
        kafka: Returns the state of reading from Kafka, or None without Kafka.
    """
    meter = provider.get_meter(semconv.SCOPE)
    for instrument in semconv.SERVER_INSTRUMENTS:
        create: Any = {
            "observable_counter": meter.create_observable_counter,
            "observable_updowncounter": meter.create_observable_up_down_counter,
        }[instrument.kind]
        create(
            str(instrument.name), [_callback(instrument, stats, kafka)], instrument.unit, instrument.description
        )


def _callback(
    instrument: semconv.Instrument,
    stats: Callable[[], Mapping[str, Mapping[str, int]]],
    kafka: Callable[[], KafkaHealth | None],
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        if instrument in (semconv.SERVE_LAG, semconv.SERVE_CONNECTED):
            yield from _of_kafka(instrument, kafka())
            return
        if instrument in _SINGLE:
            part, name = _SINGLE[instrument]
            parts = stats()
            if part in parts or part not in ("spool", "kept"):  # without a spool there are none
                yield Observation(parts.get(part, {}).get(name, 0))
            return
        counts = stats().get(_PARTS[instrument.name], {})
        (key,) = instrument.attributes
        for value, count in counts.items():
            if value != "waiting":
                yield Observation(count, {str(key): value})

    return observe


def _of_kafka(instrument: semconv.Instrument, health: KafkaHealth | None) -> Iterable[Observation]:
    if health is None:
        return
    if instrument is semconv.SERVE_CONNECTED:
        yield Observation(int(health.why_not is None))
        return
    (key,) = instrument.attributes
    for partition, behind in health.lag.items():
        yield Observation(behind, {str(key): partition.rpartition("/")[2]})
