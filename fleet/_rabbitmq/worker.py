"""`run_worker`: score messages of the broker in several processes until a signal ends it.

The processes are Celery's (prefork): a killed one is replaced, and its message redelivered.
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

_LOOK_S = 0.25
_REPLACE_S = 0.5
_EMPTY_LOOKS = 3
"""Consecutive checks that find the queue empty until a draining worker ends."""


def run_worker(
    address: BrokerAddress,
    make: Callable[[], MessageWorker],
    *,
    processes: int,
    once: bool,
    limit_s: float | None,
) -> bool:
    """Work until SIGTERM or SIGINT; current messages are still scored and acknowledged.

    See `transport.run_worker`; without `limit_s` the time limit of a message is the broker's.
    """
    _try(make)
    # Celery's deprecations, and warnings about options we do not use.
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
    """Celery's process pool, which also replaces a process killed before the first message."""

    def did_start_ok(self) -> bool:
        """Return whether no process exited on its own; Celery would also count killed ones."""
        # Celery has no public name for its processes.
        running = attrgetter("_pool._pool")(self)
        return all((process.exitcode or 0) <= 0 for process in running)


def _try(make: Callable[[], MessageWorker]) -> None:
    """Make the scorer in a trial process, so that an invalid setting is reported once, by this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        problem = b"it ended"
        try:
            make().close(10.0)
            problem = b""
        except RagmeterError as error:
            problem = str(error).encode()
        except BaseException as error:  # the child must not continue its parent's work
            problem = loggable(error).encode()
            raise
        finally:
            os.write(writing, problem)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        problem = pipe.read()
    os.waitpid(child, 0)
    if problem:
        raise ConfigurationError(problem.decode(errors="replace"))


def _ending_when_empty(address: BrokerAddress) -> Callable[..., None]:
    seen_empty = 0
    shared: Any = state

    def look() -> None:
        nonlocal seen_empty
        waiting = None
        # If the broker is unreachable, the worker's own connection reports it.
        with suppress(TransportDownError), reachable(address) as channel:
            waiting = channel.queue_declare(address.queue, passive=True).message_count
        seen_empty = seen_empty + 1 if waiting == 0 and not state.reserved_requests else 0
        if seen_empty >= _EMPTY_LOOKS:
            shared.should_stop = 0

    def on_ready(sender: Any, **_: object) -> None:
        sender.timer.call_repeatedly(_LOOK_S, look)

    return on_ready


def _replace_soon(sender: Any, **_: object) -> None:
    """Check twice a second for killed processes; Celery's five seconds are long with one process."""
    sender.timer.call_repeatedly(_REPLACE_S, sender.pool.maintain_pool)


def _set_up_logging(**_: object) -> None:
    """Log warnings to standard error; Celery's own set-up would print every task."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
