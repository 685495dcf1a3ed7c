"""The clients of one event loop, and how many calls may be under way at once.

`OpenAIJudge` keeps one of these per loop, because connections belong to the loop that opened them;
the endpoint borrows a client for each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["LoopResources", "http_library"]

_CALLS_PER_CLIENT = 8
"""httpcore 1.0 looks at every pair of a pool's connections for each request: at 64 calls at once one
pool costs some 6 ms per call, pools of 8 a tenth of that."""


@lru_cache(maxsize=1)
def http_library() -> ModuleType:
    """Return the HTTP library under the installed client: httpx for openai 1 and 2, httpx2 for 3."""
    from openai import DefaultAsyncHttpxClient  # noqa: PLC0415 -- an optional dependency

    kinds = type.mro(cast("type", DefaultAsyncHttpxClient))
    client = next(kind for kind in kinds if kind.__name__ == "AsyncClient")
    return import_module(client.__module__.partition(".")[0])


@dataclass(slots=True)
class _Lent:
    client: AsyncOpenAI
    calls: int = 0
    """Calls under way through it."""


class LoopResources:
    """What belongs to one event loop: the clients, and how many calls may be under way.

    Args:
        concurrency: Calls under way at once.
        make_client: Builds a client; called when the others are busy.
    """

    def __init__(self, concurrency: int, make_client: Callable[[], AsyncOpenAI]) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._make_client = make_client
        self._lent: list[_Lent] = []

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncOpenAI]:
        """Wait for a slot and lend a client."""
        async with self._slots:
            lent = next((one for one in self._lent if one.calls < _CALLS_PER_CLIENT), None)
            if lent is None:
                lent = _Lent(self._make_client())
                self._lent.append(lent)
            lent.calls += 1
            try:
                yield lent.client
            finally:
                lent.calls -= 1

    async def close(self) -> None:
        """Close all clients."""
        lent, self._lent = self._lent, []
        for one in lent:
            await one.client.close()
