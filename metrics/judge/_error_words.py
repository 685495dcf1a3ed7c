"""What an endpoint says in an error, and nothing of what it quotes.

An error may repeat the request or the model's failed reply, so a user's text could name an option or
a filter.  Only the places where servers speak for themselves are read; `failures` decides what the
words mean.  The words never leave the judge: they may repeat a key or a text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Words", "heard"]

_SPEAKING = frozenset({
    "error", "errors", "message", "msg", "detail", "details", "param", "code", "type", "loc", "raw",
    "status", "innererror", "reason", "title", "error_code", "error_msg", "error_message",
    "error_type",
})  # fmt: skip
"""Keys under which servers say what is wrong."""
_NAMING = frozenset({"param", "loc"})
"""Keys under which they name the option that is wrong."""
_CODES = frozenset({"code", "error_code"})
_KINDS = frozenset({"type", "status", "error_type", "reason"})

_DEEPEST = 20
"""Levels of a body that are looked at; gateways wrap errors into errors."""
_MOST_BYTES = 65_536
"""How much of an error's body is looked at."""
_LONGEST = 2_000
"""Characters of one string that are looked at."""
_WITHOUT_JSON = 500
"""Characters looked at of a body that is no JSON."""
_MOST_OBJECTS = 20
"""Objects inside one string that are looked at."""

_QUOTATION = re.compile(
    r"""["'](?:failed_generation|flagged_input|input)["']\s*:.*"""
    r"""|\binput_value\s*=.*?(?=,\s*input_type|\n|$)""",
    re.DOTALL,
)
"""Where a message that is itself a dump of an error begins to quote."""
_DELAY = re.compile(r"(?:retry|try again)\D{0,12}?((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)")


@dataclass(slots=True)
class Words:
    """What was heard."""

    text: str = ""
    """All of it, folded to lower case."""
    named: set[str] = field(default_factory=set)
    """Names that stand where options are named, in lower case."""
    codes: list[str] = field(default_factory=list)
    """Codes, in lower case, outermost first."""
    kinds: list[str] = field(default_factory=list)
    """Types and statuses, likewise."""
    delay: str | None = None
    """How long the server says to wait, e.g. ``3s``, where the body says it."""


def heard(body: bytes) -> Words:
    """Return what the server says in the `body` of an error."""
    text = body[:_MOST_BYTES].decode("utf-8-sig", "replace")
    words = Words()
    said: list[str] = []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        said.append(text[:_WITHOUT_JSON])
    else:
        if isinstance(value, str):
            said.append(value[:_WITHOUT_JSON])
        _listen(value, "", said, words, 0)
    words.text = "\n".join(said).casefold()
    if words.delay is None:
        match = _DELAY.search(words.text)
        words.delay = match[1] if match else None
    return words


def _listen(value: Any, key: str, said: list[str], words: Words, depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            place = name.casefold()
            if place == "metadata" and isinstance(inner, dict):
                _listen({"raw": inner.get("raw")}, key, said, words, depth + 1)
            elif place in _SPEAKING:
                _listen(inner, place, said, words, depth + 1)
            elif place == "retrydelay" and isinstance(inner, str):
                words.delay = inner[:20]
    elif isinstance(value, list):
        for inner in value[:_MOST_OBJECTS]:
            _listen(inner, key, said, words, depth + 1)
    elif isinstance(value, str) and key:
        _take(value[:_LONGEST], key, said, words, depth)
    elif key in _CODES and isinstance(value, int) and not isinstance(value, bool):
        words.codes.append(str(value))
        said.append(str(value))


def _take(text: str, key: str, said: list[str], words: Words, depth: int) -> None:
    if key in _NAMING:
        words.named.add(text.casefold())
    elif key in _CODES:
        words.codes.append(text.casefold())
    elif key in _KINDS:
        words.kinds.append(text.casefold())
    said.append(_without_quotations(text, said, words, depth))


def _without_quotations(text: str, said: list[str], words: Words, depth: int) -> str:
    """Return `text` without the objects in it; what those say is heard like any other."""
    kept: list[str] = []
    at = 0
    decoder = json.JSONDecoder()
    for _ in range(_MOST_OBJECTS):
        begin = min((p for p in (text.find("{", at), text.find("[", at)) if p >= 0), default=-1)
        if begin < 0:
            break
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            kept.append(text[at : begin + 1])
            at = begin + 1
            continue
        kept.append(text[at:begin])
        at = end
        _listen(value, "", said, words, depth + 1)
    kept.append(text[at:])
    return _QUOTATION.sub("", "".join(kept))
