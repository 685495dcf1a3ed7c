"""Conversations of a period: their turns in order, and their verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragmeter.quality.asked_again import asks_again
from ragmeter.quality.turns import WORST, first_bad, verdict_of_turns

from ._database import Database
from ._lists import MAX_LIMIT, where_of
from .health_views import bad_share
from .views import ConversationPage, ConversationView, Filters, InvalidQueryError, TurnView

_MOST_TURNS = 20_000
"""Most requests to read."""


def conversations(
    database: Database,
    filters: Filters,
    bounds: tuple[int, int],
    *,
    limit: int,
    conversation_id: str | None,
    asked_again: bool = False,
) -> ConversationPage:
    """Return conversations, the worst first; see `Reader.conversations`."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidQueryError(f"limit is {limit}; allowed are 1 to {MAX_LIMIT}")
    where, given = where_of(filters, bounds, database)
    if conversation_id is not None:
        where, given = f"{where} AND r.conversation_id = ?", [*given, conversation_id]
    # Read of all turns only what ranks the conversations; the rest only of the shown ones.
    rows = database.execute(
        "SELECT r.id, coalesce(r.service, ''), r.conversation_id, r.verdict, r.at, "
        f"{'q.body' if asked_again else 'NULL'} FROM request r LEFT JOIN text q ON q.id = r.question "
        f"WHERE {where} AND r.conversation_id IS NOT NULL ORDER BY r.at DESC, r.id DESC LIMIT ?",
        (*given, _MOST_TURNS + 1),
    ).fetchall()
    turns_of: dict[tuple[str, str], list[_Turn]] = {}
    for number, service, name, verdict, at, question in reversed(rows[:_MOST_TURNS]):
        turns = turns_of.setdefault((service, name), [])
        again = bool(turns) and asks_again(question) if question else None
        turns.append(_Turn(number, verdict, at, again))
    found = [_Conversation(name, service, turns) for (service, name), turns in turns_of.items()]
    found.sort(key=lambda one: (WORST.get(one.verdict, 2), -one.turns[-1].at))
    judged = sum(any(turn.verdict for turn in one.turns) for one in found)
    shown = found[:limit]
    row_of = {
        number: row
        for number, *row in database.among(
            "SELECT r.id, r.workflow, r.trace_id, r.span_id, r.run_id, r.status, q.body, "
            "substr(a.body, 1, 400), r.codes FROM request r LEFT JOIN text q ON q.id = r.question "
            "LEFT JOIN text a ON a.id = r.answer WHERE r.id IN (these)",
            [turn.number for one in shown for turn in one.turns],
        )
    }
    with_bad = sum(one.first_bad is not None for one in found)
    share = bad_share(with_bad, judged)
    return ConversationPage(
        conversations=tuple(_view(one, row_of) for one in shown),
        total=len(found),
        with_bad=with_bad,
        share=share.share,
        lower=share.lower if judged else None,
        upper=share.upper if judged else None,
        complete=len(rows) <= _MOST_TURNS,
    )


class _Turn(NamedTuple):
    """The fields of a turn that decide how its conversation went."""

    number: int
    verdict: str | None
    at: int
    again: bool | None
    """Whether the turn repeats the question of the turn before; None: not checked."""


class _Conversation:
    """Turns in order of time, with the verdict over all of them."""

    def __init__(self, name: str, service: str, turns: Sequence[_Turn]) -> None:
        self.name, self.service, self.turns = name, service, turns
        words = [turn.verdict for turn in turns]
        again = [place for place, turn in enumerate(turns, 1) if turn.again]
        self.verdict = verdict_of_turns(words, again)
        self.first_bad = first_bad(words)


def _view(one: _Conversation, rows: Mapping[int, Sequence[Any]]) -> ConversationView:
    turns = tuple(
        TurnView(
            trace_id=trace_id and trace_id.hex(),
            span_id=span_id and span_id.hex(),
            run_id=run_id,
            at_ms=turn.at,
            status=status,
            verdict=turn.verdict,
            question=question,
            answer=answer,
            verdict_codes=tuple(json.loads(codes or "[]")),
            asks_again=turn.again,
        )
        for turn in one.turns
        for _, trace_id, span_id, run_id, status, question, answer, codes in (rows[turn.number],)
    )
    return ConversationView(
        conversation_id=one.name,
        service=one.service,
        workflow=rows[one.turns[0].number][0] or "",
        verdict=one.verdict,
        first_bad=one.first_bad,
        ended_bad=1 < len(turns) == one.first_bad,
        turns=turns,
    )
