"""Bounds on the number of distinct names: up to what people can read; the others count together, as `OTHER`.

Names come from applications, and one that puts an id into a workflow's name would make the store and its
pages grow without end. So every name that a sender chooses, and that is counted or listed, passes through
here: `BOUNDS` lists all sorts of names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ragmeter.quality.segments import OTHER, segment_text

from ._database import Database

BOUNDS: Mapping[str, int] = {
    "service": 64,
    "environment": 20,
    "workflow": 50,
    "place": 100,
    "framework": 50,
    "status": 30,
    "score": 200,
    "judge": 50,
    "kind": 50,
    "score_status": 30,
    "error": 50,
    "reason": 50,
}
"""Most distinguished names of each sort. ``place``: workflows of services; ``kind``: judges and formulas of
each score; ``error``: why a score has no value; ``reason``: why a request was dropped."""
MAX_VALUES = 20
"""Most values of a segment. Metadata with more values is not a segment, but can still be searched."""
FORGOTTEN = "forgotten"
"""The sort of a single name, a number: how often names were deleted."""
OWN_SEGMENTS = frozenset({"language", "retriever"})
"""Segments that stay segments with any number of values: the first values are distinguished."""
MAX_SEGMENTS = 50
MAX_PARTS = 2_000
"""Most values of segments times workflows of services; segments with few values take precedence."""
MAX_SEGMENT_CHARS = 64
"""Most characters of a value; longer ones are texts, not names."""


class Names:
    """The names that the store distinguishes. For the writer, within its transaction.

    Other processes may add and delete names between two transactions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.refused: Counter[str] = Counter()
        self.forget()

    def forget(self) -> None:
        """Discard the records of the last transaction, which may not have been committed."""
        self._known: dict[str, set[str]] = {sort: set() for sort in BOUNDS}
        self._named: set[str] = set()
        self._values: dict[str, set[str]] = {}
        self._is_read = False
        self._is_current = False
        self._forgotten = -1

    def settle(self) -> None:
        """End a transaction: from now on other processes may add or delete names, too."""
        self._is_read = self._is_current = False

    def has(self, sort: str, name: str) -> bool:
        """Record a name; return whether it is distinguished. Counts the refused ones."""
        self.count_forgotten()
        known = self._known[sort]
        if self._is_in(known, BOUNDS[sort], name):
            return True
        if len(known) >= BOUNDS[sort]:
            self.refused[sort] += 1
            return False
        known.add(name)
        self._database.execute("INSERT INTO name VALUES (?, ?) ON CONFLICT DO NOTHING", (sort, name))
        return True

    def count_forgotten(self) -> int:
        """Return how often names were deleted to make room; queries once in a transaction."""
        if not self._is_current:
            times = times_forgotten(self._database)
            if times != self._forgotten:
                self.forget()
                self._forgotten = times
            self._is_current = True
        return self._forgotten

    def of(self, sort: str, name: str | None) -> str | None:
        """Return the name under which something is counted: the given one, or `OTHER`."""
        return name if not name or name == OTHER or self.has(sort, name) else OTHER

    def place(self, service: str | None, workflow: str | None) -> tuple[str | None, str | None]:
        """Return the names under which a service and its workflow are stored."""
        service, workflow = self.of("service", service), self.of("workflow", workflow)
        if workflow and workflow != OTHER and not self.has("place", json.dumps([service, workflow])):
            workflow = OTHER
        return service, workflow

    def note_segments(self, segments: Mapping[str, str], named: Iterable[str]) -> None:
        """Record the values of each segment; `named` are the segments declared by the application.

        Of metadata, one more than the bound is stored, to show that the bound is exceeded.
        """
        self.count_forgotten()
        for name in named:
            if not self._is_in(self._named, MAX_SEGMENTS, name) and len(self._named) < MAX_SEGMENTS:
                self._named.add(name)
                self._database.execute("INSERT INTO segment_name VALUES (?) ON CONFLICT DO NOTHING", (name,))
        for name, value in segments.items():
            is_one = name in OWN_SEGMENTS or name in self._named
            most = MAX_VALUES if is_one else MAX_VALUES + 1
            if name in self._values:
                if self._is_in(self._values[name], most, value):
                    continue
            elif len(self._values) < MAX_SEGMENTS:
                self._read()
            known = self._values.get(name)
            if known is None:
                if len(self._values) >= MAX_SEGMENTS:
                    continue
                known = self._values[name] = set()
            if value not in known and len(known) < most:
                known.add(value)
                self._database.execute(
                    "INSERT INTO segment VALUES (?, ?) ON CONFLICT DO NOTHING", (name, value)
                )

    def _is_in(self, known: set[str], most: int, name: str) -> bool:
        """Return whether a name is known, also to other writers if it is new and there is room."""
        if name not in known and len(known) < most:
            self._read()
        return name in known

    def _read(self) -> None:
        """Load the names of other writers, once in a transaction, during which there are no others."""
        if self._is_read:
            return
        self._is_read = True
        for sort, name in self._database.execute("SELECT sort, name FROM name"):
            if sort in self._known:
                self._known[sort].add(name)
        values, named = recorded_segments(self._database)
        self._named |= named
        for name, some in values.items():
            self._values.setdefault(name, set()).update(some)


