"""How OpenTelemetry names arrive in Prometheus; the only place that translates them.

Follows the "Prometheus and OpenMetrics compatibility" page of the OpenTelemetry specification, in
the translation that OpenTelemetry's Python exporter for Prometheus, the Collector and
Prometheus' own OTLP receiver share by default (``UnderscoreEscapingWithSuffixes``).
"""

from __future__ import annotations

import re

from ragmeter.exporters.semconv import Instrument, Term

__all__ = ["bucket", "count", "label", "metric_name", "total"]

_UNITS = {"s": "seconds", "By": "bytes", "1": ""}
"""UCUM units that semconv uses. Annotations such as ``{request}`` add nothing."""


def _escaped(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "_", name)


def metric_name(instrument: Instrument) -> str:
    """Return the name of the instrument's metric family, with the suffixes of unit and kind.

    Raises:
        ValueError: The instrument's unit has no translation here yet.
    """
    unit = "" if instrument.unit.startswith("{") else _UNITS.get(instrument.unit)
    if unit is None:
        raise ValueError(f"{instrument.name}: how is the unit {instrument.unit!r} translated?")
    name = _escaped(instrument.name)
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    return f"{name}_total" if instrument.kind in ("counter", "observable_counter") else name


def bucket(instrument: Instrument) -> str:
    """Return the name of a histogram's bucket series."""
    return f"{_of_kind(instrument, 'histogram')}_bucket"


def count(instrument: Instrument) -> str:
    """Return the name of a histogram's count series."""
    return f"{_of_kind(instrument, 'histogram')}_count"


def total(instrument: Instrument) -> str:
    """Return the name of a histogram's sum series."""
    return f"{_of_kind(instrument, 'histogram')}_sum"


def label(instrument: Instrument, attribute: Term) -> str:
    """Return the label of `attribute`.

    Raises:
        ValueError: The instrument does not carry it.
    """
    if attribute not in instrument.attributes:
        raise ValueError(f"{instrument.name} does not carry {attribute}")
    return _escaped(attribute)


def _of_kind(instrument: Instrument, kind: str) -> str:
    if instrument.kind != kind:
        raise ValueError(f"{instrument.name} is a {instrument.kind}, not a {kind}")
    return metric_name(instrument)
