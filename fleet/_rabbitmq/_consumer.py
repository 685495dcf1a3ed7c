"""How a worker takes messages: Celery's consumer, which buries what is no message of ours without a word of its text.

Celery's own would print the body of what it cannot read, and acknowledge it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amqp
from celery.utils.log import get_logger
from celery.worker.consumer import Consumer
from vine import promise

from ._address import Address
from ._message import CONTENT_TYPE, COUNT, DEATHS, ours
from ._topology import declare

__all__ = ["RagmeterConsumer"]

_logger = get_logger(__name__)
_KEPT = ("task", "id", "lang", DEATHS, COUNT, "x-delivery-count")
"""Headers that a task may see. Others could set its time limit, or put it off for years."""


class RagmeterConsumer(Consumer):
    """Takes the messages of one queue, which it makes if it is not there."""

    def connect(self) -> Any:
        """Connect, however long that takes, and see to the queues."""
        connection = super().connect()
        try:
            declare(connection.connection, self.app.ragmeter_address)
        except amqp.exceptions.AccessRefused:
            pass  # declared by somebody who may
        return connection

    def create_task_handler(self, promise: Callable[..., Any] = promise) -> Callable[[Any], Any]:
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
        self._bury(message)

    def on_unknown_task(self, body: object, message: Any, exc: BaseException) -> None:
        """Bury what is for another task."""
        self._bury(message)

    def on_invalid_task(self, body: object, message: Any, exc: BaseException) -> None:
        """Bury what lacks something."""
        self._bury(message)

    def on_decode_error(self, message: Any, exc: BaseException) -> None:
        """Bury what is written otherwise."""
        self._bury(message)

    def _bury(self, message: Any) -> None:
        _logger.error("a message that no ragmeter wrote goes to the dead letters")
        message.reject_log_error(_logger, self.connection_errors)
