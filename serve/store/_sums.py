"""The sums of any stretch of time, put together of what was added up already and of what was not.

Whole hours come from the rollups and, of requests that were deleted, from the archive; whole slots and hours
that have not changed since they were last looked at from memory, and the day before a page's time as one; the
rest is counted.  So looking again at the last hour costs what came since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import overload

from ._cells import Cells
from ._database import Database
from ._forgetting import Known, known_names
from ._keeping import HOUR_MS, SLOTS
from ._names import segments_told_apart
from ._rows import SLOT_MS

__all__ = ["Sums"]

_REMEMBERED = 400
"""Slots, hours and days whose sums are remembered."""
_MOST_CELLS = 40_000
"""Scores of groups in all of them together, 1 KB each."""
_DAY_MS = 24 * HOUR_MS


class Sums:
    """Adds up stretches of time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int], tuple[tuple[object, ...], Cells]] = OrderedDict()
        self._cells = 0

    def between(self, database: Database, from_ms: int, until_ms: int) -> Cells:
        """Return the sums between two moments, the second not included."""
        whole = Cells()
        for _, _, cells in self.parts(database, from_ms, until_ms):
            whole.add(cells)
        return whole

    def day_before(self, database: Database, at_ms: int) -> Cells:
        """Return the sums of the day before a moment, which begins with an hour and ends with a slot."""
        until = at_ms // SLOT_MS * SLOT_MS
        since = (until - _DAY_MS) // HOUR_MS * HOUR_MS
        (generation,) = database.execute(
            "SELECT CAST(sum(generation) AS BIGINT) FROM slot WHERE slot >= ? AND slot < ?",
            (since // SLOT_MS, until // SLOT_MS),
        ).fetchone()
        return self._cached(
            ("day", until), (generation,), lambda: self.between(database, since, until)
        )

    def parts(
        self, database: Database, from_ms: int, until_ms: int
    ) -> Iterator[tuple[int, int, Cells]]:
        """Yield the same in parts of at most an hour, in order of time, each with where it begins and ends."""
        told_apart, names = segments_told_apart(database), known_names(database)
        at = from_ms
        while at < until_ms:
            hour = at // HOUR_MS
            hour_end = (hour + 1) * HOUR_MS
            if at % HOUR_MS == 0 and hour_end <= until_ms:
                found = self._hour(database, hour, names)
                if found is not None:
                    yield at, hour_end, found
                    at = hour_end
                    continue
            slot_end = (at // SLOT_MS + 1) * SLOT_MS
            if at % SLOT_MS == 0 and slot_end <= until_ms:
                cells = self._slot(database, at // SLOT_MS)
            else:
                slot_end = min(slot_end, until_ms)
                cells = Cells.between(database, at, slot_end, told_apart)
            yield at, slot_end, cells
            at = slot_end

    def _hour(self, database: Database, hour: int, names: Known) -> Cells | None:
        """Return the sums of an hour that was added up, or in which nothing happened; None: of another one."""
        slots = (hour * SLOTS, (hour + 1) * SLOTS)
        (generation,) = database.execute(
            "SELECT CAST(sum(generation) AS BIGINT) FROM slot WHERE slot >= ? AND slot < ?", slots
        ).fetchone()
        archived = database.execute("SELECT cells FROM archive WHERE hour = ?", (hour,)).fetchone()
        if generation is None and archived is None:
            return Cells()
        return self._cached(
            ("hour", hour),
            (generation, None if archived is None else names),
            lambda: self._stored_sums(database, hour, generation, archived, names),
        )

    def _stored_sums(
        self,
        database: Database,
        hour: int,
        generation: int | None,
        archived: tuple[bytes] | None,
        names: Known,
    ) -> Cells | None:
        summed = database.execute(
            "SELECT cells FROM rollup WHERE hour = ? AND generation = ?", (hour, generation)
        ).fetchone()
        if summed is None:
            if archived is None:
                return None
            # What was deleted is in no slot.
            cells = Cells()
            for slot in range(hour * SLOTS, (hour + 1) * SLOTS):
                cells.add(self._slot(database, slot))
        else:
            cells = Cells.unpack(summed[0])
        if archived is not None:
            cells.add(Cells.unpack(archived[0]).known(names))
        return cells

    def _slot(self, database: Database, slot: int) -> Cells:
        row = database.execute("SELECT generation FROM slot WHERE slot = ?", (slot,)).fetchone()
        if row is None:
            return Cells()
        return self._cached(
            ("slot", slot),
            tuple(row),
            lambda: Cells.between(
                database, slot * SLOT_MS, (slot + 1) * SLOT_MS, segments_told_apart(database)
            ),
        )

    @overload
    def _cached(
        self, key: tuple[str, int], state: tuple[object, ...], count: Callable[[], Cells]
    ) -> Cells: ...

    @overload
    def _cached(
        self, key: tuple[str, int], state: tuple[object, ...], count: Callable[[], Cells | None]
    ) -> Cells | None: ...

    def _cached(
        self, key: tuple[str, int], state: tuple[object, ...], count: Callable[[], Cells | None]
    ) -> Cells | None:
        """Return sums from memory where what they are of is as it was, else counted and remembered.

        Nobody may add to them.
        """
        with self._lock:
            known = self._known.get(key)
            if known is not None and known[0] == state:
                self._known.move_to_end(key)
                return known[1]
        cells = count()
        if cells is None:
            return None
        with self._lock:
            self._forget(key)
            self._known[key] = (state, cells)
            self._cells += len(cells.scores)
            while len(self._known) > 1 and (
                len(self._known) > _REMEMBERED or self._cells > _MOST_CELLS
            ):
                self._forget(next(iter(self._known)))
        return cells

    def _forget(self, key: tuple[str, int]) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._cells -= len(known[1].scores)
