"""Conversations turn by turn for `ragmeter.RagMeter.conversations`, and the exporter that stores them.

A mean hides where a conversation went wrong.  Here are its turns in order with their verdicts, the first bad
one, those that ask the one before again, where that is looked for, and a verdict of the whole.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragmeter.exporters.protocol import ListPoint, ScoredRun, UnbufferedExporter
from ragmeter.metrics import VerdictWord
from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.metrics._process import fork

from .asked_again import asks_again
from .list_points import conversation_points

__all__ = ["WORST", "Conversation", "ConversationExporter", "Turn", "first_bad", "verdict_of_turns"]

MOST_CONVERSATIONS = 5_000
"""The one that was silent longest goes first."""
_DAY_S = 86_400
MOST_TURNS = 200
"""The last ones of each."""
WORST: Mapping[str | None, int] = {"bad": 0, "suspect": 1}
"""Which conversations come first, by their verdict; all others are 2."""


def first_bad(words: Sequence[str | None]) -> int | None:
    """Return which turn is the first bad one, counted from 1; None: none is."""
    return list(words).index("bad") + 1 if "bad" in words else None


def verdict_of_turns(words: Sequence[str | None], again: Collection[int] = ()) -> str | None:
    """Return the verdict of a conversation; None: no turn has one.

    ``bad`` where the last turn with a verdict is, or a bad one was asked again; ``suspect`` where another one
    is bad or was asked again; else the last one's.

    Args:
        words: The verdict of each turn.
        again: The turns that ask the one before again, counted from 1.
    """
    last = next((word for word in reversed(words) if word), None)
    if last is None:
        return None
    if last == "bad" or any(words[turn - 2] == "bad" for turn in again):
        return "bad"
    return "suspect" if "bad" in words or again else last


@dataclass(frozen=True, slots=True)
class Turn:
    """A request of a conversation."""

    run_id: str
    """Its id."""
    trace_id: str | None
    """Its trace, 32 hex digits; None: it has none."""
    at: float
    """When it began, in seconds since the epoch."""
    status: str
    """How it ended."""
    verdict: VerdictWord | None
    """Its word; None: not yet, or none."""
    asks_again: bool | None = None
    """Whether it has a phrase of someone who asks again; None: it is not looked for."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The requests of one conversation, session or thread."""

    id: str
    """As the application tells it."""
    workflow: str
    """Of its first turn; empty: it has no name."""
    turns: tuple[Turn, ...]
    """In order of time."""

    @property
    def verdict(self) -> str | None:
        """The word of the whole; see `verdict_of_turns`."""
        return verdict_of_turns([turn.verdict for turn in self.turns], self.asked_again)

    @property
    def first_bad(self) -> int | None:
        """Which turn is the first bad one, counted from 1; None: none is."""
        return first_bad([turn.verdict for turn in self.turns])

    @property
    def asked_again(self) -> tuple[int, ...]:
        """The turns that repeat the question before, counted from 1."""
        return tuple(at for at, turn in enumerate(self.turns, 1) if at > 1 and turn.asks_again)

    def __str__(self) -> str:
        bad = "" if self.first_bad is None else f", first bad turn {self.first_bad}"
        return f"{self.id}: {len(self.turns)} turns{bad}, verdict {self.verdict or 'unknown'}"


class ConversationExporter(UnbufferedExporter):
    """The exporter ``"conversations"``: keeps ids, times and verdicts of turns in this process, and no text.

    Args:
        asked_again: Whether phrases of people who ask again are looked for in questions.

    Attributes:
        conversation_memory: Itself, by which a meter finds it.
    """

    def __init__(self, *, asked_again: bool = False) -> None:
        self._looks = asked_again
        self._known: OrderedDict[str, tuple[str, dict[str, Turn]]] = OrderedDict()
        self._lock = fork.lock()
        self.conversation_memory = self

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Keep these turns; a late result changes the verdict of one that is known."""
        with self._lock:
            for scored in batch:
                if scored.run.conversation_id is not None:
                    self._add(scored.run.conversation_id, scored)

    def conversations(self, workflow: str | None = None) -> tuple[Conversation, ...]:
        """Return what is known, the bad ones first, then the suspect ones; of each the newest first."""
        with self._lock:
            found = [
                Conversation(name, where, tuple(sorted(turns.values(), key=lambda one: one.at)))
                for name, (where, turns) in self._known.items()
                if workflow in (None, where)
            ]
        return tuple(sorted(found, key=lambda one: (WORST.get(one.verdict, 2), -one.turns[-1].at)))

    def points(self) -> Iterator[ListPoint]:
        """Yield the share of the last day's conversations that have a bad turn."""
        since = time.time() - _DAY_S
        recent = [one for one in self.conversations() if one.turns[-1].at >= since]
        judged = sum(one.verdict is not None for one in recent)
        if judged:
            share = sum(one.first_bad is not None for one in recent) / judged
            yield from conversation_points(share, *wilson_interval(share, judged))

    def _add(self, name: str, scored: ScoredRun) -> None:
        run = scored.run
        word = None if scored.verdict is None else scored.verdict.word
        _, turns = self._known.setdefault(name, (run.name or "", {}))
        self._known.move_to_end(name)
        known = turns.get(run.run_id)
        if known is not None:
            turns[run.run_id] = replace(known, verdict=word or known.verdict)
            return
        trace_id = run.trace_id
        turns[run.run_id] = Turn(
            run_id=run.run_id,
            trace_id=None if trace_id is None else f"{trace_id:032x}",
            at=run.started_ns / 1e9,
            status=run.sample.status,
            verdict=word,
            asks_again=asks_again(run.sample.question or "") if self._looks else None,
        )
        if len(turns) > MOST_TURNS:
            del turns[min(turns, key=lambda one: turns[one].at)]
        if len(self._known) > MOST_CONVERSATIONS:
            self._known.popitem(last=False)
