"""The content of an object of any class: fields, items, strings; read without running any of its code.

Applications return dictionaries, dataclasses, pydantic objects, named tuples and objects of custom classes.
`fields_of` and `items_of` read only their stored values: no property, ``__getattr__`` or ``__iter__`` is
called, so that reading an output cannot load, compute, raise or change anything. `strings_in` collects the
strings in an output of any shape, from which an answer can be chosen: bounded in depth and number; it
recognises messages, documents and nodes by their shape, whatever the framework. Called on a request's own
path; returns references to the application's objects, no copies.
"""

from __future__ import annotations

import json
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ragmeter.metrics import ConfigurationError

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    what: tuple(names)
    for what, names in json.loads(
        Path(__file__).with_name("field_names.json").read_text(encoding="utf-8")
    ).items()
}
"""Usual names of fields with content in frameworks and applications, the most specific first."""

CONVERSATION_KEYS = ("session_id", "thread_id", "conversation_id")
USER_KEYS = ("user_id",)
"""Names, in a request's metadata, of the ids of its conversation and its user."""

MAX_ITEMS = 200
"""Maximum number of an object's fields, and of a sequence's entries, that are read; of a longer one both
ends."""

_mro_of = type.__dict__["__mro__"].__get__
_members_of = type.__dict__["__dict__"].__get__
_READ_BY_PYTHON = (types.GetSetDescriptorType, types.MemberDescriptorType)

_OPAQUE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.GeneratorType,
    types.AsyncGeneratorType,
    types.CoroutineType,
    BaseException,
    bytes,
    bytearray,
    str,
    int,
    float,
    complex,
)
"""Types without content of interest."""


Reader = str | Callable[[Any], Any]
"""The application's pointer to a value: a key of a request's input or output, or a function of it."""


def check_readers(**readers: object) -> None:
    """Reject options that are neither a key nor a function.

    Raises:
        ConfigurationError: One is neither, nor None.
    """
    for label, reader in readers.items():
        if reader is not None and not isinstance(reader, str) and not callable(reader):
            raise ConfigurationError(f"{label}={reader!r}: pass a key such as {label!r}, or a function")


def text_of_string(value: Any) -> str | None:
    """Return a string, an instance of a subclass as a plain one; None for everything else."""
    cls = type(value)
    # `issubclass` of the real type: `isinstance` would ask the object for its `__class__`.
    return str.__str__(value) if issubclass(cls, str) else None


def items_of(value: Any) -> list[Any] | None:
    """Return the entries of a list, tuple or deque; None for everything else, named tuples included."""
    cls = type(value)
    if issubclass(cls, list):
        return _both_ends(list.__len__(value), partial(list.__getitem__, value))
    if issubclass(cls, tuple):
        if static_member(cls, "_fields") is not None:
            return None
        return _both_ends(tuple.__len__(value), partial(tuple.__getitem__, value))
    if issubclass(cls, deque):
        try:
            return list(islice(deque.__iter__(value), MAX_ITEMS))
        except RuntimeError:  # another thread changes it
            return []
    return None


