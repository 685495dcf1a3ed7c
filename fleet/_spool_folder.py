"""A spool: a folder of SQLite files that passes messages between processes of one machine.

Each publisher writes its own file, and holds a lock on it while it lives. Workers take messages from all
files; those of an ended worker are free again at once. An empty file of an ended publisher is deleted. The
same folder buffers messages for an unreachable broker: then publishers read it themselves.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process import fork
from ragmeter.metrics.errors import loggable

from ._process_lock import LOCK, ProcessLock, is_gone
from ._spool_file import DamagedError, SpoolFile, StoredMessage, set_aside
from .queue import DEAD_TTL_S, MAX_BYTES
from .transport import TransportDownError

_log = logging.getLogger("ragmeter")

DEFAULT_BYTES = 256 * 1024 * 1024
"""Default limit of a publisher's waiting bytes."""
DEAD = "dead.db"
"""The file of dead letters."""
MESSAGES = ".messages.db"
"""Suffix of message files."""
_READER = "reader-"
_ROOM_ASKED_EVERY = 16
"""Messages between two checks of free space in file and disk."""
_FREE_BYTES = 16 * 1024 * 1024
"""Bytes to leave free on the disk, so that readers can still update the files."""


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.scandir(folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"the queue's folder {folder} cannot be used ({loggable(error)}); give one that this user may "
            "write to"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"the queue's folder {folder} cannot be written to; give one that this user may write to"
        )
    return folder


class SpoolSender:
    """Writes messages into this process's own file: a `Sender`. A forked child begins another file.

    The folder is created if missing, for this user only, as its files have users' texts; one that cannot be
    used is a `ConfigurationError`. Beyond about `max_bytes`, messages are refused until some are read.
    """

    def __init__(self, folder: Path, *, max_bytes: int = DEFAULT_BYTES) -> None:
        self._folder = _make_folder(folder)
        self._max_bytes = max_bytes
        self._left: list[SpoolFile] = []  # the parent's: closing them would end its locks
        self._begin()
        fork.forget(self._begin_child)

    def _begin(self) -> None:
        self._file: SpoolFile | None = None
        self._lock: ProcessLock | None = None
        self._until_look = 0

    def _begin_child(self) -> None:
        if self._file is not None:
            self._left.append(self._file)
        if self._lock is not None:
            self._lock.leave_to_parent()
        self._begin()

    def send(self, body: bytes, *, count: int) -> None:
        """Write a message; see `Sender.send`."""
        try:
            file = self._open_file()
            if self._until_look <= 0 or len(body) > self._max_bytes // 64:
                self._until_look = _ROOM_ASKED_EVERY
                self._check_room(file, len(body))
            self._until_look -= 1
            file.put([(count, body)], since_ns=time.time_ns())
        except DamagedError as error:
            damaged = self._file
            self._end_file()
            if damaged is not None:
                _log.error("queue: %s; it is set aside, a new file begins", error)
                set_aside(damaged.path)
            raise TransportDownError(f"{self._folder}: {error}") from error

    def _check_room(self, file: SpoolFile, needed: int) -> None:
        why = None
        disk = os.statvfs(self._folder)
        if file.size_bytes + needed > self._max_bytes and len(file):
            why = f"{self._max_bytes} bytes wait to be read, as much as may"
        elif disk.f_bavail * disk.f_frsize < _FREE_BYTES + needed:
            why = f"less than {_FREE_BYTES} bytes are free on the disk"
        if why is not None:
            self._until_look = 0
            raise TransportDownError(f"{self._folder}: {why}")

    def close(self, timeout_s: float) -> None:
        """Close the file; its messages wait to be read."""
        del timeout_s
        if self._file is not None:
            with suppress(TransportDownError, DamagedError):
                if not len(self._file):
                    self._file.remove()
        self._end_file()

    def _end_file(self) -> None:
        file, lock = self._file, self._lock
        self._begin()
        if file is not None:
            file.close()
        if lock is not None:
            lock.release()

    def _open_file(self) -> SpoolFile:
        file, lock = self._file, self._lock
        if file is not None and lock is not None and not (file.is_there and lock.is_there):
            _log.error("queue: %s or its lock was deleted; a new file begins", file.path)
            self._end_file()
        if self._file is None:
            name = f"{os.getpid()}-{uuid4().hex[:12]}"
            try:
                self._lock = ProcessLock(_make_folder(self._folder), name)
            except (OSError, ConfigurationError) as error:
                raise TransportDownError(f"{self._folder}: {loggable(error)}") from error
            self._file = SpoolFile(self._folder / f"{name}{MESSAGES}")
        return self._file


def _log_dead(dead: StoredMessage) -> None:
    _log.warning("queue: a dead letter of %d requests makes room for newer ones", dead.requests)


class ClaimedMessage(NamedTuple):
    """A message taken by a reader."""

    file: SpoolFile
    """The message's file."""
    message: StoredMessage
    """The message."""


