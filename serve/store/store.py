"""`Store`: the one writer. All telemetry arrives here, and is stored before it is acknowledged.

Callers that write at the same time share one transaction, and each returns when it is committed. So
acknowledged requests survive a kill of the process; after a power cut, the last moments may be missing from a
file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ragmeter.adapters.opentelemetry.otlp import ExportedRecords, ExportRequest, received_in
from ragmeter.exporters.protocol import ScoredRun, TryLaterError, UnbufferedExporter, WriteCount
from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics._files.group_commit import GroupCommit
from ragmeter.metrics.errors import install_command

from ._database import Database, Home
from ._gap_list import decide_gap
from ._keeping import Keeping
from ._names import Names
from ._received import Batch, dropped_in, from_export_request, join_batches
from ._rows import Rows
from ._scored import from_scored_run
from ._shadows import ShadowBoard
from ._sqlite import File, UnavailableFileError
from .reader import Reader

_log = logging.getLogger("ragmeter")

MIB = 1024 * 1024
DAY_S = 86_400.0
TRIED_AGAIN_S = 2.0
"""Seconds after a failed write during which nothing is accepted."""


class StoreFullError(RagmeterError):
    """The store cannot accept data now: it or the disk is full, or the database is away. Nothing was stored."""


class StoreRefusedError(RagmeterError):
    """The store will never accept this data: a value does not fit the database. Nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Location and limits of the store."""

    path: Path | None = None
    """The file; None: a temporary one that is deleted when the store is closed."""
    url: str | None = field(default=None, repr=False)
    """``postgresql://user:password@host/database`` instead of a file; several servers may share it."""
    folder: Path | None = None
    """Folder of labels and baselines, if the database is on a server."""
    keep_s: float = 7 * DAY_S
    """Retention of requests in seconds."""
    keep_by_service: Mapping[str, float] = field(default_factory=dict)
    """Retention in seconds of services with another one, by name."""
    max_bytes: int = 1_000_000_000
    """Most bytes of the store, beyond which the oldest requests are deleted."""
    or_private: bool = False
    """Whether to use a temporary file, and log a warning, if the file cannot be used."""
    texts: bool = True
    """Whether to store questions, answers, chunks and explanations."""

    @property
    def beside(self) -> Path | None:
        """The folder of files that belong to the store, or None if it has no permanent folder."""
        return self.folder if self.path is None else self.path.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Size of the store, by a query."""

    requests: int = 0
    """Number of requests."""
    bytes: int = 0
    """Bytes in use; estimated for a database on a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """State of the store, as far as known without a query."""

    kind: str
    """``file`` or ``postgresql``, without its location, which is private."""
    writable: bool
    """Whether the last write succeeded."""
    why: str | None
    """Error of the last write or upkeep, or None."""
    refused: int
    """Refused writes, since the store was opened."""
    deleted: int
    """Requests deleted for lack of room or by age, since the store was opened."""
    other: Mapping[str, int]
    """Refused distinct names by sort, since the store was opened: ``workflow``, ``score``."""


