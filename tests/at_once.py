"""Calls at the same time, each on a thread of its own."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["at_once"]

PATIENCE_S = 100


def at_once(call: "Callable[..., Any]", *arguments: "Iterable[Any]") -> "list[Any]":
    """Make a call for each argument, as `map` does, all at the same time; return the results in order.

    An exception of a call is raised here.
    """
    given = list(zip(*arguments, strict=True))
    with ThreadPoolExecutor(len(given)) as pool:
        return [made.result(PATIENCE_S) for made in [pool.submit(call, *one) for one in given]]
