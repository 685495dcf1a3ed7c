"""One HTTP exchange with the judge's endpoint: bytes out, bytes back.

`OpenAIJudge` learns the address once and makes a wire per client; the endpoint posts through it.
The package ``openai`` decides where a call goes and with which headers (keys, Azure's deployments,
organisation), and whose defaults its HTTP client has; but calls do not pass through it: what it
does to arguments and replies costs more than sending them.  Nothing here knows prompts or retries.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from .failures import FailedCall

if TYPE_CHECKING:
    from openai import AzureOpenAI, OpenAI

__all__ = ["Address", "Reply", "Wire", "address_of", "http_library"]

_PATH = "/chat/completions"
_PER_REQUEST = frozenset({b"host", b"content-length"})
_NO_TIMEOUTS = {"connect": None, "read": None, "write": None, "pool": None}
"""The endpoint bounds the whole exchange; a timer for each step would cost a tenth of a call."""


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
class Address:
    """Where calls are posted, and the headers they all carry. Holds the key: never shown."""

    url: Any = field(repr=False)
    """The HTTP library's URL."""
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """Names and values."""


def address_of(
    model: str,
    base_url: str | None,
    key: str,
    api_version: str | None,
    headers: Mapping[str, str],
) -> Address:
    """Have the package ``openai`` build one request, send nothing, and keep address and headers.

    Raises:
        ImportError: A module that the client needs is missing.
        ValueError: The address, the key or a header cannot be sent.
    """
    from openai import (  # noqa: PLC0415 -- optional dependency
        AzureOpenAI,
        DefaultHttpxClient,
        OpenAI,
        OpenAIError,
    )

    http = http_library()
    built: list[Any] = []

    def keep(request: Any) -> Any:
        built.append(request)
        raise http.ConnectError("nothing is sent")

    with DefaultHttpxClient(transport=http.MockTransport(keep)) as unconnected:
        client: OpenAI | AzureOpenAI
        if api_version is not None and base_url is not None:
            client = AzureOpenAI(
                azure_endpoint=base_url,
                api_version=api_version,
                api_key=key,
                default_headers=headers,
                max_retries=0,
                http_client=unconnected,
            )
        else:
            client = OpenAI(
                base_url=base_url,
                api_key=key,
                default_headers=headers,
                max_retries=0,
                http_client=unconnected,
            )
        try:
            # Not `chat.completions.create`: instrumentations would record it as the user's call.
            client.post(_PATH, cast_to=object, body={"model": model})
        except OpenAIError as error:
            if not built:
                raise ValueError(f"no request could be built ({type(error).__name__})") from None
    request = built[0]
    return Address(
        request.url,
        tuple(
            (name, value) for name, value in request.headers.raw if name.lower() not in _PER_REQUEST
        ),
    )


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


class Wire:
    """An HTTP client and the address it posts to. Belongs to one event loop; no limit of its own.

    Args:
        address: Where to post.

    Raises:
        ImportError: A module that the client needs is missing, e.g. for a SOCKS proxy.
        ValueError: An environment variable names a proxy that cannot be used.
    """

    def __init__(self, address: Address) -> None:
        from openai import DefaultAsyncHttpxClient  # noqa: PLC0415 -- optional dependency

        self._http = http_library()
        self._address = address
        self._client = DefaultAsyncHttpxClient(verify=_tls())
        http = self._http
        self._broken = (
            http.HTTPError, http.InvalidURL, http.StreamError, OSError, RuntimeError, ValueError
        )  # fmt: skip

    async def post(self, content: bytes, most_bytes: int) -> Reply:
        """Post `content` (JSON) and read at most `most_bytes` of the reply; waits without limit.

        Raises:
            FailedCall: There was no connection, or it broke.
        """
        received = bytearray()
        try:
            request = self._http.Request(
                "POST",
                self._address.url,
                headers=self._address.headers,
                content=content,
                extensions={"timeout": _NO_TIMEOUTS},
            )
            response = await self._client.send(request, stream=True)
            try:
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > most_bytes:
                        break
            finally:
                await response.aclose()
        except self._broken as error:
            detail = f"no connection, or it broke ({type(error).__name__})"
            raise FailedCall("connection", detail, retry=True) from None
        complete = len(received) <= most_bytes
        return Reply(response.status_code, response.headers, bytes(received), complete)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
