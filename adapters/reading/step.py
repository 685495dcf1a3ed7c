"""What a source records of a model's call: a `Step`, by reference, read on the worker only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Message", "Step", "Unknown"]


class Unknown(NamedTuple):
    """Stands where nobody told a value; None says that there is none."""

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
    """Who recorded it."""

    @property
    def sent(self) -> tuple[Message, ...]:
        """What it was sent, as far as that is known."""
        return () if isinstance(self.messages, Unknown) else self.messages

    @property
    def words(self) -> str:
        """What it said, as far as that is known."""
        return self.said if isinstance(self.said, str) else ""
