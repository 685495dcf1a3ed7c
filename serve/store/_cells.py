"""Sums over requests: their number, outcomes and scores, by workflow and segment.

The `Cells` of two periods add up to those of both, so the overview of a day is assembled from hours that were
summed once. Values of two judges, or of two formulas, are in two cells, as `Kind.measurement` distinguishes
them: they have no common mean. The sums are those of `ragmeter.quality.moments`.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

from ragmeter.quality.moments import FreeMoments, JudgedMoments

from ._forgetting import Known
from ._parts import Kind

BINS = 20
"""Number of equal parts of a score's range in which values are counted, for percentiles."""


class GroupKey(NamedTuple):
    """The key of requests that are counted together."""

    service: str
    workflow: str
    segment: str
    """``name:value``; empty: all requests of the workflow."""


class CellKey(NamedTuple):
    """The key of scores that are counted together."""

    service: str
    workflow: str
    segment: str
    score: str
    measurement: str = ""
    """Identifies formula and judge, as `Kind.measurement`; empty: not measured."""


class Keep(NamedTuple):
    """A choice of scores. Counts of requests are kept for all segments."""

    segments: frozenset[str] | None = None
    """The chosen segments, the empty one being the whole; None: all."""
    scores: frozenset[str] | None = None
    """The chosen scores by name; None: all."""
    named: str = ""
    """Name of a segment all of whose values are chosen, too."""
    service: str | None = None
    """The only service to choose, also for the counts of requests; None: all. `Sums` caches without this
    choice."""

    def has(self, segment: str, score: str) -> bool:
        """Return whether a score is chosen."""
        return (self.scores is None or score in self.scores) and self.has_part(segment)

    def has_part(self, segment: str) -> bool:
        """Return whether the scores of a segment are chosen."""
        if self.segments is None or segment in self.segments:
            return True
        return bool(self.named) and segment.startswith(f"{self.named}:")

    @property
    def shared(self) -> Keep:
        """The wider choice under which results are cached, to serve other choices of the same segments."""
        segments = None if self.segments is None else self.segments | {""}
        return Keep(segments, named=self.named)


ALL = Keep()
"""Chooses every score."""
WHOLE = Keep(frozenset({""}))
"""Chooses the scores of whole services and workflows."""


class Cell:
    """One score of one group of requests, as one judge or formula measured it."""

    __slots__ = ("bins", "kind", "moments", "statuses")

    def __init__(self, kind: Kind | None) -> None:
        self.kind = kind
        self.statuses: Counter[str] = Counter()
        self.bins = [0] * BINS
        self.moments: FreeMoments | JudgedMoments = (
            JudgedMoments() if kind is not None and kind.judged else FreeMoments()
        )

    @property
    def is_quality(self) -> bool:
        """Whether the score has a direction and a bounded range, so that one value is better than another."""
        kind = self.kind
        return (
            kind is not None
            and kind.direction != "none"
            and kind.lowest is not None
            and kind.highest is not None
        )

    def add(self, other: Cell) -> None:
        """Add the counts of another cell."""
        if self.kind is None and other.kind is not None:
            fresh = Cell(other.kind)
            fresh.statuses = self.statuses
            self.kind, self.moments = fresh.kind, fresh.moments
        _add_counts(self.statuses, other.statuses)
        self.bins = [one + two for one, two in zip(self.bins, other.bins, strict=True)]
        if type(self.moments) is type(other.moments):
            self.moments.add(other.moments.values())


def sum_of(one: Cell | None, other: Cell) -> Cell:
    """Return the sum of two cells, neither of which changes; of a single one, that itself."""
    if one is None:
        return other
    whole = Cell(one.kind)
    whole.add(one)
    whole.add(other)
    return whole


def _add_counts(to: Counter[str], more: Mapping[str, int]) -> None:
    # Many times faster than `Counter.update`, which a page would call tens of thousands of times.
    for name, n in more.items():
        to[name] = to.get(name, 0) + n


Home = dict[tuple[str, str], Cell]
"""Cells by score and measurement."""


