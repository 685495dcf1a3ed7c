"""Store the data for the list of knowledge gaps: two samples of requests a day, and one of chunks.

Bounded: `DAYS` days of bad requests and as many others, `REQUESTS` on each of up to `FULL_DAYS`, and `CHUNKS`
chunks; less than 10 MB. Two memories merge into the one of all their requests, so processes, servers and days
result in one list. Locked: scores arrive on one thread, and callers read on another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain

from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import Score
from ragmeter.metrics._process import fork
from ragmeter.metrics.text.languages import language_of

from .chunks import ChunkTerms, read_chunk, topic_hashes
from .gap import MOST_EXAMINED, GapList, list_gaps
from .sample import Asked, Sample, rank_of

DAYS = 14
REQUESTS = 500
FULL_DAYS = 9
"""Days with full samples; with more days, each has a smaller one, as a list examines no more than
`MOST_EXAMINED` requests."""
CHUNKS = 2_000
_DAY_S = 86_400
_QUESTION_CHARS = 500
READ = ("lexical_context_relevance", "empty_retrieval", "refusal")
"""Scores that are read in addition to the verdict."""
_BAD = frozenset({"bad", "suspect"})


def is_bad(word: str | None, *, empty: bool = False, refused: bool = False) -> bool | None:
    """Return whether a request counts as bad; None: unknown.

    Args:
        word: Its verdict.
        empty: Whether nothing was retrieved.
        refused: Whether the answer refuses.
    """
    return True if word in _BAD or empty or refused else None if word is None else False


def asked_of(
    run_id: str,
    question: str | None,
    values: Mapping[str, float | None],
    word: str | None,
    *,
    at: float = 0.0,
    workflow: str = "",
) -> tuple[Asked, bool | None]:
    """Return the stored data of a request, and whether it counts as bad; None: unknown.

    Args:
        run_id: Its id.
        question: The search query.
        values: The measured values of `READ`.
        word: The verdict.
        at: Arrival, in seconds since the epoch.
        workflow: Its workflow.
    """
    refused = values.get("refusal") == 1.0
    bad = is_bad(word, empty=values.get("empty_retrieval") == 1.0, refused=refused)
    text = question or ""
    return (
        Asked(
            rank=rank_of(run_id),
            at=at,
            terms=topic_hashes(text),
            question=text[:_QUESTION_CHARS] if bad else None,
            language=language_of(text) if bad else None,
            refused=refused,
            relevance=values.get("lexical_context_relevance"),
            workflow=workflow,
        ),
        bad,
    )


def read_values(scores: Mapping[str, Score]) -> dict[str, float | None]:
    """Return the measured values of `READ`."""
    found = ((name, scores.get(name)) for name in READ)
    return {name: one.value for name, one in found if one is not None and one.status == "ok"}


class GapMemory:
    """Samples of the requests of the last days, and of the chunks that they retrieved.

    Args:
        requests: Most bad requests of a day to store, and most others; None: `REQUESTS`.
    """

    def __init__(self, requests: int | None = None) -> None:
        self._requests = REQUESTS if requests is None else requests
        self._days: dict[int, tuple[Sample[Asked], Sample[Asked]]] = {}
        self._chunks: Sample[ChunkTerms] = Sample(CHUNKS)
        self._lock = fork.lock()

    def add(self, asked: Asked, *, bad: bool) -> None:
        """Store a request, unless the sample of its day is full of smaller hashes.

        It replaces its earlier entry: the verdict of a late judge may differ.
        """
        with self._lock:
            day = math.floor(asked.at / _DAY_S)
            newest = max(self._days, default=day)
            if day <= newest - DAYS:
                return
            here = self._days.get(day)
            if here is None:
                here = self._days[day] = (Sample(self._requests), Sample(self._requests))
                self._trim()
            for earlier in filter(None, [side.discard(asked.rank) for side in here]):
                # Late results contain only the late scores.
                if asked.relevance is None:
                    asked = asked._replace(relevance=earlier.relevance)
                if earlier.refused:
                    asked, bad = asked._replace(refused=True), True
            here[0 if bad else 1].add(asked)

    def add_chunks(self, texts: Iterable[str]) -> None:
        """Store the terms of chunks, unless the sample is full of smaller hashes."""
        for text in texts:
            if self._chunks.is_wanted(rank_of(text)):
                chunk = read_chunk(text)
                with self._lock:
                    self._chunks.add(chunk)

    def add_run(self, scored: ScoredRun) -> bool | None:
        """Record a scored request; return whether it counts as bad, None: unknown."""
        run, sample = scored.run, scored.sample
        asked, bad = asked_of(
            run.run_id,
            sample.searched_for,
            read_values(scored.scores),
            None if scored.verdict is None else scored.verdict.word,
            at=run.started_ns / 1e9,
            workflow=run.name or "",
        )
        if bad is not None:
            self.add(asked, bad=bad)
            self.add_chunks(context.text for context in sample.contexts or ())
        return bad

    def chunks(self) -> Sample[ChunkTerms]:
        """Return a copy of the chunks in memory."""
        with self._lock:
            return Sample.union((self._chunks,), CHUNKS)

    def merge(self, other: GapMemory) -> None:
        """Add the samples of another process or server; for requests, the order is irrelevant."""
        with other._lock:
            theirs, chunks = dict(other._days), other._chunks
        with self._lock:
            for day, sides in theirs.items():
                own = self._days.get(day, (Sample[Asked](REQUESTS), Sample[Asked](REQUESTS)))
                bad, good = (Sample.union(both, REQUESTS) for both in zip(own, sides, strict=True))
                self._days[day] = bad, good
            self._trim()
            self._chunks = Sample.union((self._chunks, chunks), CHUNKS)

    def _trim(self) -> None:
        oldest = max(self._days, default=0) - DAYS
        self._days = {day: sides for day, sides in self._days.items() if day > oldest}
        size = self._requests * FULL_DAYS // max(FULL_DAYS, len(self._days))
        for side in chain.from_iterable(self._days.values()):
            side.shrink(size)

    def gaps(self, *, workflow: str | None = None) -> GapList:
        """Return the gaps among the stored requests; `workflow`: only of this workflow."""

        def is_counted(asked: Asked) -> bool:
            return workflow in (None, asked.workflow)

        with self._lock:
            days = list(self._days.values())
            bad, good = (
                Sample.union((day[side] for day in days), MOST_EXAMINED, is_counted) for side in (0, 1)
            )
            return list_gaps(bad, good, self._chunks)
