"""`RabbitQueue`: inspect and manage the broker's queues, by AMQP alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import amqp
from amqp import exceptions

from ragmeter.fleet.queue import DeadLetter, QueueStatus
from ragmeter.fleet.transport import TransportDownError

from ._address import BrokerAddress
from ._connection import CONFIRM_S, reachable
from ._message import COUNT, DEATHS, REASON, headers_of, message
from ._topology import DELIVERY_LIMIT, declare, differing

_DIED = "its workers ended while they had it"
_FOREIGN = "not a message of ragmeter, or unreadable"


class RabbitQueue:
    """The two queues of one broker."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address = address

    def __repr__(self) -> str:
        return f"RabbitQueue({self._address.shown})"

    def declare(self, *, max_bytes: int, dead_ttl_s: float) -> tuple[str, ...]:
        """Declare missing queues; see `Queue`."""
        with reachable(self._address) as channel:
            return tuple(declare(channel.connection, self._address, max_bytes=max_bytes, dead_ttl_s=dead_ttl_s))

    def status(self) -> QueueStatus:
        """Count messages; see `Queue`."""
        with reachable(self._address) as channel:
            waiting = self._look(channel, self._address.queue)
            dead = self._look(channel, self._address.dead_queue)
            return QueueStatus(
                waiting=waiting.message_count,
                dead=dead.message_count,
                workers=waiting.consumer_count,
                differing=tuple(differing(channel.connection, self._address)),
            )

    def dead(self, limit: int) -> list[DeadLetter]:
        """Return the oldest dead letters; see `Queue`."""
        with reachable(self._address) as channel:
            self._look(channel, self._address.dead_queue)
            taken: list[amqp.Message] = []
            while len(taken) < limit and (one := channel.basic_get(self._address.dead_queue)):
                taken.append(one)
            for one in taken:
                channel.basic_reject(one.delivery_tag, requeue=True)
            return [_letter(one) for one in taken]

    def replay(self, count: int) -> int:
        """Requeue dead letters; see `Queue`. Each is deleted after the broker has confirmed its copy."""
        with reachable(self._address) as channel:
            self._look(channel, self._address.queue)

            def requeue(one: amqp.Message) -> None:
                requests = headers_of(one).get(COUNT)
                channel.basic_publish(
                    message(_body(one), count=requests if isinstance(requests, int) else 1),
                    exchange="",
                    routing_key=self._address.queue,
                    mandatory=True,
                    confirm_timeout=CONFIRM_S,
                )

            return self._hand_over(channel, count, requeue)

    def drop(self, count: int) -> int:
        """Delete dead letters; see `Queue`."""
        with reachable(self._address) as channel:
            return self._hand_over(channel, count, lambda _: None)

    def _hand_over(self, channel: Any, count: int, receive: Callable[[amqp.Message], object]) -> int:
        self._look(channel, self._address.dead_queue)
        done = 0
        while done < count and (one := channel.basic_get(self._address.dead_queue)):
            receive(one)
            channel.basic_ack(one.delivery_tag)
            done += 1
        return done

    def _look(self, channel: Any, name: str) -> Any:
        try:
            return channel.queue_declare(name, passive=True)
        except exceptions.NotFound:
            raise TransportDownError(
                f"{self._address.shown} has no queue {name!r}; `ragmeter queue declare` makes it"
            ) from None


def _letter(received: amqp.Message) -> DeadLetter:
    headers = headers_of(received)
    died = headers.get("x-death")
    death = died[0] if isinstance(died, list) and died and isinstance(died[0], dict) else {}
    deaths = headers.get(DEATHS)
    deaths = deaths if isinstance(deaths, int) else 0
    by_the_broker = death.get("reason") == "delivery_limit"
    reason = headers.get(REASON)
    return DeadLetter(
        body=_body(received),
        reason=_DIED if by_the_broker else reason if isinstance(reason, str) else _FOREIGN,
        deaths=deaths + (DELIVERY_LIMIT + 1 if by_the_broker else 0),
        dead_ns=_nanoseconds(death.get("time", received.properties.get("timestamp"))),
    )


def _body(received: amqp.Message) -> bytes:
    body = received.body
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)


def _nanoseconds(clock: object) -> int | None:
    """Convert the broker's clock, whole seconds; py-amqp gives a naive date in UTC."""
    if isinstance(clock, datetime):
        clock = clock.replace(tzinfo=timezone.utc).timestamp()
    return int(clock) * 10**9 if isinstance(clock, (int, float)) else None
