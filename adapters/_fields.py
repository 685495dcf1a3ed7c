"""What an object of any class holds, read without running any of its code.

Applications give out dictionaries, dataclasses, pydantic objects, named tuples and objects of
classes of their own.  `fields_of` and `items_of` read what they store and nothing else: no
property, no ``__getattr__``, no ``__iter__`` of theirs is called, so that looking at an output
cannot load, compute, raise or change anything.  Called on a request's own path; what it hands
out is the application's: look at it and let it go.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

__all__ = ["fields_of", "items_of", "text_of_string"]

MAX_ITEMS = 200
"""Fields of an object, and entries of a sequence, that are looked at; of a longer sequence both ends."""

MAX_CLASSES = 1_000

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
"""What holds nothing that is worth looking for."""


def text_of_string(value: Any) -> str | None:
    """Return a string, one of a subclass as a plain one; None for everything else."""
    cls = type(value)
    # `issubclass` of the real type: `isinstance` would ask the object for its `__class__`.
    return str.__str__(value) if issubclass(cls, str) else None


def items_of(value: Any) -> list[Any] | None:
    """Return the entries of a list, tuple or deque; None for everything else, named tuples included."""
    cls = type(value)
    if issubclass(cls, list):
        return _both_ends(list.__len__(value), partial(list.__getitem__, value))
    if issubclass(cls, tuple):
        if _static(cls, "_fields") is not None:
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
    """Return what an object stores by name, in order; None when it stores nothing by name.

    A dictionary's entries under strings, a named tuple's, dataclass's or pydantic object's fields, an object's
    attributes. Names that begin with an underscore are nobody's business.
    """
    cls = type(value)
    if issubclass(cls, dict):
        try:
            pairs: list[tuple[Any, Any]] = list(islice(dict.items(value), MAX_ITEMS))
        except RuntimeError:  # another thread changes it
            return {}
        return {name: item for key, item in pairs if (name := text_of_string(key)) is not None}
    if issubclass(cls, tuple):
        names = _static(cls, "_fields")
        if type(names) is not tuple:
            return None
        return dict(zip(map(str, names), tuple.__iter__(value), strict=False))
    if value is None or issubclass(cls, _OPAQUE):
        return None
    slots, stores = _layouts.get(cls) or _layout(cls)
    found = {name: item for name, slot in slots if (item := _read(slot, value)) is not _UNSET}
    for store in stores:
        found.update(_stored(value, store))
    return found or None


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


_Layout = tuple[tuple[tuple[str, Any], ...], tuple[Any, ...]]

_layouts: dict[type, _Layout] = {}


def _layout(cls: type) -> _Layout:
    """Return where instances of a class keep things: members with slots, and dictionaries."""
    if len(_layouts) >= MAX_CLASSES:
        _layouts.clear()
    slots = {
        name: member
        for base in reversed(_mro_of(cls))
        for name, member in tuple(_members_of(base).items())
        if type(member) is types.MemberDescriptorType and not name.startswith("_")
    }
    stores = (_static(cls, "__dict__"), _static(cls, "__pydantic_extra__"))
    _layouts[cls] = layout = (
        tuple(slots.items()),
        # An attribute of that name that a class computes is code of its own.
        tuple(store for store in stores if type(store) in _READ_BY_PYTHON),
    )
    return layout


def _static(cls: type, name: str) -> Any:
    """Return what the first class of the method resolution order defines under `name`, or None."""
    for base in _mro_of(cls):
        members = _members_of(base)
        if name in members:
            return members[name]
    return None
