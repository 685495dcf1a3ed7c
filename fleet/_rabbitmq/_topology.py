"""Declare the two queues: messages to score, and dead letters.

Any process declares them if they do not exist. Quorum queues survive a broker's crash, and count the failed
deliveries of each message. Both are bounded in bytes: the first refuses messages beyond that, so that
applications know; the second drops its oldest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from amqp import exceptions

from ragmeter.fleet.queue import DEAD_TTL_S, MAX_BYTES

from ._address import BrokerAddress

DELIVERY_LIMIT = 3
"""Redeliveries of a message until it is dead: deliveries are one more."""
_NEVER = 1_000_000
"""Listing dead letters counts as a delivery, and newer brokers have a default limit."""


def declare(
    connection: Any, address: BrokerAddress, *, max_bytes: int = MAX_BYTES, dead_ttl_s: float = DEAD_TTL_S
) -> list[str]:
    """Declare the queues; return the names of those that exist with other arguments.

    A queue that was declared differently is used as it is.

    Raises:
        exceptions.AccessRefused: This user may not declare queues.
    """
    wanted = _queues(address, max_bytes, dead_ttl_s)
    return [name for name, arguments in wanted.items() if not _declare(connection, name, arguments)]


def declare_if_allowed(connection: Any, address: BrokerAddress) -> None:
    """Declare the queues, or leave that to an operator if this user lacks permission."""
    with suppress(exceptions.AccessRefused):
        declare(connection, address)


def differing(connection: Any, address: BrokerAddress) -> list[str]:
    """Return the names of queues that exist with other arguments, without declaring any."""
    wanted = _queues(address, MAX_BYTES, DEAD_TTL_S)
    return [
        name
        for name, arguments in wanted.items()
        if _exists(connection, name) and not _declare(connection, name, arguments)
    ]


def _queues(address: BrokerAddress, max_bytes: int, dead_ttl_s: float) -> dict[str, dict[str, Any]]:
    return {
        address.dead_queue: {
            "x-queue-type": "quorum",
            "x-delivery-limit": _NEVER,
            "x-max-length-bytes": max_bytes,
            "x-message-ttl": round(dead_ttl_s * 1000),
        },
        address.queue: {
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-max-length-bytes": max_bytes,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": address.dead_queue,
            "x-dead-letter-strategy": "at-least-once",
        },
    }


def _declare(connection: Any, name: str, arguments: dict[str, Any]) -> bool:
    try:
        with connection.channel() as channel:
            channel.queue_declare(name, durable=True, auto_delete=False, arguments=arguments)
    except exceptions.PreconditionFailed:
        return False
    return True


def _exists(connection: Any, name: str) -> bool:
    try:
        with connection.channel() as channel:
            channel.queue_declare(name, passive=True)
    except exceptions.NotFound:
        return False
    return True
