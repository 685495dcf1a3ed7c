"""The lists of chunks that `ragmeter.RagMeter.chunks` and ``/api/chunks`` show.

Not detected: contradictions in other words, negations and names; use that has no words in common with the
answer; the age of chunks whose store gives no date. A chunk on the bad list may be innocent: it ranked first
because the right one was missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from ragmeter.metrics._display.wording import percent
from ragmeter.quality.gaps.chunks import ChunkTerms
from ragmeter.quality.gaps.grouping import binomial_tail
from ragmeter.quality.gaps.sample import WHOLE, Sample

from .conflicts import find_conflicts, overlap
from .counts import ChunkCount, ChunkCounts

LEAST_LED = 4
LEAST_SEEN = 20
LEVEL = 0.05
_ONE_VERSION = 0.7
"""Least share of common words for two texts with one id to be versions of one chunk."""
_DAY_S = 86_400.0
_MOST_LISTED = 50
Reason = Literal["hash", "version", "two_texts", "old"]


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """The user's statements about the corpus."""

    current: Mapping[str, str] = field(default_factory=dict)
    """By id of a chunk: ``sha256:`` and the hash of its text, or its metadata's version, etag or hash."""
    updated_at: Mapping[str, float] = field(default_factory=dict)
    """By id, the time of the last change, in seconds since the epoch."""
    older_than_s: float | None = None
    """Least age of a stale chunk; None: no chunk is too old."""


