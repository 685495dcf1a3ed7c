"""Requests as rows: merge new telemetry with what is stored, within the writer's transaction.

A batch is read and written together: over a network each statement costs a round trip.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from ._appearances import Appearances
from ._database import Database
from ._names import BOUNDS, MAX_SEGMENT_CHARS, Names
from ._parts import Details, Kind, RequestPart, ScorePart, Value, VerdictPart
from ._received import MAX_NAME, Batch, DroppedCount, StoredRetrieval, home_of

SLOT_MS = 300_000
"""Length of a slot in milliseconds. A slot has a generation: sums over it are valid while that is unchanged."""
HOUR_MS = 3_600_000
SLOTS = HOUR_MS // SLOT_MS
"""Slots of an hour."""
NEXT_GENERATION = (
    "INSERT INTO slot (slot, generation) VALUES (?, 1) "
    "ON CONFLICT (slot) DO UPDATE SET generation = slot.generation + 1"
)
"""Increments the generation of a slot."""

_REQUEST = (
    "trace_id", "span_id", "span_rank", "started_ns", "ended_ns", "noted_ns", "service", "workflow",
    "framework", "status", "verdict", "verdict_ns", "codes", "reasons", "question", "answer", "language",
    "retriever", "conversation_id", "user_id", "sample_rate", "judge_sample_rate", "selection",
    "judge_selection", "missing", "environment", "received", "alarms", "stages", "segments", "metadata",
)  # fmt: skip
_KNOWN = (
    f"SELECT run_id, r.id, at, stored, {', '.join(f'r.{name}' for name in _REQUEST)}, q.body, a.body "
    "FROM request r LEFT JOIN text q ON q.id = question LEFT JOIN text a ON a.id = answer "
    "WHERE run_id IN (these)"
)
_PUT_REQUEST = (
    f"INSERT INTO request (run_id, home, at, stored, {', '.join(_REQUEST)}) "
    f"VALUES (?, ?, ?, ?, {', '.join('?' * len(_REQUEST))}) ON CONFLICT (run_id) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in ('at', *_REQUEST))}"
)
_SAME = tuple(name for name in _REQUEST if name in {one.name for one in fields(RequestPart)} - {
    "verdict", "question", "answer", "received", "alarms", "segments", "metadata",
})  # fmt: skip
"""Columns that are fields of a `RequestPart`, unchanged."""
_NAMED = ("framework", "status", "environment")
"""Those whose number of distinct values is bounded."""
_EVIDENCE = ("summary", "explanation", "items")
_DETAILS = tuple(name for name in Details._fields if name not in ("at_ns", "kind", *_EVIDENCE))
_SCORE = ("value", "status", "label", "told_ns", "kind", "turned", "details_ns", *_DETAILS)
_KNOWN_SCORES = (
    f"SELECT s.request, s.name, {', '.join(f's.{name}' for name in _SCORE)}, "
    f"{', '.join(f'e.{name}' for name in _EVIDENCE)} FROM score s "
    "LEFT JOIN evidence e ON e.request = s.request AND e.name = s.name "
    "WHERE s.request IN (these)"
)


def _put_by_name(table: str, columns: Sequence[str]) -> str:
    return (
        f"INSERT INTO {table} (request, name, {', '.join(columns)}) "
        f"VALUES (?, ?, {', '.join('?' * len(columns))}) ON CONFLICT (request, name) DO UPDATE SET "
        f"{', '.join(f'{name} = excluded.{name}' for name in columns)}"
    )


_PUT_SCORE = _put_by_name("score", _SCORE)
_PUT_EVIDENCE = _put_by_name("evidence", _EVIDENCE)
_KIND = (
    "name", "method", "target", "definition", "direction", "lowest", "highest", "judged", "judge", "endpoint",
)  # fmt: skip


class _StoredRequest(NamedTuple):
    number: int
    stored: int
    part: RequestPart


class _Change(NamedTuple):
    """A request to write, and its stored state; None if it is new."""

    whole: RequestPart
    kept: _StoredRequest | None


def segments_of(
    language: str | None, retriever: str | None, metadata: Mapping[str, Any], distinct: Mapping[str, str]
) -> dict[str, str]:
    """Return the segments that a request belongs to, by name: short metadata, and its application's own."""
    found = {
        f"metadata.{name}": value
        for name, value in metadata.items()
        if isinstance(value, str) and len(value) <= MAX_SEGMENT_CHARS
    }
    found.update(distinct)
    if language:
        found["language"] = language
    if retriever:
        found["retriever"] = retriever
    return {name: value for name, value in found.items() if len(name) <= MAX_NAME and len(value) <= MAX_NAME}


