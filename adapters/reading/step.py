"""A source's record of a model's call: a `Step`, by reference, read on the worker only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from .prompts import Prompt, prompt_of


class Unknown(NamedTuple):
    """Placeholder for a value that was not recorded; None means that there is none."""

    reason: str


class Message(NamedTuple):
    """One message sent to a model."""

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
    """Its input."""
    said: str | Unknown | None
    """Its reply; None: nothing, or it called tools."""
    scope: str = ""
    """The instrumentation that recorded it."""
    group: str = ""
    """Calls of one group answer together, and their prompts are read as one; empty: no group."""
    answers: bool = False
    """Whether the source knows that it gave the answer."""
    refusal: str | None = None
    """The words of its refusal, possibly empty; None if it did not refuse."""
    response_id: str | None = None
    """The provider's id of its reply."""

    @property
    def sent(self) -> tuple[Message, ...]:
        """Its known input."""
        return () if isinstance(self.messages, Unknown) else self.messages

    def prompt(self, new: Collection[str] = frozenset()) -> Prompt:
        """Return its input, this turn's apart from the history; `new` as in `prompt_of`."""
        return prompt_of(self.sent, new)

    @property
    def words(self) -> str:
        """Its known reply."""
        return self.said if isinstance(self.said, str) else ""
