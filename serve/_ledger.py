"""`Ledger`: determines when an entry of the spool is finished and can be deleted.

An entry is finished when every trace in it was read, all resulting scores were sent, and it was forwarded, if
that is configured. Entries are settled every few seconds, all at once: the thread that assembles traces
reports which of them no longer wait (`Ledger.look`), then the meter is flushed, up to the endpoint's answer,
and then the spool is updated. If some traces of an entry still wait, the spool records its finished ones, so
that they are not scored again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragmeter.adapters.opentelemetry.otlp import Signal

from ._limits import SETTLE_S
from ._spool import FORWARDED

_FLUSH_S = 120.0
"""Timeout of one flush in seconds, after which it is repeated."""


class Keeper(Protocol):
    """Storage of entries that also records which of them are processed."""

    def settle(self, done: Iterable[int] = (), parts: Mapping[int, Iterable[str]] | None = None) -> bool:
        """Delete entries, and record finished parts of others; return whether that succeeded."""
        ...


@dataclass(slots=True)
class _Open:
    """An unfinished entry."""

    signal: Signal
    arrived: float
    awaited: set[str]
    read: set[str] = field(default_factory=set)
    forwarded: bool = False
    noted: set[str] = field(default_factory=set)
    """The parts recorded as finished in the spool."""

    @property
    def is_done(self) -> bool:
        return not self.awaited and self.forwarded

    @property
    def parts(self) -> set[str]:
        return self.read | ({FORWARDED} if self.forwarded else set())


class Ledger:
    """Tracks the unfinished entries of a spool or a topic. Thread-safe. To be started and ended.

    Args:
        keeper: The storage of the entries.
        flush: Sends the scores of all traces read so far, within a number of seconds; returns whether all
            were sent.
        forwards: Whether requests of a signal are forwarded.
        logs_wait_s: Most seconds by which a log record may arrive before its span.
        interval_s: Seconds between two settlements.
        clock: Seconds on the clock of the `TraceAssembler`.
    """

    def __init__(
        self,
        keeper: Keeper,
        flush: Callable[[float], bool],
        *,
        forwards: Callable[[Signal], bool] = lambda _: False,
        logs_wait_s: float = 30.0,
        interval_s: float = SETTLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeper = keeper
        self._flush = flush
        self._forwards = forwards
        self._logs_wait_s = logs_wait_s
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[int, _Open] = {}
        self._changed = False
        self._due = threading.Event()
        self._looked = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ragmeter-spool", daemon=True)

    def start(self) -> None:
        """Begin to settle every few seconds."""
        self._thread.start()

    def note_entry(
        self, position: int, signal: Signal, traces: Iterable[str], *, settled: Iterable[str] = ()
    ) -> None:
        """Add an entry, after its spans were passed to the assembler.

        Args:
            position: Its position.
            signal: Its signal.
            traces: The ids of the traces in it.
            settled: Its parts that were finished before, according to the spool.
        """
        known = set(settled)
        if not self._forwards(signal):
            known.add(FORWARDED)
        entry = _Open(
            signal,
            self._clock(),
            awaited=set(traces) - known,
            read=known - {FORWARDED},
            forwarded=FORWARDED in known,
            noted=known,
        )
        with self._lock:
            self._open[position] = entry
            self._changed = True

    def note_forwarded(self, positions: Sequence[int]) -> None:
        """Record entries that were forwarded, or refused for good."""
        with self._lock:
            for position in positions:
                entry = self._open.get(position)
                if entry is not None:
                    entry.forwarded = True
            self._changed = True

    def look(self, waiting: Callable[[], Mapping[str, float]], *, last: bool = False) -> None:
        """Record which traces no longer wait to be read, if that is due.

        To be called by the thread that reads traces, between two of them.

        Args:
            waiting: Returns the traces that are not read yet, each with the arrival time of its first unread
                part.
            last: Whether this is the last call, which ignores whether it is due.
        """
        if not last and not self._due.is_set():
            return
        with self._lock:
            open_traces = waiting()
            for entry in self._open.values():
                if entry.awaited:
                    # The span of a log record may arrive later.
                    since = entry.arrived + (self._logs_wait_s if entry.signal == "logs" else 0.0)
                    read = {
                        trace
                        for trace in entry.awaited
                        if trace not in open_traces or open_traces[trace] > since
                    }
                    if read:
                        entry.awaited -= read
                        entry.read |= read
                        self._changed = True
        self._due.clear()
        self._looked.set()

    def look_soon(self, timeout_s: float) -> bool:
        """Make the thread that reads traces call `look`, and wait for that; return whether it did."""
        self._looked.clear()
        self._due.set()
        return self._looked.wait(timeout_s)

    def forget(self, positions: Iterable[int]) -> set[str]:
        """Drop entries that another server owns now; return the traces for which no other entry waits."""
        with self._lock:
            gone = [self._open.pop(position, None) for position in positions]
            waiting = {trace for entry in self._open.values() for trace in entry.awaited}
        return {trace for entry in gone if entry for trace in entry.awaited} - waiting

    def forget_open(self) -> set[str]:
        """Drop the entries with a waiting trace; return these traces."""
        with self._lock:
            positions = [key for key, entry in self._open.items() if entry.awaited]
        return self.forget(positions)

    def settle(self, timeout_s: float = _FLUSH_S) -> bool:
        """Flush, and record the finished entries in the spool; return whether that succeeded."""
        with self._lock:
            if not self._changed:
                return True
            self._changed = False
            done = [position for position, entry in self._open.items() if entry.is_done]
            noted = {
                position: fresh
                for position, entry in self._open.items()
                if not entry.is_done and (fresh := entry.parts - entry.noted)
            }
        settled = bool(self._flush(timeout_s)) and self._keeper.settle(done, noted)
        with self._lock:
            if not settled:
                self._changed = True
                return False
            for position in done:
                self._open.pop(position, None)
            for position, parts in noted.items():
                entry = self._open.get(position)
                if entry is not None:  # else another settlement was faster
                    entry.noted |= parts
        return True

    def end(self, timeout_s: float) -> None:
        """Stop the regular settlements, and wait for one in progress, for `timeout_s` seconds at most."""
        self._ending.set()
        self._looked.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._ending.wait(self._interval_s):
            self._looked.clear()
            self._due.set()
            self._looked.wait()
            if not self._ending.is_set():
                self.settle()
