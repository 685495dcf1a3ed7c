"""Consume messages with Celery, and send foreign ones to the dead letters without logging their text.

Celery itself would print the body of an unreadable message, and acknowledge it.
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

_logger = get_logger(__name__)
_HEADERS = ("task", "id", "lang", DEATHS, COUNT, "x-delivery-count")
"""Headers passed to a task. Others could set its time limit, or delay it for years."""


class RagmeterConsumer(Consumer):
    """Consumes the messages of one queue, which it declares if it does not exist."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc,valid-type]
        """The steps of a new connection."""

        # We send nothing delayed; that step would declare some thirty exchanges and queues.
        default_steps: ClassVar[Any] = [  # pyright: ignore[reportIncompatibleVariableOverride]
            step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step
        ]

    def connect(self) -> Any:
        """Connect, however long that takes, and declare the queues."""
        connection = super().connect()
        declare_if_allowed(connection.connection, self.app.conf.ragmeter_address)
        return connection

    def ensure_connected(self, conn: Any) -> Any:
        """Wait for a connection, and log failures in ragmeter's own wording, without secrets."""
        address = self.app.conf.ragmeter_address

        def log_retry(error: BaseException, pause_s: float) -> None:
            _logger.error("%s: %s; tried again in %.0f s", address.shown, reason_of(error), pause_s)

        connected = conn.ensure_connection(log_retry, callback=maybe_shutdown)
        self.first_connection_attempt = False
        self.broker_connection_retry_attempt = 0
        return connected

    def create_task_handler(self, promise: Any = promise) -> Callable[[Any], Any]:
        """Return the handler of messages."""
        handle = super().create_task_handler(promise)

        def on_message(message: Any) -> Any:
            if not ours(message.content_type, message.headers):
                return self._bury(message)
            message.headers = {name: value for name, value in message.headers.items() if name in _HEADERS} | {
                "argsrepr": "",
                "kwargsrepr": "",
            }
            return handle(message)

        return on_message

    def on_unknown_task(self, body: object, message: Any, exc: BaseException | None = None) -> None:
        """Send a message for another task, without a task, or incomplete, to the dead letters."""
        del body, exc
        self._bury(message)

    on_unknown_message = on_invalid_task = on_unknown_task

    def on_decode_error(self, message: Any, exc: BaseException) -> None:
        """Send a message in another encoding to the dead letters."""
        del exc
        self._bury(message)

    def _bury(self, message: Any) -> None:
        _logger.error("a message not written by ragmeter goes to the dead letters")
        consumer: Any = self
        message.reject_log_error(_logger, consumer.connection_errors)
