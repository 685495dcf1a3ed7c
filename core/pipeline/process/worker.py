"""Start one worker process, exchange messages with it, and end it.

`ScoringProcess` holds one at a time and starts the next when one has ended. The worker writes a byte into a
pipe as it begins with a request; if it ends or hangs, the bytes show which request it was processing. It is a
fresh interpreter, so that the application's main module is not run again, and an isolated one, so that no
environment variable instruments it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any

from ragmeter._runtime.threads import Bell
from ragmeter.metrics import ConfigurationError, ScoreStatus

from .channel import Channel, ChannelClosedError
from .codec import Payload

START_S = 60.0
"""Seconds for a worker to load everything."""
SCORE_S = 60.0
"""Seconds on one request's scores after which a worker counts as hung."""
SEND_S = 10.0
"""Seconds to send a message after which a worker counts as hung."""

Reply = tuple[list[str | None], bytes]
"""For each request, why it could not be read, or None; and the scores of all."""


class WorkerError(RuntimeError):
    """The worker process did not start, or must not be started yet."""


class WorkerEndedError(WorkerError):
    """The worker process ended, or hung and was ended, while it computed scores.

    Attributes:
        begun: Number of requests that it had begun with; the last one ended it. 0, or more than it was sent:
            none did.
        status: Status of that request's scores.
    """

    def __init__(self, message: str, begun: int, status: ScoreStatus) -> None:
        super().__init__(message)
        self.begun = begun
        self.status: ScoreStatus = status


