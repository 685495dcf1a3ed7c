"""Calls a meter before and after the process forks, for as long as somebody holds it.

The meter registers here once, when it is built.  A fork waits for workers between two
requests at most `PATIENCE_S`: a child that inherits a worker's locks would hang on them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakMethod

__all__ = ["PATIENCE_S", "follow_forks"]

PATIENCE_S = 0.25
"""Seconds that a fork waits, at most, for a meter's workers to finish what they are at."""


def follow_forks(
    *,
    before: Callable[[], None],
    after_in_parent: Callable[[], None],
    after_in_child: Callable[[], None],
) -> None:
    """Call these bound methods around every fork; a dead object costs nothing."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_weakly(before),
            after_in_parent=_weakly(after_in_parent),
            after_in_child=_weakly(after_in_child),
        )


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    reference = WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call
