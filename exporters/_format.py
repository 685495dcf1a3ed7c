"""The form in which a string may leave the process: redacted, cut, encodable.

Content (questions, contexts, answers, explanations) passes `outgoing`, after somebody has
checked that it may leave at all.  Names, ids and tags pass `clean` only.  One lone surrogate
would make the application's whole OTLP batch unencodable, so nothing skips both.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["clean", "outgoing"]

MAX_TEXT_CHARS = 16_384
"""Longest text on a span or event, in characters; the rest is cut after redaction."""
MAX_NAME_CHARS = 1_024
"""Longest name, id, tag or metadata value, likewise."""


def clean(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return `text` cut to `limit` characters and without what UTF-8 cannot encode."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def outgoing(text: str, redact: Callable[[str], str] | None) -> str:
    """Return `text` as it may leave: what the hook makes of it, cut and encodable.

    Raises:
        TypeError: The hook returned something else than a string. The run is lost and counted,
            as sending the text after all would be worse.
    """
    if redact is not None:
        result: object = redact(text)
        if not isinstance(result, str):
            raise TypeError(f"redact returned {type(result).__name__}; it must return a string")
        text = result
    return clean(text, MAX_TEXT_CHARS)
