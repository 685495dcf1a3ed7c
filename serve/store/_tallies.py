"""Requests counted by all that a list can be narrowed to, in one pass over a stretch of time."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ragmeter.metrics._process.bounded_table import BoundedTable

from ._database import Database
from ._rows import SLOT_MS, segments_of

_MOST_SLOTS = 2_100
"""Slots, a week, whose counts are remembered."""
_MOST_COUNTS = 20_000
"""Different requests in all of them together, 200 bytes each."""
_COLUMNS = (
    "r.codes, r.segments, r.metadata, r.verdict, r.language, r.service, r.workflow, r.retriever"
)


class Alike(NamedTuple):
    """What some requests have in common."""

    verdict: str
    """Empty: none."""
    codes: Sequence[str]
    service: str
    workflow: str
    parts: Mapping[str, str]
    """Values of the segments, by name."""

    def value(self, name: str) -> str:
        """Return what they have of a segment, under its name or its short one, a service or a workflow."""
        if name in ("service", "workflow"):
            return self.service if name == "service" else self.workflow
        short = name.removeprefix("metadata.")
        parts = self.parts
        return parts.get(name) or parts.get(short) or parts.get(f"metadata.{short}") or ""

    def all_parts(self) -> Iterator[tuple[str, str]]:
        """Yield the parts that they belong to."""
        yield "workflow", self.workflow
        yield from self.parts.items()


class Tallies:
    """Counts requests. Thread-safe: what slots had is remembered while nothing in them changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = BoundedTable[int, tuple[int, Counter[str]]](
            max_entries=_MOST_SLOTS, max_size=_MOST_COUNTS
        )

    def read(
        self, database: Database, where: str, given: Sequence[Any], from_ms: int, step_ms: int
    ) -> Iterator[tuple[Alike, Counter[int]]]:
        """Yield how many requests ``r`` are alike in each stretch of time, by its place.

        Args:
            database: A connection that reads.
            where: The condition on them, a stretch of time and more.
            given: Its arguments, the two ends first.
            from_ms: When the first stretch begins.
            step_ms: How long each is.
        """
        since, until = given[:2]
        found: dict[str, Counter[int]] = {}
        if len(given) > 2 or any(one % SLOT_MS for one in (since, from_ms, step_ms)):
            for place, alike, n in _slot_counts(database, where, given, from_ms, step_ms):
                found.setdefault(alike, Counter())[place] = n
        else:
            for slot, counts in self._slots(database, where, since, until).items():
                for alike, n in counts.items():
                    place = (slot * SLOT_MS - from_ms) // step_ms
                    found.setdefault(alike, Counter())[place] += n
        return ((_read(alike), over_time) for alike, over_time in found.items())

    def _slots(
        self, database: Database, where: str, since: int, until: int
    ) -> dict[int, Counter[str]]:
        """Return the counts of each slot; those that are not in memory are read together."""
        written = dict(
            database.execute(
                "SELECT slot, generation FROM slot WHERE slot >= ? AND slot < ?",
                (since // SLOT_MS, -(-until // SLOT_MS)),
            ).fetchall()
        )
        with self._lock:
            known = {slot: self._known.get(slot) for slot in written}
        found = {
            slot: each[1]
            for slot, each in known.items()
            if each is not None and each[0] == written[slot]
        }
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
    # Two values to group by take half as long as nine.
    return database.execute(
        f"SELECT (r.at - {from_ms}) / {step_ms}, {database.as_json.format(columns=_COLUMNS)}, count(*) "
        f"FROM request r WHERE {where} GROUP BY 1, 2",
        given,
    )


@lru_cache(maxsize=4096)
def _read(alike: str) -> Alike:
    codes, named, metadata, verdict, language, service, workflow, retriever = json.loads(alike)
    parts = segments_of(
        language, retriever, json.loads(metadata or "{}"), json.loads(named or "{}")
    )
    reasons = tuple(json.loads(codes or "[]"))
    return Alike(verdict or "", reasons, service or "", workflow or "", parts)
