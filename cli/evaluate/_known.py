"""Which rows are scored already, and by what: some 18 bytes a row, however many there are.

The keys stand sorted in an array, beside each the number of what was measured of it; the newest ones wait
in a dictionary until they are worth merging.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["KnownRows", "as_keys"]

WAITING = 1 << 16
"""Keys that wait in the dictionary, at most."""


def as_keys(keys: Iterable[bytes]) -> NDArray[np.bytes_]:
    """Return keys of 16 bytes as an array."""
    return np.frombuffer(b"".join(keys), dtype="S16")


class KnownRows:
    """What was measured of each row that has been scored."""

    def __init__(self) -> None:
        self._keys: NDArray[np.bytes_] = np.empty(0, dtype="S16")
        self._sets: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)
        self._waiting: dict[bytes, int] = {}
        self._numbers: dict[frozenset[str], int] = {}
        self._measured: list[frozenset[str]] = []

    def __len__(self) -> int:
        """Return how many rows are known."""
        self._merge()
        return len(self._keys)

    def of(self, key: bytes) -> frozenset[str]:
        """Return by what a row is measured; nothing for one that is not known."""
        number = self._waiting.get(key)
        if number is not None:
            return self._measured[number]
        # An array of the same type: a plain bytes object would be compared without its last zeros.
        place = int(np.searchsorted(self._keys, np.array(key, dtype="S16")))
        if place < len(self._keys) and self._keys[place] == key.rstrip(b"\0"):
            return self._measured[int(self._sets[place])]
        return frozenset()

    def add(self, key: bytes, measured: frozenset[str]) -> None:
        """Remember what else is measured of a row."""
        everything = self.of(key) | measured
        number = self._numbers.get(everything)
        if number is None:
            number = self._numbers[everything] = len(self._measured)
            self._measured.append(everything)
        self._waiting[key] = number
        if len(self._waiting) >= WAITING:
            self._merge()

    def _merge(self) -> None:
        if not self._waiting:
            return
        keys = np.concatenate([as_keys(self._waiting), self._keys])
        sets = np.concatenate(
            [np.fromiter(self._waiting.values(), np.uint16, len(self._waiting)), self._sets]
        )
        # The first of equal keys is the newer one.
        self._keys, first = np.unique(keys, return_index=True)
        self._sets = sets[first]
        self._waiting = {}