class Store(UnbufferedExporter):
    """Stores scored requests. Thread-safe; one process per file, any number of processes per database server.

    It is also an exporter: requests scored by a meter are stored with their texts, unless the options exclude
    texts.

    Args:
        options: Location and limits.
        clock: Seconds since the epoch.

    Raises:
        ConfigurationError: The file or the database cannot be used, or another process uses the file.
    """

    def __init__(self, options: StoreOptions | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.options = options or StoreOptions()
        keeps = (self.options.keep_s, *self.options.keep_by_service.values())
        if min(keeps) <= 0 or self.options.max_bytes < MIB:
            raise ConfigurationError(
                "a store keeps requests for some time, and in a megabyte at least: give it more"
            )
        self.clock = clock
        self._shadows = ShadowBoard()
        self._commits: GroupCommit[Batch, None] = GroupCommit(
            self._commit, lambda: StoreFullError("it was not written")
        )
        self._writing = self._commits.turn
        self._refused = 0
        self._failed_at = 0.0
        self._why: dict[str, str | None] = {"write": None, "upkeep": None}
        self._closed = False
        self._home = self._open()
        self._names = Names(self._home.writer)
        self._rows = Rows(self._home.writer, self._names)
        self._keeping = Keeping(
            self._home, self.options.keep_s, self.options.max_bytes, self.options.keep_by_service
        )

    @property
    def beside(self) -> Path | None:
        """The folder of files that belong to the store, or None if it has no permanent folder."""
        return None if self._home.is_private else self.options.beside

    @property
    def shown(self) -> str:
        """Location of the store, without secrets."""
        return self._home.shown

    def take(self, request: ExportRequest, received: ExportedRecords | None = None) -> int:
        """Store the requests of an export request from ragmeter in another process, before this returns.

        Args:
            request: The export request.
            received: The result of `received_in` for it; None: compute it.

        Returns:
            Number of parts of requests in it.

        Raises:
            StoreFullError: Nothing was stored.
            StoreRefusedError: It will never be accepted.
        """
        batch = from_export_request(request, received_in(request) if received is None else received)
        if batch.requests or batch.retrieved:
            self._write(batch)
        return len(batch.requests) + len(batch.retrieved)

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Store meters' counts of dropped requests and comparisons of retrievers; raises as `take`."""
        self._shadows.take(request)
        dropped = tuple(dropped_in(request))
        if dropped:
            self._write(Batch(dropped=dropped))

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Store requests scored by this process.

        Raises:
            TryLaterError: Nothing was stored; the meter has to retry, as no sender has the data any more.
            StoreRefusedError: The only run will never be accepted; a `RunsLostError` if others were stored.
        """
        try:
            if batch:
                self._write(join_batches(map(from_scored_run, batch)))
        except StoreFullError as error:
            raise TryLaterError(str(error), batch) from error
        except StoreRefusedError as error:
            if len(batch) == 1:
                raise StoreRefusedError(f"{error}: run {batch[0].run.run_id}") from error
            self._export_each(batch)

    def _export_each(self, batch: Sequence[ScoredRun]) -> None:
        refused: list[ScoredRun] = []
        with WriteCount(batch) as written:
            for number, scored in enumerate(batch):
                try:
                    self.export([scored])
                    written.add()
                except StoreRefusedError as error:  # noqa: PERF203 -- each by itself
                    refused.append(scored)
                    written.failure = error
                except TryLaterError as error:
                    raise TryLaterError(str(error), [*refused, *batch[number:]]) from error

    def reader(self) -> Reader:
        """Return a reader, which sees committed data until the store is closed."""
        return Reader(self._home, self.clock, texts=self.options.texts, shadows=self._shadows)

    def decide_gap(self, gap: str, state: str) -> None:
        """Store the decision about a knowledge gap; raises as `take`, and ValueError for an invalid one."""
        with self.small_change() as database:
            decide_gap(database, gap, state, int(self.clock() * 1000))

    def maintain(self) -> bool:
        """Sum up finished slots and hours, and delete old requests; called regularly, on a thread that waits.

        Returns:
            Whether there is more to do at once.
        """
        try:
            with self._home.turn() as mine:
                if not mine:
                    self._why["upkeep"] = None
                    return False
                # Summing takes time, and no write should wait for it.
                summed = self._keeping.sum_next(self.clock())
                with self._writing:
                    tried = not self._closed and not self._writable
                    more = not self._closed and self._keeping.step(self.clock(), summed, tries=tried)
                    if tried:
                        self._why["write"] = None
        except self._home.errors as error:
            why = self._why["upkeep"] = self._home.why(error)
            _log.warning("store: upkeep failed (%s); tried again", why)
            return False
        self._why["upkeep"] = None
        return more

    def stats(self) -> StoreStats:
        """Return the size of the store."""
        with self._writing:
            if self._closed:
                return StoreStats()
            with self._home.moment() as database:
                (requests,) = database.execute("SELECT count(*) FROM request").fetchone()
                return StoreStats(requests=requests, bytes=self._home.size(database))

    def state(self) -> StoreState:
        """Return the state without a query, so that it returns at once even if the database hangs."""
        return StoreState(
            kind="file" if self.options.url is None else "postgresql",
            writable=self._writable,
            why=self._why["write"] or self._why["upkeep"],
            refused=self._refused,
            deleted=self._keeping.deleted,
            other=dict(self._names.refused),
        )

    @property
    def trouble(self) -> str | None:
        """Error message of the last write, until one succeeds; None: no error."""
        why = self._why["write"]
        return None if why is None else f"the store cannot be written to: {why}"

    def why_not(self) -> str | None:
        """Return why nothing can be written at the moment; None if it can, or if it is time to try again."""
        if self._writable or time.monotonic() - self._failed_at >= TRIED_AGAIN_S:
            return None
        return self.trouble

    def close(self) -> None:
        """Close file or database. A private file is deleted."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._home.close()

    @contextmanager
    def small_change(self) -> Iterator[Database]:
        """Write a small change in its own transaction; raises as `take`."""
        with self._writing:
            if self._closed:
                raise StoreFullError("the store is closed")
            try:
                with self._home.transaction() as database:
                    yield database
            except self._home.errors as error:
                raise StoreFullError(f"the store does not take it: {self._home.why(error)}") from error

    @property
    def _writable(self) -> bool:
        return self._why["write"] is None

    def _open(self) -> Home:
        options = self.options
        if options.url is not None:
            if options.folder is not None:
                with suppress(OSError):  # errors show when these files are written
                    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _on_server(options.url)
        try:
            return File(options.path, options.max_bytes)
        except UnavailableFileError:
            raise  # a temporary file would lose acknowledged data when this process ends
        except ConfigurationError as error:
            if not options.or_private or options.path is None:
                raise
            _log.warning("%s; requests are kept until this server ends", error)
            return File(None, options.max_bytes)

    def _write(self, batch: Batch) -> None:
        self._commits.put(batch if self.options.texts else batch.without_texts())

    def _commit(self, batches: Sequence[Batch]) -> Sequence[None]:
        kept = False
        try:
            if self._closed:
                raise StoreFullError("the store is closed")
            with self._home.transaction():
                self._rows.put(join_batches(batches), int(self.clock() * 1000))
            kept = True
            self._why["write"] = None
        except self._home.errors as error:
            if isinstance(error, self._home.refusals) and len(batches) == 1:  # else which?
                raise StoreRefusedError(f"the store does not take it: {self._home.why(error)}") from error
            why = self._why["write"] = self._home.why(error)
            self._failed_at = time.monotonic()
            raise StoreFullError(f"the store does not take it: {why}") from error
        finally:
            if not kept:
                self._refused += len(batches)
                self._names.forget()
                self._rows.forget()
        return [None] * len(batches)


def _on_server(url: str) -> Home:
    try:
        from ._postgresql import Server  # noqa: PLC0415 -- an extra, and a second to import
    except ImportError as error:
        raise ConfigurationError(
            f"a store on PostgreSQL needs its packages: {install_command('postgresql')}"
        ) from error
    return Server(url)
