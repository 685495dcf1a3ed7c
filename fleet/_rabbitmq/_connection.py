"""Connect to the broker with timeouts for everything, and explain its errors.

A broker under a memory or disk alarm accepts connections and answers nothing. So the wait for a confirm has
its own timeout, and closing a channel needs the socket's.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import amqp
from amqp import exceptions
from amqp.exceptions import AMQPError, MessageNacked

from ragmeter.fleet.transport import TransportDownError
from ragmeter.metrics._process.certificates import tls_failure

from ._address import BrokerAddress

CONFIRM_S = 2.0
"""Seconds for the broker to confirm a message."""
_CONNECT_S = 2.0
_SOCKET_S = 3.0
FAILURES = (AMQPError, MessageNacked, OSError)
"""py-amqp's errors if a broker is unreachable, hangs, refuses or is full."""


def connect(address: BrokerAddress) -> Any:
    """Return an open connection.

    Raises:
        FAILURES: The connection failed.
    """
    connection = amqp.Connection(
        host=address.shown,
        userid=address.user,
        password=address.password,
        virtual_host=address.virtual_host,
        ssl=address.tls if address.tls is not None else False,
        connect_timeout=_CONNECT_S,
        read_timeout=_SOCKET_S,
        write_timeout=_SOCKET_S,
        confirm_publish=True,
        heartbeat=0,  # connections are mostly idle; a broken one shows at the next message
    )
    try:
        connection.connect()
    except BaseException:
        abandon(connection)
        raise
    return connection


def abandon(connection: Any) -> None:
    """Close the socket of a connection without a handshake, as the broker may hang."""
    transport: Any = getattr(connection, "_transport", None)
    sock = getattr(transport, "sock", None)
    if isinstance(sock, ssl.SSLSocket):
        # py-amqp would shut TLS down, and wait for the answer.
        transport.sock = None
        with suppress(OSError):
            sock.close()
    with suppress(*FAILURES):
        connection.collect()


def leave_to_parent(connection: Any) -> None:
    """Release a connection in a forked child without shutting down the parent's socket."""
    transport: Any = getattr(connection, "_transport", None)
    sock = getattr(transport, "sock", None)
    if sock is not None:
        transport.sock = None
        with suppress(OSError):
            os.close(sock.detach())


def reason_of(error: BaseException) -> str:
    """Explain an error of `FAILURES`, without message content or password."""
    if isinstance(error, MessageNacked):
        return "the queue is full"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, exceptions.AccessRefused):
        return "the broker refuses this user"
    if isinstance(error, exceptions.NotAllowed):
        return "the broker has no such virtual host, or refuses it to this user"
    tls = tls_failure(
        error, "?cacertfile=FILE", own="?certfile=FILE&keyfile=FILE", other_name="server_name_indication=NAME"
    )
    if tls is not None:
        return tls
    if isinstance(error, ConnectionResetError):
        return f"{os.strerror(error.errno or 0)}; where it expects TLS, write amqps://"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return type(error).__name__


@contextmanager
def reachable(address: BrokerAddress) -> Iterator[Any]:
    """Open a channel for the block, and close the connection afterwards.

    Raises:
        TransportDownError: The broker is unreachable, hangs or refuses.
    """
    try:
        connection = connect(address)
        try:
            yield connection.channel()
        finally:
            abandon(connection)
    except FAILURES as error:
        raise TransportDownError(f"{address.shown}: {reason_of(error)}") from None
