"""Count how often each chunk was retrieved, ranked first in a bad request, and was used; frequent ones exactly.

Space-Saving (Metwally, Agrawal, El Abbadi 2005; merged as in Agarwal et al. 2012): a bounded table in which
the least frequent chunk makes room. A chunk that returns later begins at the largest count that was dropped,
which is its error. Merging adds counts, and that minimum for chunks which one side lacks, so the order is
irrelevant. Not locked.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace

MOST_CHUNKS = 5_000
_AT_ONCE = 10
"""Fraction of chunks dropped when the table is full (one in this many), so that most additions cost one
lookup."""


@dataclass(slots=True)
class ChunkCount:
    """The counts of a chunk, which is identified by its text."""

    rank: int
    """Hash of its text."""
    id: str | None
    """Its id in the store; None: unknown."""
    quote: str
    """Beginning of its text."""
    digest: bytes
    """SHA-256 of its text."""
    first_seen: float
    """First retrieval, in seconds since the epoch."""
    last_seen: float
    versions: tuple[str, ...] = ()
    """Version, etag or hash in its metadata."""
    updated_at: float | None = None
    """Time of the document's last change, from its metadata; None: unknown."""
    n: int = 0
    """Requests that retrieved it, at most; at least `n` - `error`."""
    error: int = 0
    led: int = 0
    """Requests with a verdict in which it ranked first."""
    bad: int = 0
    """Those of them that count as bad."""
    seen_used: int = 0
    """Requests for which the chunks used by the answer are known."""
    used: int = 0
    """Those of them whose answer used it."""

    def plus(self, other: ChunkCount) -> ChunkCount:
        """Return the sum of two processes' counts of one chunk."""
        newer, older = (other, self) if other._key() > self._key() else (self, other)
        return replace(
            newer,
            id=newer.id or older.id,
            versions=newer.versions or older.versions,
            updated_at=older.updated_at if newer.updated_at is None else newer.updated_at,
            first_seen=min(self.first_seen, other.first_seen),
            n=self.n + other.n,
            error=self.error + other.error,
            led=self.led + other.led,
            bad=self.bad + other.bad,
            seen_used=self.seen_used + other.seen_used,
            used=self.used + other.used,
        )

    def _key(self) -> tuple[float, str, tuple[str, ...], float]:
        return self.last_seen, self.id or "", self.versions, self.updated_at or 0.0


class ChunkCounts:
    """The most frequently retrieved chunks."""

    def __init__(self, most: int = MOST_CHUNKS) -> None:
        self._most = most
        self._counts: dict[int, ChunkCount] = {}
        self.floor = 0
        """Largest possible count of a chunk that is not in the table."""

    def __len__(self) -> int:
        return len(self._counts)

    def get(self, rank: int) -> ChunkCount | None:
        """Return the count of a chunk, or None."""
        return self._counts.get(rank)

    def add(self, count: ChunkCount) -> ChunkCount:
        """Add a chunk that is not in the table, and return its count."""
        if len(self._counts) >= self._most:
            lowest = heapq.nsmallest(
                len(self._counts) - self._most + max(1, self._most // _AT_ONCE),
                self._counts.values(),
                key=lambda one: (one.n, one.last_seen, one.rank),
            )
            self.floor = max(self.floor, lowest[-1].n)
            for one in lowest:
                del self._counts[one.rank]
        count.n = count.error = self.floor
        self._counts[count.rank] = count
        return count

    def all(self) -> Iterable[ChunkCount]:
        """Return all counts, the most frequent first."""
        return sorted(self._counts.values(), key=lambda one: (-one.n, one.rank))

    def merge(self, other: ChunkCounts) -> None:
        """Add the counts of another process; the result has the chunks of both until the next addition."""
        theirs = dict(other._counts)
        for rank, count in list(self._counts.items()):
            found = theirs.pop(rank, None)
            self._counts[rank] = (
                replace(count, n=count.n + other.floor, error=count.error + other.floor)
                if found is None
                else count.plus(found)
            )
        for rank, count in theirs.items():
            self._counts[rank] = replace(count, n=count.n + self.floor, error=count.error + self.floor)
        self.floor += other.floor
