"""Delete unused names to make room for new ones, once a bound is reached.

Sums of hours whose requests were deleted may still have such a name, a judge or a segment; `Known` maps it to
the name it is now counted under when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from ragmeter.quality.segments import OTHER, segment_text

from ._database import Database
from ._names import (
    BOUNDS,
    FORGOTTEN,
    MAX_SEGMENTS,
    MAX_VALUES,
    distinct_segments,
    recorded_segments,
    times_forgotten,
)
from ._parts import SHARE_KINDS, UNKNOWN_DEFINITION, Kind
from ._rows import kinds_of, stored_segments

_USES: Mapping[str, str] = {
    "service": "SELECT service FROM request UNION SELECT service FROM dropped",
    "environment": "SELECT DISTINCT environment FROM request",
    "workflow": "SELECT DISTINCT workflow FROM request",
    "framework": "SELECT DISTINCT framework FROM request",
    "status": "SELECT DISTINCT status FROM request",
    "score": "SELECT DISTINCT name FROM score",
    "judge": "SELECT DISTINCT judge FROM kind WHERE id IN (SELECT kind FROM score)",
    "score_status": "SELECT DISTINCT status FROM score",
    "error": "SELECT DISTINCT error_type FROM score",
    "reason": "SELECT DISTINCT reason FROM dropped",
}
"""Queries for the used names of each sort. A place is deleted with its service or workflow; a kind with its
score or judge, or if its score has too many."""


class Known(NamedTuple):
    """The names that are distinguished."""

    services: frozenset[str]
    workflows: frozenset[str]
    scores: frozenset[str]
    kinds: frozenset[Kind]
    segments: frozenset[str]
    """Segments as text, ``language:zh``."""
    named: frozenset[str]
    """Segments whose other values are counted together as `OTHER`; values of any other segment are dropped."""

    def place(self, service: str, workflow: str, segment: str) -> tuple[str, str, str] | None:
        """Return the names under which a group of requests is counted, or None if its segment is dropped."""
        if segment and segment not in self.segments:
            others = [name for name in self.named if segment.startswith(f"{name}:")]
            if not others:
                return None
            segment = segment_text(max(others, key=len), OTHER)
        return (
            service if service in self.services else OTHER,
            workflow if workflow in self.workflows else OTHER,
            segment,
        )

    def kind(self, kind: Kind | None) -> Kind | None:
        """Return the kind under which scores of this kind are counted."""
        if kind is None or kind.definition == UNKNOWN_DEFINITION or kind in self.kinds:
            return kind
        return kind.among_others()


def known_names(database: Database) -> Known:
    """Return the names that are distinguished now."""
    known: dict[str, set[str]] = {"service": {"", OTHER}, "workflow": {"", OTHER}, "score": {*SHARE_KINDS}}
    for sort, name in database.execute(
        "SELECT sort, name FROM name WHERE sort = 'service' OR sort = 'workflow' OR sort = 'score'"
    ):
        known[sort].add(name)
    distinct = distinct_segments(database)
    segments = {segment_text(name, value) for name, values in distinct.items() for value in values}
    segments |= {segment_text(name, OTHER) for name in distinct.named}
    return Known(
        frozenset(known["service"]),
        frozenset(known["workflow"]),
        frozenset(known["score"]),
        frozenset({*kinds_of(database).values(), *SHARE_KINDS.values()}),
        frozenset(segments),
        distinct.named,
    )


def forget_unused(database: Database) -> None:
    """Delete names that no stored request uses, if there is no room for new ones."""
    known: dict[str, set[str]] = {sort: set() for sort in (*BOUNDS, FORGOTTEN)}
    for sort, name in database.execute("SELECT sort, name FROM name"):
        known[sort].add(name)
    gone: dict[str, set[str]] = {}
    for sort, uses in _USES.items():
        if len(known[sort]) >= BOUNDS[sort]:
            gone[sort] = known[sort] - {name for (name,) in database.execute(uses)}
    services, workflows = gone.get("service", set()), gone.get("workflow", set())
    gone["place"] = {
        place
        for place in known["place"]
        if (pair := json.loads(place)) and (pair[0] in services or pair[1] in workflows)
    }
    rows = [(sort, name) for sort, names in gone.items() for name in names]
    database.executemany("DELETE FROM name WHERE sort = ? AND name = ?", rows)
    database.executemany("DELETE FROM appearance WHERE service = ?", [(one,) for one in services])
    kinds = _unused_kinds(database, gone.get("score", set()), gone.get("judge", set()))
    database.executemany("DELETE FROM kind WHERE id = ?", [(number,) for number in kinds])
    if _forget_segments(database) or rows or kinds:
        times = times_forgotten(database) + 1
        database.execute("DELETE FROM name WHERE sort = ?", (FORGOTTEN,))
        database.execute("INSERT INTO name VALUES (?, ?)", (FORGOTTEN, str(times)))


def _unused_kinds(database: Database, scores: set[str], judges: set[str]) -> list[int]:
    """Return the ids of unused kinds: of deleted scores and judges, and of scores with too many kinds."""
    kinds = kinds_of(database)
    count: dict[str, int] = {}
    for kind in kinds.values():
        count[kind.name] = count.get(kind.name, 0) + 1
    found = {
        number
        for number, kind in kinds.items()
        if kind.name in scores or kind.judge in judges or count[kind.name] >= BOUNDS["kind"]
    }
    if found:
        found -= {number for (number,) in database.execute("SELECT DISTINCT kind FROM score")}
    return sorted(found)


def _forget_segments(database: Database) -> bool:
    """Delete unused values of segments that are full; return whether there were any."""
    values, named = recorded_segments(database)
    is_crowded = max(len(values), len(named)) >= MAX_SEGMENTS
    full = {name for name, some in values.items() if is_crowded or len(some) >= MAX_VALUES}
    full |= named if is_crowded else set()
    left = {name: values.get(name, set()) for name in full}
    unused_names = set(named) if is_crowded else set()
    if full:
        for language, retriever, metadata, segments in database.execute(
            "SELECT language, retriever, metadata, segments FROM request ORDER BY id DESC"
        ):
            unused_names -= json.loads(segments or "{}").keys()
            for name, value in stored_segments(language, retriever, metadata, segments).items():
                if name in left:
                    left[name].discard(value)
                    if not left[name] and name not in unused_names:
                        del left[name]  # all of it is in use: the newest requests have most of it
            if not left:
                break
    rows = [(name, value) for name, some in left.items() for value in some]
    database.executemany("DELETE FROM segment WHERE name = ? AND value = ?", rows)
    database.executemany("DELETE FROM segment_name WHERE name = ?", [(one,) for one in unused_names])
    return bool(rows or unused_names)