def _both_ends(length: int, part: Callable[[slice], Iterable[Any]]) -> list[Any]:
    if length <= MAX_ITEMS:
        return list(part(slice(None)))
    half = MAX_ITEMS // 2
    return [*part(slice(half)), *part(slice(-half, None))]


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the named values that an object stores, in order; None if it stores none.

    A dictionary's entries under strings, a named tuple's, dataclass's or pydantic object's fields, an object's
    attributes. Names that begin with an underscore are left out.
    """
    cls = type(value)
    if issubclass(cls, dict):
        try:
            pairs: list[tuple[Any, Any]] = list(islice(dict.items(value), MAX_ITEMS))
        except RuntimeError:  # another thread changes it
            return {}
        return {name: item for key, item in pairs if (name := text_of_string(key)) is not None}
    if issubclass(cls, tuple):
        names = static_member(cls, "_fields")
        if type(names) is not tuple:
            return None
        return dict(zip(map(str, names), tuple.__iter__(value), strict=False))
    if value is None or issubclass(cls, _OPAQUE):
        return None
    _, slots, stores, _ = _layout(cls)  # type: ignore[arg-type]  # classes are hashable
    found = {name: item for name, slot in slots if (item := _read(slot, value)) is not _UNSET}
    for store in stores:
        found.update(_stored(value, store))
    return found or None


def stored(value: object, name: str) -> Any:
    """Return the value that an object stores under one name, private ones too; None if absent."""
    return stored_under(value, (name,)).get(name)


def stored_under(value: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the values that an object stores under `names`, in their order, without absent ones and None.

    The object is read once, whatever the number of names.
    """
    cls = type(value)
    if value is None or issubclass(cls, _OPAQUE):
        return {}
    slots, _, _, stores = _layout(cls)  # type: ignore[arg-type]  # likewise
    held = [fields for store in stores if type(fields := _read(store, value)) is dict]
    found: dict[str, Any] = {}
    for name in names:
        item: Any = None
        for fields in held:
            if name in fields:
                item = fields[name]
                break
        else:
            if name in slots:
                item = _read(slots[name], value)
        if item is not None and item is not _UNSET:
            found[name] = item
    return found


_UNSET = object()


def _read(slot: Any, value: object) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _UNSET


def _stored(value: object, store: Any) -> dict[str, Any]:
    stored = _read(store, value)
    if type(stored) is not dict:
        return {}
    try:
        pairs = list(islice(stored.items(), MAX_ITEMS))
    except RuntimeError:
        return {}
    return {key: item for key, item in pairs if type(key) is str and not key.startswith("_")}


class _Layout(NamedTuple):
    """The places where instances of a class store values."""

    slots: Mapping[str, Any]
    """Members with slots, by name."""
    fields: tuple[tuple[str, Any], ...]
    """The same, without private ones."""
    public: tuple[Any, ...]
    """Readers of their dictionaries of fields, except computed ones, which would run code."""
    private: tuple[Any, ...]
    """The same, private fields included."""


@lru_cache(maxsize=1_000)
def _layout(cls: type) -> _Layout:
    slots = {
        name: member
        for base in reversed(_mro_of(cls))
        for name, member in tuple(_members_of(base).items())
        if type(member) is types.MemberDescriptorType
    }
    names = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
    stores = [one if type(one := static_member(cls, name)) in _READ_BY_PYTHON else None for name in names]
    fields, extra, private = ([] if one is None else [one] for one in stores)
    named = tuple(item for item in slots.items() if not item[0].startswith("_"))
    return _Layout(slots, named, (*fields, *extra), (*fields, *private))


def static_member(cls: type, name: str) -> Any:
    """Return the value that the first class of the method resolution order defines for `name`, or None."""
    for base in _mro_of(cls):
        members = _members_of(base)
        if name in members:
            return members[name]
    return None


MAX_DEPTH = 6
MAX_STRINGS = 200
MAX_VISITED = 2_000
"""Maximum levels, strings and objects of an output that are read, the shallow ones first."""

ROLES: Mapping[str, str] = {
    "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user", "user": "user",
    "ai": "assistant", "AIMessage": "assistant", "AIMessageChunk": "assistant", "assistant": "assistant",
    "model": "assistant", "chatbot": "assistant", "system": "system", "SystemMessage": "system",
    "developer": "system", "tool": "tool", "ToolMessage": "tool", "function": "tool",
}  # fmt: skip
"""Roles of messages by their names in frameworks."""
_MESSAGES = frozenset((*ROLES, "remove", "placeholder"))


class OutputString(NamedTuple):
    """One string of an output, and its place."""

    text: str
    """The application's string itself."""
    path: tuple[str, ...] = ()
    """Names of the fields that lead to it, in lower case."""
    siblings: int = 0
    """The number of the list that contains it, from 1; 0: none."""
    is_message: bool = False
    """Whether it is a message of the model's."""
    closes: bool = False
    """Whether it is such a message and ends a conversation or is the only one."""


