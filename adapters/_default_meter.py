"""Which meter an adapter serves: the one it was given, or the process's default.

`instrument` sets the default and `uninstrument` clears it; handlers ask here. Nothing here makes a meter.
"""

from __future__ import annotations

from ragmeter import RagMeter
from ragmeter.metrics import ConfigurationError

__all__ = ["check_meter", "default_meter", "set_default_meter"]

_default: list[RagMeter | None] = [None]


def default_meter() -> RagMeter | None:
    """Return the process's default meter, or None."""
    return _default[0]


def set_default_meter(meter: RagMeter | None) -> None:
    """Replace the process's default meter."""
    _default[0] = meter


def check_meter(meter: object) -> None:
    """Refuse what cannot take requests, where the user can still see it.

    Raises:
        ConfigurationError: It is no meter.
    """
    if isinstance(meter, type) or not callable(getattr(meter, "offer", None)):
        raise ConfigurationError(f"meter is {meter!r}; pass a RagMeter object: RagMeter()")
