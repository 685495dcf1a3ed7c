"""The Celery application of a worker, with one task and safe settings.

Every setting prevents a way to lose or repeat requests; see the comments.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from celery import Celery, signals
from celery.exceptions import Reject
from kombu import Exchange, Queue
from kombu.serialization import register

from ragmeter._runtime.guard import Guard, front_door
from ragmeter.fleet._time_limit import at_most
from ragmeter.fleet.transport import MessageWorker, TransportDownError

from ._address import BrokerAddress
from ._message import CONTENT_TYPE, COUNT, ENCODING, TASK, deaths_of, message
from .sender import RabbitSender

_SERIALIZER = "ragmeter"
_LONGEST_S = 1620.0
"""Seconds after which the process of a message is killed: nine tenths of the broker's ``consumer_timeout``
(30 minutes). The worker's own limit is shorter."""
_PAUSE_S = 5.0
"""Seconds before an unprocessed message is requeued, as it would return at once."""
_CLOSE_S = 10.0
"""Seconds for a process to export its remaining scores when it ends."""


def worker_app(
    address: BrokerAddress, make: Callable[[], MessageWorker], consumer: str, limit_s: float | None = None
) -> Celery:
    """Return the application of a worker.

    `make` is called in each of its processes, as a scorer's threads do not survive a fork; `consumer` is the
    dotted name of the class that consumes messages.
    """
    for name in [name for name in os.environ if name.startswith("CELERY_")]:
        del os.environ[name]  # another application's settings would replace broker and results
    register(_SERIALIZER, _encode, _decode, content_type=CONTENT_TYPE, content_encoding=ENCODING)
    app = Celery("ragmeter", broker=address.url, backend="disabled://", fixups=[])
    # We declare it; Celery must know its type, as a quorum queue needs limits per consumer.
    queue = Queue(
        address.queue,
        Exchange("", type="direct"),
        address.queue,
        no_declare=True,
        queue_arguments={"x-queue-type": "quorum"},
    )
    app.conf.update(
        ragmeter_address=address,
        accept_content=[_SERIALIZER],
        task_serializer=_SERIALIZER,
        task_queues=[queue],
        task_default_queue=address.queue,
        task_create_missing_queues=False,
        broker_use_ssl=False if address.tls is None else address.tls,
        broker_heartbeat=10,
        broker_connection_timeout=2,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # Acknowledged when done; messages of a killed process, or that run too long, are redelivered.
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_acks_on_failure_or_timeout=False,
        task_time_limit=_LONGEST_S,
        # After a lost connection, scoring continues; the redelivered message is deduplicated.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # One message per process at a time, so that none waits behind a slow one.
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,
        # Loading the metrics takes longer than Celery's 4 s on a busy machine.
        worker_proc_alive_timeout=120,
        task_ignore_result=True,
        # Other Celery applications on a shared virtual host must not control this worker.
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_consumer=consumer,
    )
    _add_task(app, address, make, limit_s)
    return app


def _add_task(
    app: Celery, address: BrokerAddress, make: Callable[[], MessageWorker], limit_s: float | None
) -> None:
    process = _Process(address, make, limit_s)
    # Celery's signals would hold bound methods weakly.
    signals.worker_process_init.connect(process.begin, weak=False)
    signals.worker_process_shutdown.connect(process.end, weak=False)

    @app.task(name=TASK, bind=True, max_retries=0)
    def score(self: Any, body: bytes) -> None:
        process.score(body, dict(self.request.__dict__))


class _Process:
    """State of one process of the worker, made after the fork."""

    def __init__(
        self, address: BrokerAddress, make: Callable[[], MessageWorker], limit_s: float | None
    ) -> None:
        self._address, self._make, self._limit_s = address, make, limit_s
        self._handler: MessageWorker | None = None
        # The worker connects when it sends, which never happens before the fork.
        self._sender = RabbitSender(address)

    def begin(self, **_: object) -> None:
        """Load everything before the first message."""
        # Some orchestrators signal every process of a group; the main process ends the others gently.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._handler = self._make()

    def end(self, **_: object) -> None:
        """Export the remaining scores and close."""
        with Guard("fleet.worker", front_door):
            if self._handler is not None:
                self._handler.close(_CLOSE_S)
        self._sender.close(0.0)

    def score(self, body: bytes, headers: dict[str, Any]) -> None:
        """Score a message; returning acknowledges it."""
        deaths = deaths_of(headers)
        handled = None
        with Guard("fleet.worker", front_door), at_most(self._limit_s):
            handled = self._begin().handle(body, deaths)
        if handled is None:
            _hand_back()
        if not handled.done:
            time.sleep(_PAUSE_S)
        try:
            for one in handled.split:
                self._publish(one, self._address.queue, deaths=deaths)
            for lost in handled.dead:
                self._publish(lost.body, self._address.dead_queue, deaths=deaths, reason=lost.reason)
            if not handled.done:
                # A copy, as the broker counts a requeued message as one more death.
                self._publish(body, self._address.queue, deaths=deaths, count=headers.get(COUNT))
        except TransportDownError as error:
            front_door.report("fleet.worker", error)
            _hand_back()

    def _begin(self) -> MessageWorker:
        if self._handler is None:  # the scorer could not be made when the process started
            self._handler = self._make()
        return self._handler

    def _publish(
        self, body: bytes, queue: str, *, deaths: int, reason: str | None = None, count: object = 1
    ) -> None:
        count = count if isinstance(count, int) else 1
        self._sender.publish(message(body, count=count, deaths=deaths, reason=reason), queue)


def _hand_back() -> NoReturn:
    time.sleep(_PAUSE_S)
    raise Reject("to be tried again", requeue=True)


def _encode(value: Any) -> Any:
    return bytes(value[0][0])


def _decode(body: Any) -> tuple[tuple[bytes], dict[str, Any], dict[str, Any]]:
    return (bytes(body),), {}, {}
