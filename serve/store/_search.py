"""A part that nobody tells apart, counted for whoever looks for it.

Metadata of more values than people can look at is in no sums (`_names.py`), nor is a part by its short name,
but its requests can be found all the same: what is said of them together is counted then, of these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ragmeter.quality.segments import OTHER

from ._cells import CellKey, Cells, GroupKey
from ._database import Database
from ._lists import where_of
from ._names import ToldApart
from .views import Filters

__all__ = ["Parts", "with_part"]

Parts: TypeAlias = Sequence[tuple[int, int, Cells]]
"""Stretches of time with their sums, as `Sums.parts`."""


def with_part(database: Database, parts: Parts, wanted: Filters, told_apart: ToldApart) -> Parts:
    """Return the sums with those of the part that is asked for, where they have none of it.

    Args:
        database: A connection that reads.
        parts: What was added up.
        wanted: What is asked for.
        told_apart: The parts that are in it.
    """
    if not wanted.segment or not parts or _is_in(wanted.segment, told_apart):
        return parts
    condition, given = where_of(wanted, (parts[0][0], parts[-1][1]), database.has_word)
    found = database.execute(
        f"SELECT r.at, r.id FROM request r WHERE {condition} ORDER BY r.at", tuple(given)
    ).fetchall()
    counted: list[tuple[int, int, Cells]] = []
    for began, ended, cells in parts:
        # Those of memory are everybody's.
        whole = Cells()
        for group, counts in cells.groups.items():
            if group.segment != wanted.segment:
                whole.groups[group] = counts
        for key, cell in cells.scores.items():
            if key.segment != wanted.segment:
                whole.scores[key] = cell
        numbers = [number for at, number in found if began <= at < ended]
        if numbers:
            ours = Cells.of(database, numbers, ToldApart({}, frozenset()))
            for group, counts in ours.groups.items():
                whole.groups[GroupKey(*group[:2], wanted.segment)] = counts
            for key, cell in ours.scores.items():
                whole.scores[CellKey(*key[:2], wanted.segment, *key[3:])] = cell
        counted.append((began, ended, whole))
    return counted


def _is_in(segment: str, told_apart: ToldApart) -> bool:
    name, _, value = segment.partition(":")
    return value in told_apart.get(name, ()) or (name in told_apart.named and value == OTHER)
