"""Knowledge gaps among stored requests, computed from their rows as a meter computes them while it scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, TypeAlias, get_args

from ragmeter.quality.gaps.memory import READ, GapMemory, asked_of

from ._database import Database
from ._lists import where_of
from ._tallies import VerdictBins
from .health_views import bad_share
from .views import Filters, GapPage, GapState, GapView

GapMembers: TypeAlias = Mapping[str, frozenset[str]]
"""The ids of the requests that went badly, by the id of their gap."""

GAPS_RANGE_S = 14 * 86_400.0
"""Period of a list of gaps in seconds, unless a shorter one is requested."""
_MOST_REQUESTS = 20_000
_MOST_CHUNKS = 4_000
_AT_ONCE = 500
"""Requests held in memory at a time."""
_BINS = 48


def gaps(
    database: Database, filters: Filters, bounds: tuple[int, int], now_ms: int
) -> tuple[GapPage, GapMembers]:
    """Return the topics whose requests go badly more often than others, with the ids of their requests.

    See `Reader.gaps`.
    """
    where, given = where_of(filters, bounds, database)
    rows = iter(
        database.execute(
            "SELECT r.id, r.run_id, q.body, r.verdict, r.at, r.workflow FROM request r "
            f"LEFT JOIN text q ON q.id = r.question WHERE {where} ORDER BY r.at DESC, r.id DESC LIMIT ?",
            (*given, _MOST_REQUESTS + 1),
        )
    )
    memory, numbers, read = (GapMemory(_MOST_REQUESTS), dict[int, int](), islice(rows, _MOST_REQUESTS))
    while some := tuple(islice(read, _AT_ONCE)):
        values = _values_of(database, [row[0] for row in some])
        for number, run_id, question, word, at, workflow in some:
            asked, bad = asked_of(
                run_id, question, values.get(number, {}), word, at=at / 1000, workflow=workflow or ""
            )
            if bad is not None:
                memory.add(asked, bad=bad)
                numbers[asked.rank] = number
    memory.add_chunks(
        body
        for (body,) in database.execute(
            "SELECT t.body FROM text t WHERE t.id IN (SELECT text FROM chunk WHERE text IS NOT NULL "
            "AND at >= ? AND at < ? ORDER BY at DESC LIMIT ?)",
            (*bounds, _MOST_CHUNKS),
        )
    )
    found = memory.gaps()
    gone_badly = [numbers[rank] for ranks in found.members.values() for rank in ranks]
    row_of = {
        row[0]: row
        for row in database.among(
            "SELECT id, run_id, verdict, at, coalesce(service, '') FROM request WHERE id IN (these)", gone_badly
        )
    }
    values = _values_of(database, gone_badly)
    members = {name: [row_of[numbers[rank]] for rank in ranks] for name, ranks in found.members.items()}
    page = GapPage(
        gaps=tuple(
            GapView(**asdict(one), **_of_members(members[one.id], values, bounds, now_ms)) for one in found.gaps
        ),
        n_bad=found.n_bad,
        n_requests=found.n_requests,
        without_topic=found.without_topic,
        why_empty=found.why_empty,
        complete=next(rows, None) is None,
    )
    return page, {name: frozenset(row[1] for row in of_gap) for name, of_gap in members.items()}


def _values_of(database: Database, numbers: Collection[int]) -> dict[int, dict[str, float | None]]:
    """Return the scores that are read beside the verdict, by request and name."""
    named = ", ".join(f"'{name}'" for name in READ)
    values: dict[int, dict[str, float | None]] = {}
    for number, name, value in database.among(
        f"SELECT request, name, value FROM score WHERE name IN ({named}) AND coalesce(status, 'ok') = 'ok' "
        "AND request IN (these)",
        numbers,
    ):
        values.setdefault(number, {})[name] = value
    return values


MOST_DECIDED = 1_000
"""Most gaps with a stored decision, the latest ones."""


def with_states(database: Database, page: GapPage) -> GapPage:
    """Return the gaps with their decisions; closed and accepted ones last."""
    decided = {
        name: (state, at)
        for name, state, at in database.among(
            "SELECT id, state, at FROM gap_state WHERE id IN (these)", [one.id for one in page.gaps]
        )
    }
    found: list[GapView] = []
    for one in page.gaps:
        state, at = decided.get(one.id, ("open", 0))
        comes_back = state == "closed" and one.last_ms > at
        found.append(replace(one, state="open" if comes_back else state))
    return replace(page, gaps=tuple(sorted(found, key=lambda one: one.state != "open")))


def decide_gap(database: Database, gap: str, state: str, at_ms: int) -> None:
    """Store the decision about a gap.

    Raises:
        ValueError: There is no such state, or the id is malformed.
    """
    if state not in get_args(GapState) or not re.fullmatch("[0-9a-f]{8}", gap):
        raise ValueError(f"a gap's id is 8 hex digits, its state one of {', '.join(get_args(GapState))}")
    database.execute("DELETE FROM gap_state WHERE id = ?", (gap,))
    if state != "open":
        database.execute("INSERT INTO gap_state (id, state, at) VALUES (?, ?, ?)", (gap, state, at_ms))
    database.execute(
        "DELETE FROM gap_state WHERE id NOT IN (SELECT id FROM gap_state ORDER BY at DESC, id LIMIT ?)",
        (MOST_DECIDED,),
    )


def _of_members(
    rows: Sequence[tuple[Any, ...]],
    values: Mapping[int, Mapping[str, float | None]],
    bounds: tuple[int, int],
    now_ms: int,
) -> dict[str, Any]:
    """Return statistics of a gap's requests, as fields of `GapView`."""
    scores = [values.get(row[0], {}) for row in rows]
    refusals = [one["refusal"] for one in scores if one.get("refusal") is not None]
    relevances = [value for one in scores if (value := one.get(READ[0])) is not None]
    services = Counter(row[4] for row in rows)
    start = min((row[3] for row in rows), default=bounds[0])
    last = max((row[3] for row in rows), default=bounds[0])
    step = max(1, -(-(max(start + 1, min(bounds[1], now_ms)) - start) // _BINS))
    bins = VerdictBins(_BINS)
    for row in rows:
        bins.add((row[3] - start) // step, row[2])
    return {
        "service": min(services, key=lambda one: (-services[one], one), default=""),
        "answered": bad_share(sum(one != 1.0 for one in refusals), len(refusals)),
        "n_refused": sum(one == 1.0 for one in refusals),
        "n_empty": sum(one.get("empty_retrieval") == 1.0 for one in scores),
        "relevance": sum(relevances) / len(relevances) if relevances else None,
        "last_ms": last,
        "from_ms": start,
        "step_ms": step,
        "bins": bins.view(),
    }
