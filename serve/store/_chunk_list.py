"""Chunk statistics of the corpus, computed from stored requests as a meter computes them while it scores."""

from __future__ import annotations

import json
from collections import defaultdict

from ragmeter.metrics import RetrievedContext
from ragmeter.quality.corpus.memory import USE, CorpusMemory
from ragmeter.quality.corpus.view import ChunkReport
from ragmeter.quality.gaps.memory import GapMemory, is_bad

from ._database import Database
from ._lists import where_of
from ._received import CARRIED
from .views import Filters

MOST_REQUESTS = 5_000
"""Most requests to read, the newest."""
_CHUNKS = (
    "SELECT r.id, c.document, t.body, c.span_id FROM request r JOIN chunk c ON {home} "
    "LEFT JOIN text t ON t.id = c.text WHERE r.id IN (these) ORDER BY r.id, c.at, c.span_id, c.rank"
)
_HOMES = ("c.trace_id = r.trace_id AND c.owner = r.span_id", "c.trace_id = r.home")
"""Two ways to find the chunks of a request: by its span, or by their own key if they came with the request."""


def chunks(database: Database, filters: Filters, bounds: tuple[int, int], now: float) -> ChunkReport:
    """Return statistics of the retrieved chunks; see `Reader.chunks`."""
    where, given = where_of(filters, bounds, database)
    read = database.execute(
        f"SELECT r.id, r.verdict, r.at FROM request r WHERE {where} ORDER BY r.at DESC, r.id DESC LIMIT ?",
        (*given, MOST_REQUESTS),
    ).fetchall()
    numbers = [row[0] for row in read]
    values: dict[tuple[int, str], float | None] = {}
    used: dict[int, frozenset[int]] = {}
    for number, name, value, items in database.among(
        "SELECT s.request, s.name, s.value, e.items FROM score s "
        "LEFT JOIN evidence e ON e.request = s.request AND e.name = s.name "
        f"WHERE s.name IN ('empty_retrieval', 'refusal', '{USE}') AND s.value IS NOT NULL "
        "AND s.request IN (these)",
        numbers,
    ):
        values[number, name] = value
        if name == USE and items:
            used[number] = _used(items)
    found: defaultdict[int, list[RetrievedContext]] = defaultdict(list)
    for home in _HOMES:
        missing = [number for number in numbers if number not in found]
        for number, document, body, span in database.among(_CHUNKS.format(home=home), missing):
            if span != CARRIED:
                found[number].append(RetrievedContext(text=body or "", id=document))
    memory, texts = CorpusMemory(), GapMemory()
    for number, word, at in read:
        bad = is_bad(
            word,
            empty=values.get((number, "empty_retrieval")) == 1.0,
            refused=values.get((number, "refusal")) == 1.0,
        )
        memory.add(found.get(number, ()), at=at / 1000, bad=bad, used=used.get(number))
    texts.add_chunks(one.text for contexts in found.values() for one in contexts if one.text)
    return memory.view(texts.chunks(), now)


def _used(items: str) -> frozenset[int]:
    return frozenset(
        int(one["id"].removeprefix("chunk-")) - 1
        for one in json.loads(items).get("items", ())
        if one.get("verdict") and one["id"].startswith("chunk-")
    )
