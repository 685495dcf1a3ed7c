"""The retriever whose call is under way: callbacks get its class, and not what it searches."""

from __future__ import annotations

import sys
from types import FrameType

from ragmeter.adapters._stores import source_of

__all__ = ["source_of_caller"]

_MODULE = "langchain_core.retrievers"
_MAX_CALLERS = 15
"""Frames between a retriever's call and what is noted of it: dispatching, and ours."""


def source_of_caller() -> str | None:
    """Return the name of what the calling retriever searches; None: it is not known."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- the documented way to the callers
    for _ in range(_MAX_CALLERS):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == _MODULE:
            return source_of(frame.f_locals.get("self"))
        frame = frame.f_back
    return None
