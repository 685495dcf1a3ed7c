"""Link stored requests to conversations, and count how values within one correlate, as a meter counts them.

`_counting` passes in each request it counts, and those of the half hour before, in order of time. The pairs of
values within one conversation are added to the sums of the counted requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ragmeter.quality.conversations import SILENCE_S, Conversations
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


def earlier(database: Database, present: Sequence[_Row], requests: str) -> list[_Row]:
    """Return the preceding requests of the same conversations, in order of time.

    `present` are the rows of the requests to count, in order of time; `requests` is the SELECT statement of
    such rows, without conditions.
    """
    if not present:
        return []
    first, last = present[0][1], present[-1][1]
    rows = database.execute(
        f"{requests} WHERE r.at >= ? AND r.at < ? AND {_GOES_ON}",
        (first - int(SILENCE_S * 1000), first, first, last, first, last),
    )
    return sorted(rows, key=itemgetter(1, 0))


class Turns:
    """The requests of conversations with several.

    Args:
        rows: Rows of all requests, in order of time.
    """

    def __init__(self, rows: Iterable[_Row]) -> None:
        open_ones = Conversations()
        all_of = {
            number: open_ones.of(conversation_id, question, at / 1000)
            for number, at, conversation_id, question, *_ in rows
        }
        self._conversations = {
            number: one for number, one in all_of.items() if one is not None and one.turns > 1
        }
        self._places: dict[tuple[str, str], int] = {}
        self._beside = FreeMoments()

    def count(
        self, row: _Row, request: StoredRequest, cells: Mapping[GroupKey, Home] | None, keep: Keep
    ) -> None:
        """Add the products of a request's values with the earlier ones of its conversation to the counted sums.

        Args:
            row: Its row; rows come in order of time.
            request: The same, as it is counted.
            cells: The cells that count it; None: it precedes the counted period.
            keep: The choice of scores.
        """
        conversation = self._conversations.get(row[0])
        if conversation is None or request.selection == "worst":
            return
        for name, value in request.values.items():
            if value.value is None or value.status in ("missing_input", "skipped"):
                continue
            key = name, value.measurement
            place = self._places.setdefault(key, len(self._places))
            judged = value.kind is not None and value.kind.judged
            weight = 1.0 / request.rate_of(value) if judged else 1.0
            for group in request.groups:
                if not keep.has(group.segment, name):
                    continue
                cell = None if cells is None else cells[group][key]
                if cell is None or cell.is_quality:
                    sums = self._beside if cell is None else cell.moments
                    conversation.add(group, place, sums, weight, value.value, row[1] / 1000)
