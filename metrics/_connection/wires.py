"""Sends calls to an endpoint through the package ``openai``: a body out, bytes back.

`Caller` makes clients; `Wire` posts through one; `Wires` lends those of one event loop, each with a slot.
``openai`` decides the address and the headers of a call (keys, Azure's deployments, organisation), and sends
it; the reply is read as bytes, because converting typed arguments and replies costs more than sending them.
Nothing here knows the content, or retries.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from .address import Address
from .failures import FailedCall

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MOST_ERROR_BYTES = 2**20
"""Bytes to read of an error's body."""
_CALLS_PER_WIRE = 8
"""Calls per pool: httpcore 1.0 compares every pair of a pool's connections for each request: with 64
concurrent calls one pool costs some 6 ms per call, pools of 8 a tenth of that."""
_LONGEST_GAP_S = 0.0015
"""Longest gap between the starts of two calls: about the CPU time of a call."""
_MEMORY = 16
"""Number of calls in the average duration."""


@lru_cache(maxsize=1)
def http_library() -> ModuleType:
    """Return the HTTP library under the installed client: httpx for openai 1 and 2, httpx2 for 3."""
    from openai import DefaultAsyncHttpxClient  # noqa: PLC0415 -- an optional dependency

    kinds = type.mro(cast("type", DefaultAsyncHttpxClient))
    client = next(kind for kind in kinds if kind.__name__ == "AsyncClient")
    return import_module(client.__module__.partition(".")[0])


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Return the TLS settings that all clients share: reading the certificates takes 30 ms."""
    context: ssl.SSLContext = http_library().create_ssl_context()
    return context


@dataclass(frozen=True, slots=True)
class Caller:
    """The settings of a client. Holds the key: never shown."""

    address: Address | None
    """Address of the API; None: OpenAI's."""
    key: str = field(repr=False)
    """The API key."""
    api_version: str | None
    """Azure's API version, or None."""
    headers: Mapping[str, str] = field(repr=False)
    """Sent with every call."""

    @property
    def host(self) -> str:
        """Host of the endpoint; nothing else of its address, which may contain a secret."""
        return "api.openai.com" if self.address is None else self.address.host

    @property
    def stored_url(self) -> str | None:
        """The address for storage; None: OpenAI's."""
        return None if self.address is None else self.address.without_secrets

    @property
    def secrets(self) -> dict[str, Any]:
        """The arguments ``base_url``, ``api_key`` and ``headers``, none of which may be pickled."""
        return {
            "base_url": None if self.address is None else self.address.whole,
            "api_key": self.key,
            "headers": {str(name): str(value) for name, value in self.headers.items()},
        }

    def client(self) -> AsyncOpenAI:
        """Make a client without retries and timeouts, as the endpoint handles both.

        It follows no redirect: another host would get the key, the headers and the texts.

        Raises:
            ImportError: A module that the client needs is missing, e.g. for a SOCKS proxy.
            ValueError: The address, the key, a header or the environment's proxy cannot be used.
        """
        from openai import (  # noqa: PLC0415 -- optional dependency
            AsyncAzureOpenAI,
            AsyncOpenAI,
            DefaultAsyncHttpxClient,
        )

        http = http_library()
        hooks = [] if self.address is None else self.address.request_hooks(http.URL)
        headers, login = dict(self.headers), None if self.address is None else self.address.login
        if login is not None and "authorization" not in map(str.casefold, headers):
            headers["Authorization"] = login
        event_hooks: dict[str, list[Any]] = {"request": hooks, "response": [_keep_refusal]}
        settings: dict[str, Any] = {
            "api_key": self.key,
            "default_headers": headers,
            "max_retries": 0,
            "timeout": None,
            "http_client": DefaultAsyncHttpxClient(
                verify=_tls(), follow_redirects=False, event_hooks=event_hooks
            ),
        }
        base_url = None if self.address is None else self.address.plain
        client: AsyncOpenAI
        try:
            if self.api_version is not None and base_url is not None:
                client = AsyncAzureOpenAI(azure_endpoint=base_url, api_version=self.api_version, **settings)
            else:
                client = AsyncOpenAI(base_url=base_url, **settings)
        except http.InvalidURL as error:  # not a ValueError, although it means one
            raise ValueError("the address is not one") from error
        # A header that cannot be sent raises here, not with the first call.
        for name, value in {**client.default_headers, **client.auth_headers}.items():
            if isinstance(value, str):
                f"{name}{value}".encode("ascii")
        return client


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """The reply of an endpoint."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Its headers; their case does not matter."""
    body: bytes
    """The decoded body, or its beginning."""
    complete: bool
    """False: the body is longer than the limit, and the rest was not read."""


