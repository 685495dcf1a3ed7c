"""`Journal`: storing and forwarding of export requests beside scoring, where configured.

The intake asks it whether there is room, has it store a request before anything else happens to it, and
reports when the request's spans are with the assembler. When the server starts, stored and unfinished
requests pass through the same intake, as there is room for them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from ragmeter.adapters.opentelemetry.otlp import (
    ExportedRecords,
    ExportRequest,
    MalformedError,
    Signal,
    parse_protobuf,
)

from ._forward import Forwarder
from ._ledger import Ledger
from ._spool import FORWARDED, Entry, Spool, SpoolStats
from .store import StoreFullError
from .store.store import TRIED_AGAIN_S

_PACE_S = 0.05
"""Seconds between two checks for room."""

_log = logging.getLogger("ragmeter")


class Journal:
    """Stores requests in a spool, and forwards them. Thread-safe. To be started and ended.

    Args:
        spool: The spool; None: requests are not stored.
        ledger: Determines when a stored request is finished; present with a spool.
        forwarder: Forwards requests; None: they are not forwarded.
        guard: Contains the server's own errors; affected requests stay stored.
    """

    def __init__(
        self,
        spool: Spool | None,
        ledger: Ledger | None,
        forwarder: Forwarder | None,
        guard: AbstractContextManager[object],
    ) -> None:
        self._guard = guard
        self._spool = spool
        self._ledger = ledger
        self._ledgers = [] if ledger is None else [ledger]
        self._forwarder = forwarder
        self._ending = threading.Event()
        self._replayed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, full: Callable[[], str | None], admit: Callable[[Entry, ExportRequest], object]) -> None:
        """Start with the stored entries that are not yet processed.

        Args:
            full: Returns why there is no room at the moment, or None.
            admit: Accepts a request, as if it had just arrived.
        """
        if self._forwarder is not None:
            self._forwarder.start()
        if self._ledger is not None:
            self._ledger.start()
        if self._spool is None or not self._spool.stats().entries:
            self._replayed.set()
            return
        self._thread = threading.Thread(
            target=self._replay, args=(self._spool, full, admit), name="ragmeter-replay", daemon=True
        )
        self._thread.start()

    def catch_up(self, deadline: float) -> bool:
        """Wait until the stored requests are accepted again, but no longer than `deadline` (monotonic).

        Returns:
            Whether all were; the rest stays in the spool.
        """
        if self._thread is None:
            return True
        if not self._replayed.wait(max(0.0, deadline - time.monotonic())):
            self._ending.set()
            self._thread.join(5.0)
        return self._replayed.is_set()

    def busy(self) -> str | None:
        """Return why it can accept nothing more at the moment, or None."""
        if self._forwarder is not None and not self._forwarder.has_room():
            return "too much waits to be passed on"
        return None

    @property
    def folder(self) -> Path | None:
        """The folder in which acknowledged requests survive the process, or None."""
        return None if self._spool is None else self._spool.folder

    @property
    def trouble(self) -> str | None:
        """Error of the spool's last write, or None."""
        return None if self._spool is None else self._spool.trouble

    def try_again(self) -> bool:
        """Test whether a failed spool can be written to again; return False: there is no more to do."""
        if self._spool is not None:
            self._spool.try_again()
        return False

    def keep(self, signal: Signal, body: bytes) -> Entry:
        """Store a request; when this returns, it is on the disk if there is a spool.

        Raises:
            SpoolFullError: There is no room for the request.
        """
        position = 0 if self._spool is None else self._spool.append(signal, body)
        return Entry(position, signal, body)

    def admitted(self, kept: Entry, received: ExportedRecords, ledger: Ledger | None = None) -> None:
        """Track and forward a request whose spans are with the assembler.

        Args:
            kept: The request.
            received: Its records that the assembler got.
            ledger: The ledger of a request that is stored elsewhere; None: the journal's.
        """
        ledger = ledger or self._ledger
        if ledger is not None:
            traces = {span.trace_id for span in received.spans}
            traces.update(note.trace_id for note in received.logs)
            ledger.note_entry(kept.position, kept.signal, traces, settled=kept.settled)
        if self._forwarder is not None and FORWARDED not in kept.settled:
            self._forwarder.put(kept.signal, kept.body, kept.position)

    def look(self, waiting: Callable[[], Mapping[str, float]], *, last: bool = False) -> None:
        """Record which traces no longer wait to be read; see `Ledger.look`."""
        for ledger in self._ledgers:
            ledger.look(waiting, last=last)

    def watch(self, ledger: Ledger) -> None:
        """Add a ledger of requests stored elsewhere, which `look` updates, too."""
        self._ledgers.append(ledger)

    def kept(self) -> SpoolStats | None:
        """Return number and age of the stored requests, or None without a spool."""
        return None if self._spool is None else self._spool.stats()

    def fill(self) -> float:
        """Return the used share of the spool, 0 to 1; 0 without a spool."""
        return 0.0 if self._spool is None else self._spool.fill()

    def finish(self, deadline: float, *, flushed: bool) -> bool:
        """Forward as much as possible until `deadline` (monotonic), and settle a last time.

        Args:
            deadline: The end of the time for it.
            flushed: Whether all scores of the read traces were sent; otherwise nothing is settled.

        Returns:
            Whether everything was forwarded.
        """
        self._ending.set()
        if self._forwarder is not None:
            self._forwarder.close(max(0.0, (deadline - time.monotonic()) / 2))
        if self._ledger is not None:
            self._ledger.end(0.5)
            if flushed:
                self._ledger.settle(max(0.5, (deadline - time.monotonic()) / 2))
        return self._forwarder is None or not self._forwarder.stats()["shutdown"]

    def close(self) -> None:
        """Close the spool. Unfinished entries stay in it."""
        if self._thread is not None:
            self._thread.join(5.0)
        if self._spool is not None:
            self._spool.close()

    def stats(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counts of stored requests, ``spool``, and of ``forwarded`` ones, as far as configured."""
        stats: dict[str, Mapping[str, int]] = {}
        if self._spool is not None:
            kept = self._spool.stats()
            counts = {"kept": kept.entries, "found": kept.found, "finished": kept.finished}
            counts["damaged"] = kept.damaged
            counts.update({f"refused_{why}": count for why, count in kept.refused.items()})
            stats["spool"] = {name: count for name, count in counts.items() if count}
        if self._forwarder is not None:
            counts = self._forwarder.stats()
            stats["forwarded"] = {name: count for name, count in counts.items() if count}
        return stats

    def _replay(
        self, spool: Spool, full: Callable[[], str | None], admit: Callable[[Entry, ExportRequest], object]
    ) -> None:
        _log.warning(
            "spool: %d export requests were acknowledged and not done when the server before ended; they are "
            "scored now",
            spool.stats().found,
        )
        with self._guard:
            for entry in spool.replay():
                while full() is not None and not self._ending.is_set():
                    self._ending.wait(_PACE_S)
                if self._ending.is_set():
                    return
                with self._guard:  # a request that fails must not block the others
                    self._admit_again(spool, entry, admit)
            self._replayed.set()

    def _admit_again(self, spool: Spool, entry: Entry, admit: Callable[[Entry, ExportRequest], object]) -> None:
        try:
            request = parse_protobuf(entry.signal, entry.body)
        except MalformedError:
            spool.give_up(entry.position)
            return
        while True:
            try:
                admit(entry, request)
            except StoreFullError:  # noqa: PERF203 -- once in a long while
                if self._ending.wait(TRIED_AGAIN_S):
                    return
            else:
                return
