"""`Offsets`: the messages read of each partition, and the offsets up to which they are finished.

For a `Ledger` it takes the place of the spool. Kafka stores one number per partition and group, so that
number stays behind the oldest unfinished message; finished messages beyond it are read again after a kill,
and their scores have the same ids. The memory for a partition grows with the messages behind that one; it is
bounded by the bounds on waiting spans and their time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import count
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""


class Offsets:
    """Reading and commit positions of the partitions assigned to this consumer. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._where: dict[int, Partition] = {}
        self._open: dict[Partition, dict[int, int]] = {}
        """By partition: the offsets of unfinished messages by position, in the order of reading."""
        self._next: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    def read(self, partition: Partition, offset: int) -> int:
        """Record that a message was read; return its position, a unique number."""
        with self._lock:
            position = next(self._numbers)
            self._where[position] = partition
            self._open.setdefault(partition, {})[position] = offset
            self._next[partition] = offset + 1
            return position

    def put_back(self, position: int) -> None:
        """Undo the last `read` of a partition: there was no room for the message."""
        with self._lock:
            partition = self._where.pop(position)
            self._next[partition] = self._open[partition].pop(position)

    def settle(self, done: Iterable[int] = (), parts: Mapping[int, Iterable[str]] | None = None) -> bool:
        """Record finished messages. A broker cannot record parts of messages.

        Returns:
            True: recording in memory always succeeds.
        """
        del parts
        with self._lock:
            for position in done:
                partition = self._where.pop(position, None)
                if partition is not None:  # else another consumer has the partition now
                    del self._open[partition][position]
        return True

    def due(self) -> dict[Partition, int]:
        """Return the offsets to commit, by partition: those of the next message to read."""
        with self._lock:
            found = {
                partition: next(iter(self._open[partition].values()), following)
                for partition, following in self._next.items()
            }
            return {key: offset for key, offset in found.items() if self._committed.get(key) != offset}

    def note_committed(self, offsets: Mapping[Partition, int]) -> None:
        """Record the offsets that were committed to the broker."""
        with self._lock:
            self._committed.update(offsets)

    def note_refused(self, partitions: Iterable[Partition]) -> None:
        """Record that the broker refused a commit of these partitions."""
        with self._lock:
            for partition in partitions:
                self._committed.pop(partition, None)

    def behind(self, partition: Partition) -> int | None:
        """Return the offset of the oldest unfinished message, or None if none was read."""
        with self._lock:
            return next(iter(self._open.get(partition, {}).values()), self._next.get(partition))

    def give_up(self, partitions: Iterable[Partition]) -> set[int]:
        """Drop partitions that another consumer now owns; return the positions of unfinished messages."""
        with self._lock:
            lost: set[int] = set()
            for partition in partitions:
                lost.update(self._open.pop(partition, {}))
                self._next.pop(partition, None)
                self._committed.pop(partition, None)
            for position in lost:
                self._where.pop(position, None)
            return lost
