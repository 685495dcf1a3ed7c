"""Counts of requests by everything a list can be filtered by, in one pass over a period."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ragmeter.metrics._process.bounded_table import BoundedTable

from ._database import Database
from ._rows import SLOT_MS, stored_segments

OF_PERIOD = "r.at >= ? AND r.at < ?"
"""The SQL condition on requests of a period."""
_MOST_SLOTS = 2_100
"""Most cached slots, a week."""
_MOST_COUNTS = 20_000
"""Most distinct kinds of requests in all cached slots together, 200 bytes each."""
ALIKE = "r.codes, r.segments, r.metadata, r.verdict, r.language, r.service, r.workflow, r.retriever"
"""The columns that `alike_of` reads, as one JSON array."""
WORDS = ("bad", "suspect", "good", "")
"""The verdicts in the order of `VerdictBins`; empty: none."""


class Alike(NamedTuple):
    """The common properties of some requests."""

    verdict: str
    """Empty: no verdict."""
    codes: Sequence[str]
    service: str
    workflow: str
    parts: Mapping[str, str]
    """Values of the segments, by name."""

    def value(self, name: str) -> str:
        """Return the requests' service, workflow, or value of a segment, by its full or short name."""
        if name in ("service", "workflow"):
            return self.service if name == "service" else self.workflow
        short = name.removeprefix("metadata.")
        parts = self.parts
        return parts.get(name) or parts.get(short) or parts.get(f"metadata.{short}") or ""


class VerdictBins:
    """Numbers of requests by time and verdict."""

    def __init__(self, count: int) -> None:
        self._bins = [[0] * len(WORDS) for _ in range(count)]

    def add(self, place: int, verdict: str | None, n: int = 1) -> None:
        """Count requests; those before the first or after the last bin count in that."""
        self._bins[min(len(self._bins) - 1, max(0, place))][WORDS.index(verdict or "")] += n

    def view(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return the numbers of bad, suspect and good requests, and of those without a verdict, of each bin."""
        return tuple((bad, suspect, good, none) for bad, suspect, good, none in self._bins)


class Tallies:
    """Counts requests. Thread-safe: the counts of a slot are cached while nothing in it changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = BoundedTable[int, tuple[int, Counter[str]]](
            max_entries=_MOST_SLOTS, max_size=_MOST_COUNTS
        )

    def read(
        self, database: Database, where: str, given: Sequence[Any], from_ms: int, step_ms: int
    ) -> Iterator[tuple[Alike, Counter[int]]]:
        """Yield groups of requests ``r`` that are alike, with their number in each bin, by the bin's index.

        `where` is `OF_PERIOD`, alone or with more; the ends of the period come first among its arguments.
        """
        since, until = given[:2]
        found: dict[str, Counter[int]] = {}
        # A search and a gap narrow by a table, and so add no argument.
        if where != OF_PERIOD or any(one % SLOT_MS for one in (since, from_ms, step_ms)):
            for place, alike, n in _slot_counts(database, where, given, from_ms, step_ms):
                found.setdefault(alike, Counter())[place] = n
        else:
            for slot, counts in self._slots(database, where, since, until).items():
                for alike, n in counts.items():
                    place = (slot * SLOT_MS - from_ms) // step_ms
                    found.setdefault(alike, Counter())[place] += n
        return ((alike_of(alike), over_time) for alike, over_time in found.items())

    def _slots(self, database: Database, where: str, since: int, until: int) -> dict[int, Counter[str]]:
        """Return the counts of each slot; uncached ones are read together."""
        written = dict(
            database.execute(
                "SELECT slot, generation FROM slot WHERE slot >= ? AND slot < ?",
                (since // SLOT_MS, -(-until // SLOT_MS)),
            ).fetchall()
        )
        with self._lock:
            known = {slot: self._known.get(slot) for slot in written}
        found = {slot: each[1] for slot, each in known.items() if each is not None and each[0] == written[slot]}
        missing = written.keys() - found.keys()
        if not missing:
            return found
        first, end = min(missing) * SLOT_MS, min(until, (max(missing) + 1) * SLOT_MS)
        fresh: dict[int, Counter[str]] = {slot: Counter() for slot in missing}
        for slot, alike, n in _slot_counts(database, where, (first, end), 0, SLOT_MS):
            if slot in fresh:
                fresh[slot][alike] = n
        with self._lock:
            for slot, counts in fresh.items():
                if (slot + 1) * SLOT_MS <= end:
                    self._known.put(slot, (written[slot], counts), len(counts))
        return found | fresh


def _slot_counts(
    database: Database, where: str, given: Sequence[Any], from_ms: int, step_ms: int
) -> Iterable[tuple[int, str, int]]:
    # Grouping by two values takes half as long as by nine.
    counts: Iterable[tuple[int, str, int]] = database.execute(
        f"SELECT (r.at - {from_ms}) / {step_ms}, {database.as_json.format(columns=ALIKE)}, count(*) "
        f"FROM request r WHERE {where} GROUP BY 1, 2",
        given,
    )
    return counts


@lru_cache(maxsize=4096)
def alike_of(columns: str) -> Alike:
    """Return the properties of requests, from their columns `ALIKE`."""
    codes, named, metadata, verdict, language, service, workflow, retriever = json.loads(columns)
    parts = stored_segments(language, retriever, metadata, named)
    reasons = tuple(json.loads(codes or "[]"))
    return Alike(verdict or "", reasons, service or "", workflow or "", parts)
