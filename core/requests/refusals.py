"""Recognise refusals of model providers: in parts of a message, finish reasons and errors.

By shape and name only: no provider's package is imported. Such a request has status ``refused``, whatever its
words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_REASONS = re.compile(
    r"(?:\w+\.)?(?:content[_-]?filter(?:ed)?|refusal|refused|safety|prohibited_content|blocklist|spii|"
    r"guardrail_intervened|error_toxic|image_safety|model_armor)+",
    re.IGNORECASE,
)
"""Finish reasons that are refusals; merged stream chunks may repeat the word."""
_REASON_KEYS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "native_finish_reason")
_REASON_KEYS_BELOW = (*_REASON_KEYS, "reason")
_HOLDERS = ("response_metadata", "generation_info", "incomplete_details", "choices", "raw")
"""Fields of a reply that may hold its finish reason."""
_ERRORS = re.compile(r"Refusal|ContentFilter|ContentPolicy")
_CODES = frozenset({"content_filter", "content_policy_violation"})
_MAX_DEPTH = 4


def _fields(value: object) -> Callable[[str], Any]:
    """Return a function that looks up a field of a mapping or an object, else None."""
    if type(value) is dict or isinstance(value, Mapping):
        return value.get
    fields = getattr(value, "__dict__", None)
    if fields is None:
        return lambda name: getattr(value, name, None)
    # A missing attribute of a pydantic object is slow to look up.
    more = getattr(value, "__pydantic_extra__", None)
    return fields.get if not more else {**more, **{name: field for name, field in fields.items() if field}}.get


def refusal_part(part: object) -> str | None:
    """Return the text of a refusal part, perhaps empty; None: another part."""
    of = _fields(part)
    if of("type") == "non_standard":
        of = _fields(of("value"))
    if of("type") != "refusal":
        return None
    words = (of(name) for name in ("refusal", "content", "text"))
    return next((text for text in words if isinstance(text, str)), "")


def is_refusal_reason(reason: object) -> bool:
    """Return whether a finish reason is a refusal."""
    return isinstance(reason, str) and _REASONS.fullmatch(reason) is not None


def is_refusal_name(error_type: str | None) -> bool:
    """Return whether the name of an error's class means a refusal."""
    return error_type is not None and _ERRORS.search(error_type) is not None


def ends_refused(value: object, depth: int = 0, of: Callable[[str], Any] | None = None) -> bool:
    """Return whether a reply has a finish reason that means refused or filtered; `of` looks up its fields."""
    if value is None or depth > _MAX_DEPTH or isinstance(value, (str, bytes, int, float)):
        return False
    if isinstance(value, (list, tuple)):
        return any(ends_refused(item, depth + 1) for item in value[:1])
    # Most fields are missing, and this runs on a request's path: one look-up each.
    of = of or (value.get if type(value) is dict else _fields(value))
    for key in _REASON_KEYS_BELOW if depth else _REASON_KEYS:
        reason = of(key)
        if reason is not None and is_refusal_reason(getattr(reason, "name", reason)):
            return True
    for key in _HOLDERS:
        held = of(key)
        if held is not None and (type(held) is not dict or held) and ends_refused(held, depth + 1):
            return True
    return False


def refusal_of(message: object, *beside: object) -> str | None:
    """Return the text of a message's refusal, perhaps empty; None: not a refusal.

    Args:
        message: A framework's message, or a provider's own, as an object or a mapping.
        beside: Further objects that may have its finish reason.
    """
    of = None
    if message is not None and not isinstance(message, str):
        of = _fields(message)
        for name in ("content", "blocks"):
            content = of(name)
            if isinstance(content, Sequence) and not isinstance(content, str):
                words = [text for part in content if (text := refusal_part(part)) is not None]
                if words:
                    return "".join(words)
        beyond = of("additional_kwargs")
        for words_or_none in (of("refusal"), beyond and _fields(beyond)("refusal")):
            if isinstance(words_or_none, str) and words_or_none:
                return words_or_none
    return "" if ends_refused(message, of=of) or any(map(ends_refused, beside)) else None


def is_refusal_error(error: BaseException | None) -> bool:
    """Return whether an exception, or its cause, is a refusal of the model."""
    for _ in range(_MAX_DEPTH):
        if error is None:
            return False
        if any(is_refusal_name(kind.__name__) for kind in type(error).__mro__):
            return True
        code = getattr(error, "code", None)
        if isinstance(code, str) and code in _CODES:
            return True
        error = error.__cause__
    return False


def words_of_error(error: BaseException | None) -> str | None:
    """Return the refusal text of an exception, or None."""
    for _ in range(_MAX_DEPTH):
        if error is None:
            return None
        text = getattr(error, "refusal", None)
        if isinstance(text, str) and text:
            return text
        if any("Refusal" in kind.__name__ for kind in type(error).__mro__):
            return next((text for text in error.args if isinstance(text, str) and text), None)
        error = error.__cause__
    return None
