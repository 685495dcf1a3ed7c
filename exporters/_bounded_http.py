"""`BoundedClient`: an HTTP client with a total timeout, a limit on response size, and no redirects.

`httpx` limits only each read, so that a server that sends single bytes occasionally blocks its caller for
ever; it reads responses of any length into memory; and a redirect would send headers and body to an unknown
host. Used to post scores, changes and received telemetry; the judge's endpoint has `Wire`. `own_session`
keeps the SDK's exporters from following redirects: depending on its version the SDK follows one, with headers
and texts, to any host, or counts it as a success although nothing was accepted.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import httpx
    import requests

MOST_BYTES = 4 * 1024 * 1024
"""Most bytes of a response: at most, it lists an error for each score of a batch."""


class HttpReply(NamedTuple):
    """A server's response."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Its headers, case-insensitive."""
    body: bytes | None
    """The body; None: longer than `MOST_BYTES`, or too slow. The status is valid all the same."""


class BoundedClient:
    """Sends requests, one thread at a time.

    Args:
        headers: Sent with every request.
        timeout_s: Seconds for one request, from connecting to the last byte of the response. A name with
            several silent addresses takes as long for each.
        verify: As for ``httpx.Client``.
    """

    def __init__(self, headers: Mapping[str, str], timeout_s: float, *, verify: Any = True) -> None:
        # 15 MB, only for exporters that post.
        import httpx  # noqa: PLC0415 -- an optional dependency

        self._timeout_s = timeout_s
        self._client = httpx.Client(
            # A compressed response could unpack to any size.
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=timeout_s,
            verify=verify,
            follow_redirects=False,
        )
        self._broken = httpx.TransportError
        self._late = httpx.ReadTimeout
        self._socket: socket.socket | None = None
        self._is_over = threading.Event()

    def send(self, method: str, url: str, content: bytes) -> HttpReply:
        """Send a request and return its response, with any status.

        Raises:
            httpx.TransportError: No response in time.
            httpx.InvalidURL: `url` is invalid.
        """
        over = self._is_over = threading.Event()
        timer = threading.Timer(self._timeout_s, self._end, (over,))
        timer.daemon = True
        with suppress(RuntimeError):  # at the end of the process no thread starts
            timer.start()
        try:
            with self._client.stream(
                method, url, content=content, extensions={"trace": self._note}
            ) as response:
                return HttpReply(response.status_code, response.headers, self._read(response))
        except self._broken:
            if over.is_set():
                raise self._late(f"no answer within {self._timeout_s:g} s") from None
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        """Release the connections."""
        self._client.close()

    def _read(self, response: httpx.Response) -> bytes | None:
        received = bytearray()
        try:
            for part in response.iter_raw():
                received += part
                if len(received) > MOST_BYTES:
                    return None
        except self._broken:
            return None
        return None if self._is_over.is_set() else bytes(received)

    def _note(self, event: str, found: Mapping[str, Any]) -> None:
        """Store the socket of a new connection, which httpx exposes only here before a response."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._socket = found["return_value"].get_extra_info("socket")
            if self._is_over.is_set():
                self._shut_down()

    def _end(self, over: threading.Event) -> None:
        over.set()
        self._shut_down()

    def _shut_down(self) -> None:
        """Shut down the socket, which ends a thread's wait for it."""
        if self._socket is not None:
            with suppress(OSError):
                # Not `SSLSocket.shutdown`, which changes the connection's state under the reading thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_MISDIRECTED = 421
_PROVIDER = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_"


def own_session() -> requests.Session | None:
    """Return a session that refuses redirects; None if the environment names a provider of sessions."""
    import requests  # noqa: PLC0415 -- 6 MB, for those who post

    if any(name.startswith(_PROVIDER) and os.environ[name] for name in os.environ):
        return None
    return refuse_redirects(requests.Session())


def refuse_redirects(session: requests.Session) -> requests.Session:
    """Turn redirects of a session into status 421: neither accepted nor retried."""
    session.hooks["response"].append(_refuse)
    return session


def _refuse(response: requests.Response, **_: Any) -> None:
    status = response.status_code
    if 300 <= status < 400:
        response.reason = f"status {status} points to another address, which is not followed"
        response.status_code = _MISDIRECTED
