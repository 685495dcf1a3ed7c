"""Checks of `RagMeter`'s arguments, and the exporters it has when none are given.

Each check returns the value or raises `ConfigurationError` with what is allowed.  Called at construction
only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.exporters.protocol import Exporter
from ragmeter.metrics import ConfigurationError

__all__ = ["at_least", "check_methods", "default_exporters", "more_than_0", "one_of"]


def one_of(name: str, value: str, *allowed: str) -> str:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise ConfigurationError(f"{name} is {value!r}; it is {words}")
    return value


def at_least(least: float, name: str, value: float) -> float:
    """Return `value` if it is `least` or more."""
    if not value >= least:
        raise ConfigurationError(f"{name} is {value!r}; it must be at least {least:g}")
    return value


def more_than_0(name: str, value: float) -> float:
    """Return `value` if it is positive."""
    if not value > 0:
        raise ConfigurationError(f"{name} is {value!r}; it must be greater than 0")
    return value


def check_methods(argument: str, given: Sequence[object], *methods: str) -> None:
    """Refuse what is given for `argument` if it lacks one of `methods`."""
    for item in given:
        lacks = [name for name in methods if not callable(getattr(item, name, None))]
        if lacks or isinstance(item, type):
            wrong = f"has no method {', '.join(lacks)}" if lacks else "is a class; pass an object"
            raise ConfigurationError(f"{argument}: {item!r} {wrong}")


def default_exporters() -> tuple[Exporter, ...]:
    """Return the exporters of a meter that was given none: OpenTelemetry."""
    from ragmeter.exporters.otel import OpenTelemetryExporter  # noqa: PLC0415 -- only when wanted

    return (OpenTelemetryExporter(),)
