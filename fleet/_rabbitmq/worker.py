"""`run_worker`: takes messages from the broker and has its processes score them, until it is told to end.

The processes are Celery's (prefork): one that is killed is replaced, and the message that it had comes back.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Any
from uuid import uuid4

from celery import signals
from celery.concurrency.prefork import TaskPool
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from celery.worker import state

from ragmeter.fleet.transport import MessageWorker, TransportDownError
from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics.errors import loggable

from ._address import BrokerAddress
from ._app import worker_app
from ._connection import reachable
from ._consumer import RagmeterConsumer

__all__ = ["run_worker"]

_LOOK_S = 0.25
_REPLACE_S = 0.5
_EMPTY_LOOKS = 3
"""How often in a row the queue is seen empty before a worker that is to drain it ends."""


def run_worker(
    address: BrokerAddress,
    make: Callable[[], MessageWorker],
    *,
    processes: int,
    once: bool,
    limit_s: float | None,
) -> bool:
    """Work until SIGTERM or SIGINT, which end it when the messages at hand are scored and acknowledged.

    Args:
        address: Where the queue is.
        make: Makes what scores; called in each process.
        processes: How many messages are scored at once.
        once: End as soon as the queue is empty.
        limit_s: Seconds that a message may take; None: as long as the broker waits.

    Returns:
        Whether it ended as it was told to.

    Raises:
        ConfigurationError: What `make` says.
    """
    _try(make)
    # Of what Celery will do some day, and of options that are not ours.
    for kind in (CPendingDeprecationWarning, SecurityWarning):
        warnings.simplefilter("ignore", kind)
    signals.setup_logging.connect(_set_up_logging, weak=False)
    consumer = f"{RagmeterConsumer.__module__}:{RagmeterConsumer.__name__}"
    app = worker_app(address, make, consumer, limit_s)
    signals.worker_ready.connect(_replace_soon, weak=False)
    if once:
        signals.worker_ready.connect(_ending_when_empty(address), weak=False)
    worker = app.Worker(
        hostname=f"ragmeter-{uuid4().hex[:12]}@{os.uname().nodename}",
        pool_cls=_Processes,
        concurrency=processes,
        loglevel=logging.WARNING,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    return not worker.exitcode


class _Processes(TaskPool):
    """Celery's processes. One that is killed before the first message comes is replaced, as later."""

    def did_start_ok(self) -> bool:
        """Return whether none ended by itself; Celery would end the worker for one that was killed, too."""
        # Celery has no public name for them.
        running = attrgetter("_pool._pool")(self)
        return all((process.exitcode or 0) <= 0 for process in running)


def _try(make: Callable[[], MessageWorker]) -> None:
    """Make what scores, in a process of its own, so that a wrong setting is said once and here."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = b"it ended"
        try:
            make().close(10.0)
            said = b""
        except RagmeterError as error:
            said = str(error).encode()
        except BaseException as error:  # the child must not go on with its parent's work
            said = loggable(error).encode()
            raise
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if said:
        raise ConfigurationError(said.decode(errors="replace"))


def _ending_when_empty(address: BrokerAddress) -> Callable[..., None]:
    seen_empty = 0
    shared: Any = state

    def look() -> None:
        nonlocal seen_empty
        waiting = None
        # Where it is away, the connection of the worker says so.
        with suppress(TransportDownError), reachable(address) as channel:
            waiting = channel.queue_declare(address.queue, passive=True).message_count
        seen_empty = seen_empty + 1 if waiting == 0 and not state.reserved_requests else 0
        if seen_empty >= _EMPTY_LOOKS:
            shared.should_stop = 0

    def on_ready(sender: Any, **_: object) -> None:
        sender.timer.call_repeatedly(_LOOK_S, look)

    return on_ready


def _replace_soon(sender: Any, **_: object) -> None:
    """Look twice a second whether a process was killed; Celery's five seconds are long with one process."""
    sender.timer.call_repeatedly(_REPLACE_S, sender.pool.maintain_pool)


def _set_up_logging(**_: object) -> None:
    """Say what goes wrong on standard error; Celery's own set-up would print every task."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
