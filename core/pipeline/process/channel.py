"""Frames over a socket pair: how the meter's process and its worker talk.

Both ends use this.  A frame is four bytes of length and that many bytes.  Sockets, not pipes,
because they also wait politely where threads are greenlets.  Nothing here waits for ever: whoever
sends gives a deadline, and whoever waits for a frame looks up now and then.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Channel", "ChannelClosedError"]

HEADER = 4
"""Bytes of a frame's length, most significant first."""
LOOK_UP_S = 1.0
"""Seconds after which a waiting thread looks at its deadline."""
CHUNK = 256 * 1024
"""Bytes read at a time."""


class ChannelClosedError(ConnectionError):
    """The other end is gone."""


class Channel:
    """One end. At most one thread receives; who sends must hold a lock of its own.

    Args:
        end: A connected stream socket; belongs to the channel from here on.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.settimeout(LOOK_UP_S)
        self._received = bytearray()
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False

    def send(self, frame: bytes, timeout_s: float) -> None:
        """Send a frame; the channel is of no use any more when that fails.

        Raises:
            ChannelClosedError: The other end is gone.
            TimeoutError: It did not take the frame in time.
        """
        with self._in_use():
            self._send(frame, timeout_s)

    def _send(self, frame: bytes, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        left = memoryview(len(frame).to_bytes(HEADER, "big") + frame)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except TimeoutError:  # noqa: PERF203 -- once a second
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"it took no data for {timeout_s:g} s") from None
            except OSError as error:
                raise ChannelClosedError(str(error)) from error

    def receive(
        self, timeout_s: float | None = None, alive: Callable[[], bool] | None = None
    ) -> bytes:
        """Wait for one frame.

        Args:
            timeout_s: Seconds to wait; None: as long as it takes.
            alive: Asked now and then whether the other end can still answer: somebody it started may
                hold its socket open.

        Raises:
            ChannelClosedError: The other end is gone.
            TimeoutError: None came in time.
        """
        with self._in_use():
            return self._receive(timeout_s, alive)

    def _receive(self, timeout_s: float | None, alive: Callable[[], bool] | None) -> bytes:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (frame := self._next()) is None:
            try:
                chunk = self._socket.recv(CHUNK)
            except TimeoutError:
                if alive is not None and not alive():
                    raise ChannelClosedError("the other end ended") from None
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"it did not answer for {timeout_s:g} s") from None
                continue
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not chunk:
                raise ChannelClosedError("the other end was closed")
            self._received += chunk
        return frame

    def _next(self) -> bytes | None:
        received = self._received
        if len(received) < HEADER:
            return None
        end = HEADER + int.from_bytes(received[:HEADER], "big")
        if len(received) < end:
            return None
        frame = bytes(received[HEADER:end])
        del received[:end]
        return frame

    def finish(self) -> None:
        """Say that nothing more will be sent from this end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the conversation for both ends; a thread that waits for a frame wakes up.

        The socket itself is closed by the last thread that uses it: closed under a waiting thread, its
        number could belong to another file the next moment.
        """
        with contextlib.suppress(OSError):  # the other end may have done it first
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._closed = True
            if not self._users:
                self._socket.close()

    def abandon(self) -> None:
        """Close this process's copy after a fork; the parent's conversation goes on."""
        self._socket.close()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise ChannelClosedError("this end was closed")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._closed and not self._users:
                    self._socket.close()
