"""Retention: sum up finished slots and hours, and delete the oldest requests.

Deleted requests stay in the sums of their hour, so that a month can be shown while requests are stored for a
week.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ._cells import Cells
from ._counting import count_requests
from ._database import Database, Home
from ._forgetting import forget_unused, known_names
from ._names import distinct_segments
from ._received import home_of
from ._rows import HOUR_MS, NEXT_GENERATION, SLOT_MS, SLOTS
from ._sums import Sums

HOURS = (
    f"SELECT slot / {SLOTS} AS hour, CAST(sum(generation) AS BIGINT) AS generation "
    f"FROM slot GROUP BY slot / {SLOTS}"
)
"""Every hour with requests, and its generation: sums over the hour are valid while that is unchanged."""
_SETTLED_S = 120.0
"""Seconds after the end of an hour before it is summed, as late scores are still arriving."""
_LEFT_MS = 86_400_000
"""Milliseconds beyond the retention of requests after which chunks without a request are deleted."""
_SLICE = 1_000
"""Most requests to delete in one transaction, so that others can write in between."""
_FORGETS_S = 600.0
"""Seconds between two searches for unused names, which read every request."""
_ROOM = 0.9
"""Share of the allowed size that remains after making room."""
_KEEP_SUMS = 8_760
"""Hours for which sums are kept: a year."""
_KEEP_COUNTS_S = 30 * 86_400.0


_KEEP_HOUR = (
    "INSERT INTO rollup (hour, generation, cells) VALUES (?, ?, ?) "
    "ON CONFLICT (hour) DO UPDATE SET generation = excluded.generation, cells = excluded.cells"
)
_KEEP_SLOT = "UPDATE slot SET summed = ?, cells = ? WHERE slot = ?"
_SLOTS_LEFT = 24
"""Hours after which the sums of slots are deleted: the sums of their hour exist by then."""


Summed: TypeAlias = tuple[str, tuple[object, ...]]
"""Computed sums: the statement that stores them, and its arguments."""


class Keeping:
    """Sums up hours, and deletes requests beyond the size or the age limit, by which services may differ."""

    def __init__(self, home: Home, keep_s: float, max_bytes: int, by_service: Mapping[str, float]) -> None:
        self._home = home
        self._keep_s = keep_s
        self._by_service = by_service
        self._max_bytes = max_bytes
        self._making_room = False
        self._forgot_at = 0.0
        self.deleted = 0

    def sum_next(self, now: float) -> Summed | None:
        """Return missing or stale sums of a slot of the last two hours, else of a finished hour."""
        settled_ms = int((now - _SETTLED_S) * 1000)
        hour = settled_ms // HOUR_MS
        with self._home.moment() as database:
            found = database.execute(
                "SELECT slot, generation FROM slot WHERE slot >= ? AND slot < ? AND "
                "(summed IS NULL OR summed <> generation) LIMIT 1",
                ((hour - 1) * SLOTS, settled_ms // SLOT_MS),
            ).fetchone()
            if found is not None:
                slot, generation = found
                return _KEEP_SLOT, (generation, _packed(database, slot, SLOT_MS), slot)
            found = database.execute(
                f"SELECT seen.hour, seen.generation FROM ({HOURS}) seen "
                "LEFT JOIN rollup ON rollup.hour = seen.hour WHERE seen.hour < ? AND "
                "(rollup.generation IS NULL OR rollup.generation <> seen.generation) LIMIT 1",
                (hour,),
            ).fetchone()
            if found is not None:
                return _KEEP_HOUR, (*found, _packed(database, found[0], HOUR_MS))
        return None

    def step(self, now: float, summed: Summed | None, *, tries: bool = False) -> bool:
        """Store the result of `sum_next`, and delete some requests; return whether there is more to do.

        `tries`: write in any case, to test whether that succeeds.
        """
        with self._home.transaction() as database:
            if tries:
                database.execute("UPDATE revision SET number = number + 1")
            if summed is not None:
                # If the time changed meanwhile, these sums are stale already, as their generation shows.
                database.execute(*summed)
            deleted = self._delete(database, now)
            if abs(now - self._forgot_at) >= _FORGETS_S:
                forget_unused(database)
                self._forgot_at = now
            indexed = self._home.index_texts(database) + _find_homes(database)
        if deleted:
            self._home.give_back()
        return summed is not None or deleted > 0 or indexed > 0

    def _delete(self, database: Database, now: float) -> int:
        size = self._home.size(database)
        self._making_room = size > self._max_bytes * (_ROOM if self._making_room else 1.0)
        cutoff = int((now - self._keep_s) * 1000)
        # The age of a request counts from its arrival, in the order of which ids are assigned: its own time
        # is by the sender's clock, and long ago if a recording is replayed.
        if self._making_room:
            (count,) = database.execute("SELECT count(*) FROM request").fetchone()
            at_most = min(_SLICE, int(count * (1.0 - self._max_bytes * _ROOM / size)) + 1)
            rows = database.execute("SELECT id, at FROM request ORDER BY id LIMIT ?", (at_most,)).fetchall()
        else:
            rows = self._too_old(database, now)
        if rows:
            _archive(database, rows)
            _delete_rows(database, [number for number, _ in rows])
            self.deleted += len(rows)
        _delete_leftovers(database, cutoff, now)
        return len(rows)

    def _too_old(self, database: Database, now: float) -> list[tuple[int, int]]:
        """Return the oldest requests that are past their retention."""

        def before(keep_s: float) -> int:
            return int((now - keep_s) * 1000)

        others = "".join(" AND coalesce(service, '') <> ?" for _ in self._by_service)
        each = "".join(" OR service = ? AND stored < ?" for _ in self._by_service)
        given = [part for name, keep_s in self._by_service.items() for part in (name, before(keep_s))]
        # The oldest are the first to go, unless services differ: then all requests are searched.
        oldest = f"(SELECT id, at, stored FROM request ORDER BY id LIMIT {_SLICE}) AS oldest"
        searched = "request" if self._by_service else oldest
        rows: list[tuple[int, int]] = database.execute(
            f"SELECT id, at FROM {searched} WHERE stored < ?{others}{each} ORDER BY id LIMIT {_SLICE}",
            (before(self._keep_s), *self._by_service, *given),
        ).fetchall()
        return rows


def _packed(database: Database, place: int, long_ms: int) -> bytes:
    return Sums().count(database, place * long_ms, (place + 1) * long_ms).pack()


def _find_homes(database: Database) -> int:
    """Fill in the chunk keys of requests from an older store version; return their number."""
    rows = database.execute(
        "SELECT run_id, id FROM request WHERE home IS NULL ORDER BY id LIMIT ?", (_SLICE,)
    ).fetchall()
    database.executemany(
        "UPDATE request SET home = ? WHERE id = ?", [(home_of(run_id)[0], number) for run_id, number in rows]
    )
    return len(rows)


def _archive(database: Database, rows: Sequence[tuple[int, int]]) -> None:
    distinct = distinct_segments(database)
    by_hour: dict[int, list[int]] = {}
    for number, at in rows:
        by_hour.setdefault(at // HOUR_MS, []).append(number)
    for hour, numbers in by_hour.items():
        cells = count_requests(database, numbers, distinct)
        kept = database.execute("SELECT cells FROM archive WHERE hour = ?", (hour,)).fetchone()
        if kept is not None:
            cells.add(Cells.unpack(kept[0]).known(known_names(database)))
        database.execute(
            "INSERT INTO archive (hour, cells) VALUES (?, ?) "
            "ON CONFLICT (hour) DO UPDATE SET cells = excluded.cells",
            (hour, cells.pack()),
        )
    database.executemany(NEXT_GENERATION, [(slot,) for slot in {at // SLOT_MS for _, at in rows}])
    database.execute("UPDATE revision SET number = number + 1")


def _delete_rows(database: Database, numbers: Sequence[int]) -> None:
    texts: set[int | None] = set()
    owners: set[tuple[bytes | None, bytes | None]] = set()
    for run_id, trace_id, span_id, *held in database.among(
        "SELECT run_id, trace_id, span_id, question, answer FROM request WHERE id IN (these)", numbers
    ):
        texts.update(held)
        owners |= {home_of(run_id), (trace_id, span_id)}
    chunks = [
        row
        for row in database.among(
            "SELECT trace_id, owner, span_id, rank, text FROM chunk WHERE trace_id IN (these)",
            list({trace_id for trace_id, _ in owners if trace_id is not None}),
        )
        if (row[0], row[1]) in owners
    ]
    _delete_chunks(database, chunks)
    for table, column in (("evidence", "request"), ("score", "request"), ("request", "id")):
        database.among(f"DELETE FROM {table} WHERE {column} IN (these)", numbers)
    _delete_texts(database, texts | {row[4] for row in chunks})


def _delete_chunks(database: Database, rows: Sequence[Sequence[Any]]) -> None:
    database.executemany(
        "DELETE FROM chunk WHERE trace_id = ? AND owner = ? AND span_id = ? AND rank = ?",
        [tuple(row[:4]) for row in rows],
    )


def _delete_texts(database: Database, numbers: set[int | None]) -> None:
    """Delete the given texts, unless a request or chunk still refers to them."""
    database.among(
        "DELETE FROM text WHERE id IN (these) "
        "AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.text = text.id) "
        "AND NOT EXISTS (SELECT 1 FROM request WHERE question = text.id) "
        "AND NOT EXISTS (SELECT 1 FROM request WHERE answer = text.id)",
        sorted(number for number in numbers if number is not None),
    )


def _delete_leftovers(database: Database, cutoff: int, now: float) -> None:
    """Delete chunks whose request never arrived, and sums too old for any view."""
    left = database.execute(
        "SELECT trace_id, owner, span_id, rank, text FROM chunk c WHERE stored < ? AND NOT EXISTS "
        "(SELECT 1 FROM request r WHERE r.trace_id = c.trace_id AND r.span_id = c.owner) LIMIT ?",
        (cutoff - _LEFT_MS, _SLICE),
    ).fetchall()
    _delete_chunks(database, left)
    _delete_texts(database, {row[4] for row in left})
    database.execute("DELETE FROM loose WHERE stored < ?", (cutoff - _LEFT_MS,))
    hour = int(now * 1000) // HOUR_MS - _KEEP_SUMS
    slot = (hour + _KEEP_SUMS - _SLOTS_LEFT) * SLOTS
    database.execute(
        "UPDATE slot SET cells = NULL WHERE slot < ? AND slot >= ? AND cells IS NOT NULL",
        (slot, slot - _SLOTS_LEFT * SLOTS),
    )
    database.execute("DELETE FROM archive WHERE hour < ?", (hour,))
    database.execute("DELETE FROM rollup WHERE hour < ?", (hour,))
    database.execute("DELETE FROM slot WHERE slot < ?", (hour * SLOTS,))
    database.execute("DELETE FROM dropped WHERE slot < ?", (int((now - _KEEP_COUNTS_S) * 1000) // SLOT_MS,))
