"""What several meters that publish to one meter provider are asked for, whenever it collects.

Holds no meter alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Generic, TypeVar
from weakref import WeakMethod

from ragmeter.metrics._process import fork

__all__ = ["WeakSources"]

T = TypeVar("T")


class WeakSources(Generic[T]):
    """Functions that return what is known at the moment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._sources: dict[int, Callable[[], Callable[[], Sequence[T]] | None]] = {}

    def join(self, source: Callable[[], Sequence[T]]) -> None:
        """Ask `source` from now on; a method is held weakly."""
        held: Callable[[], Callable[[], Sequence[T]] | None] = (
            WeakMethod(source) if isinstance(source, MethodType) else lambda: source
        )
        with self._lock:
            self._sources[id(source)] = held

    def leave(self, source: Callable[[], Sequence[T]]) -> None:
        """Ask it no more."""
        with self._lock:
            self._sources.pop(id(source), None)

    def read(self) -> list[T]:
        """Return what all of them say."""
        with self._lock:
            sources = list(self._sources.values())
        return [one for held in sources if (source := held()) is not None for one in source()]
