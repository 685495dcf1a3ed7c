"""One worker process: started, spoken to, and ended.

`ScoringProcess` holds one at a time and starts the next when one has ended.  Questions and answers
about scores go over one channel, in order; everything that happens by itself in the
worker comes over the other.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragmeter.metrics import RagSample, Score

from .channel import LOOK_UP_S, Channel, ChannelClosedError
from .codec import Losing, pack, pack_sample, unpack, unpack_scores
from .interpreter import command, environment
from .parcel import Parcel

__all__ = ["Connection", "UnreadableError", "WorkerEndedError", "WorkerError"]

START_S = 60.0
"""Seconds within which a worker has loaded everything."""
SCORE_S = 60.0
"""Seconds after which a worker that computes one request's scores counts as hung."""
SEND_S = 10.0
"""Seconds within which a worker has taken a frame, else it counts as hung."""


class WorkerError(RuntimeError):
    """The worker process cannot score: it did not start, or is not to be started yet."""


class WorkerEndedError(WorkerError):
    """The worker process ended while it was needed.

    Attributes:
        taken: Whether it had taken the request by then, which may be why it ended.
    """

    def __init__(self, message: str, *, taken: bool = True) -> None:
        super().__init__(message)
        self.taken = taken


class UnreadableError(WorkerError):
    """The worker process could not read a request."""