def times_forgotten(database: Database) -> int:
    """Return how often names were deleted."""
    row = database.execute("SELECT name FROM name WHERE sort = ?", (FORGOTTEN,)).fetchone()
    return 0 if row is None else int(row[0])


class DistinctSegments(dict[str, frozenset[str]]):
    """The distinguished values, by segment.

    Attributes:
        named: Segments that stay segments with any number of values.
    """

    def __init__(self, values: Mapping[str, frozenset[str]], named: frozenset[str] = OWN_SEGMENTS) -> None:
        super().__init__(values)
        self.named = named

    def of(self, parts: Mapping[str, str]) -> Iterator[str]:
        """Yield the segments of a request as text: ``language:zh``."""
        for name, value in parts.items():
            known = self.get(name)
            if known is not None and value in known:
                yield segment_text(name, value)
            elif name in self.named:
                yield segment_text(name, OTHER)

    def only_named(self) -> DistinctSegments:
        """Return only the segments that stay segments with any number of values."""
        return DistinctSegments({name: some for name, some in self.items() if name in self.named}, self.named)


def recorded_segments(database: Database) -> tuple[dict[str, set[str]], set[str]]:
    """Return the recorded values by segment, and the names of segments that applications declared."""
    values: dict[str, set[str]] = {}
    for name, value in database.execute("SELECT name, value FROM segment"):
        values.setdefault(name, set()).add(value)
    return values, {name for (name,) in database.execute("SELECT name FROM segment_name")}


def distinct_segments(database: Database) -> DistinctSegments:
    """Return the segments, with their distinguished values."""
    values, named = recorded_segments(database)
    # Metadata may have had too many values before an application declared it as a segment.
    bounded = {
        name: frozenset(sorted(some)[:MAX_VALUES] if name in named else some)
        for name, some in values.items()
        if len(some) <= MAX_VALUES or name in named or name in OWN_SEGMENTS
    }
    (places,) = database.execute("SELECT count(*) FROM name WHERE sort = 'place'").fetchone()
    left = MAX_PARTS // max(1, places)
    chosen: dict[str, frozenset[str]] = {}
    for name in sorted(
        bounded, key=lambda name: (name not in OWN_SEGMENTS, name not in named, len(bounded[name]), name)
    ):
        left -= len(bounded[name])
        if left >= 0 or name in OWN_SEGMENTS:
            chosen[name] = bounded[name]
    return DistinctSegments(chosen, OWN_SEGMENTS | (named & chosen.keys()))
