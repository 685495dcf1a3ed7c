"""The RabbitMQ engine: messages are published with confirms to a quorum queue and scored by Celery workers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragmeter.metrics import MissingDependencyError

from ._address import BrokerAddress

if TYPE_CHECKING:
    from ragmeter.fleet.transport import MessageWorker

    from .queue import RabbitQueue
    from .sender import RabbitSender

__all__ = ["open_queue", "open_sender", "run_worker"]


def open_sender(url: str, *, confirm_s: float = 2.0, spool_bytes: int = 0) -> RabbitSender:
    """Return a sender to the broker; see `transport.open_sender`."""
    del spool_bytes  # the broker stores waiting messages
    made: RabbitSender = _part("sender", "amqp").RabbitSender(BrokerAddress.of(url), confirm_s=confirm_s)
    return made


def open_queue(url: str) -> RabbitQueue:
    """Return the broker's queue for operators; see `queue.open_queue`."""
    made: RabbitQueue = _part("queue", "amqp").RabbitQueue(BrokerAddress.of(url))
    return made


def run_worker(
    url: str,
    make: Callable[[], MessageWorker],
    *,
    processes: int,
    once: bool = False,
    limit_s: float | None = None,
) -> bool:
    """Score the messages of the queue; see `worker.run_worker`."""
    ended: bool = _part("worker", "celery").run_worker(
        BrokerAddress.of(url), make, processes=processes, once=once, limit_s=limit_s
    )
    return ended


def _part(name: str, package: str) -> Any:
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:
        raise MissingDependencyError(package, "celery", "a queue on RabbitMQ") from None
