"""How a request ended, told from the exception that ended it: one rule for every adapter."""

from __future__ import annotations

import asyncio

from ragmeter.metrics.sample import SampleStatus

__all__ = ["CANCELLATIONS", "error_type", "status_of_error"]

CANCELLATIONS: tuple[type[BaseException], ...] = (
    asyncio.CancelledError,
    GeneratorExit,
    KeyboardInterrupt,
)
"""Exceptions that mean that the caller gave up, not that something failed."""


def status_of_error(error: BaseException | None) -> SampleStatus:
    """Return ``cancelled`` when the caller gave up, else ``error``; an unknown error is an error."""
    return "cancelled" if isinstance(error, CANCELLATIONS) else "error"


def error_type(error: BaseException | None) -> str | None:
    """Return the low-cardinality name of an exception (``error.type``): its class."""
    return None if error is None else type(error).__name__
