"""One call to the judge's endpoint through the package ``openai``: a body out, bytes back.

`OpenAIJudge` makes a `Caller` once and a wire of it for every few calls at once; the endpoint posts
through it.  ``openai`` decides where a call goes, with which headers (keys, Azure's deployments,
organisation), and sends it; the reply is taken as bytes, because walking typed arguments and replies
costs more than sending them.  Nothing here knows prompts or retries.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ._addresses import Address
from ._failures import FailedCall

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["Caller", "Reply", "Wire", "http_library"]


MOST_ERROR_BYTES = 2**20
"""How much is read of an error's body."""


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
    """Who asks, and where: all that a client is made of. Holds the key: never shown."""

    address: Address | None
    """Address of the API; None: OpenAI's own."""
    key: str = field(repr=False)
    """The API key."""
    api_version: str | None
    """Azure's, or None."""
    headers: Mapping[str, str] = field(repr=False)
    """Sent with every call."""

    def client(self) -> AsyncOpenAI:
        """Make a client. It neither retries nor looks at the time: the endpoint does both.

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
        event_hooks: dict[str, list[Any]] = {"request": hooks, "response": [_keep_refusal]}
        settings: dict[str, Any] = {
            "api_key": self.key,
            "default_headers": self._all_headers(),
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
                client = AsyncAzureOpenAI(
                    azure_endpoint=base_url, api_version=self.api_version, **settings
                )
            else:
                client = AsyncOpenAI(base_url=base_url, **settings)
        except http.InvalidURL as error:  # no ValueError, though it is one
            raise ValueError("the address is not one") from error
        # What no header can carry raises here, not with the first call.
        for name, value in {**client.default_headers, **client.auth_headers}.items():
            if isinstance(value, str):
                f"{name}{value}".encode("ascii")
        return client

    def _all_headers(self) -> dict[str, str]:
        given = {name.casefold() for name in self.headers}
        login = None if self.address is None else self.address.login
        if login is None or "authorization" in given:
            return dict(self.headers)
        return {"Authorization": login, **self.headers}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Its headers; looked up whatever their case."""
    body: bytes
    """The decoded body, or its beginning."""
    complete: bool
    """False: the body is longer than was allowed, and the rest was not read."""


class _RefusedError(Exception):
    """A reply with an error status, read as far as it is looked at."""

    def __init__(self, reply: Reply) -> None:
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
    raise _RefusedError(
        Reply(response.status_code, response.headers, bytes(received), complete=True)
    )


class Wire:
    """A client of ``openai``. Belongs to one event loop; no limit of its own.

    Args:
        client: Who posts.
    """

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

    async def post(self, body: Mapping[str, Any], most_bytes: int) -> Reply:
        """Post `body` and read at most `most_bytes` of the reply; waits without limit.

        Raises:
            FailedCall: There was no connection, or it broke.
        """
        received = bytearray()
        try:
            # Not `chat.completions.create`: that walks every message for a millisecond, and
            # instrumentations would record it as the user's call.
            response: Any = await self._client.post(
                "/chat/completions",
                cast_to=self._response,
                body=body,
                stream=True,
                stream_cls=self._stream,
            )
            try:
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > most_bytes:
                        break
            finally:
                await response.aclose()
        except _RefusedError as refusal:
            return refusal.reply
        except self._broken as error:
            if isinstance(error.__cause__, _RefusedError):
                return error.__cause__.reply
            detail = f"no connection, or it broke ({type(error).__name__})"
            raise FailedCall("connection", detail, retry=True) from None
        complete = len(received) <= most_bytes
        return Reply(response.status_code, response.headers, bytes(received), complete)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
