"""What a source records of a model's call: a `Step`, by reference, read on the worker only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from .prompts import Prompt, prompt_of

__all__ = ["Message", "Step", "Unknown"]


class Unknown(NamedTuple):
    """Stands for a value that was not recorded; None means that there is none."""

    reason: str
    """Why it is not known."""


class Message(NamedTuple):
    """One message that a model was sent."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A model's call."""

    id: str
    started_ns: int
    ended_ns: int
    messages: tuple[Message, ...] | Unknown
    """What it was sent."""
    said: str | Unknown | None
    """What it said; None: nothing, or it called tools."""
    scope: str = ""
    """The instrumentation that recorded it."""
    group: str = ""
    """Calls of one group answer together, and their prompts are read as one; empty: it stands for itself."""
    answers: bool = False
    """The source knows that it gave the answer."""
    refusal: str | None = None
    """The words by which it refused, perhaps none; None: it did not."""
    response_id: str | None = None
    """What the model's provider calls what it said."""

    @property
    def sent(self) -> tuple[Message, ...]:
        """What it was sent, as far as that is known."""
        return () if isinstance(self.messages, Unknown) else self.messages

    def prompt(self, new: Collection[str] = frozenset()) -> Prompt:
        """Return its input, this turn's apart from the history; `new` as in `prompt_of`."""
        return prompt_of(((role, (text,)) for role, text in self.sent), new)

    @property
    def words(self) -> str:
        """What it said, as far as that is known."""
        return self.said if isinstance(self.said, str) else ""
