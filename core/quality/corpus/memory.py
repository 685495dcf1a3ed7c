"""Store the data for the lists of chunks: counts of the most retrieved, and the user's corpus facts.

The chunks' words are stored in `ragmeter.quality.gaps.memory`. Bounded: 5,000 chunks, some 3 MB. Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timezone
from hashlib import sha256

from ragmeter.metrics import ConfigurationError, RetrievedContext, Score
from ragmeter.metrics._process import fork
from ragmeter.quality.gaps.chunks import ChunkTerms
from ragmeter.quality.gaps.sample import Sample, rank_of

from .counts import ChunkCount, ChunkCounts
from .view import ChunkReport, CorpusFacts, list_chunks

USE = "lexical_context_utilization"
"""The score whose items name the chunks that an answer used."""
_QUOTE_CHARS = 80
_VERSIONS = ("version", "etag", "hash", "content_hash", "revision")
_DATES = ("updated_at", "last_modified", "modified_at", "last_updated", "modified")
_MILLISECONDS_FROM = 1e11


def as_seconds(value: object) -> float | None:
    """Convert a date of metadata to seconds since the epoch; None: not a date.

    Args:
        value: Seconds or milliseconds since the epoch, ISO 8601 (UTC without an offset), or a `datetime`.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e14:
        return None
    return value / 1000 if value >= _MILLISECONDS_FROM else float(value)


def used_places(score: Score | None) -> frozenset[int] | None:
    """Return the indexes of the chunks that an answer used, from 0, by the score `USE`; None: unknown."""
    if score is None or score.value is None:
        return None
    return frozenset(
        int(item.id.removeprefix("chunk-")) - 1
        for item in score.items
        if item.verdict and item.id.startswith("chunk-")
    )


class CorpusMemory:
    """Counts of retrieved chunks.

    Args:
        most: Most chunks that are counted; None: 5,000.

    Attributes:
        counts: The counts of the most retrieved chunks.
    """

    def __init__(self, most: int | None = None) -> None:
        self.counts = ChunkCounts() if most is None else ChunkCounts(most)
        self._n_requests = self._n_bad = 0
        self._facts = CorpusFacts()
        self._lock = fork.lock()

    def know(
        self,
        current: Mapping[str, str] | None,
        updated_at: Mapping[str, object] | None,
        older_than_s: float | None,
    ) -> None:
        """Replace the user's statements about the corpus.

        Raises:
            ConfigurationError: A value is not a text, a date or an age.
        """
        dates: dict[str, float] = {}
        for name, value in (updated_at or {}).items():
            date = as_seconds(value)
            if date is None:
                raise ConfigurationError(
                    f"chunks: updated_at of {name!r} is {value!r}; pass ISO 8601, a datetime or seconds"
                )
            dates[name] = date
        for name, value in (current or {}).items():
            if type(value) is not str or not value:
                raise ConfigurationError(
                    f"chunks: {name!r} is {value!r}; pass 'sha256:' and its text's hash, or its version"
                )
        if older_than_s is not None and not older_than_s > 0:
            raise ConfigurationError(f"chunks: older_than_s is {older_than_s!r}; pass seconds above 0")
        self._facts = CorpusFacts(current=dict(current or {}), updated_at=dates, older_than_s=older_than_s)

    def add(
        self, contexts: Iterable[RetrievedContext], *, at: float, bad: bool | None, used: Collection[int] | None
    ) -> None:
        """Count the chunks of a request, in the order in which the model got them.

        Args:
            contexts: The chunks.
            at: Arrival of the request, in seconds since the epoch.
            bad: Whether it counts as bad; None: unknown.
            used: The indexes of the chunks that the answer used, from 0; None: unknown.
        """
        with self._lock:
            seen: set[int] = set()
            for place, context in enumerate(contexts):
                # If texts are not captured, ids identify the chunks.
                name = context.text or (context.id and f"id {context.id}")
                if not name or (rank := rank_of(name)) in seen:
                    continue
                seen.add(rank)
                count = self.counts.get(rank) or self.counts.add(_count_of(rank, context, at))
                count.n += 1
                count.first_seen = min(count.first_seen, at)
                if at >= count.last_seen:
                    count.last_seen = at
                    if context.metadata:
                        _read_metadata(count, context)
                if used is not None:
                    count.seen_used += 1
                    count.used += place in used
                if place == 0 and bad is not None:
                    count.led += 1
                    count.bad += bad
            if seen and bad is not None:
                self._n_requests += 1
                self._n_bad += bad

    def merge(self, other: CorpusMemory) -> None:
        """Add the counts of another process or server; the order is irrelevant."""
        with self._lock:
            self.counts.merge(other.counts)
            self._n_requests += other._n_requests
            self._n_bad += other._n_bad

    def view(self, chunks: Sample[ChunkTerms], now: float | None = None) -> ChunkReport:
        """Return the lists.

        Args:
            chunks: The stored terms of the chunks' texts.
            now: Seconds since the epoch; None: the clock's.
        """
        with self._lock:
            return list_chunks(
                self.counts, chunks, self._facts,
                n_requests=self._n_requests, n_bad=self._n_bad, now=time.time() if now is None else now,
            )  # fmt: skip


def _count_of(rank: int, context: RetrievedContext, at: float) -> ChunkCount:
    text = context.text
    digest = sha256(text.encode("utf-8", "replace")).digest()
    count = ChunkCount(rank, context.id, " ".join(text[:_QUOTE_CHARS].split()), digest, at, at)
    _read_metadata(count, context)
    return count


def _read_metadata(count: ChunkCount, context: RetrievedContext) -> None:
    metadata = context.metadata
    count.versions = tuple(str(metadata[key])[:_QUOTE_CHARS] for key in _VERSIONS if key in metadata)
    dates = (as_seconds(metadata[key]) for key in _DATES if key in metadata)
    count.updated_at = next((date for date in dates if date is not None), None)
