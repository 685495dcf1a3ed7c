"""Which names are told apart: as many as people can look at. The others are counted together.

Names come from what applications send, and one that puts an id into the name of a workflow would make the store
and every page of it grow without end.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping

__all__ = [
    "MAX_SCORES",
    "MAX_SEGMENT_CHARS",
    "MAX_VALUES",
    "MAX_WORKFLOWS",
    "OTHER",
    "OWN_SEGMENTS",
    "Names",
    "segments_told_apart",
]

MAX_SCORES = 200
MAX_WORKFLOWS = 50
MAX_VALUES = 20
"""Values of one segment. Metadata of more values is no segment, but can be looked for all the same."""
OWN_SEGMENTS = frozenset({"language", "retriever"})
"""Segments that are ones however many values they have: the first are told apart."""
MAX_SEGMENTS = 50
MAX_SEGMENT_CHARS = 64
"""Characters of a value; longer ones are texts, not names."""
OTHER = "other"


class Names:
    """The names that are known, of a file. For the one writer."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.refused: Counter[str] = Counter()
        self.forget()

    def forget(self) -> None:
        """Read them again: what was just noted may not have been kept."""
        self._workflows = self._read("workflow")
        self._scores = self._read("score_name")
        self._values: dict[str, set[str]] = {}
        for name, value in self._database.execute("SELECT name, value FROM segment"):
            self._values.setdefault(name, set()).add(value)

    def workflow(self, name: str | None) -> str | None:
        """Return the name that a workflow is kept under."""
        if not name or name in self._workflows:
            return name
        if len(self._workflows) >= MAX_WORKFLOWS:
            self.refused["workflow"] += 1
            return OTHER
        self._workflows.add(name)
        self._database.execute("INSERT OR IGNORE INTO workflow VALUES (?)", (name,))
        return name

    def knows_score(self, name: str) -> bool:
        """Return whether a score of this name is kept; those beyond the bound are counted and left out."""
        if name in self._scores:
            return True
        if len(self._scores) >= MAX_SCORES:
            self.refused["score"] += 1
            return False
        self._scores.add(name)
        self._database.execute("INSERT OR IGNORE INTO score_name VALUES (?)", (name,))
        return True

    def note_segments(self, segments: Mapping[str, str]) -> None:
        """Note which values there are of each segment.

        Of metadata one more than the bound: so it is known that it is beyond it.
        """
        for name, value in segments.items():
            known = self._values.get(name)
            if known is None:
                if len(self._values) >= MAX_SEGMENTS:
                    continue
                known = self._values[name] = set()
            most = MAX_VALUES if name in OWN_SEGMENTS else MAX_VALUES + 1
            if value not in known and len(known) < most:
                known.add(value)
                self._database.execute("INSERT OR IGNORE INTO segment VALUES (?, ?)", (name, value))

    def _read(self, table: str) -> set[str]:
        return {name for (name,) in self._database.execute(f"SELECT name FROM {table}")}


def segments_told_apart(database: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Return the segments that there are, with the values that are told apart."""
    values: dict[str, set[str]] = {}
    for name, value in database.execute("SELECT name, value FROM segment"):
        values.setdefault(name, set()).add(value)
    return {name: frozenset(some) for name, some in values.items() if len(some) <= MAX_VALUES}
