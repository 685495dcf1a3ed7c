"""Link stored requests to conversations, and count how values within one correlate, as a meter counts them.

`_counting` passes in each request it counts, and those of the half hour before, in order of time. The pairs of
values within one conversation are added to the sums of the counted requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ragmeter.quality.conversations import SILENCE_S, Conversations, ConversationSums
from ragmeter.quality.moments import FreeMoments

from ._cells import GroupKey, Home, Keep
from ._database import Database

if TYPE_CHECKING:
    from ._counting import StoredRequest

_Row = tuple[Any, ...]
_GOES_ON = (
    "(r.conversation_id IN (SELECT conversation_id FROM request WHERE at >= ? AND at <= ?) OR "
    "r.conversation_id IS NULL AND r.question IN "
    "(SELECT question FROM request WHERE at >= ? AND at <= ? AND conversation_id IS NULL))"
)


def earlier(
    database: Database, present: Sequence[_Row], requests: str, scores: str
) -> tuple[list[_Row], list[_Row]]:
    """Return the preceding requests of the same conversations, in order of time, and their scores.

    `present` are the rows of the requests to count, in order of time; `requests` and `scores` the SELECT
    statements of such rows, the first without conditions.
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
    """The cells that count the request; None: it precedes the counted period."""
    at: float
    """Start of the request, seconds since the epoch."""


class Turns:
    """Requests by conversation, in order of time."""

    def __init__(self) -> None:
        self._conversations = Conversations()
        self._turns: list[_Turn] = []

    def add(self, row: _Row, request: StoredRequest, cells: Mapping[GroupKey, Home] | None) -> None:
        """Add a request, with its row and the cells that count it; None if it precedes the counted period."""
        _, at, conversation_id, question, *_ = row
        conversation = self._conversations.of(conversation_id, question, at / 1000)
        if conversation is not None and request.selection != "worst":
            self._turns.append(_Turn(conversation, request, cells, at / 1000))

    def count_pairs(self, keep: Keep) -> None:
        """Add the products of pairs of values within one conversation to the sums of the counted cells."""
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
                weight = 1.0 / request.rate_of(value) if judged else 1.0
                for group in request.groups:
                    if not keep.has(group.segment, name):
                        continue
                    cell = None if cells is None else cells[group][key]
                    if cell is None or cell.is_quality:
                        sums = beside if cell is None else cell.moments
                        conversation.add(group, place, sums, weight, value.value, at)
