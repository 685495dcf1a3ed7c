"""`Delivery`: post JSON to a backend's API with retries and backoff.

Called on an exporter's thread, never on a request's. It retries temporary failures (no connection, 408, 429,
5xx) with backoff or the pause the server asks for, within a deadline, and raises `DeliveryError` for all
others, which the meter counts and logs once a minute. Messages never contain a key or a text.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ragmeter.metrics import ConfigurationError, MissingDependencyError
from ragmeter.metrics._process.retry import asked_pause_s, pause_before

from ._bounded_http import BoundedClient
from .changes import NotTakenError
from .protocol import RunsLostError, WriteCount

T = TypeVar("T")
LONGEST_PAUSE_S = 30.0
"""Longest pause between two attempts in seconds, unless the server limits the rate."""
LONGEST_ASKED_PAUSE_S = 300.0
"""Longest pause that a rate-limiting server may ask for, in seconds; the exporter's backlog waits meanwhile."""
REFUSED_FOR_S = 60.0
"""Seconds for which nothing is sent after the backend refused the key or the address."""

_HINTS = {
    401: "check the key",
    403: "the key may not write scores here",
    404: "the address is wrong or the server too old for this call",
    **dict.fromkeys(
        (301, 302, 303, 307, 308),
        "it points to another address: give that one; a redirect is not followed, as it could lead anywhere",
    ),
}


class DeliveryError(Exception):
    """A backend did not accept the scores; the message names it, the reason, and what to check."""


class PartlyDeliveredError(DeliveryError, RunsLostError):
    """A backend accepted the scores of some runs of a batch only; has the number lost."""


class DeliveryCount(WriteCount):
    """Counts the runs of a batch with accepted scores; raises a `DeliveryError`."""

    def __exit__(self, kind: object, error: BaseException | None, *rest: object) -> None:
        """Turn a failure after some accepted runs into a `PartlyDeliveredError`."""
        try:
            super().__exit__(kind, error, *rest)
        except RunsLostError as lost:
            raise PartlyDeliveredError(str(lost), lost.lost) from error


