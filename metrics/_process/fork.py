"""Resets locks, imports and requests in progress in forked processes.

A thread of the parent may hold a lock at the moment of the fork; in the child that thread does not exist, and
the lock would stay held for ever. All of ragmeter registers here, and this module once with `os`. References
are weak, so freed objects are not kept alive.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib import _bootstrap
from itertools import count
from operator import methodcaller
from typing import Any
from weakref import ref

PATIENCE_S = 0.25
"""Longest wait of a fork, in seconds, for the current steps of all objects registered by `pause`. A child that
inherits a lock in the middle of a step would hang on it."""

# Number → an object, held weakly, and the function to call with it. Changed without a lock, in atomic steps:
# a garbage collection may do so on any thread.
_Table = dict[int, tuple[ref[Any], Callable[[Any], object]]]
_locks: _Table = {}
_before: _Table = {}
_in_parent: _Table = {}
_in_child: _Table = {}
_threads: set[int | None] = set()
"""ragmeter's threads at the last fork: they do not exist in the child."""
_numbers = count()
_free = methodcaller("_at_fork_reinit")  # the hook of the standard library's locks


def lock() -> threading.Lock:
    """Return a lock that is free in a forked child, even if a thread of the parent held it."""
    made = threading.Lock()
    _hold(_locks, made, _free)
    return made


def reentrant_lock() -> threading.RLock:
    """Return a reentrant lock that is free in a forked child."""
    made = threading.RLock()
    _hold(_locks, made, _free)
    return made


def forget(method: Callable[[], object]) -> None:
    """Call a bound method in every forked child, to drop what belongs to the parent.

    It is called as long as its object lives. The locks of this module are free by then; methods are called in
    the order of registration.
    """
    _hold_method(_in_child, method)


def pause(stop: Callable[[], object], resume: Callable[[], object]) -> None:
    """Call a bound method before every fork, and another one after it in the parent."""
    _hold_method(_before, stop)
    _hold_method(_in_parent, resume)


class Gate:
    """A reentrant lock that a fork waits for: the forking thread holds it during the fork.

    It does not survive the fork: a child makes another.
    """

    deadline = 0.0
    """End of the wait of the fork in progress (monotonic)."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._forking: set[int] = set()

    def before_fork(self) -> None:
        """Acquire the lock, waiting until the deadline of the fork at most."""
        # Recorded first: an interrupt (Ctrl-C) here ends only this call, and the fork continues.
        self._forking.add(threading.get_ident())
        if not self.lock.acquire(timeout=max(0.0, Gate.deadline - time.monotonic())):
            self._forking.discard(threading.get_ident())

    def after_fork_in_parent(self) -> None:
        """Release the lock, if this thread holds it for a fork."""
        if threading.get_ident() in self._forking:
            self._forking.discard(threading.get_ident())
            with suppress(RuntimeError):  # interrupted before it acquired the lock
                self.lock.release()


def registration_count() -> int:
    """Return the number of locks and methods registered for forks."""
    return len(_locks) + len(_before) + len(_in_parent) + len(_in_child)


def _hold_method(table: _Table, method: Any) -> None:
    _hold(table, method.__self__, method.__func__)


def _hold(table: _Table, owner: Any, function: Callable[[Any], object]) -> None:
    number = next(_numbers)
    table[number] = ref(owner, lambda _: table.pop(number, None)), function


def _call(table: _Table, *, last_first: bool = False) -> None:
    held = [(reference(), function) for reference, function in list(table.values())]
    # A stack calls the last one first; it calls all of them, even if one raises.
    with ExitStack() as stack:
        for owner, function in held if last_first else reversed(held):
            if owner is not None:
                stack.callback(function, owner)


def _note_threads() -> None:
    _threads.clear()
    _threads.update(one.ident for one in threading.enumerate() if one.name.startswith("ragmeter"))


def _forget_imports() -> None:
    """Reset imports that a thread of ragmeter had not finished.

    Python's lock of such a module stays held in the child, where any import of it would wait for ever.
    """
    locks: dict[str, Any] = getattr(_bootstrap, "_module_locks", {})
    held = {name: getattr(found(), "owner", None) for name, found in list(locks.items())}
    ours = {owner for name, owner in held.items() if name.startswith("ragmeter.")} | _threads
    for name, owner in held.items():
        if owner is not None and owner in ours and owner != threading.get_ident():
            locks.pop(name, None)
            sys.modules.pop(name, None)


def _start_fork() -> None:
    Gate.deadline = time.monotonic() + PATIENCE_S
    _call(_before, last_first=True)
    _note_threads()


def _start_child() -> None:
    _forget_imports()
    _call(_locks)
    _call(_in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_start_fork, after_in_parent=partial(_call, _in_parent), after_in_child=_start_child
    )