class _FailedReplyError(Exception):
    """A reply with an error status, with the part of its body that is needed."""

    def __init__(self, reply: EndpointReply) -> None:
        super().__init__(reply.status)
        self.reply = reply


async def _keep_refusal(response: Any) -> None:
    """Read the beginning of an error's body: ``openai`` would read all of it, however long it is."""
    if 200 <= response.status_code < 300:
        return
    received = bytearray()
    async for part in response.aiter_bytes():
        received += part
        if len(received) > MOST_ERROR_BYTES:
            break
    raise _FailedReplyError(
        EndpointReply(response.status_code, response.headers, bytes(received), complete=True)
    )


def _cause(error: BaseException) -> str:
    """Return why there is no connection, in the system's words if there are any."""
    while (under := error.__cause__ or error.__context__) is not None:
        error = under
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return " ".join(str(error).split())[:300]


class Wire:
    """A client of ``openai``. Belongs to one event loop; has no limits."""

    def __init__(self, client: AsyncOpenAI) -> None:
        import openai  # noqa: PLC0415 -- optional dependency

        http = http_library()
        self._client = client
        self._response: type[Any] = http.Response
        self._stream = openai.AsyncStream[object]
        self._broken = (
            openai.OpenAIError, http.HTTPError, http.InvalidURL, http.StreamError,
            OSError, RuntimeError, ValueError,
        )  # fmt: skip

    async def post(
        self, body: Mapping[str, Any], most_bytes: int, path: str = "/chat/completions"
    ) -> EndpointReply:
        """Post `body` to `path` and read at most `most_bytes` of the reply; waits without limit.

        Raises:
            FailedCall: No connection, or it was lost.
        """
        received = bytearray()
        try:
            # Not `chat.completions.create`: that walks every message for a millisecond, and
            # instrumentations would record it as the user's call.
            response: Any = await self._client.post(
                path, cast_to=self._response, body=body, stream=True, stream_cls=self._stream
            )
            try:
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > most_bytes:
                        break
            finally:
                await response.aclose()
        except _FailedReplyError as refusal:
            return refusal.reply
        except self._broken as error:
            if isinstance(error.__cause__, _FailedReplyError):
                return error.__cause__.reply
            detail = f"no connection, or it broke ({type(error).__name__})"
            raise FailedCall("connection", detail, retry=True, words=_cause(error)) from None
        complete = len(received) <= most_bytes
        return EndpointReply(response.status_code, response.headers, bytes(received), complete)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


@dataclass(slots=True)
class _OpenWire:
    wire: Wire
    calls: int = 0
    """Current calls through it."""


class Wires:
    """The connections of one event loop, and its slots: one for each concurrent call on the wire."""

    def __init__(self, caller: Caller, concurrency: int) -> None:
        self._caller = caller
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._lent: list[_OpenWire] = []
        self._usual_s = math.inf
        self._next_at = 0.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Wire]:
        """Wait for a slot and lend a wire; do nothing else while it is held."""
        async with self._slots:
            await self._gap()
            lent = next((one for one in self._lent if one.calls < _CALLS_PER_WIRE), None)
            if lent is None:
                lent = _OpenWire(Wire(self._caller.client()))
                self._lent.append(lent)
            lent.calls += 1
            started = time.monotonic()
            try:
                yield lent.wire
            finally:
                lent.calls -= 1
                lasted_s = time.monotonic() - started
                if self._usual_s == math.inf:
                    self._usual_s = lasted_s
                self._usual_s += (lasted_s - self._usual_s) / _MEMORY

    async def _gap(self) -> None:
        """Delay calls slightly that would start together.

        Replies to calls that started together arrive together, and the last of them is read when all the
        others have been; their successors start together again, so that such a wave continues, and slots are
        idle while it is processed. The delay is half of the average distance of calls with all slots in use,
        so it cannot limit the rate.
        """
        now = time.monotonic()
        at = max(now, self._next_at)
        self._next_at = at + min(self._usual_s / self._concurrency / 2, _LONGEST_GAP_S)
        if at > now:
            await asyncio.sleep(at - now)

    async def close(self) -> None:
        """Close all connections."""
        lent, self._lent = self._lent, []
        for one in lent:
            await one.wire.close()
