"""Conversations turn by turn for `ragmeter.RagMeter.conversations`, and the exporter that stores them.

A mean hides where a conversation went wrong. Here are its turns in order with their verdicts, the first bad
one, those that repeat the question before, if these are detected, and a verdict of the whole.
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

MOST_CONVERSATIONS = 5_000
"""Most conversations; the longest silent one is dropped first."""
_DAY_S = 86_400
MOST_TURNS = 200
"""Most turns of each, the last ones."""
WORST: Mapping[str | None, int] = {"bad": 0, "suspect": 1}
"""Sort order of conversations by verdict; all others are 2."""


def first_bad(words: Sequence[str | None]) -> int | None:
    """Return the number of the first bad turn, counted from 1, or None."""
    return list(words).index("bad") + 1 if "bad" in words else None


def verdict_of_turns(words: Sequence[str | None], again: Collection[int] = ()) -> str | None:
    """Return the verdict of a conversation; None: no turn has one.

    ``bad`` if the last turn with a verdict is, or if a bad one was asked again; ``suspect`` if another one is
    bad or was asked again; else that of the last one.

    Args:
        words: The verdict of each turn.
        again: The turns that repeat the question before, counted from 1.
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
    """Its run id."""
    trace_id: str | None
    """Trace id, 32 hex digits; None: no trace."""
    at: float
    """Start, in seconds since the epoch."""
    status: str
    """Status of the request."""
    verdict: VerdictWord | None
    """Word of the verdict; None: not yet known, or none."""
    asks_again: bool | None = None
    """Whether it has a phrase that repeats the question before; None: not checked."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The requests of one conversation, session or thread."""

    id: str
    """The application's id of it."""
    workflow: str
    """Workflow of its first turn; empty: unnamed."""
    turns: tuple[Turn, ...]
    """The turns by time."""

    @property
    def verdict(self) -> str | None:
        """The verdict of the whole; see `verdict_of_turns`."""
        return verdict_of_turns([turn.verdict for turn in self.turns], self.asked_again)

    @property
    def first_bad(self) -> int | None:
        """Number of the first bad turn, counted from 1, or None."""
        return first_bad([turn.verdict for turn in self.turns])

    @property
    def asked_again(self) -> tuple[int, ...]:
        """The turns that repeat the question before, counted from 1."""
        return tuple(at for at, turn in enumerate(self.turns, 1) if at > 1 and turn.asks_again)

    def __str__(self) -> str:
        bad = "" if self.first_bad is None else f", first bad turn {self.first_bad}"
        return f"{self.id}: {len(self.turns)} turns{bad}, verdict {self.verdict or 'unknown'}"


class ConversationExporter(UnbufferedExporter):
    """The exporter ``"conversations"``: stores ids, times and verdicts of turns in this process, and no text.

    Args:
        asked_again: Whether to search questions for phrases that repeat an earlier question.

    Attributes:
        conversation_memory: The exporter itself; a meter finds it by this attribute.
    """

    def __init__(self, *, asked_again: bool = False) -> None:
        self._looks = asked_again
        self._known: OrderedDict[str, tuple[str, dict[str, Turn]]] = OrderedDict()
        self._lock = fork.lock()
        self.conversation_memory = self

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Store these turns; a late result updates the verdict of a known one."""
        with self._lock:
            for scored in batch:
                if scored.run.conversation_id is not None:
                    self._add(scored.run.conversation_id, scored)

    def conversations(self, workflow: str | None = None) -> tuple[Conversation, ...]:
        """Return the conversations, bad ones first, then suspect ones; of each the newest first."""
        with self._lock:
            found = [
                Conversation(name, where, tuple(sorted(turns.values(), key=lambda one: one.at)))
                for name, (where, turns) in self._known.items()
                if workflow in (None, where)
            ]
        return tuple(sorted(found, key=lambda one: (WORST.get(one.verdict, 2), -one.turns[-1].at)))

    def points(self) -> Iterator[ListPoint]:
        """Yield the share of the last day's conversations with a bad turn."""
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
