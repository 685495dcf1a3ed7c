"""Which requests are scored, and which of those are judged.

The decision is a function of the trace id alone, so that all services that see a trace decide
alike.  The id is hashed with the purpose as salt: a decision on the id itself would repeat that of a
head sampler (behind ``TraceIdRatioBased(0.1)`` every tenth request would be every one), and with one
salt for all purposes the judged requests would be the first of the sampled ones.  A request without
a trace is placed by its run id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

__all__ = ["Purpose", "place", "within"]

Purpose = Literal["sample", "judge", "label"]
"""What is chosen for. Shares nest where one is drawn from the other: only what is sampled is judged,
only what is judged is given to people; each draw is independent of the one before."""

_SPACE = 1 << 64
_TRACE_ID_BYTES = 16


def place(purpose: Purpose, trace_id: int | None, run_id: str) -> int:
    """Return the request's place in [0, 2^64): BLAKE2b of its id, personalised with the purpose."""
    own = run_id.encode("utf-8", "replace")
    data = trace_id.to_bytes(_TRACE_ID_BYTES, "big") if trace_id else own
    return int.from_bytes(blake2b(data, digest_size=8, person=purpose.encode()).digest(), "big")


def within(place: int, rate: float) -> bool:
    """Return whether a request at `place` is among the share `rate` of all requests."""
    return place < round(rate * _SPACE)
