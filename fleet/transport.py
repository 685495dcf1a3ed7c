"""The interface of engines that transport messages, and their choice by URL.

The publisher calls a `Sender`; engines move opaque bytes. At the other end, the engine passes each message to
a `MessageWorker` and applies the returned `Disposition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics._process.malformed_url import is_torn


class TransportDownError(RagmeterError):
    """A message was not accepted, but may be later: no connection, answer or room."""


class Sender(Protocol):
    """Sends messages. Called by one thread at a time."""

    def send(self, body: bytes, *, count: int) -> None:
        """Send a message, and return once the engine has stored it.

        Args:
            body: The message.
            count: Number of its requests.

        Raises:
            TransportDownError: It was not accepted; the error quotes none of its content.
        """
        ...

    def close(self, timeout_s: float) -> None:
        """Close within `timeout_s` seconds. Called once; nothing is sent afterwards."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A message for the dead letters, not to be retried."""

    body: bytes
    """The message."""
    reason: str
    """Reason, without the message's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition:
    """What to do with a message: first store `split` and `dead`, then acknowledge it."""

    done: bool = True
    """Whether to acknowledge it; False: redeliver it, without counting a death."""
    split: tuple[bytes, ...] = ()
    """Messages to publish in its place."""
    dead: tuple[Dead, ...] = ()
    """Messages for the dead letters."""


class MessageWorker(Protocol):
    """Scores messages in one process, as `fleet.worker.BatchWorker` does. Called by one thread at a time."""

    def handle(self, body: bytes, deaths: int) -> Disposition:
        """Score a message and export the scores; return when both are done. Raises nothing.

        Args:
            body: The message.
            deaths: Number of workers that ended while they had it.
        """
        ...

    def close(self, timeout_s: float) -> object:
        """Export the rest within `timeout_s` seconds, and end."""
        ...


class Engine(NamedTuple):
    """The engine of a URL's scheme."""

    module: str
    """The engine's module, imported on first use; it defines the functions of this module for its own URLs."""
    example: str
    """An example URL of the engine."""


SCHEMES: dict[str, Engine] = {
    "amqp": Engine("ragmeter.fleet._rabbitmq", "amqp://user:password@rabbitmq.example:5672/scoring"),
    "amqps": Engine("ragmeter.fleet._rabbitmq", "amqps://user:password@rabbitmq.example:5671/scoring"),
    "spool": Engine("ragmeter.fleet.spool", "spool:///var/lib/ragmeter/queue"),
}
"""The engines by URL scheme."""


def open_sender(url: str, *, confirm_s: float = 2.0, spool_bytes: int = 2**28) -> Sender:
    """Return a sender to the queue at `url`. Connects with the first message.

    Args:
        url: URL of the queue.
        confirm_s: Seconds for a broker to confirm a message.
        spool_bytes: Most waiting bytes of this process, if the queue is a folder.

    Raises:
        ConfigurationError: The engine is unknown, or the URL incomplete; shows an example.
        MissingDependencyError: The engine's package is not installed.
    """
    opener: Callable[..., Sender] = engine_of(url).open_sender
    return opener(url, confirm_s=confirm_s, spool_bytes=spool_bytes)


def run_worker(
    url: str,
    make: Callable[[], MessageWorker],
    *,
    processes: int,
    once: bool = False,
    limit_s: float | None = None,
) -> bool:
    """Score messages of the queue at `url` until SIGTERM or SIGINT. For the main thread.

    Each process finishes its current message; a second signal ends it at once.

    Args:
        url: URL of the queue.
        make: Makes the scorer in each process.
        processes: Number of processes.
        once: End when the queue is empty.
        limit_s: Time limit of a message in seconds, after which its process is ended and it is redelivered.
            None: no limit.

    Returns:
        Whether all processes succeeded: one that fails other than by a signal ends the others.

    Raises:
        ConfigurationError: The engine is unknown, or cannot use the URL.
        MissingDependencyError: The engine's package is not installed.
    """
    run: Callable[..., bool] = engine_of(url).run_worker
    return run(url, make, processes=processes, once=once, limit_s=limit_s)


def engine_of(url: str) -> Any:
    """Return the module of the engine of `url`.

    Raises:
        ConfigurationError: The engine is unknown.
        MissingDependencyError: Its package is not installed.
    """
    engine = SCHEMES.get(url.partition(":")[0])
    if engine is None:
        examples = ", ".join(one.example for one in SCHEMES.values())
        raise ConfigurationError(f"{address_shown(url)!r} is no queue; pass one such as {examples}")
    return import_module(engine.module)


def address_shown(url: str) -> str:
    """Return a URL without user, password and query, safe to print and log."""
    if is_torn(url):
        return "(unreadable)"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "(unreadable)"
    path = parts.path
    if not path.startswith("/") and path:
        path = "..."  # without slashes it may contain the password
    if not parts.scheme:
        return path
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"