class Cells:
    """Counts of requests, and cells of scores, by group."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Counter[str]] = {}
        self.scores: dict[CellKey, Cell] = {}

    def add(self, other: Cells, keep: Keep = ALL) -> None:
        """Add other cells, of their scores only the chosen ones."""
        everyone, service = keep.service is None, keep.service
        for group, counts in other.groups.items():
            if everyone or group.service == service:
                _add_counts(self.groups.setdefault(group, Counter()), counts)
        for key, cell in other.scores.items():
            if not (everyone or key.service == service) or not keep.has(key.segment, key.score):
                continue
            mine = self.scores.get(key)
            if mine is None:
                mine = self.scores[key] = Cell(cell.kind)
            mine.add(cell)

    def known(self, known: Known) -> Cells:
        """Return a copy with undistinguished names as `OTHER`, and without scores of undistinguished names."""
        cells = Cells()
        places = {group: known.place(*group) for group in self.groups}
        for group, counts in self.groups.items():
            place = places[group]
            if place is not None:
                cells.groups.setdefault(GroupKey(*place), Counter()).update(counts)
        for key, cell in self.scores.items():
            place = places[GroupKey(*key[:3])]
            if place is not None and key.score in known.scores:
                kind = known.kind(cell.kind)
                where = CellKey(*place, key.score, measurement(kind))
                cells.scores.setdefault(where, Cell(kind)).add(cell)
        return cells

    def pack(self) -> bytes:
        """Serialise the cells as JSON texts, a line each: kinds; of each group key and counts, then scores."""
        number = {kind: place for place, kind in enumerate({one.kind: None for one in self.scores.values()})}
        scores: dict[GroupKey, list[object]] = {group: [] for group in self.groups}
        for key, cell in self.scores.items():
            sums = zip(cell.moments.names, cell.moments.values(), strict=True)
            # The measurement in a key follows from the kind.
            scores[GroupKey(*key[:3])].append(
                [
                    key.score,
                    number[cell.kind],
                    cell.statuses,
                    [part for place, n in enumerate(cell.bins) if n for part in (place, n)],
                    {name: value for name, value in sums if value},
                ]
            )
        lines: list[object] = [[*number]]
        for group, counts in self.groups.items():
            lines += [*group, counts], scores[group]
        return zlib.compress("\n".join(map(json.dumps, lines)).encode())

    @classmethod
    def unpack(cls, data: bytes, keep: Keep = ALL) -> Cells:
        """Deserialise the result of `pack`, and of its scores the chosen ones; others are not parsed."""
        cells = cls()
        first, *lines = zlib.decompress(data).decode().split("\n")
        if not lines:
            first, *lines = _lines_of(*json.loads(first))
        kinds = [None if kind is None else _kind(*kind) for kind in json.loads(first)]
        for head, scores in zip(lines[::2], lines[1::2], strict=True):
            *group, counts = json.loads(head)
            # Shared names and kinds halve the memory of many hours.
            place = GroupKey(*map(intern, group))
            cells.groups[place] = Counter(counts)
            for name, number, statuses, bins, sums in (
                json.loads(scores) if keep.has_part(place.segment) else ()
            ):
                if not keep.has(place.segment, name):
                    continue
                kind = kinds[number]
                cell = cells.scores[CellKey(*place, intern(name), measurement(kind))] = Cell(kind)
                cell.statuses = Counter(statuses)
                for part, n in zip(bins[::2], bins[1::2], strict=True):
                    cell.bins[part] = n
                # A sum that an earlier version did not have is 0.
                cell.moments.add([sums.get(each, 0.0) for each in cell.moments.names])
        return cells


def _lines_of(groups: Sequence[Any] = (), scores: Sequence[Any] = ()) -> Sequence[str]:
    """Return the lines of cells that a store before version 12 packed as a list of groups and one of scores."""
    lines: dict[GroupKey, list[Any]] = {GroupKey(*group): [] for *group, _ in groups}
    for number, (*group, name, _, statuses, bins, sums) in enumerate(scores):
        places = [part for each in enumerate(bins) for part in each]
        lines[GroupKey(*group)].append([name, number, statuses, places, sums])
    found = [[row[4] for row in scores]]
    for line in zip(groups, lines.values(), strict=True):
        found += line
    return [json.dumps(line) for line in found]


_kind = lru_cache(maxsize=1024)(Kind)


@lru_cache(maxsize=1024)
def measurement(kind: Kind | None) -> str:
    """Return the measurement of a score of this kind, or "" if it was not measured."""
    return "" if kind is None else kind.measurement
