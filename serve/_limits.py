"""Bounds on what the server accepts, holds and does at the same time."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
KEEP_ALIVE_S = 75
"""Seconds for which a connection stays open between two requests."""
RETRY_AFTER_S = 2
"""Seconds until a sender that was refused for want of room may retry."""
SETTLE_S = 5.0
"""Seconds between two settlements. After a kill, requests scored since the last one are scored again."""
RECEIVE_S = 5.0
"""Most seconds for incoming bodies to arrive when the server ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of everything that senders can make grow."""

    body_bytes: int = 16 * MIB
    """Most bytes of a body, compressed and decompressed."""
    body_spans: int = 50_000
    """Most spans or log records in a body."""
    header_s: float = 10.0
    """Seconds for the head of a request to arrive."""
    body_s: float = 60.0
    """Seconds for a body to arrive."""
    call_s: float = 20.0
    """Seconds for the body of a gRPC call to arrive; less, as a thread waits for it."""
    answer_s: float = 60.0
    """Seconds for a client to receive the answer."""
    read_s: float = 60.0
    """Seconds for a received body to be read and stored."""
    stuck_s: float = 10.0
    """Seconds of reading a body after which no others are begun, and the server is not ready."""
    bodies_bytes: int = 128 * MIB
    """Most bytes of all bodies that are being received or read."""
    forward_bytes: int = 64 * MIB
    """Most bytes of spans that wait to be forwarded, and of log records."""
    readers: int = 4
    """Bodies that are read at the same time."""
    connections: int = 512
    """Most HTTP connections; an eighth of it bounds the gRPC calls in progress."""
    calls: int = 16
    """gRPC bodies that are received at the same time."""
    held_bytes: int = 256 * MIB
    """Most bytes of spans that wait for the rest of their trace or for scoring, estimated."""
    held_spans: int = 200_000
    """Most of these spans."""
    waiting_requests: int = 256
    """Most requests waiting in the meter; others wait before it."""
    outgoing: int = 8_192
    """Most spans or events of scores that wait to be sent."""