@dataclass(frozen=True, slots=True)
class SeenChunk:
    """A chunk with counts of the requests that retrieved it."""

    id: str | None
    """Its id in the store; None: unknown."""
    quote: str
    """Beginning of its text."""
    n: int
    """Requests that retrieved it."""
    led: int
    """Requests with a verdict in which it ranked first."""
    bad: int
    """Those of them that count as bad."""
    seen_used: int
    """Requests for which the chunks used by the answer are known."""
    used: int
    """Those of them whose answer used it."""
    last_seen: float
    """Last retrieval, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ChunkConflict:
    """Two chunks that make the same statement with another number or month."""

    chunks: tuple[SeenChunk | None, SeenChunk | None]
    """None: too rare to be counted."""
    sentences: tuple[str, str]
    """The conflicting sentence of each."""
    figures: tuple[str, str]
    """The first figure in which they differ."""


@dataclass(frozen=True, slots=True)
class StaleChunk:
    """A chunk that is outdated or no longer in the corpus in this form."""

    chunk: SeenChunk
    reason: Reason
    """Reason: another ``hash`` or ``version``, ``two_texts`` with one id within a day, or too ``old``."""


@dataclass(frozen=True, kw_only=True)
class ChunkReport:
    """Statistics of the chunks that requests retrieved."""

    bad: tuple[SeenChunk, ...]
    """Chunks that rank first in bad requests more often than by chance."""
    unused: tuple[SeenChunk, ...]
    """Chunks in at least 20 prompts that no answer used."""
    conflicts: tuple[ChunkConflict, ...]
    """Pairs that make the same statement with other numbers or months."""
    stale: tuple[StaleChunk, ...]
    """Chunks that are no longer current."""
    n_requests: int
    """Requests with a verdict and a chunk."""
    n_bad: int
    """Those of them that count as bad."""
    n_chunks: int
    """Distinct chunks that are counted."""
    n_compared: int
    """Distinct chunks that were compared for conflicts."""
    compares_all: bool
    """Whether these are all retrieved chunks; else a sample."""
    undated: float | None
    """Share of the chunks without a date; None: no chunks."""
    unverified: float | None
    """Share of the chunks whose current hash or version is unknown."""

    def __str__(self) -> str:
        lines = [
            f"{one.bad} of {one.led} requests went badly where this chunk stood first: {_text_of(one)}"
            for one in self.bad
        ]
        lines += [f"in {one.seen_used} prompts and never used: {_text_of(one)}" for one in self.unused]
        lines += [
            f"{one.figures[0]} or {one.figures[1]}: {one.sentences[0]!r}, {one.sentences[1]!r}"
            for one in self.conflicts
        ]
        lines += [f"stale ({one.reason}): {_text_of(one.chunk)}" for one in self.stale]
        if self.undated is None or self.unverified is None:
            return "no chunk was seen yet"
        unknown = (
            f"no date for {percent(self.undated)} of the chunks, "
            f"no current hash or version for {percent(self.unverified)}"
        )
        lines = lines or [f"nothing stands out among {self.n_chunks} chunks"]
        return "\n".join([*lines, unknown])


def list_chunks(
    counts: ChunkCounts,
    chunks: Sample[ChunkTerms],
    facts: CorpusFacts,
    *,
    n_requests: int,
    n_bad: int,
    now: float,
) -> ChunkReport:
    """Build the report.

    Args:
        counts: The counts of the most retrieved chunks.
        chunks: The stored terms of the chunks' texts.
        facts: The user's statements about the corpus.
        n_requests: Requests with a verdict and a chunk.
        n_bad: Those of them that count as bad.
        now: Seconds since the epoch.
    """
    every = list(counts.all())
    compared = list(chunks.items())
    led = [one for one in every if one.led >= LEAST_LED]
    base = n_bad / n_requests if n_requests else 0.0
    bad = [
        one for one in led
        if one.bad > base * one.led and binomial_tail(one.bad, one.led, base) <= LEVEL / len(led)
    ]  # fmt: skip
    unused = [one for one in every if one.seen_used >= LEAST_SEEN and not one.used]
    dated = [one for one in every if _date(one, facts) is not None]
    verified = [one for one in every if one.id in facts.current]
    return ChunkReport(
        bad=tuple(map(_view_of, sorted(bad, key=lambda one: (-one.bad, one.rank))[:_MOST_LISTED])),
        unused=tuple(map(_view_of, unused[:_MOST_LISTED])),
        conflicts=tuple(_conflicts(counts, compared))[:_MOST_LISTED],
        stale=tuple(_stale(every, compared, facts, now))[:_MOST_LISTED],
        n_requests=n_requests,
        n_bad=n_bad,
        n_chunks=len(every),
        n_compared=len(compared),
        compares_all=chunks.limit == WHOLE,
        undated=1 - len(dated) / len(every) if every else None,
        unverified=1 - len(verified) / len(every) if every else None,
    )


def _view_of(one: ChunkCount) -> SeenChunk:
    return SeenChunk(one.id, one.quote, one.n, one.led, one.bad, one.seen_used, one.used, one.last_seen)


def _text_of(one: SeenChunk) -> str:
    return f"{one.id}: {one.quote!r}" if one.id else repr(one.quote)


def _conflicts(counts: ChunkCounts, compared: list[ChunkTerms]) -> list[ChunkConflict]:
    found = []
    for one in find_conflicts(compared):
        a, b = (counts.get(rank) for rank in one.ranks)
        pair = (None if a is None else _view_of(a), None if b is None else _view_of(b))
        found.append(
            (-(a.n if a else 0) - (b.n if b else 0), one.ranks, ChunkConflict(pair, one.texts, one.figures))
        )
    return [one for *_, one in sorted(found, key=lambda each: each[:2])]


def _date(one: ChunkCount, facts: CorpusFacts) -> float | None:
    given = facts.updated_at.get(one.id or "")
    return one.updated_at if given is None else given


def _stale(
    every: list[ChunkCount], compared: list[ChunkTerms], facts: CorpusFacts, now: float
) -> list[StaleChunk]:
    replaced = _replacements(every, compared)
    found: list[StaleChunk] = []
    for one in every:
        reason: Reason | None = _reason_of(one, facts)
        if reason is None and one.rank in replaced:
            reason = "two_texts"
        date = _date(one, facts)
        limit = facts.older_than_s
        if reason is None and limit is not None and date is not None and now - date > limit:
            reason = "old"
        if reason is not None:
            found.append(StaleChunk(_view_of(one), reason))
    return found


def _reason_of(one: ChunkCount, facts: CorpusFacts) -> Reason | None:
    expected = facts.current.get(one.id or "")
    if expected is None:
        return None
    kind, _, digest = expected.partition(":")
    if kind.lower() == "sha256":
        return None if digest.lower() == one.digest.hex() else "hash"
    return "version" if one.versions and expected not in one.versions else None


def _replacements(every: list[ChunkCount], compared: list[ChunkTerms]) -> set[int]:
    """Return the chunks that occurred with another text under the same id within a day."""
    by_id: defaultdict[str, list[ChunkCount]] = defaultdict(list)
    for one in every:
        if one.id is not None:
            by_id[one.id].append(one)
    terms = {chunk.rank: chunk for chunk in compared}
    found: set[int] = set()
    for versions in by_id.values():
        ordered = sorted(versions, key=lambda one: (one.first_seen, one.rank))
        for old, new in combinations(ordered[:_MOST_LISTED], 2):
            both = terms.get(old.rank), terms.get(new.rank)
            if (
                both[0] is not None
                and both[1] is not None
                and old.last_seen >= new.first_seen - _DAY_S
                and overlap(both[0], both[1]) >= _ONE_VERSION
            ):
                found.add(old.rank)
    return found