class Worker:
    """A worker process, once `start` was called."""

    def __init__(self) -> None:
        self._ours = ExitStack()
        """Closes this process's ends of the connections."""
        self._process: subprocess.Popen[bytes] | None = None
        self._computing: Bell | None = None
        self._replies: list[Reply] = []
        self._begun = 0
        self._hangs = ""
        self._ended = ""
        self.started_at = time.monotonic()
        self.is_ready = False
        """Whether it has loaded everything."""
        self.dismissed = False
        """Whether its end was requested."""
        self.unloaded: Mapping[tuple[str, ...], str] = {}
        """Why a metric could not be loaded, or has no judge, by the names of its scores."""

    def __del__(self) -> None:
        self._ours.close()

    def start(self, interpreter: str) -> None:
        """Start the process without waiting for it.

        Raises:
            WorkerError: The system refused to start it.
        """
        output = 2  # our standard error, if there is one
        try:
            os.fstat(output)
        except OSError:
            output = subprocess.DEVNULL
        try:
            with ExitStack() as its:
                ours, end = socket.socketpair()
                self._channel = Channel(ours)
                self._ours.callback(self._channel.abandon)
                its.callback(end.close)
                self._progress, progress = map(FileIO, os.pipe(), "rw")
                self._ours.callback(self._progress.close)
                its.callback(progress.close)
                os.set_blocking(self._progress.fileno(), False)
                numbers = (end.fileno(), progress.fileno())
                # Its own session: Ctrl-C in the terminal is for the application. Output of metrics goes to
                # stderr: stdout may carry the application's protocol.
                self._process = subprocess.Popen(  # noqa: S603 -- our own interpreter
                    _command(interpreter, *numbers),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # Telemetry of the worker is switched off.
                    env={**os.environ, "OTEL_SDK_DISABLED": "true", "RAGMETER_ENABLED": "false"},
                    pass_fds=numbers,
                    start_new_session=True,
                )
        except OSError as error:
            raise WorkerError(f"the worker process could not be started: {error}") from error

    def load(self, payload: Payload, limits: Mapping[str, Any]) -> None:
        """Send the payload and wait until the worker is ready.

        Raises:
            WorkerError: It ended, failed or did not respond.
        """
        deadline = time.monotonic() + START_S
        try:
            self._channel.send([os.fspath(entry) for entry in sys.path], SEND_S)
            parts = (payload.secrets, payload.metrics, payload.judge, limits)
            self._channel.send(parts, SEND_S)
            while (unloaded := self._receive()) is None:
                if time.monotonic() > deadline:
                    self.hang_up(f"it did not answer for {START_S:g} s")
        except (ChannelClosedError, TimeoutError) as error:
            raise WorkerError(
                f"the worker process did not start: {self.ending(error)}; see the standard error stream"
            ) from error
        self.unloaded = unloaded
        self.is_ready = True

    def compute(self, which: str, packed: Sequence[bytes]) -> Reply:
        """Compute the scores of some requests. For one thread, while another reads `events`.

        Raises:
            WorkerEndedError: The process ended meanwhile, or hung and was ended.
        """
        self._look()
        self._begun = 0
        self._replies.clear()
        # Made by the waiting thread: a server may have turned threads into greenlets meanwhile.
        computing = self._computing = Bell()
        if not self._ended:
            self.send((which, packed))
        seen = 1
        while not (self._replies or self._ended):
            if not computing.wait(SCORE_S):
                self._look()
                if self._begun <= seen:
                    self.hang_up(f"the worker process hangs: it did not answer for {SCORE_S:g} s")
                seen = self._begun
        self._computing = None
        if self._replies:
            return self._replies.pop()
        raise WorkerEndedError(self._ended, self._begun, "timeout" if self._hangs else "metric_error")

    def take_answer(self, *reply: Any) -> None:
        """Receive the scores of the last requests."""
        self._replies.append(reply)
        if self._computing is not None:
            self._computing.ring()

    def note_end(self, reason: str) -> None:
        """Record its end."""
        self._look()
        self._ended = reason
        if self._computing is not None:
            self._computing.ring()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return bool(self._ended)

    @property
    def is_at_scores(self) -> bool:
        """Whether it was computing scores when it ended."""
        self._look()
        return self._computing is not None and self._begun > 0

    def _look(self) -> None:
        """Update the number of requests it has begun with."""
        self._begun += len(self._progress.read(1 << 16) or b"")

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message; on failure the worker ends, which the thread that reads `events` notices."""
        try:
            self._channel.send(message, SEND_S)
        except ChannelClosedError:
            self._channel.close()
        except TimeoutError as error:
            self.hang_up(f"the worker process hangs: {error}")

    def hang_up(self, reason: str) -> None:
        """Give it up; the thread that reads `events` notices its end."""
        self._hangs = reason
        self._channel.close()

    def events(self) -> Iterator[tuple[Any, ...]]:
        """Yield its events until it ends. For one thread."""
        with contextlib.suppress(ChannelClosedError):
            while True:
                yield from self._receive() or ()

    def _receive(self) -> Any:
        """Return the next message; None if none arrives in time."""
        try:
            return self._channel.receive()
        except TimeoutError:
            # A process that it started may keep its socket open.
            if self._process is None or self._process.poll() is not None:
                raise ChannelClosedError("the worker process ended") from None
            return None

    def end(self, timeout_s: float) -> None:
        """End the process: let it finish within `timeout_s` seconds, then kill it."""
        self.dismissed = True
        process = self._process
        if process is not None and process.returncode is None:
            # It sees the end of messages, sends its last events, and exits.
            self._channel.finish()
            try:
                process.wait(max(0.0, timeout_s))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._channel.close()

    def ending(self, error: Exception | None = None) -> str:
        """Make sure it has ended, and describe how; an error that showed it may be a time-out."""
        hung = self._hangs or (str(error) if isinstance(error, TimeoutError) else "")
        self.end(0.0 if hung else 2.0)
        code = 0 if self._process is None else self._process.returncode
        if hung or code >= 0:
            return hung or f"the worker process ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"the worker process was ended by {signal.Signals(-code).name}"
        return f"the worker process was ended by signal {-code}"

    def forget(self) -> None:
        """Release it after a fork: it belongs to the parent."""
        self._ours.close()
        if self._process is not None:
            self._process.returncode = 0  # the parent waits for it


_BOOTSTRAP = """
import pickle, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
def read(size):
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data
sys.path[:] = pickle.loads(read(int.from_bytes(read(4), "big")))
from ragmeter.pipeline.process.serving import serve
serve(end, int(sys.argv[2]))
"""

_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*")


def find_interpreter() -> str:
    """Return the path of the Python that runs this process, also if it is embedded.

    Raises:
        ConfigurationError: No interpreter was found.
    """
    if not hasattr(os, "fork"):  # Windows: sockets cannot be handed to a process as files are
        raise ConfigurationError("scoring='process' is not supported on this platform; keep scoring='thread'")
    from multiprocessing import spawn  # noqa: PLC0415 -- only where a process is wanted

    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    chosen = os.fsdecode(spawn.get_executable() or "")
    if chosen and chosen != sys.executable and os.access(chosen, os.X_OK):
        return chosen  # named by multiprocessing.set_executable
    folders = [sysconfig.get_path("scripts")]
    folders += [str(Path(prefix, "bin")) for prefix in (sys.exec_prefix, sys.base_exec_prefix)]
    for path in (sys.executable or "", *(str(Path(folder, name)) for folder in folders)):
        # An application server that embeds Python, or a frozen program, has its own name here.
        if _PYTHON.fullmatch(Path(path).name) and os.access(path, os.X_OK):
            return path
    raise ConfigurationError(
        "scoring='process' finds no Python interpreter to start (sys.executable is "
        f"{sys.executable!r}); name it: multiprocessing.set_executable('/usr/bin/{name}')"
    )


def _command(interpreter: str, channel: int, progress: int) -> list[str]:
    """Return the command line of a worker, given the file descriptors of its socket and its pipe."""
    options = ["-I"]
    if sys.flags.dont_write_bytecode or sys.dont_write_bytecode:
        options.append("-B")
    if sys.flags.utf8_mode:
        options += ["-X", "utf8"]
    return [interpreter, *options, "-c", _BOOTSTRAP, str(channel), str(progress), "ragmeter-worker"]
