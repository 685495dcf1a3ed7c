"""Track conversations to measure the correlation of scores within them.

Requests of one conversation are alike, and so are repeated questions: five of them carry less information
than those of five people. `ragmeter.quality.sums` looks up the conversation of each request and adds the
products of its pairs of values to the sums (`Moments.follow`). Only sums are stored, for a bounded number of
conversations; not locked.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable

from .moments import Moments

__all__ = ["SILENCE_S", "ConversationSums", "Conversations"]

SILENCE_S = 1800.0
"""Seconds of silence after which a conversation is over; a later request begins another one."""
MAX_OPEN = 5_000
"""Most open conversations, some 1.5 KB each and 0.8 KB more for each segment; the longest silent one ends
first."""
MAX_REPEATS = 10
"""Equal questions of unknown conversations that count as one conversation: a frequent question comes from
many people."""


_FIELDS = 4
"""Numbers of a score: count of values, sum of weights, sum of weighted values, and time of the last value."""


class ConversationSums:
    """The sums of the values of one conversation so far."""

    __slots__ = ("_sums", "is_question", "turns")

    def __init__(self, *, is_question: bool = False) -> None:
        self.is_question = is_question
        self._sums: dict[Hashable, array[float]] = {}
        self.turns = 0

    def add(self, family: Hashable, place: int, sums: Moments, weight: float, value: float, now: float) -> None:
        """Add a value to the earlier ones of the same score.

        After `SILENCE_S` without one, and `MAX_REPEATS` of a question, a value begins another conversation.

        Args:
            family: The group of requests that is counted together.
            place: The score's index among the counted scores of that group.
            sums: Its sums.
            weight: 1.0 for a free score, else the inverse of the probability to be judged.
            value: The value, 0 to 1.
            now: Arrival of the request, in seconds.
        """
        here = self._sums.get(family)
        if here is None:
            here = self._sums[family] = array("d")
        place *= _FIELDS
        if len(here) <= place:
            here.frombytes(bytes(8 * (place + _FIELDS - len(here))))
        elif here[place]:
            if now - here[place + 3] > SILENCE_S or (self.is_question and here[place] >= MAX_REPEATS):
                here[place] = here[place + 1] = here[place + 2] = 0.0
            else:
                is_turn = not self.is_question
                sums.follow(weight, value, here[place + 1], here[place + 2], is_turn=is_turn)
        here[place] += 1.0
        here[place + 1] += weight
        here[place + 2] += weight * value
        here[place + 3] = now


class Conversations:
    """The open conversations. Never more than `MAX_OPEN`."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, ConversationSums] = OrderedDict()

    def of(self, conversation_id: str | None, question: object) -> ConversationSums | None:
        """Return the conversation of a request, or None if it has none.

        Args:
            conversation_id: Session, thread or conversation id; None: not known.
            question: The question, or its hash; equal questions of unknown conversations form one
                conversation.
        """
        is_question = not conversation_id
        if is_question and not question:
            return None
        name = hash((is_question, question if is_question else conversation_id))
        found = self._open.pop(name, None)
        if found is None:
            found = ConversationSums(is_question=is_question)
            if len(self._open) >= MAX_OPEN:
                self._open.popitem(last=False)
        self._open[name] = found
        found.turns += 1
        return found
