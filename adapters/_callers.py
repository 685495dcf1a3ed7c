"""Detection of engine calls by LlamaIndex's own code, to build an index or to evaluate: no user's request.

For its handler, and for its spans. It imports nothing of LlamaIndex.

Index building summarises every document by a synthesizer, evaluators put a judge's prompt to a query engine,
node parsers ask an engine about every table. The arguments of those calls are like a user's, but the calling
code is part of LlamaIndex's own packages for such work. Checked once per request, when it begins; only the
code's names are read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FrameType

_PACKAGES = frozenset(
    ("evaluation", "extractors", "indices", "ingestion", "llama_dataset", "node_parser", "playground")
)
"""LlamaIndex's packages that call engines for other reasons than a user's question."""

_EVALUATOR_METHODS = frozenset({"evaluate", "aevaluate", "evaluate_response", "aevaluate_response"})

MAX_CALLERS = 40
"""Frames of the call stack that are read, from the call outwards."""


_MAX_CODES = 5_000

_ordinary: dict[int, CodeType] = {}
"""Code known to do neither."""


def is_preparation() -> bool:
    """Return whether the current call was made by code that indexes documents or evaluates."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 -- the documented way to the callers
    for _ in range(MAX_CALLERS):
        if frame is None:
            break
        code = frame.f_code
        if _ordinary.get(id(code)) is not code and _prepares(frame):
            return True
        frame = frame.f_back
    return sys.modules.get("asyncio") is not None and any(map(_prepares, _gathering_frames()))


def _prepares(frame: FrameType) -> bool:
    if _is_for_preparation(frame.f_globals.get("__name__")):
        return True
    code = frame.f_code
    if code.co_name in _EVALUATOR_METHODS:
        # An application's own evaluator is recognised by its class, each time.
        instance = frame.f_locals.get("self")
        classes = () if instance is None else type(instance).__mro__
        return any(c.__name__ == "BaseEvaluator" and c.__module__.startswith("llama_index.") for c in classes)
    if len(_ordinary) >= _MAX_CODES:
        _ordinary.clear()
    _ordinary[id(code)] = code
    return False


@lru_cache(maxsize=5_000)
def _is_for_preparation(module: object) -> bool:
    parts = str(module).split(".", 3)
    place = 2 if parts[1:2] == ["core"] else 1
    return parts[0] == "llama_index" and not _PACKAGES.isdisjoint(parts[place : place + 1])


def _gathering_frames() -> Iterator[FrameType]:
    """Yield the coroutines that wait for this task in an ``asyncio.gather``: they are on no stack.

    Python has an API for the waiting tasks from 3.14 on; in earlier versions their callbacks name them.
    """
    asyncio = sys.modules["asyncio"]
    if asyncio._get_running_loop() is None:  # noqa: SLF001 -- the one that does not raise
        return
    task = asyncio.current_task()
    for callback, _ in getattr(task, "_callbacks", None) or ():
        if getattr(callback, "__module__", None) != "asyncio.tasks":
            continue
        for variable in _closed_over(callback):
            for wake_up, _ in getattr(variable, "_callbacks", None) or ():
                waiting = getattr(wake_up, "__self__", None)
                coroutine = getattr(waiting, "get_coro", lambda: None)()
                for _ in range(MAX_CALLERS):
                    frame = getattr(coroutine, "cr_frame", None)
                    if frame is None:
                        break
                    yield frame
                    coroutine = getattr(coroutine, "cr_await", None)


def _closed_over(function: object) -> list[object]:
    values: list[object] = []
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            values.append(cell.cell_contents)
    return values
