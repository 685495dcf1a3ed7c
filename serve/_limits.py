"""How much the server takes, holds and does at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MIB", "Limits"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of everything that senders can make grow."""

    body_bytes: int = 16 * MIB
    """One body, packed and unpacked."""
    body_spans: int = 50_000
    """Spans or log records in one body."""
    body_s: float = 60.0
    """Seconds in which a body must have come."""
    bodies_bytes: int = 128 * MIB
    """All bodies that are being received or read, together."""
    readers: int = 2
    """Bodies that are read at the same time, over HTTP and over gRPC each."""
    connections: int = 512
    """Connections over HTTP, and calls under way over gRPC an eighth of them."""
    held_bytes: int = 256 * MIB
    """What waits for the rest of its trace or for scoring, estimated."""
    held_spans: int = 200_000
    """Likewise, in spans."""
    waiting_requests: int = 256
    """Requests that the meter may have waiting; the others wait in front of it."""
    outgoing: int = 8_192
    """Spans, or events, of scores that may wait to be sent."""
