"""Conversations of a stretch of time: their turns in order, and which of them went badly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.quality.asked_again import asks_again
from ragmeter.quality.turns import first_bad, verdict_of_turns

from ._database import Database
from ._lists import MAX_LIMIT, where_of
from .views import ConversationPage, ConversationView, Filters, TurnView

__all__ = ["conversations"]

_MOST_TURNS = 20_000
"""Requests that are read."""
_WORST: Mapping[str | None, int] = {"bad": 0, "suspect": 1}


def conversations(
    database: Database,
    filters: Filters,
    bounds: tuple[int, int],
    *,
    limit: int,
    conversation_id: str | None,
    asked_again: bool = False,
) -> ConversationPage:
    """Return the conversations to look at first; see `Reader.conversations`."""
    if not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit is {limit}; allowed are 1 to {MAX_LIMIT}")
    where, given = where_of(filters, bounds, database.has_word)
    if conversation_id is not None:
        where, given = f"{where} AND r.conversation_id = ?", [*given, conversation_id]
    rows = database.execute(
        "SELECT r.conversation_id, r.service, r.workflow, r.trace_id, r.span_id, r.run_id, r.at, r.status, "
        "r.verdict, q.body, substr(a.body, 1, 400), r.codes FROM request r "
        "LEFT JOIN text q ON q.id = r.question LEFT JOIN text a ON a.id = r.answer "
        f"WHERE {where} AND r.conversation_id IS NOT NULL ORDER BY r.at DESC, r.id DESC LIMIT ?",
        (*given, _MOST_TURNS + 1),
    ).fetchall()
    told: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in reversed(rows[:_MOST_TURNS]):
        told.setdefault((row[1] or "", row[0]), []).append(row)
    found = [
        _conversation(name, service, turns, asked_again=asked_again)
        for (service, name), turns in told.items()
    ]
    found.sort(key=lambda one: (_WORST.get(one.verdict, 2), -one.turns[-1].at_ms))
    judged = sum(any(turn.verdict for turn in one.turns) for one in found)
    with_bad = sum(one.first_bad is not None for one in found)
    interval = wilson_interval(with_bad / judged, judged) if judged else None
    return ConversationPage(
        conversations=tuple(found[:limit]),
        total=len(found),
        with_bad=with_bad,
        share=with_bad / judged if judged else None,
        lower=None if interval is None else interval[0],
        upper=None if interval is None else interval[1],
        complete=len(rows) <= _MOST_TURNS,
    )


def _conversation(
    name: str, service: str, rows: Sequence[tuple[Any, ...]], *, asked_again: bool
) -> ConversationView:
    turns = tuple(
        TurnView(
            trace_id=trace_id and trace_id.hex(),
            span_id=span_id and span_id.hex(),
            run_id=run_id,
            at_ms=at,
            status=status,
            verdict=verdict,
            question=question,
            answer=answer,
            verdict_codes=tuple(json.loads(codes or "[]")),
            asks_again=place > 0 and asks_again(question) if asked_again and question else None,
        )
        for place, (
            _, _, _, trace_id, span_id, run_id, at, status, verdict, question, answer, codes
        ) in enumerate(rows)
    )  # fmt: skip
    again = [place for place, turn in enumerate(turns, 1) if turn.asks_again]
    words = [turn.verdict for turn in turns]
    first = first_bad(words)
    return ConversationView(
        conversation_id=name,
        service=service,
        workflow=rows[0][2] or "",
        verdict=verdict_of_turns(words, again),
        first_bad=first,
        ended_bad=1 < len(turns) == first,
        turns=turns,
    )
