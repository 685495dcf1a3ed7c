"""The rows that are already scored, with their measurements, in a private database on disk."""

from __future__ import annotations

from ragmeter.metrics._files.scratch_database import scratch_database


class KnownRows:
    """The measurements of each scored row."""

    def __init__(self) -> None:
        self._database = scratch_database(self)
        self._database.execute("CREATE TABLE known (row BLOB PRIMARY KEY, measured INTEGER) WITHOUT ROWID")
        self._numbers: dict[frozenset[str], int] = {}
        self._measured: list[frozenset[str]] = []

    def of(self, key: bytes) -> frozenset[str]:
        """Return the measurements of a row; an empty set for an unscored one."""
        query = "SELECT measured FROM known WHERE row = ?"
        found = self._database.execute(query, (key,)).fetchone()
        return frozenset() if found is None else self._measured[found[0]]

    def add(self, key: bytes, measured: frozenset[str]) -> None:
        """Add measurements of a row."""
        everything = self.of(key) | measured
        number = self._numbers.setdefault(everything, len(self._numbers))
        if number == len(self._measured):
            self._measured.append(everything)
        self._database.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (key, number))
