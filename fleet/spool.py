"""The engine without a broker: a folder, and workers on the same machine. Its URL is ``spool:///dir``.

A parent process only starts workers, each in its own process: a request that crashes one affects no other,
and is identified by being retried alone.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ragmeter.metrics import ConfigurationError

from ._spool_folder import DEFAULT_BYTES, ClaimedMessage, SpoolReader, SpoolSender
from ._spool_queue import SpoolQueue
from ._time_limit import ENDED_BY, at_most
from .transport import MessageWorker, TransportDownError

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess


_log = logging.getLogger("ragmeter")

MAX_DEATHS = 3
"""Workers that may end over a message before it becomes a dead letter."""
_IDLE_S = 0.1
"""Seconds between two checks of an empty folder."""
_FAILED_S = 5.0
"""Seconds to wait after a failed export or disk error."""
_TRIES = 3
"""Consecutive failures after which a draining worker ends."""
_TERMINATE_S = 1.0
"""Seconds between two termination signals to a process."""
_CLOSE_S = 10.0


def folder_of(url: str) -> Path:
    """Return the folder of a URL.

    Raises:
        ConfigurationError: The URL has no absolute path.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or path == "/" or parts.query:
        raise ConfigurationError(
            "spool: needs the absolute path of a folder, with three slashes: spool:///var/lib/ragmeter/queue"
        )
    return Path(path)


def open_sender(url: str, *, confirm_s: float = 2.0, spool_bytes: int = DEFAULT_BYTES) -> SpoolSender:
    """Return a sender into the folder of `url`; see `transport.open_sender`."""
    del confirm_s  # disks send no confirms
    return SpoolSender(folder_of(url), max_bytes=spool_bytes)


def open_queue(url: str) -> SpoolQueue:
    """Return the queue of the folder of `url`; see `queue.open_queue`."""
    return SpoolQueue(folder_of(url))


def run_worker(
    url: str,
    make: Callable[[], MessageWorker],
    *,
    processes: int,
    once: bool = False,
    limit_s: float | None = None,
) -> bool:
    """Score the messages of the folder; see `transport.run_worker`."""
    folder = folder_of(url)
    SpoolReader(folder).close()  # report an unusable folder here, once
    return _ForkedWorkers(lambda: _work(folder, make, once=once, limit_s=limit_s), processes).run()


class _ForkedWorkers:
    """Forked processes, restarted when killed, and terminated with this one."""

    def __init__(self, work: Callable[[], bool], number: int) -> None:
        self._work = work
        self._number = number
        self._ending = False
        self._pid = os.getpid()
        # A pipe whose other end closes when this process ends in any way.
        self._alive, self._own_end = os.pipe()
        self._running: list[ForkProcess] = []

    def run(self) -> bool:
        """Start the processes and wait for their end; return whether all succeeded."""
        done = True
        before = {one: signal.signal(one, self._end) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._running = [self._start() for _ in range(self._number)]
            while self._running:
                if self._ending:  # again, for a process that was still being started
                    self._terminate()
                connection.wait(
                    [process.sentinel for process in self._running], _TERMINATE_S if self._ending else None
                )
                for process in [one for one in self._running if not one.is_alive()]:
                    process.join()
                    self._running.remove(process)
                    code = process.exitcode or 0
                    if code > 0:
                        done = False
                        self._end_all()
                    elif code < 0 and not self._ending:
                        why = " (a message took too long)" if -code == ENDED_BY else ""
                        _log.error("ragmeter worker: a process was ended by signal %d%s", -code, why)
                        self._running.append(self._start())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._own_end)
            os.close(self._alive)
        return done

    def _start(self) -> ForkProcess:
        process = multiprocessing.get_context("fork").Process(target=self._child)
        process.start()
        if self._ending:  # a signal arrived during its start
            process.terminate()
        return process

    def _child(self) -> None:
        os.close(self._own_end)
        threading.Thread(target=self._watch_parent, name="ragmeter-parent", daemon=True).start()
        if not self._work():
            raise SystemExit(1)

    def _watch_parent(self) -> None:
        os.read(self._alive, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a forked process that has no signal handler yet
        self._end_all()

    def _end_all(self) -> None:
        again, self._ending = self._ending, True
        if again:
            for process in self._running:
                process.kill()
        else:
            self._terminate()

    def _terminate(self) -> None:
        for process in self._running:
            process.terminate()


@contextmanager
def _termination() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGTERM has arrived."""
    terminated = False

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent sends SIGTERM
    signal.signal(signal.SIGTERM, on_signal)
    yield lambda: terminated


def _work(folder: Path, make: Callable[[], MessageWorker], *, once: bool, limit_s: float | None) -> bool:
    """Score messages until SIGTERM or, with `once`, until none is left; return whether that succeeded."""
    with _termination() as is_ending:
        worker = make()
        reader = SpoolReader(folder)
        failed = 0
        try:
            while not is_ending():
                try:
                    found = reader.take()
                    if not found:
                        if once and reader.is_empty:
                            return True
                        time.sleep(_IDLE_S)
                        continue
                    with at_most(limit_s):
                        done = _handle(reader, worker, found[0])
                except TransportDownError as error:
                    _log.error("ragmeter worker: %s", error)
                    done = False
                failed = 0 if done else failed + 1
                if failed:
                    reader.give_back()
                    if once and failed >= _TRIES:
                        return False
                    _rest(_FAILED_S, is_ending)
            return True
        finally:
            reader.close()
            worker.close(_CLOSE_S)


def _handle(reader: SpoolReader, worker: MessageWorker, taken: ClaimedMessage) -> bool:
    message = taken.message
    if message.deaths > MAX_DEATHS:
        reason = f"{message.deaths} workers ended over it"
        reader.bury(message.body, message.requests, reason, message.deaths)
        reader.done(taken)
        return True
    handled = worker.handle(message.body, message.deaths)
    if not handled.done:
        return False
    for dead in handled.dead:
        whole = dead.body == message.body
        reader.bury(dead.body, message.requests if whole else 1, dead.reason, message.deaths)
    reader.done(taken, handled.split)
    return True


def _rest(seconds: float, is_ending: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not is_ending():
        time.sleep(_IDLE_S)
