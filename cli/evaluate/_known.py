"""Which rows are scored already, and by what: some 18 bytes a row, however many there are.

The keys stand sorted in arrays, one for each first byte of a key or several of them, beside each the number of
what was measured of it; the newest ones wait in a dictionary until they are worth merging.  So a merge needs
memory for few of them anew, and not for all.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["KnownRows", "as_keys"]

WAITING = 1 << 14
"""Keys that wait in the dictionary, at most."""
PIECES = 64
"""Arrays of keys. A power of two up to 256: a key's first byte says where it stands."""


def as_keys(keys: Iterable[bytes]) -> NDArray[np.bytes_]:
    """Return keys of 16 bytes as an array."""
    return np.frombuffer(b"".join(keys), dtype="S16")


class KnownRows:
    """What was measured of each row that has been scored."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.bytes_]] = [np.empty(0, dtype="S16")] * PIECES
        self._sets: list[NDArray[np.uint16]] = [np.empty(0, dtype=np.uint16)] * PIECES
        self._waiting: dict[bytes, int] = {}
        self._numbers: dict[frozenset[str], int] = {}
        self._measured: list[frozenset[str]] = []

    def __len__(self) -> int:
        """Return how many rows are known."""
        self._merge()
        return sum(map(len, self._keys))

    def of(self, key: bytes) -> frozenset[str]:
        """Return by what a row is measured; nothing for one that is not known."""
        number = self._waiting.get(key)
        if number is not None:
            return self._measured[number]
        piece = key[0] * PIECES // 256
        keys = self._keys[piece]
        # An array of the same type: a plain bytes object would be compared without its last zeros.
        place = int(np.searchsorted(keys, np.array(key, dtype="S16")))
        if place < len(keys) and keys[place] == key.rstrip(b"\0"):
            return self._measured[int(self._sets[piece][place])]
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
        keys = as_keys(self._waiting)
        sets = np.fromiter(self._waiting.values(), np.uint16, len(keys))
        self._waiting = {}
        pieces = keys.view(np.uint8)[::16].astype(np.int64) * PIECES // 256
        for piece in np.unique(pieces):
            here = pieces == piece
            # The first of equal keys is the newer one.
            merged, first = np.unique(
                np.concatenate([keys[here], self._keys[piece]]), return_index=True
            )
            self._keys[piece] = merged
            self._sets[piece] = np.concatenate([sets[here], self._sets[piece]])[first]