class Connection:
    """A running worker process, once `start` was called.

    Args:
        losing: Contains and tells what parts of a sample raise that cannot be sent.
    """

    def __init__(self, losing: Losing) -> None:
        self._losing = losing
        self._sending = threading.Lock()
        self._last: RagSample | None = None
        try:
            ours_calls, its_calls = socket.socketpair()
            ours_events, its_events = socket.socketpair()
        except OSError as error:
            raise WorkerError(f"no sockets for the worker process: {error}") from error
        self._calls, self._events = Channel(ours_calls), Channel(ours_events)
        self._its_ends = its_calls, its_events
        self._process: subprocess.Popen[bytes] | None = None
        self._attended = False
        self.started_at = time.monotonic()
        self.blamed = False
        """Whether it ended over a request whose scores it was computing."""
        self.unloaded: Mapping[int, str] = {}
        """Places of the metrics that the worker could not load, and why."""
        self.without_judge: str | None = None
        """Why the worker has no judge, if it should have one."""

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return None if self._process is None else self._process.pid

    def start(self, interpreter: str) -> None:
        """Start the process; does not wait for it.

        Raises:
            WorkerError: The system refused.
        """
        its_calls, its_events = self._its_ends
        numbers = (its_calls.fileno(), its_events.fileno())
        with its_calls, its_events:
            try:
                # Its own session: Ctrl-C in the terminal is the application's. What metrics print
                # goes to stderr: stdout may be the application's protocol.
                self._process = subprocess.Popen(  # noqa: S603 -- our own interpreter
                    command(interpreter, *numbers),
                    stdin=subprocess.DEVNULL,
                    stdout=_stderr(),
                    stderr=_stderr(),
                    env=environment(),
                    pass_fds=numbers,
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerError(f"the worker process could not be started: {error}") from error

    def load(self, parcel: Parcel, judging: Mapping[str, Any]) -> None:
        """Send what the worker needs and wait until it is ready.

        Raises:
            WorkerError: It ended, failed or did not answer.
        """
        try:
            self._calls.send(marshal.dumps([os.fspath(entry) for entry in sys.path]), SEND_S)
            self._calls.send(pack(parcel.secrets), SEND_S)
            self._calls.send(pack((parcel.metrics, parcel.judge, dict(judging))), SEND_S)
            answer = unpack(self._calls.receive(START_S, self._is_running))
        except (ChannelClosedError, TimeoutError) as error:
            raise WorkerError(
                f"the worker process did not start: {self._ending(error)}; its own words stand "
                "on the standard error stream"
            ) from error
        self.unloaded, self.without_judge = answer

    def compute(self, which: str, sample: RagSample) -> list[Score]:
        """Have scores computed. For one thread.

        Raises:
            WorkerEndedError: The process ended meanwhile.
            UnreadableError: It could not read the sample.
            TimeoutError: It hangs.
            Exception: One of `codec.UNSENDABLE`: the sample cannot be sent.
        """
        sent = False
        try:
            with self._sending:
                frame = pack((which, pack_sample(sample, self._losing)))
                self._calls.send(frame, SEND_S)
                self._last = sample
            sent = True
            failure, packed = unpack(self._calls.receive(SCORE_S, self._is_running))
        except ChannelClosedError as error:
            # A connection is reset, and not just closed, where something was left unread.
            taken = sent and not isinstance(error.__cause__, ConnectionResetError)
            raise WorkerEndedError(self._ending(error), taken=taken) from error
        if failure is not None:
            raise UnreadableError(failure)
        return unpack_scores(packed, sample)

    def judge(self, number: int, sample: RagSample, metrics: Sequence[int], left_s: float) -> None:
        """Have a request judged; what comes of it comes as events. The last sample is not sent again.

        Raises:
            WorkerEndedError: The process ended meanwhile.
            TimeoutError: It hangs.
            Exception: One of `codec.UNSENDABLE`: the sample cannot be sent.
        """
        with self._sending:
            packed = None if sample is self._last else pack_sample(sample, self._losing)
            frame = pack(("judge", packed, number, tuple(metrics), left_s))
            try:
                self._calls.send(frame, SEND_S)
            except ChannelClosedError as error:
                raise WorkerEndedError(self._ending(error)) from error

    def events(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yield what happens in the worker until it ends; nothing at times. For one thread."""
        self._attended = True
        try:
            while True:
                try:
                    yield unpack(self._events.receive(LOOK_UP_S, self._is_running))
                except TimeoutError:  # noqa: PERF203 -- once a second
                    yield []
        except ChannelClosedError:
            return
        finally:
            self._events.close()

    def answer(self, event: tuple[Any, ...]) -> None:
        """Answer an event. For the thread that reads them.

        Raises:
            WorkerEndedError: The process ended meanwhile.
            TimeoutError: It hangs.
        """
        try:
            self._events.send(pack(event), SEND_S)
        except ChannelClosedError as error:
            raise WorkerEndedError(self._ending(error)) from error

    def ending(self) -> str:
        """Say how the process ended that was found to have ended."""
        return self._ending(ChannelClosedError())

    def hang_up(self) -> None:
        """Give it up: whoever listens to it finds that it has ended."""
        self._calls.close()
        self._events.close()

    def end(self, timeout_s: float) -> None:
        """Have the process end: by itself within `timeout_s` seconds, else by force."""
        process = self._process
        if process is not None and process.returncode is None:
            # It hears that nothing more comes, says what it still has to say, and leaves.
            self._calls.finish()
            self._events.finish()
            try:
                process.wait(max(0.0, timeout_s))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._events.close()
        self._calls.close()
        if not self._attended:
            self._events.close()

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def forget(self) -> None:
        """Let go of it after a fork: it is the parent's."""
        self._calls.abandon()
        self._events.abandon()
        for end in self._its_ends:
            end.close()
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for

    def _ending(self, error: Exception) -> str:
        """Say how the process ended, and make sure that it has."""
        self.end(2.0 if isinstance(error, ChannelClosedError) else 0.0)
        code = None if self._process is None else self._process.returncode
        if isinstance(error, TimeoutError):
            return str(error)
        if code is not None and code < 0:
            try:
                return f"the worker process was ended by {signal.Signals(-code).name}"
            except ValueError:
                return f"the worker process was ended by signal {-code}"
        return f"the worker process ended with exit code {code}"


def _stderr() -> int:
    """Return where the worker writes: our standard error stream, if we have one."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2
