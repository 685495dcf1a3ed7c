"""What the server counts, as OpenTelemetry metrics under its own name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from ragmeter.exporters import semconv

__all__ = ["publish"]

_PARTS: Mapping[str, str] = {
    semconv.SERVE_EXPORTS.name: "exports",
    semconv.SERVE_SPANS.name: "spans",
    semconv.SERVE_UNSENT.name: "unsent",
}


def publish(provider: MeterProvider, stats: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
    """Register the server's instruments with a provider.

    Args:
        provider: Of the server's own SDK.
        stats: As `Server.stats`.
    """
    meter = provider.get_meter(semconv.SCOPE)
    for instrument in semconv.SERVER_INSTRUMENTS:
        create: Any = {
            "observable_counter": meter.create_observable_counter,
            "observable_updowncounter": meter.create_observable_up_down_counter,
        }[instrument.kind]
        create(
            str(instrument.name),
            [_callback(instrument, stats)],
            instrument.unit,
            instrument.description,
        )


def _callback(
    instrument: semconv.Instrument, stats: Callable[[], Mapping[str, Mapping[str, int]]]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        counts = stats()[_PARTS.get(instrument.name, "spans")]
        if instrument is semconv.SERVE_WAITING:
            yield Observation(counts.get("waiting", 0))
            return
        (key,) = instrument.attributes
        for value, count in counts.items():
            if value != "waiting":
                yield Observation(count, {str(key): value})

    return observe
