"""How much the server takes, holds and does at once."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
KEEP_ALIVE_S = 75
"""Seconds for which a connection stays open between two requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of everything that senders can make grow."""

    body_bytes: int = 16 * MIB
    """One body, packed and unpacked."""
    body_spans: int = 50_000
    """Spans or log records in one body."""
    header_s: float = 10.0
    """Seconds in which the head of a request must have come."""
    body_s: float = 60.0
    """Seconds in which a body must have come."""
    call_s: float = 20.0
    """The same of a call over gRPC: a thread waits for it."""
    answer_s: float = 60.0
    """Seconds in which a client must have taken what was written to it."""
    read_s: float = 60.0
    """Seconds in which a body that has come must have been read and kept."""
    stuck_s: float = 10.0
    """Seconds of that, after which no others are begun, and the server is not ready."""
    bodies_bytes: int = 128 * MIB
    """All bodies that are being received or read, together."""
    readers: int = 4
    """Bodies that are read at the same time."""
    connections: int = 512
    """Connections over HTTP, and calls under way over gRPC an eighth of them."""
    calls: int = 16
    """Bodies that are received over gRPC at the same time."""
    held_bytes: int = 256 * MIB
    """What waits for the rest of its trace or for scoring, estimated."""
    held_spans: int = 200_000
    """Likewise, in spans."""
    waiting_requests: int = 256
    """Requests that the meter may have waiting; the others wait in front of it."""
    outgoing: int = 8_192
    """Spans, or events, of scores that may wait to be sent."""
