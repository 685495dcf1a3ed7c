"""Access objects of other packages defensively, and map values to them by identity.

A provider, tracer or span may be a proxy, frozen, slotted, unhashable, equal to everything, or without weak
references. What it cannot provide is unknown, and costs no score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from weakref import ref

from ragmeter.metrics._process import fork
from ragmeter.metrics._process.bounded_table import BoundedTable

V = TypeVar("V")

_MOST_KEPT = 100
"""Most objects without weak references to keep alive; the least recently used is dropped."""


def attribute_of(thing: object, name: str, default: Any = None) -> Any:
    """Return an attribute, or `default` if it is missing or raises."""
    try:
        return getattr(thing, name, default)
    except Exception:  # noqa: BLE001 -- a property of others
        return default


def set_attribute_of(thing: object, name: str, value: object) -> None:
    """Set an attribute if possible; read it to see whether it was."""
    try:
        setattr(thing, name, value)
    except Exception:  # noqa: BLE001 -- read-only, frozen, slotted, or a proxy's own idea of it
        return


class ByIdentity(Generic[V]):
    """One value per foreign object, while the object lives. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.reentrant_lock()
        self._weak: dict[int, tuple[ref[Any], V]] = {}
        self._kept: BoundedTable[int, tuple[object, V]] = BoundedTable(max_entries=_MOST_KEPT)

    def get(self, owner: object) -> V | None:
        """Return the value of `owner`, or None."""
        known = self._weak.get(id(owner))
        if known is not None and known[0]() is owner:
            return known[1]
        kept = self._kept.peek(id(owner))
        return None if kept is None else kept[1]

    def put(self, owner: object, value: V) -> None:
        """Store `value` for `owner`."""
        key = id(owner)

        def forget(gone: ref[Any]) -> None:  # takes no lock: it may run anywhere
            known = self._weak.get(key)
            if known is not None and known[0] is gone:
                self._weak.pop(key, None)

        with self._lock:
            try:
                self._weak[key] = ref(owner, forget), value
            except TypeError:
                self._kept.put(key, (owner, value))

    def get_or_make(self, owner: object, make: Callable[[], V]) -> V:
        """Return the value of `owner`, made by its first caller."""
        with self._lock:
            value = self.get(owner)
            if value is None:
                value = make()
                self.put(owner, value)
            return value

    def items(self) -> Iterator[tuple[object, V]]:
        """Iterate over living objects and their values, without those kept alive here."""
        for held, value in list(self._weak.values()):
            owner = held()
            if owner is not None:
                yield owner, value
