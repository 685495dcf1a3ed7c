"""The question, the query and the answer in a value: a text, a field with a usual name, or a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .fields import FIELD_NAMES
from .literals import literal_in
from .messages import last_of, message_in, messages_in
from .values import MAX_DEPTH, constructor_arguments, is_hidden, is_repr, mapping_of, opened

_QUESTION_KEYS = FIELD_NAMES["question"]
_QUERY_KEYS = (*FIELD_NAMES["query"], *_QUESTION_KEYS, *FIELD_NAMES["arguments"])
_ANSWER_KEYS = FIELD_NAMES["output"]


def question_in(value: Any) -> str | None:
    """Return the question in a request's input: a text, a field, or the last user message."""
    return _message_text(opened(value), _QUESTION_KEYS, "user", 0)


def query_in(value: Any) -> str | None:
    """Return the query in the input of a retriever or a tool."""
    return _message_text(opened(value), _QUERY_KEYS, "user", 0)


def answer_in(value: Any) -> str | None:
    """Return the answer in a request's output: a text, a field, or the last assistant message."""
    value = opened(value)
    if isinstance(value, str) and is_repr(value):
        fields = literal_in(f"[{value}]")
        given = fields[0] if isinstance(fields, list) and isinstance(fields[0], dict) else {}
        value = {
            key: text
            for key in _ANSWER_KEYS
            if isinstance(text := given.get(key), dict) or (isinstance(text, str) and text[-3:] != "...")
        }  # others are cut
    return _message_text(value, _ANSWER_KEYS, "assistant", 0)


_FORM_KEYS = frozenset(FIELD_NAMES["answer"])


def answer_in_form(reply: str | None) -> str | None:
    """Return the answer in a reply that is a JSON object with a field for it; any other reply unchanged."""
    form = mapping_of(reply) if reply and reply[:1] == "{" else {}
    return (answer_in(form) if _FORM_KEYS & form.keys() else None) or reply


def _message_text(value: Any, keys: Sequence[str], role: str, depth: int) -> str | None:
    if isinstance(value, str):
        inner = opened(value) if depth else value
        if inner is not value:
            return _message_text(inner, keys, role, depth + 1)
        is_absent = not value.strip() or (value == "null" and not depth)  # JSON of nothing
        return None if is_absent or is_hidden(value) or is_repr(value) else value
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, (list, tuple)):
        said = last_of(messages_in(value), role)
        if said is not None:
            return said if not is_hidden(said) else None
        return _message_text(value[0], keys, role, depth + 1) if len(value) == 1 else None
    if not isinstance(value, dict) or (keys is _QUESTION_KEYS and value.get("type") == "tool_call"):
        return None  # what a model asks a tool is not what the user asked
    fields = constructor_arguments(value)
    message = message_in(value)
    if message is not None:
        return message[1] if message[0] == role and message[1].strip() else None
    for key in keys:
        if key in fields:
            found = _message_text(fields[key], keys, role, depth + 1)
            if found is not None:
                return found
    said = last_of(messages_in(fields), role)
    if said is not None:
        return said
    return _below(fields, keys, role, depth)


def _below(fields: Mapping[str, Any], keys: Sequence[str], role: str, depth: int) -> str | None:
    """Return the text one level down, by the first key that has one there; else a lone text."""
    inner = [item for item in map(opened, fields.values()) if isinstance(item, dict)]
    for key in keys:
        for item in inner:
            if key in item:
                found = _message_text(item[key], keys, role, depth + 2)
                if found is not None:
                    return found
    for item in inner:
        found = _message_text(item, keys, role, depth + 1)
        if found is not None:
            return found
    return lone_text_in(fields) if keys is not _QUESTION_KEYS else None


def arguments_in(value: Any) -> list[str]:
    """Return the texts among a function's arguments, or the only text of any other mapping."""
    fields = mapping_of(value)
    args, named = fields.get("args"), fields.get("kwargs")
    if isinstance(args, list) and isinstance(named, dict):
        return [item for item in (*args, *named.values()) if isinstance(item, str) and item.strip()]
    lone = lone_text_in(fields)
    return [] if lone is None else [lone]


def lone_text_in(value: Any) -> str | None:
    """Return the only text of a mapping that has nothing else, under any name."""
    fields = opened(value)
    if not isinstance(fields, dict) or len(fields) != 1:
        return None
    (text,) = fields.values()
    if isinstance(text, dict):
        return lone_text_in(text)
    if not isinstance(text, str) or not text.strip() or is_repr(text) or is_hidden(text):
        return None
    return text


_CONTEXT_KEYS = FIELD_NAMES["context"]
_CONTEXT_MARKS = ("page_content", "pageContent", *(f'"{key}"' for key in _CONTEXT_KEYS))


def has_context(values: Iterable[Any]) -> bool:
    """Return whether values contain documents passed on: by their shape, or under a name for them."""
    return any(
        _holds_documents(opened(value))
        for value in values
        if isinstance(value, str) and any(mark in value for mark in _CONTEXT_MARKS)
    )


def _holds_documents(value: Any) -> bool:
    # A context is passed to a prompt together with its question.
    return any(
        not item.keys().isdisjoint(("page_content", "pageContent"))
        or (any(key in item for key in _CONTEXT_KEYS) and any(key in item for key in _QUESTION_KEYS[:6]))
        for item in _descend(value, 0)
        if isinstance(item, dict)
    )


def _descend(value: Any, depth: int) -> Iterator[Any]:
    yield value
    if depth <= MAX_DEPTH and isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _descend(item, depth + 1)
