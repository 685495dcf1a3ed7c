"""`Store`: the one who writes. Everything that is told comes in here, and is kept before it is acknowledged.

One connection writes; those who have something to write at the same time share one transaction, and each
returns when it is committed.  So a sender that got its answer finds its requests after a kill; after a power
cut the last moments may be missing.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ragmeter.adapters.opentelemetry.otlp import ExportRequest
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics.errors import loggable

from ._keeping import Keeping
from ._names import Names
from ._received import DroppedCount, Telling, dropped_in, told_in
from ._rows import Rows
from ._schema import open_for_writing
from ._scored import told_by
from ._texts import without_texts
from .reader import Reader

__all__ = ["Store", "StoreFullError", "StoreOptions", "StoreStats"]

_log = logging.getLogger("ragmeter")

MIB = 1024 * 1024
DAY_S = 86_400.0
TRIED_AGAIN_S = 2.0
"""Seconds after a write that failed in which nothing more is taken."""


class StoreFullError(RagmeterError):
    """The store cannot take it: it is full, or the disk is; nothing was kept of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Where requests are kept, and how many."""

    path: Path | None = None
    """The file; None: a private one that is gone when the store is closed."""
    keep_s: float = 7 * DAY_S
    """Seconds for which a request is kept."""
    max_bytes: int = 1_000_000_000
    """Bytes of the file; the oldest requests make room."""
    or_private: bool = False
    """Whether a private file is used where that one cannot be, and a line in the log says so."""
    texts: bool = True
    """Whether questions, answers, chunks and explanations are kept where they are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What the store holds, and what it did not."""

    requests: int = 0
    """Requests."""
    bytes: int = 0
    """Bytes of the file."""
    deleted: int = 0
    """Requests that made room, since it was opened."""
    refused: int = 0
    """Writes that found no room, since it was opened."""
    writable: bool = True
    """Whether the last write succeeded."""
    other: Mapping[str, int] = field(default_factory=dict)
    """How often a name was one too many, since it was opened: ``workflow``, ``score``."""


class _Ticket:
    """What one caller wants written."""

    __slots__ = ("done", "dropped", "failure", "telling")

    def __init__(self, telling: Telling, dropped: Sequence[DroppedCount]) -> None:
        self.telling = telling
        self.dropped = dropped
        self.done = False
        self.failure: StoreFullError | None = None


class Store:
    """Keeps scored requests. Thread-safe; one process writes to a file.

    It is an exporter, too: what a meter scores is kept with its texts, unless the options say otherwise.

    Args:
        options: Where, and how much.
        clock: Seconds since the epoch.

    Raises:
        ConfigurationError: The file cannot be used, or another process uses it.
    """

    def __init__(
        self, options: StoreOptions | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.options = options or StoreOptions()
        if self.options.keep_s <= 0 or self.options.max_bytes < MIB:
            raise ConfigurationError(
                "a store keeps requests for some time, and in a megabyte at least: give it more"
            )
        self._clock = clock
        self._own_folder: Path | None = None
        self._queueing = threading.Lock()
        self._queued: list[_Ticket] = []
        self._writing = threading.RLock()
        self._refused = 0
        self._writable = True
        self._failed_at = 0.0
        self._closed = False
        path = self.options.path
        if path is None:
            self._own_folder = Path(tempfile.mkdtemp(prefix="ragmeter-"))
            path = self._own_folder / "serve.db"
        self._lock_file: sqlite3.Connection | None = None
        try:
            self._database = self._open(path)
        except ConfigurationError as error:
            if not self.options.or_private or self._own_folder is not None:
                raise
            _log.warning("%s; requests are kept until this server ends", error)
            self._own_folder = Path(tempfile.mkdtemp(prefix="ragmeter-"))
            path = self._own_folder / "serve.db"
            self._database = self._open(path)
        self.path = path
        self._names = Names(self._database)
        self._rows = Rows(self._database, self._names)
        self._keeping = Keeping(self._database, path, self.options.keep_s, self.options.max_bytes)
        self._readers: list[Reader] = []

    def take(self, request: ExportRequest) -> int:
        """Keep what ragmeter elsewhere tells in an export request; when this returns, it is kept.

        Returns:
            How many pieces of requests were in it.

        Raises:
            StoreFullError: It was not kept.
        """
        telling = told_in(request)
        if telling.requests or telling.retrieved:
            self._write(telling)
        return len(telling.requests) + len(telling.retrieved)

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Keep what meters elsewhere say they dropped; raises as `take`."""
        dropped = tuple(dropped_in(request))
        if dropped:
            self._write(Telling(), dropped)

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Keep what this process scored; raises as `take`."""
        if not batch:
            return
        told = [told_by(scored) for scored in batch]
        self._write(
            Telling(
                tuple(part for one in told for part in one.requests),
                tuple(found for one in told for found in one.retrieved),
            )
        )

    def flush(self, timeout_s: float) -> bool:
        """Return True: what was taken is kept already."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Do nothing: who made the store closes it."""
        del timeout_s

    def reader(self) -> Reader:
        """Return a reader, which sees what is committed; closed with the store."""
        reader = Reader(self.path, self._clock)
        self._readers.append(reader)
        return reader

    def maintain(self) -> bool:
        """Sum up hours that are over, and make room; called now and then, on a thread that may wait.

        Returns:
            Whether there is more to do at once.
        """
        try:
            # Adding up takes its time, and nobody need wait for that.
            summed = self._keeping.summed(self._clock())
            with self._writing:
                return not self._closed and self._keeping.step(self._clock(), summed)
        except sqlite3.Error as error:
            with self._writing:
                self._roll_back()
            _log.warning("store: upkeep failed (%s); tried again", loggable(error))
            return False

    def stats(self) -> StoreStats:
        """Return what it holds."""
        with self._writing:
            if self._closed:
                return StoreStats(writable=False)
            return StoreStats(
                requests=self._database.execute("SELECT count(*) FROM request").fetchone()[0],
                bytes=self._keeping.size(),
                deleted=self._keeping.deleted,
                refused=self._refused,
                writable=self._writable,
                other=dict(self._names.refused),
            )

    def why_not(self) -> str | None:
        """Return why nothing can be written just now; None: it can, or it is time to try again."""
        if self._writable or time.monotonic() - self._failed_at >= TRIED_AGAIN_S:
            return None
        return "the store is full, or cannot be written to"

    def close(self) -> None:
        """Let go of the file. A private one is deleted."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            for reader in self._readers:
                reader.close()
            self._keeping.close()
            self._database.close()
        self._let_go()

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = _locked(path)
            return open_for_writing(path)
        except (OSError, sqlite3.Error) as error:
            self._let_go()
            raise ConfigurationError(
                f"the store {path} cannot be used ({_why(error)}); give a file that this user may write to"
            ) from error
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def _write(self, telling: Telling, dropped: Sequence[DroppedCount] = ()) -> None:
        if not self.options.texts:
            telling = without_texts(telling)
        ticket = _Ticket(telling, dropped)
        with self._queueing:
            self._queued.append(ticket)
        with self._writing:
            if not ticket.done:  # else whoever wrote before us took ours along
                self._write_queued()
        if ticket.failure is not None:
            raise ticket.failure

    def _write_queued(self) -> None:
        with self._queueing:
            tickets, self._queued = self._queued, []
        failure: StoreFullError | None = None
        try:
            if self._closed:
                failure = StoreFullError("the store is closed")
            else:
                self._commit(tickets)
                self._writable = True
        except sqlite3.Error as error:
            self._roll_back()
            failure = StoreFullError(f"the store does not take it: {_why(error)}")
            self._writable = False
            self._failed_at = time.monotonic()
        except BaseException:
            self._roll_back()
            failure = StoreFullError("it was not written")
            raise
        finally:
            if failure is not None:
                self._refused += len(tickets)
            for ticket in tickets:
                ticket.failure = failure
                ticket.done = True

    def _commit(self, tickets: Iterable[_Ticket]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        now_ms = int(self._clock() * 1000)
        for ticket in tickets:
            self._rows.put(ticket.telling, now_ms)
            self._rows.count_dropped(ticket.dropped)
        self._rows.finish()
        self._database.execute("COMMIT")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # it may have happened by itself
            self._database.execute("ROLLBACK")
        self._names.forget()
        self._rows.forget()


def _locked(path: Path) -> sqlite3.Connection:
    """Hold a lock beside the store, which goes with the process however that ends."""
    beside = path.with_name(f"{path.name}-lock")
    lock = sqlite3.connect(beside, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        beside.chmod(0o600)
        lock.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" in str(error):
            raise ConfigurationError(
                f"the store {path} is in use by another process; stop that one, or give each server a "
                "--store of its own"
            ) from error
        raise
    return lock


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()
