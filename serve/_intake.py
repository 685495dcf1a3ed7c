"""The single entry for all received requests, whichever protocol brought them.

A receiver parses a body and calls `Intake.take`, whose result determines the sender's answer. Accepted
requests are counted; a request without room is refused before any of it is stored, so the sender still has
it.
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
from ._journal import Journal
from ._ledger import Ledger
from ._limits import Limits
from ._scoring import Scoring
from ._spool import Entry, SpoolFullError
from .store import Store, StoreFullError, StoreRefusedError


class BusyError(RagmeterError):
    """There is no room at the moment; the same request may be sent again."""


class Intake:
    """Accepts parsed export requests, or refuses them with a reason. Thread-safe."""

    def __init__(
        self, scoring: Scoring, limits: Limits, counts: Counts, journal: Journal, store: Store | None = None
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
        """Refuse everything from now on, as the server ends."""
        self._closed = True

    def busy(self, spans: int = 0) -> str | None:
        """Return why a number of further spans cannot be accepted, or None."""
        return "shutting down" if self._closed else self.full(spans)

    @property
    def trouble(self) -> str | None:
        """Error of the last write to spool or store, until one succeeds; None: no error."""
        return self._journal.trouble or (None if self._store is None else self._store.trouble)

    def full(self, spans: int = 0) -> str | None:
        """Return why there is no room for a number of further spans, or None."""
        why = self._journal.busy()
        if why is None and self._store is not None:
            why = self._store.why_not()
        if why is not None:
            return why
        held = self._scoring.held()
        if held.spans + self._entering == 0:
            return None  # a request beyond all limits is accepted if nothing else is waiting
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
        kept: Entry | None = None,
        ledger: Ledger | None = None,
    ) -> int:
        """Accept an export request; return the number of its spans or records that have no usable id.

        Args:
            signal: Its signal.
            request: The request.
            body: The bytes that it was parsed from, if they are protobuf.
            kept: The entry of a request that is already stored elsewhere; None: store it.
            ledger: The ledger of such a request; None: the journal's.

        Raises:
            BusyError: There is no room; nothing was stored.
            TooLargeError: It has more spans than one request may.
            MalformedError: The store cannot store a value in it.
        """
        count = items_in(request)
        if count > self._limits.body_spans:
            raise TooLargeError(f"{count} items, more than {self._limits.body_spans}; send smaller batches")
        with self._lock:
            why = self.busy(count)
            if why is not None:
                raise BusyError(why)
            self._entering += count
        try:
            received = received_in(request)
            if self._store is not None:
                # First: if the journal then has no room, the sender repeats the request, and storing it again
                # has no effect.
                self._store.take(request, received)
            if kept is None:
                plain = request.SerializeToString() if body is None else body
                kept = self._journal.keep(signal, plain)
            return self._admit(kept, received, ledger)
        except (SpoolFullError, StoreFullError) as error:
            raise BusyError(str(error)) from error
        except StoreRefusedError as error:
            raise MalformedError(str(error)) from error
        finally:
            with self._lock:
                self._entering -= count

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Store meters' counts of dropped requests and comparisons of retrievers; ignore other metrics.

        Raises:
            BusyError: They could not be stored.
        """
        if self._store is not None and not self._closed:
            try:
                self._store.take_metrics(request)
            except StoreFullError as error:
                raise BusyError(str(error)) from error

    def admit(self, kept: Entry, request: ExportRequest) -> None:
        """Accept an export request from the spool, after a check that there is room.

        Raises:
            StoreFullError: The store could not restore what a power cut may have taken from it.
        """
        received = received_in(request)
        if self._store is not None:
            self._store.take(request, received)
        self._admit(kept, received)

    def _admit(self, kept: Entry, found: ExportedRecords, ledger: Ledger | None = None) -> int:
        received = _left_of(kept, found)
        self._counts.spans("invalid", received.invalid)
        self._scoring.assembler.add(received.spans, received.logs)
        self._journal.admitted(kept, received, ledger)
        return received.invalid


def _left_of(kept: Entry, found: ExportedRecords) -> ExportedRecords:
    """Return the part of a request's records that is not yet processed."""
    if not kept.settled:
        return found
    return ExportedRecords(
        tuple(span for span in found.spans if span.trace_id not in kept.settled),
        tuple(note for note in found.logs if note.trace_id not in kept.settled),
        found.invalid,
    )


def items_in(request: ExportRequest) -> int:
    """Return the number of spans or log records of a request."""
    if isinstance(request, ExportTraceServiceRequest):
        return sum(len(one.spans) for group in request.resource_spans for one in group.scope_spans)
    return sum(len(one.log_records) for group in request.resource_logs for one in group.scope_logs)
