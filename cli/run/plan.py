"""The settings that ``ragmeter run`` passes to its part inside the program's process."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["PLAN", "Plan"]

PLAN = "_RAGMETER_RUN"
"""The private variable that holds a `Plan`, as JSON."""


class Plan(NamedTuple):
    """The destination of the requests."""

    process: int
    """The id of the process that becomes the program; others are begun by it."""
    name: str
    """Of the service, unless OpenTelemetry's variables say another."""
    to: Literal["page", "phoenix", "otlp"]
    """What stands at `url`."""
    url: str
    """Where to send, and to look."""
    protocol: str = "http/protobuf"
    """How to send there."""
