"""The sums over any period, assembled from stored sums and rows not yet summed.

Whole hours come from the rollups and, for deleted requests, from the archive; finished slots of later hours
from the slots' rows. Slots and hours that have not changed since they were last read come from memory, and what
pages read as a whole, such as the day before their period, has entries of its own, which no hour displaces; the
rest is counted. So reloading the last hour, or a day, costs only what has arrived since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

from ragmeter.metrics._process.bounded_table import BoundedTable

from ._cells import ALL, Cells, Keep
from ._counting import count_between
from ._database import Database
from ._forgetting import Known, known_names
from ._names import distinct_segments
from ._rows import HOUR_MS, SLOT_MS, SLOTS

Part: TypeAlias = tuple[int, int, Cells]
"""Beginning and end of a period, and its sums."""
Key: TypeAlias = tuple[Hashable, ...]
"""What was summed, and last the choice of scores."""
_Table: TypeAlias = BoundedTable[Key, tuple[tuple[object, ...], Cells]]
_HourState: TypeAlias = tuple[int | None, Known | None]
"""The generation of an hour, None without requests, and the known names if requests of it were deleted."""

_REMEMBERED = 400
"""Most cached slots and hours, and most cached periods."""
_MOST_CELLS = 40_000
"""Most cells in all cached slots and hours together, 0.8 KB each."""
_MOST_OF_ONE = _MOST_CELLS // 32
"""Most cells of a cached slot or hour: larger ones would evict each other each time a day is read."""
_MOST_IN_PERIODS = 12_000
"""Most cells in all cached periods together."""
_NEAR = 6
"""Uncached slots at most this far apart (half an hour) are counted together with those in between."""
_TOGETHER = 3
"""Fewest hours that are also cached as one entry."""
_DAY_MS = 24 * HOUR_MS


class Sums:
    """Computes sums over periods. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: _Table = BoundedTable(max_entries=_REMEMBERED, max_size=_MOST_CELLS)
        self._periods: _Table = BoundedTable(
            max_entries=_REMEMBERED, max_size=_MOST_IN_PERIODS, keep_newest=True
        )

    def between(self, database: Database, from_ms: int, until_ms: int, keep: Keep = ALL) -> Cells:
        """Return the sums between two moments, the second excluded.

        The hours before the newest one are cached as one entry, and so are the slots before and after them.
        """
        whole = Cells()
        shared = keep.shared
        newest = _newest_slot(database, until_ms)
        hours = self.settled_hours(database, from_ms, until_ms) or ()
        moments = {from_ms, until_ms, *hours, min(until_ms, max(from_ms, newest * SLOT_MS))}
        for since, until in pairwise(sorted(moments)):
            if until <= newest * SLOT_MS:
                whole.add(self._settled(database, since, until, shared), keep)
                continue
            for _, _, cells in self.parts(database, since, until, shared):
                whole.add(cells, keep)
        return whole

    def _settled(self, database: Database, from_ms: int, until_ms: int, keep: Keep) -> Cells:
        """Return the sums of a period, cached while nothing in it changes."""
        state = database.execute(
            "SELECT count(*), CAST(sum(generation) AS BIGINT) FROM slot WHERE slot >= ? AND slot < ?",
            (from_ms // SLOT_MS, -(-until_ms // SLOT_MS)),
        ).fetchone()
        (archived,) = database.execute(
            "SELECT count(*) FROM archive WHERE hour >= ? AND hour < ?",
            (from_ms // HOUR_MS, -(-until_ms // HOUR_MS)),
        ).fetchone()
        names = known_names(database) if archived else None
        return self._cached(
            ("period", from_ms, until_ms, keep),
            (*state, archived, names),
            lambda: _together(self.parts(database, from_ms, until_ms, keep)),
        )

    def settled_hours(self, database: Database, from_ms: int, until_ms: int) -> tuple[int, int] | None:
        """Return beginning and end of the whole hours before the newest one, or None if they are few."""
        newest = _newest_slot(database, until_ms)
        first, end = -(-from_ms // HOUR_MS), min(newest // SLOTS, until_ms // HOUR_MS)
        return (first * HOUR_MS, end * HOUR_MS) if end - first >= _TOGETHER else None

    def day_before(self, database: Database, at_ms: int, keep: Keep = ALL) -> Cells:
        """Return the sums of the day before a moment, in whole hours; in a store's first hour, in slots."""
        since, until = at_ms // HOUR_MS * HOUR_MS - _DAY_MS, at_ms // SLOT_MS * SLOT_MS
        first, generation = database.execute(
            "SELECT min(slot), CAST(sum(generation) AS BIGINT) FROM slot WHERE slot >= ? AND slot < ?",
            (since // SLOT_MS, until // SLOT_MS),
        ).fetchone()
        if first is not None and first // SLOTS < at_ms // HOUR_MS:
            until = at_ms // HOUR_MS * HOUR_MS
        return self._cached(
            ("day", until, keep.shared),
            (generation,),
            lambda: _together(self.parts(database, since, until, keep)),
        )

    def parts(self, database: Database, from_ms: int, until_ms: int, keep: Keep = ALL) -> Iterator[Part]:
        """Yield the sums in parts of at most an hour, in order of time, each with its beginning and end."""
        keep = keep.shared
        names = known_names(database)
        generations, archived = self._states(database, from_ms, until_ms)
        newest = max(generations, default=None)
        at = from_ms
        while at < until_ms:
            hour = at // HOUR_MS
            hour_end = (hour + 1) * HOUR_MS
            if at % HOUR_MS == 0 and hour_end <= until_ms:
                state = generations.get(hour), names if hour in archived else None
                found = self._hour(database, hour, state, keep, hour == newest)
                if found is not None:
                    yield at, hour_end, found
                    at = hour_end
                    continue
            end = min(hour_end, until_ms)
            yield from self._slots(database, at, end, keep)
            at = end

    def _states(self, database: Database, from_ms: int, until_ms: int) -> tuple[dict[int, int], frozenset[int]]:
        """Return the generations of hours with requests, and the hours of which requests were deleted."""
        first, end = from_ms // HOUR_MS, -(-until_ms // HOUR_MS)
        written = database.execute(
            f"SELECT slot / {SLOTS}, CAST(sum(generation) AS BIGINT) FROM slot "
            "WHERE slot >= ? AND slot < ? GROUP BY 1",
            (first * SLOTS, end * SLOTS),
        )
        archived = database.execute("SELECT hour FROM archive WHERE hour >= ? AND hour < ?", (first, end))
        return dict(written.fetchall()), frozenset(hour for (hour,) in archived.fetchall())

    def _hour(
        self, database: Database, hour: int, state: _HourState, keep: Keep, is_newest: bool
    ) -> Cells | None:
        """Return the sums of an hour, or None if its slots are to be read: more will come to the newest one."""
        generation, names = state
        if generation is None and names is None:
            return Cells()
        cells = self._recall(("hour", hour, keep), state)
        if cells is not None:
            return cells
        summed = database.execute(
            "SELECT cells FROM rollup WHERE hour = ? AND generation = ?", (hour, generation)
        ).fetchone()
        if summed is not None:
            cells = Cells.unpack(summed[0], keep)
        elif names is None and (is_newest or _has_summed_slots(database, hour)):
            return None
        else:
            # Deleted requests are in no slot, and slots of many groups cost several times what their hour does.
            cells = self.count(database, hour * HOUR_MS, (hour + 1) * HOUR_MS, keep)
        if names is not None:
            (archived,) = database.execute("SELECT cells FROM archive WHERE hour = ?", (hour,)).fetchone()
            cells.add(Cells.unpack(archived).known(names), keep)
        self._remember(("hour", hour, keep), state, cells)
        return cells

    def count(self, database: Database, from_ms: int, until_ms: int, keep: Keep = ALL) -> Cells:
        """Return the sums of the requests that are still stored, without the stored sums of hours."""
        (cells,) = count_between(database, (from_ms, until_ms), distinct_segments(database), keep)
        return cells

    def _slots(self, database: Database, from_ms: int, until_ms: int, keep: Keep) -> Iterator[Part]:
        """Yield the sums of slots, and of partial slots at both ends.

        Neighbours that are not cached are counted together, as each count reads the half hour before it, too.
        """
        first, last = from_ms // SLOT_MS, -(-until_ms // SLOT_MS)
        rows = database.execute(
            "SELECT slot, generation, summed FROM slot WHERE slot >= ? AND slot < ?", (first, last)
        ).fetchall()
        written = {slot: generation for slot, generation, _ in rows}
        summed = {slot for slot, generation, at in rows if at == generation}
        moments = [from_ms, *(slot * SLOT_MS for slot in range(first + 1, last)), until_ms]
        spans = [
            (("slot", at, end, keep), (written.get(at // SLOT_MS),), at, end) for at, end in pairwise(moments)
        ]
        found = [Cells() if state == (None,) else self._recall(key, state) for key, state, _, _ in spans]
        stored = {
            at // SLOT_MS: place
            for place, (_, _, at, end) in enumerate(spans)
            if found[place] is None and end - at == SLOT_MS and at // SLOT_MS in summed
        }
        for slot, cells in database.among(
            "SELECT slot, cells FROM slot WHERE cells IS NOT NULL AND slot IN (these)", stored
        ):
            found[stored[slot]] = one = Cells.unpack(cells, keep)
            self._remember(*spans[stored[slot]][:2], one)
        runs: list[list[int]] = []
        for place in (place for place, cells in enumerate(found) if cells is None):
            if runs and place - runs[-1][-1] <= _NEAR:
                runs[-1].append(place)
            else:
                runs.append([place])
        for run in runs:
            counted = count_between(database, moments[run[0] : run[-1] + 2], distinct_segments(database), keep)
            for place in run:
                found[place] = one = counted[place - run[0]]
                self._remember(*spans[place][:2], one)
        for (_, _, at, end), cells in zip(spans, found, strict=True):
            if cells is not None:
                yield at, end, cells

    def _cached(self, key: Key, state: tuple[object, ...], count: Callable[[], Cells]) -> Cells:
        """Return the sums of a period from the cache if their data is unchanged, else count and cache them.

        The result must not be modified.
        """
        cells = self._recall(key, state, self._periods)
        if cells is None:
            cells = count()
            with self._lock:
                self._periods.put(key, (state, cells), len(cells.scores))
        return cells

    def _recall(self, key: Key, state: tuple[object, ...], table: _Table | None = None) -> Cells | None:
        # Sums of everything serve any narrower choice, too.
        with self._lock:
            found = [(table or self._parts).get(one) for one in (key, (*key[:-1], ALL))]
        return next((known[1] for known in found if known is not None and known[0] == state), None)

    def _remember(self, key: Key, state: tuple[object, ...], cells: Cells) -> None:
        if len(cells.scores) <= _MOST_OF_ONE:
            with self._lock:
                self._parts.put(key, (state, cells), len(cells.scores))


def _newest_slot(database: Database, until_ms: int) -> int:
    """Return the newest slot with requests before a moment, or 0."""
    (newest,) = database.execute(
        "SELECT max(slot) FROM slot WHERE slot < ?", (-(-until_ms // SLOT_MS),)
    ).fetchone()
    return newest or 0


def _has_summed_slots(database: Database, hour: int) -> bool:
    found = database.execute(
        "SELECT 1 FROM slot WHERE slot >= ? AND slot < ? AND summed IS NOT NULL LIMIT 1",
        (hour * SLOTS, (hour + 1) * SLOTS),
    )
    return found.fetchone() is not None


def _together(parts: Iterable[Part]) -> Cells:
    whole = Cells()
    for _, _, cells in parts:
        whole.add(cells)
    return whole
