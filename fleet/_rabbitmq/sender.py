"""`RabbitSender`: publish messages and wait for the broker's confirms.

It has its own connection: kombu's pools are shared by the whole process, including an application's Celery.
"""

from __future__ import annotations

from typing import Any

import amqp
from amqp import exceptions

from ragmeter.fleet.transport import TransportDownError
from ragmeter.metrics._process import fork

from ._address import BrokerAddress
from ._connection import CONFIRM_S, FAILURES, abandon, connect, leave_to_parent, reason_of
from ._message import message
from ._topology import declare_if_allowed


class RabbitSender:
    """Publishes to one broker; waits `confirm_s` seconds for each confirm. Called by one thread at a time."""

    def __init__(self, address: BrokerAddress, *, confirm_s: float = CONFIRM_S) -> None:
        self._address, self._confirm_s = address, confirm_s
        self._connection: Any = None
        self._channel: Any = None
        fork.forget(self._leave_to_parent)

    def __repr__(self) -> str:
        return f"RabbitSender({self._address.shown})"

    def send(self, body: bytes, *, count: int) -> None:
        """Publish a message and return when the broker has confirmed it; see `Sender.send`."""
        self.publish(message(body, count=count), self._address.queue)

    def publish(self, made: amqp.Message, queue: str) -> None:
        """Publish a prepared message, as `send` does.

        An open connection that turns out to be cut, as load balancers do with idle ones, is reopened at once,
        and the message repeated. It may then arrive twice, as after a timeout.
        """
        was_open = self._channel is not None
        try:
            self._publish(made, queue)
        except FAILURES as error:
            if not was_open or isinstance(error, (exceptions.MessageNacked, TimeoutError)):
                raise self._down(error) from None
            self._abandon()
        else:
            return
        try:
            self._publish(made, queue)
        except FAILURES as error:
            raise self._down(error) from None

    def close(self, timeout_s: float) -> None:
        """Close the connection, without waiting."""
        del timeout_s
        self._abandon()

    def _publish(self, made: amqp.Message, queue: str) -> None:
        channel = self._open()
        # Without `mandatory`, a message to a deleted queue would be confirmed and lost.
        channel.basic_publish(
            made, exchange="", routing_key=queue, mandatory=True, confirm_timeout=self._confirm_s
        )

    def _open(self) -> Any:
        if self._channel is None:
            self._connection = connect(self._address)
            declare_if_allowed(self._connection, self._address)
            self._channel = self._connection.channel()
        return self._channel

    def _down(self, error: BaseException) -> TransportDownError:
        if not isinstance(error, exceptions.MessageNacked):
            self._abandon()
        return TransportDownError(f"{self._address.shown}: {reason_of(error)}")

    def _abandon(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            abandon(connection)

    def _leave_to_parent(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            leave_to_parent(connection)
