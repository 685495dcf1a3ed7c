"""The content of an attribute's value: plain text, JSON, JSON in JSON, or the ``repr`` of an object.

A ``repr`` is never text of a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8
"""Levels of mappings and lists, JSON in JSON among them, that are read."""
_HIDDEN = re.compile(r"[\[<({*_]*redacted[\]>)}*_]*|\*{3,}", re.IGNORECASE)


def is_hidden(value: object) -> bool:
    """Return whether a value is a placeholder for text that the user had removed."""
    return isinstance(value, str) and len(value) < 24 and _HIDDEN.fullmatch(value.strip()) is not None


_REPR = re.compile(
    r"<(?:async_)?(?:generator|coroutine|function|bound method) ?|<[\w.]+ object at 0x|"
    r"<[\w.]+ object>|<[A-Z]\w+\(|[A-Z]\w+\(_?[a-z]\w*="
)


def is_repr(text: str) -> bool:
    """Return whether a text is the ``repr`` of an object."""
    return _REPR.match(text.lstrip()) is not None


def opened(value: Any) -> Any:
    """Return the value of a JSON text; anything else unchanged."""
    if isinstance(value, str) and value[:1] in '{["' and len(value) > 1:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_broken(value: Any) -> bool:
    """Return whether a text begins like JSON but does not parse: cut off."""
    return isinstance(value, str) and value[:2] in ('{"', '["', "[{") and opened(value) is value


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a value, or the JSON in it, if that is a mapping; else an empty one."""
    found = opened(value)
    return found if isinstance(found, dict) else {}


def constructor_arguments(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments in LangChain's JSON of an object."""
    if value.get("type") == "constructor" and isinstance(value.get("kwargs"), dict):
        inner: Mapping[str, Any] = value["kwargs"]
        return inner
    return value
