"""A model behind an HTTP address: the common part of embedders and detectors that post their items."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ragmeter.metrics._process.retry import pause_before
from ragmeter.metrics.errors import ConfigurationError

from .batched_model import BatchedModel, I, R, T
from .failures import FailedCall, failed_reply
from .loops import PerLoop
from .wires import Caller, Wires

_LONGEST_PAUSE_S = 20.0
"""Longest pause between two attempts, unless the endpoint asks for more."""


class RemoteModel(BatchedModel[I, R]):
    """Posts to an endpoint, and retries temporary failures. A subclass calls `_connect` in its ``__init__``."""

    def _connect(self, caller: Caller, *, max_retries: int, concurrency: int) -> None:
        if max_retries < 0:
            raise ConfigurationError(f"max_retries is {max_retries!r}; pass 0 or more")
        self._caller = caller
        self._max_retries = max_retries
        self._wires = PerLoop(partial(Wires, caller, concurrency))

    @property
    def host(self) -> str:
        """Host of the endpoint; nothing else of its address, which may contain a secret."""
        return self._caller.host

    async def _post(self, path: str, body: Mapping[str, Any], most_bytes: int, read: Callable[[bytes], T]) -> T:
        """Post, retry temporary failures with a pause if time is left, and return what is read of the reply.

        Raises:
            FailedCall: The last attempt failed.
        """
        ends_at = time.monotonic() + self.timeout_s
        retry = 0
        while True:
            try:
                return read(await self._post_once(path, body, most_bytes))
            except FailedCall as failure:
                pause_s = pause_before(retry, failure.retry_after_s, longest_s=_LONGEST_PAUSE_S)
                out_of_time = time.monotonic() + pause_s >= ends_at
                if not failure.retry or retry >= self._max_retries or out_of_time:
                    raise
                self._count(calls=1)
            retry += 1
            await asyncio.sleep(pause_s)

    async def _post_once(self, path: str, body: Mapping[str, Any], most_bytes: int) -> bytes:
        async with self._wires.here().slot() as wire:
            reply = await wire.post(body, most_bytes, path)
        if not 200 <= reply.status < 300:
            raise failed_reply(reply.status, reply.headers, reply.body)
        if not reply.complete:
            raise FailedCall("reply_too_large", "its reply is too large")
        return reply.body

    async def aclose(self) -> None:
        """Cancel open calls and close this event loop's connections. The model can be used again."""
        await super().aclose()
        wires = self._wires.take()
        if wires is not None:
            await wires.close()
