"""A bounded sample of requests, independent of their order.

It has the requests with the smallest hashes of their ids, so two samples merge into the one of all their
requests: those of threads, processes, servers and days. `ragmeter.quality.gaps.memory` has one of the bad
requests and one of the others for each day. Not locked.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from itertools import chain
from typing import Generic, NamedTuple, Protocol, TypeVar

WHOLE = 1 << 64
"""Upper bound of ranks: a sample with this limit has everything that was added."""


def rank_of(name: str) -> int:
    """Return the rank of an id or a text by its hash: from 0 to below `WHOLE`, the same in every process."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big")


class Ranked(Protocol):
    """An item of a sample."""

    @property
    def rank(self) -> int:
        """Its place in the order by hash."""
        ...


class Asked(NamedTuple):
    """The stored data of a request."""

    rank: int
    """`rank_of` of its id."""
    at: float
    """Arrival, in seconds since the epoch."""
    terms: bytes
    """The hashes of its question's topic words, in order, four bytes each; empty: no topic word is known."""
    question: str | None = None
    """The question; None: texts are not stored, so neither name nor examples show it."""
    language: str | None = None
    """Language of the question."""
    refused: bool = False
    """Whether the answer refuses."""
    relevance: float | None = None
    """Relevance of its best chunk, 0 to 1; None: unknown."""
    workflow: str = ""
    """Its workflow."""

    @property
    def topic(self) -> array[int]:
        """The hashes of its question's topic words, in order."""
        return array("I", self.terms)


T = TypeVar("T", bound=Ranked)


class Sample(Generic[T]):
    """The items with the smallest ranks, up to a number, of all that were added."""

    __slots__ = ("_kept", "_limit", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[int, T] = {}
        self._limit = WHOLE

    @property
    def limit(self) -> int:
        """The sample has exactly the added items with a lower rank: limit / `WHOLE` of all."""
        self.shrink()
        return self._limit

    def add(self, item: T) -> None:
        """Add an item; of two with the same rank the first stays."""
        if self.is_wanted(item.rank):
            self._kept[item.rank] = item
            if len(self._kept) > self._size * 5 // 4:
                self.shrink()

    def discard(self, rank: int) -> T | None:
        """Remove and return the item with a rank, or None."""
        return self._kept.pop(rank, None)

    def is_wanted(self, rank: int) -> bool:
        """Return whether an item with a rank, which is not here yet, would be added."""
        return rank < self._limit and rank not in self._kept

    def items(self) -> Collection[T]:
        """Return the items."""
        self.shrink()
        return self._kept.values()

    def shrink(self, size: int | None = None) -> None:
        """Remove the items beyond the size, or beyond a smaller one, which then replaces it."""
        # Deferred, so that most additions cost one comparison; the delay does not affect the result.
        self._size = self._size if size is None else min(self._size, size)
        if len(self._kept) > self._size:
            ranks = sorted(self._kept)
            self._limit = ranks[self._size]
            self._kept = {rank: self._kept[rank] for rank in ranks[: self._size]}

    @classmethod
    def union(
        cls, samples: Iterable[Sample[T]], size: int, wanted: Callable[[T], bool] = lambda _: True
    ) -> Sample[T]:
        """Return the sample of everything that was added to any of them.

        Args:
            samples: Each is reduced to the smallest sampling share among them.
            size: Largest number of items in the union.
            wanted: Returns whether an item counts.
        """
        every = list(samples)
        limit = min((one.limit for one in every), default=WHOLE)
        held = sorted(chain.from_iterable(one.items() for one in every), key=lambda item: item.rank)
        merged = cls(size)
        merged._limit = limit
        for item in filter(wanted, held):
            merged.add(item)
        return merged
