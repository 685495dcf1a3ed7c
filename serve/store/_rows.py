"""Requests as rows: what is told is put together with what was told before, within the writer's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from ._names import MAX_SEGMENT_CHARS, Names
from ._parts import Details, Kind, RequestPart, ScorePart, Told, VerdictPart
from ._received import DroppedCount, Retrieved, Telling

__all__ = ["SLOT_MS", "Rows", "segments_of"]

SLOT_MS = 300_000
"""Milliseconds that share a generation: sums over a slot hold as long as nothing in it has changed."""

_REQUEST = (
    "trace_id", "span_id", "span_rank", "started_ns", "ended_ns", "noted_ns", "service", "workflow",
    "framework", "status", "verdict", "verdict_ns", "codes", "reasons", "question", "answer", "language",
    "retriever", "conversation_id", "user_id", "sample_rate", "judge_sample_rate", "selection", "missing",
    "metadata",
)  # fmt: skip
_SELECT = (
    f"SELECT id, at, stored, {', '.join(f'request.{name}' for name in _REQUEST)}, q.body, a.body "
    "FROM request LEFT JOIN text q ON q.id = question LEFT JOIN text a ON a.id = answer WHERE run_id = ?"
).replace("SELECT id", "SELECT request.id")
_INSERT = (
    f"INSERT OR REPLACE INTO request (id, run_id, at, stored, {', '.join(_REQUEST)}) "
    f"VALUES (?, ?, ?, ?, {', '.join('?' * len(_REQUEST))})"
)
_SCORES = (
    "SELECT s.name, s.value, s.status, s.label, s.told_ns, s.kind, s.lower, s.upper, s.error_type, "
    "s.details_ns, s.judge_calls, s.input_tokens, s.output_tokens, s.cache_hits, e.summary, e.explanation, "
    "e.items "
    "FROM score s LEFT JOIN evidence e USING (request, name) WHERE s.request = ?"
)
_INSERT_SCORE = f"INSERT OR REPLACE INTO score VALUES ({', '.join('?' * 16)})"
_INSERT_EVIDENCE = "INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?, ?)"


def segments_of(
    language: str | None, retriever: str | None, metadata: Mapping[str, Any]
) -> dict[str, str]:
    """Return the parts that a request belongs to, by name."""
    found = {
        f"metadata.{name}": value
        for name, value in metadata.items()
        if isinstance(value, str) and len(value) <= MAX_SEGMENT_CHARS
    }
    if language:
        found["language"] = language
    if retriever:
        found["retriever"] = retriever
    return found


class Rows:
    """Writes what is told. For the one writer, within its transaction.

    Args:
        database: The writer's connection.
        names: Which names are kept.
    """

    def __init__(self, database: sqlite3.Connection, names: Names) -> None:
        self._database = database
        self._names = names
        self.forget()

    def forget(self) -> None:
        """Forget what was written last: it was not kept."""
        self._kinds: dict[Kind, int] = {}
        self._kind_of: dict[int, Kind] = {}
        self._touched: set[int] = set()

    def put(self, telling: Telling, now_ms: int) -> None:
        """Keep what is told.

        Args:
            telling: What it is.
            now_ms: When that is, for its age.
        """
        together: dict[str, list[RequestPart]] = {}
        for part in telling.requests:
            together.setdefault(part.run_id, []).append(part)
        loose = [found for found in telling.retrieved if found.scores or found.retriever]
        for found in telling.retrieved:
            self._put_chunks(found, now_ms)
        for found in loose:
            self._put_loose(found, now_ms)
        for first, *others in together.values():
            self._put_request(first.merged(*others), now_ms)
        for trace_id, owner in dict.fromkeys((found.trace_id, found.owner) for found in loose):
            self._tie(trace_id, owner, now_ms)

    def count_dropped(self, counts: Iterable[DroppedCount]) -> None:
        """Keep how many requests meters have dropped; of one slot the greatest count."""
        self._database.executemany(
            "INSERT INTO dropped VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (series, slot) DO UPDATE SET value = max(value, excluded.value)",
            [
                (one.series, one.at_ms // SLOT_MS, one.service, one.reason, one.began_ms, one.value)
                for one in counts
            ],
        )

    def finish(self) -> None:
        """Note what has changed; the last of a transaction."""
        touched, self._touched = self._touched, set()
        self._database.executemany(
            "INSERT INTO slot VALUES (?, 1) ON CONFLICT (slot) DO UPDATE SET generation = generation + 1",
            [(slot,) for slot in touched],
        )
        self._database.execute("UPDATE revision SET number = number + 1")

    def _put_request(self, part: RequestPart, now_ms: int) -> None:
        row = self._database.execute(_SELECT, (part.run_id,)).fetchone()
        number: int | None = None
        stored = now_ms
        whole = part
        if part.place is not None and part.trace_id is not None:
            whole = self._with_loose(whole, part.trace_id, part.place[1])
        if row is not None:
            number, at, stored = row[:3]
            self._touched.add(at // SLOT_MS)
            before = self._part(part.run_id, int(row[0]), row)
            whole = before.merged(whole)
            if whole == before:
                return
        changed = self._write_request(number, stored, whole)
        self._write_scores(changed, whole)

    def _write_request(self, number: int | None, stored: int, part: RequestPart) -> int:
        self._touched.add(part.at_ms // SLOT_MS)
        verdict = part.verdict
        self._names.note_segments(segments_of(part.language, part.retriever, part.metadata))
        values = (
            None if part.trace_id is None else bytes.fromhex(part.trace_id),
            None if part.place is None else bytes.fromhex(part.place[1]),
            None if part.place is None else part.place[0],
            part.started_ns,
            part.ended_ns,
            part.noted_ns,
            part.service,
            self._names.workflow(part.workflow),
            part.framework,
            part.status,
            verdict and verdict.word,
            verdict and verdict.at_ns,
            json.dumps(verdict.codes) if verdict else None,
            json.dumps(verdict.reasons) if verdict else None,
            self._text(part.question),
            self._text(part.answer),
            part.language,
            part.retriever,
            part.conversation_id,
            part.user_id,
            part.sample_rate,
            part.judge_sample_rate,
            part.selection,
            part.missing,
            json.dumps(part.metadata, sort_keys=True) if part.metadata else None,
        )
        cursor = self._database.execute(_INSERT, (number, part.run_id, part.at_ms, stored, *values))
        return int(cursor.lastrowid or 0)

    def _put_loose(self, found: Retrieved, now_ms: int) -> None:
        """Keep what is told of a request by one of its retrievals, which knows it by its span alone."""
        where = tuple(bytes.fromhex(one) for one in (found.trace_id, found.owner, found.span_id))
        told = json.dumps({name: list(one) for name, one in found.scores.items()})
        self._database.execute(
            "INSERT OR IGNORE INTO loose VALUES (?, ?, ?, ?, ?, ?)",
            (*where, now_ms, found.retriever, told),
        )

    def _tie(self, trace_id: str, span_id: str, now_ms: int) -> None:
        """Give what a retrieval told to its request, where that has come before and not just now."""
        where = (bytes.fromhex(trace_id), bytes.fromhex(span_id))
        found = self._database.execute(
            "SELECT run_id FROM request WHERE trace_id = ? AND span_id = ? AND EXISTS "
            "(SELECT 1 FROM loose WHERE loose.trace_id = ? AND loose.owner = ?)",
            where * 2,
        ).fetchone()
        if found is not None:
            place = (0, span_id)  # it is known already
            self._put_request(RequestPart(run_id=found[0], trace_id=trace_id, place=place), now_ms)

    def _with_loose(self, part: RequestPart, trace_id: str, span_id: str) -> RequestPart:
        """Return the same with what its retrievals told before it came."""
        where = (bytes.fromhex(trace_id), bytes.fromhex(span_id))
        found = self._database.execute(
            "SELECT retriever, scores FROM loose WHERE trace_id = ? AND owner = ?", where
        ).fetchall()
        for retriever, scores in found:
            told = {name: ScorePart(told=Told(*one)) for name, one in json.loads(scores).items()}
            part = part.merged(RequestPart(run_id=part.run_id, retriever=retriever, scores=told))
        if found:
            self._database.execute("DELETE FROM loose WHERE trace_id = ? AND owner = ?", where)
        return part

    def _write_scores(self, number: int, whole: RequestPart) -> None:
        scores: list[tuple[Any, ...]] = []
        evidence: list[tuple[Any, ...]] = []
        for name in whole.scores:
            if not self._names.knows_score(name):
                continue
            told, details = whole.scores[name].told, whole.scores[name].details
            value = told.value if told else None
            kind = details.kind if details else None
            usable = value if told and told.status == "ok" else None
            scores.append(
                (
                    number,
                    name,
                    value,
                    told and told.status,
                    told and told.label,
                    told and told.at_ns,
                    self._kind(kind) if kind else None,
                    kind.turned(usable) if kind else None,
                    *(
                        (None,) * 8
                        if details is None
                        else (
                            details.lower,
                            details.upper,
                            details.error_type,
                            details.at_ns,
                            details.judge_calls,
                            details.input_tokens,
                            details.output_tokens,
                            details.cache_hits,
                        )
                    ),
                )
            )
            if details is not None and (details.summary or details.explanation or details.items):
                evidence.append((number, name, details.summary, details.explanation, details.items))
        self._database.executemany(_INSERT_SCORE, scores)
        self._database.executemany(_INSERT_EVIDENCE, evidence)

    def _put_chunks(self, found: Retrieved, now_ms: int) -> None:
        where = [bytes.fromhex(one) for one in (found.trace_id, found.owner, found.span_id)]
        self._database.executemany(
            "INSERT OR IGNORE INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*where, rank, found.at_ms, now_ms, chunk.id, chunk.score, self._text(chunk.text))
                for rank, chunk in enumerate(found.chunks, start=1)
            ],
        )

    def _part(self, run_id: str, number: int, row: tuple[Any, ...]) -> RequestPart:
        """Return what is kept of a request."""
        kept = dict(zip(_REQUEST, row[3:], strict=False))
        question, answer = row[-2:]
        verdict = None
        if kept["verdict"] is not None:
            verdict = VerdictPart(
                kept["verdict_ns"],
                kept["verdict"],
                tuple(json.loads(kept["codes"])),
                tuple(json.loads(kept["reasons"])),
            )
        span_id = kept["span_id"]
        return RequestPart(
            run_id=run_id,
            trace_id=kept["trace_id"] and kept["trace_id"].hex(),
            place=None if span_id is None else (kept["span_rank"], span_id.hex()),
            question=question,
            answer=answer,
            metadata=json.loads(kept["metadata"] or "{}"),
            verdict=verdict,
            scores={
                name: self._score_part(*rest)
                for name, *rest in self._database.execute(_SCORES, (number,))
            },
            **{
                name: kept[name]
                for name in (
                    "started_ns", "ended_ns", "noted_ns", "service", "workflow", "framework", "status",
                    "language", "retriever", "conversation_id", "user_id", "sample_rate",
                    "judge_sample_rate", "selection", "missing",
                )
            },
        )  # fmt: skip

    def _score_part(self, *row: Any) -> ScorePart:
        (value, status, label, told_ns, kind, lower, upper, error_type, details_ns,
         calls, sent, written, hits, summary, explanation, items) = row  # fmt: skip
        told = None if told_ns is None else Told(told_ns, value, status, label)
        details = None
        if details_ns is not None:
            details = Details(
                details_ns, self._kind_at(kind), lower, upper, error_type, summary, explanation, items,
                calls, sent, written, hits,
            )  # fmt: skip
        return ScorePart(told=told, details=details)

    def _kind(self, kind: Kind) -> int:
        number = self._kinds.get(kind)
        if number is None:
            found = self._database.execute(
                "SELECT id FROM kind WHERE name = ? AND method = ? AND target = ? AND definition = ? AND "
                "direction = ? AND lowest IS ? AND highest IS ? AND judged = ?",
                kind,
            ).fetchone()
            if found is None:
                cursor = self._database.execute(
                    "INSERT INTO kind VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", kind
                )
                found = (cursor.lastrowid or 0,)
            number = self._kinds[kind] = int(found[0])
        return number

    def _kind_at(self, number: int) -> Kind:
        kind = self._kind_of.get(number)
        if kind is None:
            row = self._database.execute(
                "SELECT name, method, target, definition, direction, lowest, highest, judged FROM kind "
                "WHERE id = ?",
                (number,),
            ).fetchone()
            kind = Kind._make([*row[:7], bool(row[7])])
            self._kind_of[number] = kind
        return kind

    def _text(self, text: str | None) -> int | None:
        """Return the number of a text, kept once however often it is told."""
        if text is None:
            return None
        digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        found = self._database.execute("SELECT id FROM text WHERE hash = ?", (digest,)).fetchone()
        if found is not None:
            return int(found[0])
        cursor = self._database.execute("INSERT INTO text VALUES (NULL, ?, ?)", (digest, text))
        return int(cursor.lastrowid or 0)
