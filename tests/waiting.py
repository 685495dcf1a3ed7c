"""Waiting for what happens elsewhere."""

import time
from collections.abc import Callable
from typing import Any

__all__ = ["until"]


def until(condition: "Callable[[], Any]", patience_s: float = 60.0, what: str = "what was waited for") -> Any:
    """Wait until `condition()` is true, as long as a busy machine may take; return its value."""
    deadline = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {patience_s:g} s")
        time.sleep(0.02)
    return value