def stored_segments(
    language: str | None, retriever: str | None, metadata: str | None, distinct: str | None
) -> dict[str, str]:
    """Return the segments of a stored request, from its columns."""
    return segments_of(language, retriever, json.loads(metadata or "{}"), json.loads(distinct or "{}"))


def kinds_of(database: Database, after: int = -1) -> dict[int, Kind]:
    """Return the kinds of scores by id, of ids greater than `after`."""
    return {
        int(number): Kind._make([*row[:7], bool(row[7]), *row[8:]])
        for number, *row in database.execute(f"SELECT id, {', '.join(_KIND)} FROM kind WHERE id > ?", (after,))
    }


class Rows:
    """Writes batches of requests. For the one writer, within its transaction."""

    def __init__(self, database: Database, names: Names) -> None:
        self._database = database
        self._names = names
        self._appearances = Appearances(database)
        self.forget()

    def forget(self) -> None:
        """Discard the last batch, which was not committed."""
        self._appearances.forget()
        self._kinds: dict[Kind, int] = {}
        self._kind_of: dict[int, Kind] = {}
        self._kinds_by_score: Counter[str] = Counter()
        self._knows_kinds = False
        self._forgotten = -1
        self._touched: set[int] = set()

    def put(self, batch: Batch, now_ms: int) -> None:
        """Store a batch, in a transaction of its own; the age of new requests counts from `now_ms`."""
        forgotten = self._names.count_forgotten()
        if forgotten != self._forgotten:  # ids of kinds may have been reassigned
            self.forget()
            self._forgotten = forgotten
        together: dict[str, list[RequestPart]] = {}
        for part in batch.requests:
            together.setdefault(part.run_id, []).append(part)
        loose = [found for found in batch.retrieved if found.scores or found.retriever]
        for part in self._put_loose(loose, now_ms):
            together.setdefault(part.run_id, []).append(part)
        kept = self._stored_rows(together)
        parts = [first.merge(*others) for first, *others in together.values()]
        changes = self._changes(parts, kept)
        texts = self._texts(
            [text for change in changes for text in (change.whole.question, change.whole.answer)]
            + [chunk.text for found in batch.retrieved for chunk in found.chunks]
        )
        self._put_chunks(batch.retrieved, texts, now_ms)
        if changes:
            self._put_requests(changes, texts, now_ms)
        self._count_dropped(batch.dropped)
        self._finish()

    def _count_dropped(self, counts: Iterable[DroppedCount]) -> None:
        """Store the numbers of requests that meters have dropped; the greatest count of each slot."""
        self._database.executemany(
            "INSERT INTO dropped VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (series, slot) DO UPDATE SET value = excluded.value "
            "WHERE excluded.value > dropped.value",
            [
                (
                    one.series,
                    one.at_ms // SLOT_MS,
                    self._names.of("service", one.service),
                    self._names.of("reason", one.reason),
                    one.began_ms,
                    one.value,
                )
                for one in counts
            ],
        )

    def _finish(self) -> None:
        """Record the changed slots; after this, other writers may add names."""
        touched, self._touched = self._touched, set()
        self._database.executemany(NEXT_GENERATION, [(slot,) for slot in touched])
        self._database.execute("UPDATE revision SET number = number + 1")
        self._names.settle()
        self._knows_kinds = False

    def _stored_rows(self, run_ids: Iterable[str]) -> dict[str, _StoredRequest]:
        rows = self._database.among(_KNOWN, list(run_ids))
        scores: dict[int, dict[str, ScorePart]] = {}
        for number, name, *rest in self._database.among(_KNOWN_SCORES, [row[1] for row in rows]):
            scores.setdefault(number, {})[name] = self._score_part(*rest)
        return {
            run_id: _StoredRequest(number, stored, _part(run_id, rest, scores.get(number, {})))
            for run_id, number, _, stored, *rest in rows
        }

    def _changes(self, parts: Sequence[RequestPart], kept: Mapping[str, _StoredRequest]) -> list[_Change]:
        """Merge parts with stored rows and earlier retrievals; return the changes."""
        loose = self._loose([part.trace_id for part in parts])
        used: list[tuple[bytes | None, bytes]] = []
        changes: list[_Change] = []
        for part in parts:
            known = kept.get(part.run_id)
            whole = part if known is None else known.part.merge(part)
            for place in filter(None, {part.place, whole.place}):
                where = (whole.trace_id, place[1])
                earlier = loose.pop(where, None)
                if earlier is not None:
                    used.append(where)
                    whole = whole.merge(*(replace(each, run_id=part.run_id) for each in earlier))
            if known is None or whole != known.part:
                changes.append(_Change(whole, known))
        if used:
            self._database.executemany("DELETE FROM loose WHERE trace_id = ? AND owner = ?", used)
        return changes

    def _put_requests(self, changes: Sequence[_Change], texts: Mapping[str, int], now_ms: int) -> None:
        rows: list[tuple[Any, ...]] = []
        for whole, kept in changes:
            self._touched.add(whole.at_ms // SLOT_MS)
            if kept is not None:
                self._touched.add(kept.part.at_ms // SLOT_MS)
            parts = segments_of(whole.language, whole.retriever, whole.metadata, whole.segments)
            self._names.note_segments(parts, [name for name in whole.segments if name in parts])
            service = self._names.of("service", whole.service)
            self._appearances.note(service or "", parts, whole.at_ms)
            stored = now_ms if kept is None else kept.stored
            home, _ = home_of(whole.run_id)
            rows.append((whole.run_id, home, whole.at_ms, stored, *self._columns(whole, texts)))
        self._database.executemany(_PUT_REQUEST, rows)
        self._appearances.write()
        fresh = [whole.run_id for whole, kept in changes if kept is None]
        numbers = dict(self._database.among("SELECT run_id, id FROM request WHERE run_id IN (these)", fresh))
        scores: list[tuple[Any, ...]] = []
        evidence: list[tuple[Any, ...]] = []
        for whole, kept in changes:
            number = numbers[whole.run_id] if kept is None else kept.number
            for name, score in whole.scores.items():
                if kept is not None and kept.part.scores.get(name) == score:
                    continue
                if not self._names.has("score", name):
                    continue
                scores.append((number, name, *self._score_columns(score)))
                details = score.details
                if details and (details.summary or details.explanation or details.items):
                    evidence.append((number, name, details.summary, details.explanation, details.items))
        self._database.executemany(_PUT_SCORE, scores)
        self._database.executemany(_PUT_EVIDENCE, evidence)

    def _columns(self, part: RequestPart, texts: Mapping[str, int]) -> tuple[Any, ...]:
        verdict, names = part.verdict, self._names
        service, workflow = names.place(part.service, part.workflow)
        span_rank, span_id = (None, None) if part.place is None else part.place
        row = {
            **{name: getattr(part, name) for name in _SAME},
            "span_id": span_id,
            "span_rank": span_rank,
            "service": service,
            "workflow": workflow,
            **{name: names.of(name, getattr(part, name)) for name in _NAMED},
            "verdict": verdict and verdict.word,
            "verdict_ns": verdict and verdict.at_ns,
            "codes": verdict and json.dumps(verdict.codes),
            "reasons": verdict and json.dumps(verdict.reasons),
            "question": None if part.question is None else texts[part.question],
            "answer": None if part.answer is None else texts[part.answer],
            "received": None if part.received is None else int(part.received),
            "alarms": None if part.alarms is None else int(part.alarms),
            "segments": json.dumps(part.segments, sort_keys=True) if part.segments else None,
            "metadata": json.dumps(part.metadata, sort_keys=True) if part.metadata else None,
        }
        return tuple([row[name] for name in _REQUEST])

    def _score_columns(self, score: ScorePart) -> tuple[Any, ...]:
        reported, details = score.reported, score.details
        row: dict[str, Any] = dict.fromkeys(_SCORE)
        if reported:
            row["value"], row["label"], row["told_ns"] = (reported.value, reported.label, reported.at_ns)
            row["status"] = self._names.of("score_status", reported.status)
        if details:
            row.update({name: getattr(details, name) for name in _DETAILS})
            row["error_type"] = self._names.of("error", details.error_type)
            row["kind"], kind = self._kind(details.kind)
            row["turned"] = kind.turned(reported.value if reported and reported.status == "ok" else None)
            row["details_ns"] = details.at_ns
        return tuple(row.values())

    def _put_loose(self, loose: Sequence[StoredRetrieval], now_ms: int) -> list[RequestPart]:
        """Store scores and sources of retrievals that know their request by its span only.

        Returns:
            For each of these requests that is already stored, a part with its span.
        """
        if not loose:
            return []
        self._database.executemany(
            "INSERT INTO loose (trace_id, owner, span_id, stored, retriever, scores) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [
                (
                    found.trace_id,
                    found.owner,
                    found.span_id,
                    now_ms,
                    found.retriever,
                    json.dumps({name: list(one) for name, one in found.scores.items()}),
                )
                for found in loose
            ],
        )
        owners = {(found.trace_id, found.owner) for found in loose}
        rows = self._database.among(
            "SELECT run_id, trace_id, span_id FROM request WHERE trace_id IN (these)",
            {trace_id for trace_id, _ in owners},
        )
        return [
            # 0: the stored certainty of the span is at least as high.
            RequestPart(run_id=run_id, trace_id=trace_id, place=(0, span_id))
            for run_id, trace_id, span_id in rows
            if (trace_id, span_id) in owners
        ]

    def _loose(self, trace_ids: Iterable[bytes | None]) -> dict[tuple[bytes | None, bytes], list[RequestPart]]:
        """Return earlier retrievals' reports about requests of these traces, by trace and span."""
        rows = self._database.among(
            "SELECT trace_id, owner, retriever, scores FROM loose WHERE trace_id IN (these)",
            {one for one in trace_ids if one is not None},
        )
        found: dict[tuple[bytes | None, bytes], list[RequestPart]] = {}
        for trace_id, owner, retriever, scores in rows:
            values = {name: ScorePart(reported=Value(*one)) for name, one in json.loads(scores).items()}
            found.setdefault((trace_id, owner), []).append(
                RequestPart(run_id="", retriever=retriever, scores=values)
            )
        return found

    def _put_chunks(self, retrieved: Sequence[StoredRetrieval], texts: Mapping[str, int], now_ms: int) -> None:
        self._database.executemany(
            "INSERT INTO chunk (trace_id, owner, span_id, rank, at, stored, document, score, text) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [
                (
                    found.trace_id,
                    found.owner,
                    found.span_id,
                    rank,
                    found.at_ms,
                    now_ms,
                    chunk.id,
                    chunk.score,
                    None if chunk.text is None else texts[chunk.text],
                )
                for found in retrieved
                for rank, chunk in enumerate(found.chunks, start=1)
            ],
        )

    def _score_part(self, *row: Any) -> ScorePart:
        known = dict(zip((*_SCORE, *_EVIDENCE), row, strict=True))
        reported = details = None
        if known["told_ns"] is not None:
            reported = Value(known["told_ns"], known["value"], known["status"], known["label"])
        if known["details_ns"] is not None:
            more = {name: known[name] for name in (*_DETAILS, *_EVIDENCE)}
            details = Details(known["details_ns"], self._kind_at(known["kind"]), **more)
        return ScorePart(reported=reported, details=details)

    def _kind(self, kind: Kind) -> tuple[int, Kind]:
        """Return the id of a kind of score, and the kind as stored."""
        number = self._kinds.get(kind)
        if number is None and not self._knows_kinds:
            self._read_kinds()
            number = self._kinds.get(kind)
        if number is None:
            judge = self._names.of("judge", kind.judge) or ""
            if judge != kind.judge:
                return self._kind(kind._replace(judge=judge))
            if self._kinds_by_score[kind.name] >= BOUNDS["kind"] and kind != kind.among_others():
                self._names.refused["kind"] += 1
                return self._kind(kind.among_others())
            self._database.execute(
                f"INSERT INTO kind ({', '.join(_KIND)}) VALUES ({', '.join('?' * len(_KIND))})",
                (*kind[:7], int(kind.judged), *kind[8:]),
            )
            (newest,) = self._database.execute("SELECT max(id) FROM kind").fetchone()
            number = self._kinds[kind] = int(newest)
            self._kinds_by_score[kind.name] += 1
        return number, kind

    def _read_kinds(self) -> None:
        """Load the kinds stored by other writers, with their ids."""
        self._knows_kinds = True
        newest = max(self._kinds.values(), default=0)
        for number, kind in kinds_of(self._database, newest).items():
            self._kinds[kind] = number
            self._kinds_by_score[kind.name] += 1

    def _kind_at(self, number: int) -> Kind:
        if number not in self._kind_of:
            self._kind_of = kinds_of(self._database)
        return self._kind_of[number]

    def _texts(self, texts: Iterable[str | None]) -> dict[str, int]:
        """Return the ids of texts; each distinct text is stored once."""
        digests = {
            blake2b(text.encode("utf-8", "replace"), digest_size=16).digest(): text
            for text in dict.fromkeys(texts)
            if text is not None
        }
        numbers = dict(self._database.among(_TEXT_NUMBERS, list(digests)))
        fresh = [(digest, text) for digest, text in digests.items() if digest not in numbers]
        if fresh:
            self._database.executemany("INSERT INTO text (hash, body) VALUES (?, ?)", fresh)
            numbers |= dict(self._database.among(_TEXT_NUMBERS, [digest for digest, _ in fresh]))
        return {text: int(numbers[digest]) for digest, text in digests.items()}


_TEXT_NUMBERS = "SELECT hash, id FROM text WHERE hash IN (these)"


def _part(run_id: str, row: Sequence[Any], scores: Mapping[str, ScorePart]) -> RequestPart:
    kept: dict[str, Any] = dict(zip(_REQUEST, row, strict=False))
    question, answer = row[-2:]
    verdict = None
    if kept["verdict"] is not None:
        verdict = VerdictPart(
            kept["verdict_ns"],
            kept["verdict"],
            tuple(json.loads(kept["codes"])),
            tuple(json.loads(kept["reasons"])),
        )
    return RequestPart(
        run_id=run_id,
        place=None if kept["span_id"] is None else (kept["span_rank"], kept["span_id"]),
        question=question,
        answer=answer,
        received=None if kept["received"] is None else bool(kept["received"]),
        alarms=None if kept["alarms"] is None else bool(kept["alarms"]),
        segments=json.loads(kept["segments"] or "{}"),
        metadata=json.loads(kept["metadata"] or "{}"),
        verdict=verdict,
        scores=scores,
        **{name: kept[name] for name in _SAME},
    )
