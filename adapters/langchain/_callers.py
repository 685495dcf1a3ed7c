"""The retriever whose call is under way: callbacks get its class, and not what it searches."""

from __future__ import annotations

import sys
from types import FrameType

_MODULE = "langchain_core.retrievers"
_MAX_CALLERS = 15
"""Frames between a retriever's call and what is noted of it: dispatching, and ours."""


def calling_retriever() -> object:
    """Return the calling retriever; None: it is not known."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- the documented way to the callers
    for _ in range(_MAX_CALLERS):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == _MODULE:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None
