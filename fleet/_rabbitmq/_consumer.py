"""How a worker takes messages: Celery's consumer, which buries what is none of ours without a word of its text.

Celery's own would print the body of what it cannot read, and acknowledge it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from celery.utils.log import get_logger
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from vine import promise

from ._connection import reason_of
from ._message import COUNT, DEATHS, ours
from ._topology import declare_if_allowed

__all__ = ["RagmeterConsumer"]

_logger = get_logger(__name__)
_KEPT = ("task", "id", "lang", DEATHS, COUNT, "x-delivery-count")
"""Headers that a task may see. Others could set its time limit, or put it off for years."""


class RagmeterConsumer(Consumer):
    """Takes the messages of one queue, which it makes if it is not there."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc,valid-type]
        """The steps that begin with a connection."""

        # Nothing of ours is sent to be done later; the step would make some thirty exchanges and queues for it.
        default_steps: ClassVar[Any] = [  # pyright: ignore[reportIncompatibleVariableOverride]
            step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step
        ]

    def connect(self) -> Any:
        """Connect, however long that takes, and see to the queues."""
        connection = super().connect()
        declare_if_allowed(connection.connection, self.app.conf.ragmeter_address)
        return connection

    def ensure_connected(self, conn: Any) -> Any:
        """Wait until there is a connection, and say in our words why there is none."""
        address = self.app.conf.ragmeter_address

        def log_retry(error: BaseException, pause_s: float) -> None:
            _logger.error("%s: %s; tried again in %.0f s", address.shown, reason_of(error), pause_s)

        connected = conn.ensure_connection(log_retry, callback=maybe_shutdown)
        self.first_connection_attempt = False
        self.broker_connection_retry_attempt = 0
        return connected

    def create_task_handler(self, promise: Any = promise) -> Callable[[Any], Any]:
        """Return what is called with each message."""
        handle = super().create_task_handler(promise)

        def on_message(message: Any) -> Any:
            if not ours(message.content_type, message.headers):
                return self._bury(message)
            message.headers = {
                name: value for name, value in message.headers.items() if name in _KEPT
            } | {"argsrepr": "", "kwargsrepr": ""}
            return handle(message)

        return on_message

    def on_unknown_message(self, body: object, message: Any) -> None:
        """Bury what has no task."""
        del body
        self._bury(message)

    def on_unknown_task(self, body: object, message: Any, exc: BaseException) -> None:
        """Bury what is for another task."""
        del body, exc
        self._bury(message)

    def on_invalid_task(self, body: object, message: Any, exc: BaseException) -> None:
        """Bury what lacks something."""
        del body, exc
        self._bury(message)

    def on_decode_error(self, message: Any, exc: BaseException) -> None:
        """Bury what is written otherwise."""
        del exc
        self._bury(message)

    def _bury(self, message: Any) -> None:
        _logger.error("a message that no ragmeter wrote goes to the dead letters")
        consumer: Any = self
        message.reject_log_error(_logger, consumer.connection_errors)
