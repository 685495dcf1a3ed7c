"""Which stored requests go on with which, and what their values say together: as a meter counts it.

`Cells` shows every request it counts, and those of half an hour before them, in order of time; what the pairs
of values of one conversation say is added to the sums of those it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ragmeter.quality.conversations import SILENCE_S, Conversations, ConversationSums
from ragmeter.quality.moments import FreeMoments

from ._database import Database

if TYPE_CHECKING:
    from ._cells import GroupKey, Home, Keep, StoredRequest

_Row = tuple[Any, ...]
_GOES_ON = (
    "(r.conversation_id IN (SELECT conversation_id FROM request WHERE at >= ? AND at <= ?) OR "
    "r.conversation_id IS NULL AND r.question IN "
    "(SELECT question FROM request WHERE at >= ? AND at <= ? AND conversation_id IS NULL))"
)


def earlier(
    database: Database, present: Sequence[_Row], requests: str, scores: str
) -> tuple[list[_Row], list[_Row]]:
    """Return the requests before these that theirs may go on with, in order of time, and their scores.

    Args:
        database: Where they are.
        present: Rows of requests, in order of time.
        requests: The statement that such rows come from, without its conditions.
        scores: The same of the scores that count, with a condition.
    """
    if not present:
        return [], []
    first, last = present[0][1], present[-1][1]
    rows = database.execute(
        f"{requests} WHERE r.at >= ? AND r.at < ? AND {_GOES_ON}",
        (first - int(SILENCE_S * 1000), first, first, last, first, last),
    ).fetchall()
    numbers = [row[0] for row in rows]
    found = database.among(f"{scores} AND r.id IN (these)", numbers) if numbers else ()
    return sorted(rows, key=itemgetter(1, 0)), list(found)


class _Turn(NamedTuple):
    """A request of a conversation."""

    conversation: ConversationSums
    request: StoredRequest
    cells: Mapping[GroupKey, Home] | None
    """Where it is counted; None: it came before those that are."""
    at: float
    """When it came, in seconds."""


class Turns:
    """Requests by conversation, in order of time."""

    def __init__(self) -> None:
        self._conversations = Conversations()
        self._turns: list[_Turn] = []

    def add(self, row: _Row, request: StoredRequest, cells: Mapping[GroupKey, Home] | None) -> None:
        """Take in a request, as its row and as it is counted in `cells`; None: one of before."""
        _, at, conversation_id, question, *_ = row
        conversation = self._conversations.of(conversation_id, question)
        if conversation is not None and request.selection != "worst":
            self._turns.append(_Turn(conversation, request, cells, at / 1000))

    def count_pairs(self, keep: Keep) -> None:
        """Count how the values of one conversation go together, in the sums of what is counted."""
        places: dict[tuple[str, str], int] = {}
        beside = FreeMoments()
        for conversation, request, cells, at in self._turns:
            if conversation.turns < 2:
                continue
            for name, value in request.values.items():
                if value.value is None or value.status in ("missing_input", "skipped"):
                    continue
                key = name, value.measurement
                place = places.setdefault(key, len(places))
                judged = value.kind is not None and value.kind.judged
                rate = (request.judge_rate or 1.0) * (value.asked_with or 1.0)
                weight = 1.0 / rate if judged else 1.0
                for group in request.groups:
                    if not keep.has(group.segment, name):
                        continue
                    cell = None if cells is None else cells[group][key]
                    if cell is None or cell.is_quality:
                        sums = beside if cell is None else cell.moments
                        conversation.add(group, place, sums, weight, value.value, at)
