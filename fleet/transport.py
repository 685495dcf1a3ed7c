"""How messages travel: what an engine that carries them offers, and which one a URL means.

The publisher calls a `Sender`; engines move bytes and never know what is in them.  What reads at the other end
hands each message to its `MessageWorker` and does with it, by its engine's own means, what the answer says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics._process.malformed_url import is_torn

__all__ = [
    "SCHEMES",
    "Dead",
    "Disposition",
    "Engine",
    "MessageWorker",
    "Sender",
    "TransportDownError",
    "address_shown",
    "engine_of",
    "open_sender",
    "run_worker",
]


class TransportDownError(RagmeterError):
    """A message was not taken, and may be later: there is no connection, no answer or no room."""


class Sender(Protocol):
    """Takes messages. Called by one thread at a time."""

    def send(self, body: bytes, *, count: int) -> None:
        """Hand over a message, and return once it is safe with the engine.

        Args:
            body: The message.
            count: How many requests are in it.

        Raises:
            TransportDownError: It was not taken; says nothing of what is in it.
        """
        ...

    def close(self, timeout_s: float) -> None:
        """Let go of what is open within `timeout_s` seconds. Called once; nothing is sent afterwards."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A message that is not tried again: it belongs to the dead letters."""

    body: bytes
    """The message."""
    reason: str
    """Why, without a word of what is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition:
    """What is to become of a message: first `split` and `dead` are kept safely, then it is acknowledged."""

    done: bool = True
    """Whether it may be acknowledged; False: it is to come back, which is no death of it."""
    split: tuple[bytes, ...] = ()
    """Messages to be published, each alone, in its place."""
    dead: tuple[Dead, ...] = ()
    """Messages for the dead letters."""


class MessageWorker(Protocol):
    """Scores messages in one process, as `fleet.worker.BatchWorker` does. Called by one thread at a time."""

    def handle(self, body: bytes, deaths: int) -> Disposition:
        """Score what a message holds and export the scores; return when both is done. Raises nothing.

        Args:
            body: The message.
            deaths: How many workers have ended while they had it.
        """
        ...

    def close(self, timeout_s: float) -> object:
        """Send what is left within `timeout_s` seconds, and end."""
        ...


class Engine(NamedTuple):
    """Where the engine of a URL's scheme is found."""

    module: str
    """Loaded when it is wanted; has the functions of this module with the same names, for its URLs alone."""
    example: str
    """What a URL of it looks like."""


SCHEMES: dict[str, Engine] = {
    "amqp": Engine(
        "ragmeter.fleet._rabbitmq", "amqp://user:password@rabbitmq.example:5672/scoring"
    ),
    "amqps": Engine(
        "ragmeter.fleet._rabbitmq", "amqps://user:password@rabbitmq.example:5671/scoring"
    ),
    "spool": Engine("ragmeter.fleet.spool", "spool:///var/lib/ragmeter/queue"),
}
"""The engines by the scheme of their URL."""


def open_sender(url: str, *, confirm_s: float = 2.0, spool_bytes: int = 2**28) -> Sender:
    """Return the way to the engine that `url` names. Connects when the first message is sent.

    Args:
        url: Of the queue.
        confirm_s: Seconds that a broker may take to say that a message is safe.
        spool_bytes: What this process may have waiting where the queue is a folder.

    Raises:
        ConfigurationError: There is no such engine, or the URL lacks something; says what it looks like.
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
    """Score what comes by the queue that `url` names, until SIGTERM or SIGINT. For the main thread.

    Each process ends the message that it is at; a second signal ends it at once.

    Args:
        url: Of the queue.
        make: Makes what scores, in each of the processes.
        processes: How many of them.
        once: End when nothing waits any more.
        limit_s: Seconds that a message may take; then its process is ended, and it comes back. None: any time.

    Returns:
        Whether everything went well: a process that fails other than by a signal ends the others.

    Raises:
        ConfigurationError: There is no such engine, or it cannot be used as the URL says.
        MissingDependencyError: The engine's package is not installed.
    """
    run: Callable[..., bool] = engine_of(url).run_worker
    return run(url, make, processes=processes, once=once, limit_s=limit_s)


def engine_of(url: str) -> Any:
    """Return the module of the engine that `url` names.

    Raises:
        ConfigurationError: There is no such engine.
        MissingDependencyError: Its package is not installed.
    """
    engine = SCHEMES.get(url.partition(":")[0])
    if engine is None:
        examples = ", ".join(one.example for one in SCHEMES.values())
        raise ConfigurationError(f"{address_shown(url)!r} is no queue; pass one such as {examples}")
    return import_module(engine.module)


def address_shown(url: str) -> str:
    """Return a URL without user, password and query, as it may be printed and logged."""
    if is_torn(url):
        return "(unreadable)"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "(unreadable)"
    path = parts.path
    if not path.startswith("/") and path:
        path = "..."  # where the slashes are missing, the password stands there
    if not parts.scheme:
        return path
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"
