"""`RabbitSender`: publishes messages and waits until the broker has them.

It has a connection of its own: the pools of kombu are one for the whole process, and an application that uses
Celery itself has its connections there.
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

__all__ = ["RabbitSender"]


class RabbitSender:
    """Publishes to one broker. Called by one thread at a time.

    Args:
        address: Where.
        confirm_s: Seconds that the broker has to confirm a message.
    """

    def __init__(self, address: BrokerAddress, *, confirm_s: float = CONFIRM_S) -> None:
        self._address, self._confirm_s = address, confirm_s
        self._connection: Any = None
        self._channel: Any = None
        fork.forget(self._start_anew)

    def __repr__(self) -> str:
        return f"RabbitSender({self._address.shown})"

    def send(self, body: bytes, *, count: int) -> None:
        """Publish a message and return when the broker has confirmed it.

        A connection that was open before and turns out to be cut is opened again at once, and the message
        repeated: load balancers cut idle ones. The message may then be there twice, as after a time-out.

        Args:
            body: The message.
            count: How many requests are in it.

        Raises:
            TransportDownError: The broker is away, hangs, refuses or is full.
        """
        self.publish(message(body, count=count), self._address.queue)

    def publish(self, made: amqp.Message, queue: str) -> None:
        """Publish a message that is made already, likewise.

        Raises:
            TransportDownError: As `send`.
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
        """Close the connection; `timeout_s` is not needed, as nothing is waited for."""
        del timeout_s
        self._abandon()

    def _publish(self, made: amqp.Message, queue: str) -> None:
        channel = self._open()
        # A queue that is gone would swallow the message and confirm it; mandatory has it returned instead.
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

    def _start_anew(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            leave_to_parent(connection)