class Delivery:
    """Posts to one backend. One thread at a time; survives fork.

    Args:
        sink: The backend's name in messages.
        base_url: Its address, with http or https.
        headers: Sent with every request; may hold keys, so they are never shown.
        timeout_s: Seconds for one attempt, from connecting to the last byte of the response.
        deadline_s: Seconds for all attempts of one post, pauses included.
        what: Name of the data in messages.
        hides_path: Do not show the path either, which is a secret of chat webhooks.

    Raises:
        ConfigurationError: `base_url` is not an address.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        sink: str,
        base_url: str,
        headers: Mapping[str, str],
        *,
        timeout_s: float = 10.0,
        deadline_s: float = 60.0,
        what: str = "the scores",
        hides_path: bool = False,
    ) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigurationError(f"{sink}: the address is not a URL such as http://127.0.0.1:6006")
        try:
            import httpx  # noqa: PLC0415 -- an optional dependency
        except ImportError:
            raise MissingDependencyError("httpx", "sinks", sink) from None
        self._broken = (httpx.TransportError, httpx.InvalidURL)
        self._sink = sink
        self._what = what
        self._given_url = base_url
        self._base_url = base_url.rstrip("/")
        port = f":{address.port}" if address.port else ""
        # A user name or password in the address must not show up in a log.
        shown_path = "" if hides_path else address.path
        self.shown_address = f"{address.scheme}://{address.hostname}{port}{shown_path}".rstrip("/")
        self._headers = {**headers, "Content-Type": "application/json"}
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._refused: tuple[float, str] | None = None
        self._fresh()

    def _fresh(self) -> None:
        self._process = os.getpid()
        self._closing = threading.Event()
        self._client: BoundedClient | None = None

    def post(self, path: str, body: Any) -> Any:
        """Send `body` to `path` with retries; return the JSON of the response, or None.

        An empty path is the address as given. A pause that the server asks for with status 429 does not count
        towards the deadline.

        Raises:
            DeliveryError: It was refused, not understood, or not accepted within the deadline.
        """
        content = self._begin(body)
        give_up = time.monotonic() + self._deadline_s
        retry = 0
        while True:
            answer = self._attempt(path, content)
            problem = answer.problem
            if problem is None:
                return answer.body
            wait_s = pause_before(retry, answer.pause_s, longest_s=LONGEST_PAUSE_S)
            if answer.limited and answer.pause_s is not None:
                give_up += wait_s
            if time.monotonic() + wait_s > give_up:
                raise DeliveryError(f"{self._sink} at {self.shown_address}: {problem}; gave up")
            if self._closing.wait(wait_s):
                raise DeliveryError(f"{self._sink}: {problem}; shut down before it was taken")
            retry += 1

    def post_once(self, path: str, body: Any) -> Any:
        """Send `body` to `path` in one attempt; return as `post`. For callers with their own retries.

        Raises:
            NotTakenError: It may be accepted later.
            DeliveryError: It was refused, or not understood.
        """
        answer = self._attempt(path, self._begin(body))
        if answer.problem is not None:
            raise NotTakenError(f"{self._sink} at {self.shown_address}: {answer.problem}", answer.pause_s)
        return answer.body

    def offer(self, method: str, path: str, body: Any) -> bool:
        """Send optional data once; return whether it was accepted. A refusal is ignored."""
        client = self._client_now()
        try:
            content = json.dumps(body).encode("ascii")
            status = client.send(method, self._base_url + path, content).status
        except self._broken:
            return False
        return status < 300

    def _client_now(self) -> BoundedClient:
        if self._client is None:
            self._client = BoundedClient(self._headers, self._timeout_s)
        return self._client

    def _begin(self, body: Any) -> bytes:
        """Serialise the body.

        Raises:
            DeliveryError: The backend refused recently.
        """
        if self._process != os.getpid():
            self._fresh()  # sockets and locks belong to the parent
        if self._refused is not None:
            until, message = self._refused
            if time.monotonic() < until:
                raise DeliveryError(message)
            self._refused = None
        # Escapes instead of UTF-8: a lone surrogate in an explanation has no other spelling.
        return json.dumps(body, allow_nan=False).encode("ascii")

    def close(self) -> None:
        """End current pauses and release the connections."""
        self._closing.set()
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            client.close()

    def _attempt(self, path: str, content: bytes) -> _Answer:
        client = self._client_now()
        try:
            url = self._base_url + path if path else self._given_url
            reply = client.send("POST", url, content)
        except self._broken as error:
            return _Answer(problem=f"no answer ({type(error).__name__})")
        status = reply.status
        if 200 <= status < 300:
            with suppress(ValueError, RecursionError):
                return _Answer(body=None if reply.body is None else json.loads(reply.body))
            return _Answer()
        if status in (408, 429) or status >= 500:
            limited = status == 429
            longest = LONGEST_ASKED_PAUSE_S if limited else LONGEST_PAUSE_S
            pause_s = asked_pause_s(status, reply.headers, longest_s=longest)
            return _Answer(problem=f"status {status}", pause_s=pause_s, limited=limited)
        message = f"{self._sink} at {self.shown_address}{path} refused {self._what}: status {status}"
        if status in _HINTS:
            message += f", {_HINTS[status]}. Nothing is sent there for {REFUSED_FOR_S:.0f} s at a time"
            self._refused = (time.monotonic() + REFUSED_FOR_S, message)
        raise DeliveryError(message)


def in_requests(runs: Iterable[list[T]], most: int, most_bytes: float = math.inf) -> Iterator[list[list[T]]]:
    """Yield runs' data in groups that fit into one request each; a run is never divided.

    Args:
        runs: The data of each.
        most: Most items in a request.
        most_bytes: Most bytes of items in a request, as JSON.
    """
    group: list[list[T]] = []
    count = size = 0
    for run in runs:
        weight = 0
        if most_bytes < math.inf:
            weight = sum(len(json.dumps(one, default=str)) for one in run)
        if group and (count + len(run) > most or size + weight > most_bytes):
            yield group
            group, count, size = [], 0, 0
        group.append(run)
        count += len(run)
        size += weight
    if group:
        yield group


class _Answer(NamedTuple):
    body: Any = None
    """The JSON of a success."""
    problem: str | None = None
    """A temporary failure; None: none."""
    pause_s: float | None = None
    """The pause the server asked for."""
    limited: bool = False
    """Whether it asked because of a rate limit."""
