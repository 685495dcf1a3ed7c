"""Count the requests of a segment that has too many values to be in the sums, on demand.

Metadata with more values than people can read is in no sums (`_names.py`), nor is a segment under its short
name. Its requests can still be found, and the sums of these alone are computed on demand.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.quality.segments import OTHER

from ._cells import CellKey, Cells, GroupKey
from ._counting import count_requests
from ._database import Database
from ._lists import where_of
from ._names import DistinctSegments
from ._sums import Part
from .views import Filters


def with_part(
    database: Database, whole: Cells, parts: Sequence[Part], wanted: Filters, distinct: DistinctSegments
) -> tuple[Cells, Sequence[Part]]:
    """Return the sums of a time and of its parts, extended by those of the wanted segment if they lack it."""
    segment = wanted.segment
    name, _, value = (segment or "").partition(":")
    is_counted = value in distinct.get(name, ()) or (name in distinct.named and value == OTHER)
    if not segment or not parts or is_counted:
        return whole, parts
    condition, given = where_of(wanted, (parts[0][0], parts[-1][1]), database)
    found = database.execute(
        f"SELECT r.at, r.id FROM request r WHERE {condition} ORDER BY r.at", tuple(given)
    ).fetchall()
    # Cached sums are shared, so copy; their cells of the segment are from when it was still counted.
    together = Cells()
    together.groups = {key: one for key, one in whole.groups.items() if key.segment != segment}
    together.scores = {key: one for key, one in whole.scores.items() if key.segment != segment}
    counted: list[Part] = []
    for began, ended, _ in parts:
        numbers = [number for at, number in found if began <= at < ended]
        cells = Cells()
        if numbers:
            ours = count_requests(database, numbers, DistinctSegments({}, frozenset()))
            cells.groups = {GroupKey(*key[:2], segment): counts for key, counts in ours.groups.items()}
            cells.scores = {CellKey(*key[:2], segment, *key[3:]): cell for key, cell in ours.scores.items()}
            together.add(cells)
        counted.append((began, ended, cells))
    return together, counted
