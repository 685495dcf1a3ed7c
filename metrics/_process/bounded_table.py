"""A least-recently-used table, bounded by number and size.

All memories of requests, texts and answers use it, except tables that also expire or have an index
(`ragmeter.pipeline.late`, `adapters/_open_requests.py`).  It has no lock: its owner's lock covers it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedTable(Generic[K, V]):
    """Values by key, least recently used first. Not locked: its owner's lock covers it.

    Args:
        max_entries: The largest number of entries.
        max_size: The largest size of all entries together, in the unit of the sizes passed to `put`.
        keep_newest: Keep the newest value until the next one is stored, even if it is too large.

    Attributes:
        size: The sizes of all entries.
    """

    def __init__(
        self, *, max_entries: float = math.inf, max_size: float = math.inf, keep_newest: bool = False
    ) -> None:
        self._max_entries = max_entries
        self._max_size = max_size
        self._least = 1 if keep_newest else 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def peek(self, key: K) -> V | None:
        """Return a value, or None; it does not count as used."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def get(self, key: K) -> V | None:
        """Return a value, or None; it counts as used."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Store `value`, replacing an earlier one, and evict entries beyond the bounds."""
        self.pop(key)
        self._entries[key] = value, size
        self.size += size
        while len(self._entries) > self._least and (
            self.size > self._max_size or len(self._entries) > self._max_entries
        ):
            _, (_, oldest) = self._entries.popitem(last=False)
            self.size -= oldest

    def pop(self, key: K) -> V | None:
        """Remove a value and return it, or None."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.size -= entry[1]
        return entry[0]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.size = 0