class SpoolReader:
    """Takes messages from all files of a folder, for one thread at a time. Not to be used across a fork.

    The folder is created if missing; one that cannot be used is a `ConfigurationError`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = _make_folder(folder)
        self._name = f"{_READER}{os.getpid()}-{uuid4().hex[:12]}"
        self._lock = ProcessLock(folder, self._name)
        for left in folder.glob(f"{_READER}*{LOCK}"):
            if is_gone(folder, left.name.removesuffix(LOCK)):
                left.unlink(missing_ok=True)
        self._files: dict[str, SpoolFile] = {}
        self._next = 0
        self._is_closed = False
        self._dead: SpoolFile | None = None
        self._turn = threading.Lock()
        self._undone: list[tuple[ClaimedMessage, tuple[bytes, ...]]] = []

    def take(self, limit: int = 1) -> list[ClaimedMessage]:
        """Take the oldest free messages from one file; a different one each time."""
        undone, self._undone = self._undone, []
        for taken, split in undone:
            self.done(taken, split)
        with self._turn:
            for file in self._in_turn():
                with self._contain_failure(file):
                    for owner in self._gone_owners(file):
                        file.give_back(owner, died=True)
                    found = file.take(self._name, limit)
                    if found:
                        return [ClaimedMessage(file, message) for message in found]
                    self._remove_if_over(file)
        return []

    @property
    def is_drained(self) -> bool:
        """Whether no message can be taken; messages of living readers do not count."""
        return self._all(lambda file: not file.has_free and not self._gone_owners(file)) and (not self._undone)

    @property
    def is_empty(self) -> bool:
        """Whether no message is left, taken or not."""
        return self._all(lambda file: not len(file))

    def _all(self, holds: Callable[[SpoolFile], bool]) -> bool:
        """Return whether a condition holds for all files; False for a failing one."""
        with self._turn:
            for file in self._in_turn():
                found = False
                with self._contain_failure(file):
                    found = holds(file)
                if not found:
                    return False
        return True

    def done(self, taken: ClaimedMessage, split: tuple[bytes, ...] = ()) -> None:
        """Delete a message, and add the messages it was split into."""
        with self._damage_aside(taken.file.path):
            try:
                taken.file.done(taken.message.number, split, since_ns=taken.message.since_ns)
            except TransportDownError as error:
                _log.warning("queue: a finished message could not be deleted (%s); will retry", error)
                self._undone.append((taken, split))

    def _gone_owners(self, file: SpoolFile) -> list[str]:
        owners = (owner for owner in file.owners() if owner != self._name)
        return [owner for owner in owners if is_gone(self._folder, owner)]

    def bury(self, body: bytes, requests: int, reason: str, deaths: int) -> None:
        """Add a message to the dead letters; delete those a week old, and the oldest beyond the limit."""
        if self._dead is not None and not self._dead.is_there:
            self._dead.close()
            self._dead = None
        if self._dead is None:
            self._dead = SpoolFile(self._folder / DEAD)
        now_ns = time.time_ns()
        self._dead.put([(requests, body)], since_ns=now_ns, deaths=deaths, reason=reason)
        self._dead.forget_before(now_ns - round(DEAD_TTL_S * 1e9))
        while self._dead.size_bytes > MAX_BYTES and self._dead.hand_over(_log_dead):
            pass

    def give_back(self) -> None:
        """Free all messages of this reader."""
        with self._turn:
            for file in self._files.values():
                with self._contain_failure(file):
                    file.give_back(self._name, died=False)

    def close(self) -> None:
        """Free all messages and close the folder. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.give_back()
        for file in (*self._files.values(), *([] if self._dead is None else [self._dead])):
            file.close()
        self._files = {}
        self._lock.release()

    def _in_turn(self) -> list[SpoolFile]:
        self._look()
        names = sorted(self._files)
        if not names:
            return []
        self._next = (self._next + 1) % len(names)
        return [self._files[name] for name in (*names[self._next :], *names[: self._next])]

    def _look(self) -> None:
        """Open new files, and close deleted ones."""
        try:
            with os.scandir(self._folder) as found:
                there = {one.name for one in found if one.name.endswith(MESSAGES)}
        except OSError as error:
            raise TransportDownError(f"{self._folder}: {loggable(error)}") from error
        if not self._lock.is_there:  # the folder was deleted and recreated
            self._lock.release()
            try:
                self._lock = ProcessLock(self._folder, self._name)
            except OSError as error:
                raise TransportDownError(f"{self._folder}: {loggable(error)}") from error
        for name in [one for one, file in self._files.items() if not file.is_there]:
            self._files.pop(name).close()
        for name in there - set(self._files):
            path = self._folder / name
            with self._damage_aside(path), suppress(TransportDownError):
                self._files[name] = SpoolFile(path)

    def _remove_if_over(self, file: SpoolFile) -> None:
        """Delete an empty file whose publisher has ended."""
        writer = file.path.name.removesuffix(MESSAGES)
        if is_gone(self._folder, writer) and not len(file):
            self._files.pop(file.path.name, None)
            file.remove()
            with suppress(OSError):
                (self._folder / f"{writer}{LOCK}").unlink()

    @contextmanager
    def _contain_failure(self, file: SpoolFile) -> Iterator[None]:
        """Contain the failure of one file, so that the others are still read."""
        with self._damage_aside(file.path):
            try:
                yield
            except TransportDownError as error:
                _log.warning("queue: %s; will retry", error)

    @contextmanager
    def _damage_aside(self, path: Path) -> Iterator[None]:
        try:
            yield
        except DamagedError as error:
            _log.error("queue: %s; the file is set aside, its messages are lost", error)
            file = self._files.pop(path.name, None)
            if file is not None:
                file.close()
            set_aside(path)
