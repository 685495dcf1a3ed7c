"""`Store`: the one writer. All telemetry comes in here, and is stored before it is acknowledged.

Those who have something to write at the same time share one transaction, and each returns when it is
committed.  So a sender that got its answer finds its requests after a kill; after a power cut the last moments
may be missing from a file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from ragmeter.adapters.opentelemetry.otlp import ExportedRecords, ExportRequest, received_in
from ragmeter.exporters.protocol import ScoredRun, TryLaterError, UnbufferedExporter, WriteCount
from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics._files.group_commit import GroupCommit
from ragmeter.metrics.errors import install_command, loggable

from ._alert_claims import StoredClaims
from ._database import Database, Home
from ._gap_list import decide_gap
from ._keeping import Keeping
from ._names import Names
from ._received import Batch, DroppedCount, dropped_in, from_export_request
from ._rows import Rows
from ._scored import from_scored_run
from ._shadows import ShadowBoard
from ._sqlite import File, UnavailableFileError
from ._texts import without_texts
from .reader import Reader

__all__ = [
    "Store",
    "StoreFullError",
    "StoreOptions",
    "StoreRefusedError",
    "StoreState",
    "StoreStats",
]

_log = logging.getLogger("ragmeter")

MIB = 1024 * 1024
DAY_S = 86_400.0
TRIED_AGAIN_S = 2.0
"""Seconds after a write that failed in which nothing more is taken."""


class StoreFullError(RagmeterError):
    """The store cannot take it now: it or the disk is full, or the database away; nothing was kept of it."""


class StoreRefusedError(RagmeterError):
    """The store will never accept this data: a value does not fit the database. Nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Where requests are kept, and how many."""

    path: Path | None = None
    """The file; None: a private one that is gone when the store is closed."""
    url: str | None = field(default=None, repr=False)
    """``postgresql://user:password@host/database`` instead of a file; several servers may share it."""
    folder: Path | None = None
    """Where labels and what is usual are kept, with a database elsewhere."""
    keep_s: float = 7 * DAY_S
    """Seconds for which a request is kept."""
    keep_by_service: Mapping[str, float] = field(default_factory=dict)
    """Seconds for those of services, by name, for which it is another time."""
    max_bytes: int = 1_000_000_000
    """Bytes that it may take up; the oldest requests make room."""
    or_private: bool = False
    """Whether a private file is used where that one cannot be, and a line in the log says so."""
    texts: bool = True
    """Whether questions, answers, chunks and explanations are stored where they come."""

    @property
    def beside(self) -> Path | None:
        """The folder of files that belong to the store; None: there is none that stays."""
        return self.folder if self.path is None else self.path.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The contents of the store, and what it failed to store."""

    requests: int = 0
    """Requests."""
    bytes: int = 0
    """Bytes that are in use; of a database that is a server's an estimate."""
    deleted: int = 0
    """Requests that made room, since it was opened."""
    refused: int = 0
    """Writes that found no room, since it was opened."""
    writable: bool = True
    """Whether the last write succeeded."""
    other: Mapping[str, int] = field(default_factory=dict)
    """How often a name was one too many, since it was opened: ``workflow``, ``score``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """How the store is, as far as that is known without asking the database."""

    kind: str
    """``file`` or ``postgresql``; not where it is, which is private."""
    writable: bool
    """Whether the last write succeeded."""
    why: str | None
    """What was in the way of the last write, or of the last upkeep; None: nothing."""
    refused: int
    """Writes that found no room, or no database, since it was opened."""
    deleted: int
    """Requests that made room, since it was opened."""
    other: Mapping[str, int]
    """As `StoreStats.other`."""


class _Piece(NamedTuple):
    """What one caller wants written."""

    telling: Batch
    dropped: Sequence[DroppedCount] = ()


class Store(UnbufferedExporter):
    """Keeps scored requests. Thread-safe; one process writes to a file, any number to a database on a server.

    It is an exporter, too: what a meter scores is kept with its texts, unless the options say otherwise.

    Args:
        options: Where, and how much.
        clock: Seconds since the epoch.

    Raises:
        ConfigurationError: The file or the database cannot be used, or another process uses the file.
    """

    def __init__(
        self, options: StoreOptions | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.options = options or StoreOptions()
        keeps = (self.options.keep_s, *self.options.keep_by_service.values())
        if min(keeps) <= 0 or self.options.max_bytes < MIB:
            raise ConfigurationError(
                "a store keeps requests for some time, and in a megabyte at least: give it more"
            )
        self._clock = clock
        self._shadows = ShadowBoard()
        self._commits: GroupCommit[_Piece, None] = GroupCommit(
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
            self._home,
            self.options.keep_s,
            self.options.max_bytes,
            self.options.keep_by_service,
        )

    @property
    def beside(self) -> Path | None:
        """The folder of files that belong to the store; None: there is none that stays."""
        return None if self._home.is_private else self.options.beside

    @property
    def shown(self) -> str:
        """Where requests are kept, without any secret."""
        return self._home.shown

    def take(self, request: ExportRequest, received: ExportedRecords | None = None) -> int:
        """Store what ragmeter in other processes sends in an export request, before this returns.

        Args:
            request: It.
            received: What `received_in` finds in it, where that is known.

        Returns:
            How many pieces of requests were in it.

        Raises:
            StoreFullError: It was not kept.
            StoreRefusedError: Nor will it be.
        """
        telling = from_export_request(
            request, received_in(request) if received is None else received
        )
        if telling.requests or telling.retrieved:
            self._write(telling)
        return len(telling.requests) + len(telling.retrieved)

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Keep what meters elsewhere say they dropped and how other retrievers do; raises as `take`."""
        self._shadows.take(request)
        dropped = tuple(dropped_in(request))
        if dropped:
            self._write(Batch(), dropped)

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Keep what this process scored.

        Raises:
            TryLaterError: It was not kept: no sender has it any more, so it waits until it is.
            StoreRefusedError: A run that never will be; a `RunsLostError`, where others were kept.
        """
        try:
            if batch:
                self._write(_join_batches(map(from_scored_run, batch)))
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
        """Return a reader, which sees what is committed, until the store is closed."""
        return Reader(self._home, self._clock, texts=self.options.texts, shadows=self._shadows)

    def claims(self) -> StoredClaims:
        """Return what decides which server on this store notifies of a change; raises as `take`."""
        return StoredClaims(self._small_change, self._clock)

    def decide_gap(self, gap: str, state: str) -> None:
        """Keep what was decided of a knowledge gap; raises as `take`, and ValueError: there is none such."""
        with self._small_change() as database:
            decide_gap(database, gap, state, int(self._clock() * 1000))

    def maintain(self) -> bool:
        """Sum up hours that are over, and make room; called now and then, on a thread that may wait.

        Returns:
            Whether there is more to do at once.
        """
        try:
            with self._home.turn() as mine:
                if not mine:
                    self._why["upkeep"] = None
                    return False
                # Adding up takes its time, and no request should wait for that.
                summed = self._keeping.sum_hour(self._clock())
                with self._writing:
                    tried = not self._closed and not self._writable
                    more = not self._closed and self._keeping.step(
                        self._clock(), summed, tries=tried
                    )
                    if tried:
                        self._why["write"] = None
        except self._home.errors as error:
            self._why["upkeep"] = self._home.why(error)
            _log.warning("store: upkeep failed (%s); tried again", loggable(error))
            return False
        self._why["upkeep"] = None
        return more

    def stats(self) -> StoreStats:
        """Return what it holds."""
        with self._writing:
            if self._closed:
                return StoreStats(writable=False)
            with self._home.moment() as database:
                (requests,) = database.execute("SELECT count(*) FROM request").fetchone()
                size = self._home.size(database)
            return StoreStats(
                requests=requests,
                bytes=size,
                deleted=self._keeping.deleted,
                refused=self._refused,
                writable=self._writable,
                other=dict(self._names.refused),
            )

    def state(self) -> StoreState:
        """Return its state; reads nothing, so it answers at once even where the database hangs."""
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
        """What was in the way of the last write, until one succeeds; None: nothing."""
        why = self._why["write"]
        return None if why is None else f"the store cannot be written to: {why}"

    def why_not(self) -> str | None:
        """Return why nothing can be written just now; None: it can, or it is time to try again."""
        if self._writable or time.monotonic() - self._failed_at >= TRIED_AGAIN_S:
            return None
        return self.trouble

    def close(self) -> None:
        """Let go of file or database. A private file is deleted."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._home.close()

    @contextmanager
    def _small_change(self) -> Iterator[Database]:
        """Write a small change in its own transaction."""
        with self._writing:
            if self._closed:
                raise StoreFullError("the store is closed")
            try:
                with self._home.transaction() as database:
                    yield database
            except self._home.errors as error:
                raise StoreFullError(
                    f"the store does not take it: {self._home.why(error)}"
                ) from error

    @property
    def _writable(self) -> bool:
        return self._why["write"] is None

    def _open(self) -> Home:
        options = self.options
        if options.url is not None:
            if options.folder is not None:
                with suppress(OSError):  # who writes there says so
                    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _on_server(options.url)
        try:
            return File(options.path, options.max_bytes)
        except UnavailableFileError:
            raise  # in a private one all that is acknowledged meanwhile would go with this process
        except ConfigurationError as error:
            if not options.or_private or options.path is None:
                raise
            _log.warning("%s; requests are kept until this server ends", error)
            return File(None, options.max_bytes)

    def _write(self, telling: Batch, dropped: Sequence[DroppedCount] = ()) -> None:
        if not self.options.texts:
            telling = without_texts(telling)
        self._commits.put(_Piece(telling, dropped))

    def _commit(self, pieces: Sequence[_Piece]) -> Sequence[None]:
        kept = False
        try:
            if self._closed:
                raise StoreFullError("the store is closed")
            with self._home.transaction():
                self._rows.put(
                    _join_batches(piece.telling for piece in pieces), int(self._clock() * 1000)
                )
                self._rows.count_dropped([each for piece in pieces for each in piece.dropped])
                self._rows.finish()
            kept = True
            self._why["write"] = None
        except self._home.errors as error:
            if isinstance(error, self._home.refusals) and len(pieces) == 1:  # else: which of them?
                raise StoreRefusedError(
                    f"the store does not take it: {self._home.why(error)}"
                ) from error
            why = self._why["write"] = self._home.why(error)
            self._failed_at = time.monotonic()
            raise StoreFullError(f"the store does not take it: {why}") from error
        finally:
            if not kept:
                self._refused += len(pieces)
                self._names.forget()
                self._rows.forget()
        return [None] * len(pieces)


def _join_batches(batches: Iterable[Batch]) -> Batch:
    every = list(batches)
    return Batch(
        tuple(part for one in every for part in one.requests),
        tuple(found for one in every for found in one.retrieved),
    )


def _on_server(url: str) -> Home:
    try:
        from ._postgresql import Server  # noqa: PLC0415 -- an extra, and a second to import
    except ImportError as error:
        raise ConfigurationError(
            f"a store on PostgreSQL needs its packages: {install_command('postgresql')}"
        ) from error
    return Server(url)
