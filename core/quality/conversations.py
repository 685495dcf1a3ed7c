"""Track conversations to measure the correlation of scores within them.

Requests of one conversation are alike, and so are repeated questions: five of them carry less information
than those of five people. `ragmeter.quality.sums` looks up the conversation of each request and adds the
products of its pairs of values to the sums (`Moments.follow`). Only sums are stored, for a bounded number of
conversations, beyond which they are a sample; not locked.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable

from .moments import Moments

SILENCE_S = 1800.0
"""Seconds of silence after which a conversation is over; a later request begins another one."""
MAX_OPEN = 5_000
"""Most open conversations, some 1.5 KB each and 0.8 KB more for each segment. Of more, a share is tracked,
chosen by hash, and each represents the inverse of that share."""
MAX_REPEATS = 10
"""Equal questions of unknown conversations that count as one conversation: a frequent question comes from
many people."""


_FIELDS = 4
"""Numbers of a score: count of values, sum of weights, sum of weighted values, and time of the last value."""


class ConversationSums:
    """The sums of the values of one conversation so far."""

    __slots__ = ("_sums", "is_question", "last_at", "stands_for", "turns")

    def __init__(self, *, is_question: bool = False) -> None:
        self.is_question = is_question
        self._sums: dict[Hashable, array[float]] = {}
        self.turns = 0
        self.last_at = 0.0
        """Its last request, in seconds."""
        self.stands_for = 1
        """Number of conversations that it represents."""

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
                turns = 0 if self.is_question else self.stands_for
                sums.follow(weight, value, here[place + 1], here[place + 2], self.stands_for, turns)
        here[place] += 1.0
        here[place + 1] += weight
        here[place + 2] += weight * value
        here[place + 3] = now


class Conversations:
    """The open conversations, or a share of them. Never more than `MAX_OPEN`."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, ConversationSums] = OrderedDict()
        self._one_in = 1
        """One in so many is tracked,"""
        self._since = 0.0
        """since this time."""

    def of(self, conversation_id: str | None, question: object, now: float) -> ConversationSums | None:
        """Return the conversation of a request, or None if it has none or is not tracked.

        Args:
            conversation_id: Session, thread or conversation id; None: not known.
            question: The question, or its hash; equal questions of unknown conversations form one
                conversation.
            now: Arrival of the request, in seconds.
        """
        is_question = not conversation_id
        if is_question and not question:
            return None
        while self._open and now - next(iter(self._open.values())).last_at > SILENCE_S:
            self._open.popitem(last=False)
        # Not before those that were left out are over: their earlier turns are unknown.
        is_quiet = len(self._open) < MAX_OPEN // 4 and now - self._since > SILENCE_S
        if self._one_in > 1 and is_quiet:
            self._track_one_in(self._one_in // 2, now)
        name = hash((is_question, question if is_question else conversation_id))
        if name % self._one_in:
            return None
        found = self._open.pop(name, None) or ConversationSums(is_question=is_question)
        self._open[name] = found
        found.turns += 1
        found.last_at = now
        found.stands_for = self._one_in
        if len(self._open) > MAX_OPEN:
            self._track_one_in(2 * self._one_in, now)
        return found

    def _track_one_in(self, number: int, now: float) -> None:
        self._one_in, self._since = number, now
        for name in [name for name in self._open if name % number]:
            del self._open[name]