class _Place(NamedTuple):
    """A value still to be read."""

    value: object
    path: tuple[str, ...]
    siblings: int
    is_last: bool


def strings_in(payload: object) -> tuple[OutputString, ...]:
    """Return the strings in an output, unchanged; a few levels deep, shallow ones first.

    Looks into dictionaries, lists, tuples, named tuples, dataclasses, pydantic and other objects by their
    stored values (`fields_of`: none of their code runs), skips messages of anyone but the model (or an agent
    that speaks as a named user), messages that only call tools, documents and nodes. Bounded in depth and
    number; never raises, never changes anything.
    """
    found: list[OutputString] = []
    waiting: deque[_Place] = deque([_Place(payload, (), 0, is_last=True)])
    visited = lists = 0
    while waiting and visited < MAX_VISITED and len(found) < MAX_STRINGS:
        value, path, siblings, is_last = waiting.popleft()
        visited += 1
        text = text_of_string(value)
        if text is not None:
            if text and not text.isspace():
                found.append(OutputString(text, path, siblings))
            continue
        inner: list[_Place] = []
        if (items := items_of(value)) is not None:
            message = _message_of_pair(items)
            if message is None and len(path) < MAX_DEPTH:
                lists += 1
                last = len(items) - 1
                inner = [
                    _Place(item, (*path, ""), lists, is_last=place == last) for place, item in enumerate(items)
                ]
        else:
            fields = fields_of(value)
            if not fields or _is_document(fields):
                continue
            message = _message_in(fields)
            if message is None and len(path) < MAX_DEPTH:
                inner = [
                    _Place(item, (*path, name.lower()), 0, is_last=False)
                    for name, item in fields.items()
                    if type(item) not in _NOTHING
                ]
        waiting.extend(inner)
        if message is not None and message.is_models and message.text:
            found.append(OutputString(message.text, path, siblings, True, is_last))
    return tuple(found)


_NOTHING = frozenset({type(None), bool, int, float})


class Spoken(NamedTuple):
    """The role and text of a message."""

    role: str
    """``user``, ``assistant``, ``system`` or ``tool``."""
    text: str
    is_models: bool
    """Whether it is from the model, or an agent that speaks as a named user, and calls no tools."""


def message_of(value: object) -> Spoken | None:
    """Return role and text of a message in any notation: a pair, a mapping, an object; else None."""
    items = items_of(value)
    return _message_in(fields_of(value) or {}) if items is None else _message_of_pair(items)


def asked_last(value: object) -> str | None:
    """Return the user's text in a message, or in the user's last message of a conversation."""
    message = message_of(value)
    said = [message] if message is not None else map(message_of, items_of(value) or ())
    asked = [one.text for one in said if one is not None and one.role == "user"]
    return asked[-1] if asked else None


def _message_of_pair(items: Sequence[Any]) -> Spoken | None:
    if len(items) != 2 or type(items[0]) is not str or items[0] not in _MESSAGES:
        return None
    role = ROLES.get(items[0], "")
    return Spoken(role, content_text(items[1]), role == "assistant")


def _message_in(fields: Mapping[str, Any]) -> Spoken | None:
    if "content" not in fields and "blocks" not in fields:
        return None
    named = text_of_string(fields.get("role")) or text_of_string(fields.get("type"))
    if named not in _MESSAGES:
        return None
    role = ROLES.get(named, "")
    # Agents report to each other as users, by name.
    is_agents = role == "user" and bool(text_of_string(fields.get("name")))
    speaks = (role == "assistant" or is_agents) and not items_of(fields.get("tool_calls"))
    return Spoken(role, content_text(fields.get("content", fields.get("blocks"))), speaks)


def content_text(content: object) -> str:
    """Return the text of a message's content: a string, or the text of its blocks."""
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
