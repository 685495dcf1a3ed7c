"""`BoundedClient`: sends one HTTP request within a time as a whole, and is neither redirected nor filled up.

`httpx` bounds each read, so that a server which sends a byte now and then holds up its caller for good; it
reads an answer of any length into memory; and a redirect would take headers and body to a host that no one
named.
Used where scores, changes or received telemetry are posted; the judge's endpoint has `Wire`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import httpx

__all__ = ["MOST_BYTES", "BoundedClient", "HttpReply"]

MOST_BYTES = 4 * 1024 * 1024
"""What is read of an answer: it lists, at most, what was wrong with each score of a batch."""


class HttpReply(NamedTuple):
    """What a server answered."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Its headers; their case does not matter."""
    body: bytes | None
    """As it came; None: it is longer than `MOST_BYTES`, or took too long. The status stands all the same."""


class BoundedClient:
    """Sends requests, one thread at a time.

    Args:
        headers: Sent with every request.
        timeout_s: Seconds for one request, from connecting to the last byte of its answer. A name with several
            addresses that all keep silent takes as long for each.
        verify: As for ``httpx.Client``.
    """

    def __init__(self, headers: Mapping[str, str], timeout_s: float, *, verify: Any = True) -> None:
        # 15 MB, for those who post.
        import httpx  # noqa: PLC0415 -- an optional dependency

        self._timeout_s = timeout_s
        self._client = httpx.Client(
            # A compressed answer could unpack to anything.
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
        """Send a request and return its answer, whatever its status.

        Raises:
            httpx.TransportError: There was none in time.
            httpx.InvalidURL: `url` is no address.
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
        """Keep the socket of a new connection; httpx hands it out in no other way before an answer."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._socket = found["return_value"].get_extra_info("socket")
            if self._is_over.is_set():
                self._shut_down()

    def _end(self, over: threading.Event) -> None:
        over.set()
        self._shut_down()

    def _shut_down(self) -> None:
        """Have a thread that waits for the socket see its end."""
        if self._socket is not None:
            with suppress(OSError):
                # Not `SSLSocket.shutdown`, which takes the connection's state from whoever reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
