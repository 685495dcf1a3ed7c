"""Which names are told apart: as many as people can look at. The others are counted together.

Names come from what applications send, and one that puts an id into the name of a workflow would make the store
and every page of it grow without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ragmeter.quality.segments import OTHER, segment_text

from ._database import Database

__all__ = [
    "MAX_SCORES",
    "MAX_SEGMENT_CHARS",
    "MAX_VALUES",
    "MAX_WORKFLOWS",
    "OTHER",
    "OWN_SEGMENTS",
    "Names",
    "ToldApart",
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


class Names:
    """The names that are known, of a store. For whoever writes, within its transaction.

    Args:
        database: What is written with. Others may have written names before, which are never deleted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.refused: Counter[str] = Counter()
        self.forget()

    def forget(self) -> None:
        """Forget them: what was just noted may not have been kept."""
        self._workflows: set[str] = set()
        self._scores: set[str] = set()
        self._named: set[str] = set()
        self._values: dict[str, set[str]] = {}
        self._is_read = False

    def settle(self) -> None:
        """End a transaction: from now on others may note names, too."""
        self._is_read = False

    def workflow(self, name: str | None) -> str | None:
        """Return the name that a workflow is kept under."""
        if not name or self._is_in(self._workflows, MAX_WORKFLOWS, name):
            return name
        if len(self._workflows) >= MAX_WORKFLOWS:
            self.refused["workflow"] += 1
            return OTHER
        self._workflows.add(name)
        self._database.execute("INSERT INTO workflow VALUES (?) ON CONFLICT DO NOTHING", (name,))
        return name

    def knows_score(self, name: str) -> bool:
        """Return whether a score of this name is kept; those beyond the bound are counted and left out."""
        if self._is_in(self._scores, MAX_SCORES, name):
            return True
        if len(self._scores) >= MAX_SCORES:
            self.refused["score"] += 1
            return False
        self._scores.add(name)
        self._database.execute("INSERT INTO score_name VALUES (?) ON CONFLICT DO NOTHING", (name,))
        return True

    def note_segments(self, segments: Mapping[str, str], named: Iterable[str]) -> None:
        """Note which values there are of each segment.

        Of metadata one more than the bound: so it is known that it is beyond it.

        Args:
            segments: The parts that a request belongs to, by name.
            named: Those that its application names.
        """
        for name in named:
            if not self._is_in(self._named, MAX_SEGMENTS, name) and len(self._named) < MAX_SEGMENTS:
                self._named.add(name)
                self._database.execute(
                    "INSERT INTO segment_name VALUES (?) ON CONFLICT DO NOTHING", (name,)
                )
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
        """Return whether a name is known, if need be to others that write."""
        if name not in known and len(known) < most:
            self._read()
        return name in known

    def _read(self) -> None:
        """Learn what others have noted; once in a transaction, as it is the only one meanwhile."""
        if self._is_read:
            return
        self._is_read = True
        for known, table in (
            (self._workflows, "workflow"),
            (self._scores, "score_name"),
            (self._named, "segment_name"),
        ):
            known.update(name for (name,) in self._database.execute(f"SELECT name FROM {table}"))
        for name, value in self._database.execute("SELECT name, value FROM segment"):
            self._values.setdefault(name, set()).add(value)


class ToldApart(dict[str, frozenset[str]]):
    """The values that are told apart, by segment.

    Attributes:
        named: Segments that are ones however many values they have.
    """

    def __init__(
        self, values: Mapping[str, frozenset[str]], named: frozenset[str] = OWN_SEGMENTS
    ) -> None:
        super().__init__(values)
        self.named = named

    def of(self, parts: Mapping[str, str]) -> Iterator[str]:
        """Yield the segments of a request as they are told: ``language:zh``."""
        for name, value in parts.items():
            known = self.get(name)
            if known is not None and value in known:
                yield segment_text(name, value)
            elif name in self.named:
                yield segment_text(name, OTHER)

    def only_named(self) -> ToldApart:
        """Return those alone that are ones however many values they have."""
        return ToldApart(
            {name: some for name, some in self.items() if name in self.named}, self.named
        )


def segments_told_apart(database: Database) -> ToldApart:
    """Return the segments that there are, with the values that are told apart."""
    values: dict[str, set[str]] = {}
    for name, value in database.execute("SELECT name, value FROM segment"):
        values.setdefault(name, set()).add(value)
    named = {name for (name,) in database.execute("SELECT name FROM segment_name")}
    # Metadata that an application has named since may have had too many values before.
    return ToldApart(
        {
            name: frozenset(sorted(some)[:MAX_VALUES] if name in named else some)
            for name, some in values.items()
            if len(some) <= MAX_VALUES or name in named
        },
        OWN_SEGMENTS | named,
    )
