"""Notes the strings in an output of any shape: what an answer can be chosen from.

Called on the request's own path, at its end; what `strings_in` hands out are references to the
application's own strings. It runs none of the application's code (see `_fields`), is bounded in depth
and number, and knows messages, documents and nodes by their shape, whatever the framework.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._fields import fields_of, items_of, text_of_string

__all__ = ["OutputString", "strings_in"]

MAX_DEPTH = 6
MAX_STRINGS = 200
MAX_VISITED = 2_000
"""Levels, strings and objects of an output that are looked at, its shallow ones first."""

_USERS = frozenset({"user", "human"})
_USERS_OR_SYSTEM = _USERS | frozenset(
    {"system", "developer", "tool", "function", "remove", "placeholder"}
)
_MODELS = frozenset({"ai", "assistant", "chatbot", "AIMessageChunk"})


class OutputString(NamedTuple):
    """One string of an output, and where it stands."""

    text: str
    """The application's own string."""
    path: tuple[str, ...] = ()
    """Names of the fields that lead to it, in small letters."""
    siblings: int = 0
    """Which list it stands in, from 1; 0: none."""
    is_message: bool = False
    """It is a message of the model's."""
    closes: bool = False
    """It is such a message, and ends a conversation."""


class _Place(NamedTuple):
    """A value on its way to be looked at."""

    value: object
    path: tuple[str, ...]
    siblings: int
    is_last: bool


def strings_in(payload: object) -> tuple[OutputString, ...]:
    """Return the strings in an output, as they stand; a few levels deep, shallow ones first.

    Looks into dictionaries, lists, tuples, named tuples, dataclasses, pydantic and other objects by
    what they store (`fields_of`: no code of theirs runs), passes over messages of anyone but the
    model (or an agent that speaks as a named user), over messages that only call tools, and over
    documents and nodes. Bounded in depth and number; never raises, never changes anything.
    """
    found: list[OutputString] = []
    waiting: deque[_Place] = deque([_Place(payload, (), 0, is_last=False)])
    visited = lists = 0
    while waiting and visited < MAX_VISITED and len(found) < MAX_STRINGS:
        value, path, siblings, is_last = waiting.popleft()
        visited += 1
        text = text_of_string(value)
        if text is not None:
            if text and not text.isspace():
                found.append(OutputString(text, path, siblings))
            continue
        if (items := items_of(value)) is not None:
            pair = _message_of_pair(items)
            if pair is not None:
                if pair:
                    found.append(OutputString(pair, path, siblings, True, is_last))
            elif len(path) < MAX_DEPTH:
                lists += 1
                last = len(items) - 1
                waiting.extend(
                    _Place(item, (*path, ""), lists, is_last=place == last)
                    for place, item in enumerate(items)
                )
            continue
        fields = fields_of(value)
        if not fields or _is_document(fields):
            continue
        message = _message_of(fields)
        if message is not None:
            if message:
                found.append(OutputString(message, path, siblings, True, is_last))
        elif len(path) < MAX_DEPTH:
            waiting.extend(
                _Place(item, (*path, name.lower()), 0, is_last=False)
                for name, item in fields.items()
                if type(item) not in _NOTHING
            )
    return tuple(found)


_NOTHING = frozenset({type(None), bool, int, float})


def _message_of_pair(items: Sequence[Any]) -> str | None:
    """Return the text of a message written as a pair; empty: not the model's; None: no message."""
    if len(items) != 2 or type(items[0]) is not str or type(items[1]) is not str:
        return None
    if items[0] in _MODELS:
        return items[1]
    return "" if items[0] in _USERS_OR_SYSTEM else None


def _message_of(fields: Mapping[str, Any]) -> str | None:
    """Return the text of a message; empty: not the model's, or it calls tools; None: no message."""
    if "content" not in fields and "blocks" not in fields:
        return None
    role = text_of_string(fields.get("role")) or text_of_string(fields.get("type"))
    # Agents report to each other as users, by name.
    is_agents = role in _USERS and bool(text_of_string(fields.get("name")))
    if role in _USERS_OR_SYSTEM and not is_agents:
        return ""
    if role not in _MODELS and not is_agents:
        return None
    if items_of(fields.get("tool_calls")):
        return ""
    content = fields.get("content", fields.get("blocks"))
    text = text_of_string(content)
    if text is not None:
        return text
    parts: list[str] = []
    for block in items_of(content) or ():
        part = text_of_string(block)
        if part is None:
            inner = fields_of(block) or {}
            kind = text_of_string(inner.get("type", inner.get("block_type")))
            part = text_of_string(inner.get("text")) if kind in (None, "text") else None
        parts.append(part or "")
    return "".join(parts)


def _is_document(fields: Mapping[str, Any]) -> bool:
    """Return whether fields are those of a retrieved document or node, in any framework."""
    if "page_content" in fields or ("node" in fields and "score" in fields):
        return True
    return (
        "metadata" in fields
        and ("text" in fields or "text_resource" in fields)
        and any(name in fields for name in ("id_", "node_id", "embedding", "score"))
    )
