"""Which requests are scored, and which of those are judged.

The decision is a function of the trace id alone, by the rule of OpenTelemetry's
``TraceIdRatioBased`` sampler (the low 64 bits against rate × 2^64), so that all
services that see a trace decide alike.  A request without a trace is
decided by a hash of its run id.
"""

from __future__ import annotations

from hashlib import blake2b

from ragmeter.metrics import ConfigurationError

__all__ = ["check_rate", "position", "within"]

_SPACE = 1 << 64


def check_rate(name: str, rate: float) -> float:
    """Return `rate`, a probability.

    Raises:
        ConfigurationError: It is not between 0 and 1.
    """
    if not 0.0 <= rate <= 1.0:
        raise ConfigurationError(f"{name} is {rate!r}; it is a probability from 0.0 to 1.0")
    return float(rate)


def position(trace_id: int | None, run_id: str) -> int:
    """Return the request's place in [0, 2^64)."""
    if trace_id:
        return trace_id & (_SPACE - 1)
    return int.from_bytes(blake2b(run_id.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def within(place: int, rate: float) -> bool:
    """Tell whether a request at `place` is among the share `rate` of all requests."""
    return place < round(rate * _SPACE)
