"""The settings that ``ragmeter run`` passes to its part inside the program's process."""

from __future__ import annotations

from typing import Literal, NamedTuple

PLAN = "_RAGMETER_RUN"
"""The private variable that holds a `Plan`, as JSON."""


class Plan(NamedTuple):
    """The destination of the requests."""

    process: int
    """Process id of the program; other processes are its children."""
    name: str
    """Name of the service, unless OpenTelemetry's variables set another one."""
    to: Literal["page", "phoenix", "otlp"]
    """The kind of destination at `url`."""
    url: str
    """Address to send to, and to look at."""
    protocol: str = "http/protobuf"
