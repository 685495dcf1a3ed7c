"""What becomes of requests with time: hours that are over are added up, and the oldest requests make room.

What is deleted stays in the sums of its hour, so that a month can be looked at although only a week of
requests is there.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from ._cells import Cells
from ._names import segments_told_apart
from ._received import home_of
from ._rows import SLOT_MS
from ._schema import open_for_reading

__all__ = ["HOURS", "HOUR_MS", "Keeping"]

HOUR_MS = 3_600_000
SLOTS = HOUR_MS // SLOT_MS
HOURS = f"SELECT slot / {SLOTS} AS hour, sum(generation) AS generation FROM slot GROUP BY slot / {SLOTS}"
"""Every hour of which something is told, and its generation: sums over it hold as long as that is the same."""
_SETTLED_S = 120.0
"""Seconds after its end that an hour is left alone: late scores of it are on their way."""
_LEFT_MS = 86_400_000
"""Milliseconds beyond the age of requests after which chunks are known to be of none."""
_SLICE = 1_000
"""Requests that are deleted at a time: others write in between."""
_PAGES = 2_000
"""Unused pages that are given back to the disk at a time, 8 MB."""
_ROOM = 0.9
"""Of the size that is allowed, what is left once room was made."""
_CEILING = 1.25
"""Times that size is where SQLite itself refuses more."""
_KEEP_SUMS = 8_760
"""Hours for which sums are kept, a year."""
_KEEP_COUNTS_S = 30 * 86_400.0


class Keeping:
    """Adds up and makes room.

    Args:
        database: The writer's connection.
        path: Its file.
        keep_s: Seconds for which a request is kept.
        max_bytes: Bytes of the file.
    """

    def __init__(
        self, database: sqlite3.Connection, path: Path, keep_s: float, max_bytes: int
    ) -> None:
        self._database = database
        self._reading = open_for_reading(path)
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._making_room = False
        self.deleted = 0
        (page,) = database.execute("PRAGMA page_size").fetchone()
        self._page = int(page)
        database.execute(f"PRAGMA max_page_count = {int(max_bytes * _CEILING) // self._page}")
        database.execute(f"PRAGMA journal_size_limit = {max(max_bytes // 16, 1 << 20)}")

    def close(self) -> None:
        """Let go of the file."""
        self._reading.close()

    def size(self) -> int:
        """Return the bytes that are in use."""
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        (unused,) = self._database.execute("PRAGMA freelist_count").fetchone()
        return (int(pages) - int(unused)) * self._page

    def summed(self, now: float) -> tuple[int, int, bytes] | None:
        """Return an hour that is over and whose sums are missing or stale, its generation, and its sums."""
        before = int((now - _SETTLED_S) * 1000) // HOUR_MS
        self._reading.execute("BEGIN")
        try:
            found = self._reading.execute(
                f"SELECT now.hour, now.generation FROM ({HOURS}) now LEFT JOIN rollup USING (hour) "
                "WHERE now.hour < ? AND rollup.generation IS NOT now.generation LIMIT 1",
                (before,),
            ).fetchone()
            if found is None:
                return None
            hour, generation = found
            cells = Cells.between(
                self._reading,
                hour * HOUR_MS,
                (hour + 1) * HOUR_MS,
                segments_told_apart(self._reading),
            )
            return hour, generation, cells.packed()
        finally:
            self._reading.execute("COMMIT")

    def step(self, now: float, summed: tuple[int, int, bytes] | None) -> bool:
        """Keep the sums of an hour, and delete some of what is too old or too much.

        Returns:
            Whether there is more to do.
        """
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        if summed is not None:
            # Stale already, where it changed meanwhile: its generation says so.
            database.execute("INSERT OR REPLACE INTO rollup VALUES (?, ?, ?)", summed)
        deleted = self._delete(now)
        database.execute("COMMIT")
        if deleted:
            database.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
        return summed is not None or deleted > 0

    def _delete(self, now: float) -> int:
        size = self.size()
        self._making_room = size > self._max_bytes * (_ROOM if self._making_room else 1.0)
        cutoff = int((now - self._keep_s) * 1000)
        query = "SELECT id, at FROM request {} ORDER BY at, id LIMIT ?"
        if self._making_room:
            rows = self._database.execute(query.format(""), (_SLICE,)).fetchall()
        else:
            # What has just come is kept, be it about requests of long ago.
            rows = self._database.execute(
                query.format("WHERE at < ? AND stored < ?"), (cutoff, cutoff, _SLICE)
            ).fetchall()
        if rows:
            self._archive(rows)
            self._delete_rows([number for number, _ in rows])
            self.deleted += len(rows)
        self._delete_leftovers(cutoff, now)
        return len(rows)

    def _archive(self, rows: list[tuple[int, int]]) -> None:
        told_apart = segments_told_apart(self._database)
        by_hour: dict[int, list[int]] = {}
        for number, at in rows:
            by_hour.setdefault(at // HOUR_MS, []).append(number)
        for hour, numbers in by_hour.items():
            cells = Cells.of(self._database, numbers, told_apart)
            kept = self._database.execute(
                "SELECT cells FROM archive WHERE hour = ?", (hour,)
            ).fetchone()
            if kept is not None:
                cells.add(Cells.unpacked(kept[0]))
            self._database.execute(
                "INSERT OR REPLACE INTO archive VALUES (?, ?)", (hour, cells.packed())
            )
        self._database.executemany(
            "INSERT INTO slot VALUES (?, 1) ON CONFLICT (slot) DO UPDATE SET generation = generation + 1",
            [(slot,) for slot in {at // SLOT_MS for _, at in rows}],
        )
        self._database.execute("UPDATE revision SET number = number + 1")

    def _delete_rows(self, numbers: list[int]) -> None:
        chosen = (json.dumps(numbers),)
        these = "(SELECT value FROM json_each(?))"
        texts = {
            text
            for row in self._database.execute(
                f"SELECT question, answer FROM request WHERE id IN {these}", chosen
            )
            for text in row
        }
        for run_id, *of_spans in self._database.execute(
            f"SELECT run_id, trace_id, span_id FROM request WHERE id IN {these}", chosen
        ).fetchall():
            self._delete_chunks(tuple(map(bytes.fromhex, home_of(run_id))), texts)
            self._delete_chunks(tuple(of_spans), texts)
        for table, column in (("evidence", "request"), ("score", "request"), ("request", "id")):
            self._database.execute(f"DELETE FROM {table} WHERE {column} IN {these}", chosen)
        self._delete_texts(texts)

    def _delete_chunks(self, owner: tuple[bytes | None, ...], texts: set[int | None]) -> None:
        found = "FROM chunk WHERE trace_id = ? AND owner = ?"
        texts.update(text for (text,) in self._database.execute(f"SELECT text {found}", owner))
        self._database.execute(f"DELETE {found}", owner)

    def _delete_texts(self, numbers: set[int | None]) -> None:
        """Delete those of some texts that nothing holds any more."""
        self._database.execute(
            "DELETE FROM text WHERE id IN (SELECT value FROM json_each(?)) "
            "AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.text = text.id) "
            "AND NOT EXISTS (SELECT 1 FROM request WHERE question = text.id) "
            "AND NOT EXISTS (SELECT 1 FROM request WHERE answer = text.id)",
            (json.dumps(sorted(number for number in numbers if number is not None)),),
        )

    def _delete_leftovers(self, cutoff: int, now: float) -> None:
        """Delete chunks whose request never came, and sums that nobody looks at."""
        left = self._database.execute(
            "SELECT trace_id, owner, span_id, rank, text FROM chunk c WHERE stored < ? AND NOT EXISTS "
            "(SELECT 1 FROM request r WHERE r.trace_id = c.trace_id AND r.span_id = c.owner) LIMIT ?",
            (cutoff - _LEFT_MS, _SLICE),
        ).fetchall()
        self._database.executemany(
            "DELETE FROM chunk WHERE trace_id = ? AND owner = ? AND span_id = ? AND rank = ?",
            [row[:4] for row in left],
        )
        self._delete_texts({row[4] for row in left})
        self._database.execute("DELETE FROM loose WHERE stored < ?", (cutoff - _LEFT_MS,))
        hour = int(now * 1000) // HOUR_MS - _KEEP_SUMS
        self._database.execute("DELETE FROM archive WHERE hour < ?", (hour,))
        self._database.execute("DELETE FROM rollup WHERE hour < ?", (hour,))
        self._database.execute("DELETE FROM slot WHERE slot < ?", (hour * SLOTS,))
        self._database.execute(
            "DELETE FROM dropped WHERE slot < ?", (int((now - _KEEP_COUNTS_S) * 1000) // SLOT_MS,)
        )
