"""The one door for everything that is received, whatever protocol brought it.

A receiver parses a body and calls `Intake.take`; its answer says what the sender gets.  What is
taken is counted; what there is no room for is refused before anything is kept: the sender still has it.
"""

from __future__ import annotations

import threading

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmeter.adapters.opentelemetry.otlp import (
    ExportedRecords,
    ExportRequest,
    MalformedError,
    Signal,
    received_in,
)
from ragmeter.metrics import RagmeterError

from ._bodies import TooLargeError
from ._counts import Counts
from ._journal import Journal, JournalEntry
from ._limits import Limits
from ._scoring import Scoring
from ._spool import SpoolFullError
from .store import Store, StoreFullError, StoreRefusedError

RETRY_AFTER_S = 2
"""Seconds after which a sender that was refused for want of room may try again."""


class BusyError(RagmeterError):
    """There is no room just now; the same request may be sent again."""


class Acceptance:
    """What became of an export request that was accepted.

    Attributes:
        rejected: How many of its spans, records or points were not.
        message: Why, for the sender's developers; "" if all were.
    """

    __slots__ = ("message", "rejected")

    def __init__(self, rejected: int = 0, message: str = "") -> None:
        self.rejected = rejected
        self.message = message


class Intake:
    """Takes parsed export requests in, or says why not. Thread-safe.

    Args:
        scoring: Where spans go.
        limits: How much is held.
        counts: Where it is counted.
        journal: Keeps it, and passes it on.
        store: Keeps what ragmeter elsewhere reports of its own requests; None: there is none.
    """

    def __init__(
        self,
        scoring: Scoring,
        limits: Limits,
        counts: Counts,
        journal: Journal,
        store: Store | None = None,
    ) -> None:
        self._scoring = scoring
        self._limits = limits
        self._counts = counts
        self._journal = journal
        self._store = store
        self._lock = threading.Lock()
        self._entering = 0
        self._closed = False

    def close(self) -> None:
        """Refuse everything from now on: the server ends."""
        self._closed = True

    def busy(self, spans: int = 0) -> str | None:
        """Return why so many spans more cannot come in; None: they can."""
        return "shutting down" if self._closed else self.full(spans)

    @property
    def trouble(self) -> str | None:
        """What was in the way of the last write to spool or store, until one succeeds; None: nothing."""
        return self._journal.trouble or (None if self._store is None else self._store.trouble)

    def full(self, spans: int = 0) -> str | None:
        """Return why there is no room for so many spans more; None: there is."""
        why = self._journal.busy()
        if why is None and self._store is not None:
            why = self._store.why_not()
        if why is not None:
            return why
        held = self._scoring.held()
        if held.spans + self._entering == 0:
            return None  # what is more than there is room for at all is taken when nothing else is there
        if max(held.spans, held.traces) + self._entering + spans > self._limits.held_spans:
            return "too many spans wait to be scored"
        if held.bytes > self._limits.held_bytes:
            return "too much waits to be scored"
        return None

    def take(
        self,
        signal: Signal,
        request: ExportRequest,
        body: bytes | None = None,
        *,
        kept: JournalEntry | None = None,
    ) -> Acceptance:
        """Take an export request in.

        Args:
            signal: What it holds.
            request: The request.
            body: The bytes that it was parsed from, if they are protobuf.
            kept: It is kept elsewhere already, and this says where; None: it is to be.

        Raises:
            BusyError: There is no room; nothing was kept.
            TooLargeError: It holds more than one request may.
            MalformedError: The store has no place for a value in it.
        """
        count = items_in(request)
        if count > self._limits.body_spans:
            raise TooLargeError(
                f"{count} items, more than {self._limits.body_spans}; send smaller batches"
            )
        with self._lock:
            why = self.busy(count)
            if why is not None:
                raise BusyError(why)
            self._entering += count
        try:
            received = received_in(request)
            if self._store is not None:
                # First: where the other then has no room the sender comes again, and it is the same request.
                self._store.take(request, received)
            if kept is None:
                plain = request.SerializeToString() if body is None else body
                kept = self._journal.keep(signal, plain)
            return self._admit(kept, received)
        except (SpoolFullError, StoreFullError) as error:
            raise BusyError(str(error)) from error
        except StoreRefusedError as error:
            raise MalformedError(str(error)) from error
        finally:
            with self._lock:
                self._entering -= count

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Take what meters elsewhere say they dropped and how other retrievers do; other metrics are ignored.

        Raises:
            BusyError: It could not be kept.
        """
        if self._store is not None and not self._closed:
            try:
                self._store.take_metrics(request)
            except StoreFullError as error:
                raise BusyError(str(error)) from error

    def admit(self, kept: JournalEntry, request: ExportRequest) -> Acceptance:
        """Take an export request in for which there is room, and which is kept.

        Raises:
            StoreFullError: Of what a power cut may have taken from the store nothing could be put back.
        """
        received = received_in(request)
        if self._store is not None:
            self._store.take(request, received)
        return self._admit(kept, received)

    def _admit(self, kept: JournalEntry, found: ExportedRecords) -> Acceptance:
        received = kept.left_of(found)
        self._counts.spans("invalid", received.invalid)
        self._scoring.assembler.add(received.spans, received.logs)
        self._journal.admitted(kept, received)
        if received.invalid:
            noun = "spans" if kept.signal == "traces" else "records"
            return Acceptance(received.invalid, f"{received.invalid} {noun} without a usable id")
        return Acceptance()


def items_in(request: ExportRequest) -> int:
    """Return how many spans or log records a request holds."""
    if isinstance(request, ExportTraceServiceRequest):
        return sum(len(one.spans) for group in request.resource_spans for one in group.scope_spans)
    return sum(len(one.log_records) for group in request.resource_logs for one in group.scope_logs)
