"""Exchange messages between the meter's process and its worker over a socket pair.

A frame is four bytes of length and a pickle of that many bytes. Sockets, not pipes: they support timeouts,
and cooperate with greenlets.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
import time
from typing import Any

HEADER = 4
"""Bytes of a frame's length, most significant first."""
LOOK_UP_S = 1.0
"""Seconds after which a waiting thread checks its deadline."""
CHUNK = 256 * 1024
"""Bytes read at a time."""


class ChannelClosedError(ConnectionError):
    """The other end is gone."""


class Channel:
    """One end of the connection. Any thread may send; at most one receives.

    Args:
        end: A connected stream socket, which the channel owns.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.settimeout(LOOK_UP_S)
        self._received = bytearray()
        self._sending = threading.Lock()

    def __del__(self) -> None:
        # Only when no thread uses it: another file could get the number of a socket closed during a wait.
        self._socket.close()

    def send(self, message: object, timeout_s: float) -> None:
        """Send a message; after a failure the channel is unusable.

        Raises:
            ChannelClosedError: The other end is gone.
            TimeoutError: It did not read the message in time.
        """
        frame = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        left = memoryview(len(frame).to_bytes(HEADER, "big") + frame)
        with self._sending:
            deadline = time.monotonic() + timeout_s
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except TimeoutError:  # noqa: PERF203 -- once a second
                    if time.monotonic() >= deadline:
                        raise TimeoutError(f"it took no data for {timeout_s:g} s") from None
                except OSError as error:
                    raise ChannelClosedError(str(error)) from error

    def receive(self) -> Any:
        """Return the next message.

        Raises:
            ChannelClosedError: The other end is gone.
            TimeoutError: No message arrived for `LOOK_UP_S` seconds.
        """
        self._read_until(HEADER)
        end = HEADER + int.from_bytes(self._received[:HEADER], "big")
        self._read_until(end)
        frame = bytes(self._received[HEADER:end])
        del self._received[:end]
        return pickle.loads(frame)  # noqa: S301 -- from our own process at the other end

    def _read_until(self, size: int) -> None:
        while len(self._received) < size:
            try:
                chunk = self._socket.recv(CHUNK)
            except TimeoutError:
                raise
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not chunk:
                raise ChannelClosedError("the other end was closed")
            self._received += chunk

    def finish(self) -> None:
        """Signal the end of this end's messages."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection for both ends; a waiting thread wakes up."""
        with contextlib.suppress(OSError):  # the other end may have done it first
            self._socket.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Close this process's copy after a fork; the parent's connection stays open."""
        self._socket.close()
