"""What the model calls of a LangChain request were sent, and what they said.

Noted on the request's own path, by reference: the strings that messages hold, never the messages, which
the application may change, and no copies.  Read on the worker, compared and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragmeter.adapters.reading.prompts import Sent

__all__ = ["messages_sent", "prompts_sent", "tool_arguments"]

_MAX_DEPTH = 4
_NOT_TEXT = frozenset({"image", "image_url", "audio", "input_audio", "video", "file"})
"""Types of content blocks that hold no text."""
_LABELS = frozenset({"type", "id", "role", "name", "index", "mime_type", "tool_call_id"})


def messages_sent(batches: Any) -> Sent:
    """Note the messages that a chat model gets (``on_chat_model_start``)."""
    noted: list[tuple[str, tuple[str, ...]]] = []
    for batch in batches:
        for message in batch:
            content = getattr(message, "content", None)
            role = getattr(message, "type", "")
            if role == "chat":
                role = getattr(message, "role", role)
            noted.append((role, (content,) if type(content) is str else tuple(_texts(content))))
    return tuple(noted)


def prompts_sent(prompts: Any) -> Sent:
    """Note the texts that a completing model gets (``on_llm_start``)."""
    return tuple(("", (text,)) for text in prompts if isinstance(text, str))


def tool_arguments(response: object) -> tuple[Mapping[str, Any], ...]:
    """Return the arguments of the tools that a model called: structured answers come as such."""
    generations = getattr(response, "generations", None)
    if not generations or not generations[0]:
        return ()
    calls = getattr(getattr(generations[0][0], "message", None), "tool_calls", None)
    if not isinstance(calls, (list, tuple)):
        return ()
    arguments = [call.get("args") for call in calls if isinstance(call, Mapping)]
    return tuple(dict(given) for given in arguments if isinstance(given, Mapping))


def _texts(content: object, depth: int = 0) -> Iterator[str]:
    """Yield the strings in content blocks: texts, and results of searches and tools within them."""
    if isinstance(content, str):
        yield content
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(content, Mapping):
        if content.get("type") in _NOT_TEXT:
            return
        values: Iterable[object] = [value for key, value in content.items() if key not in _LABELS]
        for value in values:
            yield from _texts(value, depth + 1)
    elif isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        for value in content:
            yield from _texts(value, depth + 1)
