"""An attribute that is computed on first access, without a lock.

The metrics' analyses of texts use it.  `functools.cached_property` does the same, but
until Python 3.12 holds one lock per attribute for all objects while it computes: a process forked
at that moment would wait for it for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy_attribute(Generic[T]):  # noqa: N801 -- reads as a decorator, like property
    """Turn a method into an attribute that is computed once per object.

    Two threads at the same moment may both compute it; the value must be the same.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        # Not a data descriptor: later accesses find the value in the object itself.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
