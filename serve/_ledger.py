"""`Ledger`: says when an entry of the spool is done, and reads what is not when the server starts again.

An entry is done when every trace in it was read and everything that was made of them has left, and when it
was passed on, where that is wanted.  That is settled every few seconds, all at once: the thread that puts
traces together says which of them it does not wait for any more (`Ledger.look`), then the meter is flushed,
down to the endpoint's answer, and then the spool is updated.  Of an entry that also holds traces that are still
waited for, the spool remembers those that are done, so that no half of one is scored again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ragmeter.adapters.opentelemetry.otlp import Signal

from ._spool import FORWARDED

INTERVAL_S = 5.0
"""Seconds between two settlements. What was scored after the last one is scored again after a kill."""
_FLUSH_S = 120.0
"""Seconds that one flush may take; longer, it is begun again."""


class Keeper(Protocol):
    """Storage of entries that also records which of them are processed."""

    def settle(
        self, done: Iterable[int] = (), parts: Mapping[int, Iterable[str]] | None = None
    ) -> bool:
        """Forget entries, and note which parts of others are done; return whether that is noted."""
        ...


@dataclass(slots=True)
class _Open:
    """An entry that is not done."""

    signal: Signal
    arrived: float
    awaited: set[str]
    read: set[str] = field(default_factory=set)
    forwarded: bool = False
    noted: set[str] = field(default_factory=set)
    """The parts that the spool knows to be done."""

    @property
    def is_done(self) -> bool:
        return not self.awaited and self.forwarded

    @property
    def parts(self) -> set[str]:
        return self.read | ({FORWARDED} if self.forwarded else set())


class _Settlement(NamedTuple):
    done: Sequence[int]
    parts: Mapping[int, set[str]]


class Ledger:
    """Keeps the entries of a spool, or of a topic, that are not done. Thread-safe. To be started and ended.

    Args:
        keeper: Where they lie.
        flush: Sends everything that the traces read so far have led to, within so many seconds; returns
            whether all of it has left.
        forwards: Whether requests of a signal are passed on.
        logs_wait_s: A log record may come so long before its span.
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
        interval_s: float = INTERVAL_S,
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
        self,
        position: int,
        signal: Signal,
        traces: Iterable[str],
        *,
        settled: Iterable[str] = (),
    ) -> None:
        """Note an entry, after its spans were handed to the assembler.

        Args:
            position: Its position.
            signal: What it holds.
            traces: The traces that it holds something of.
            settled: The parts of it that were done before, by the spool's word.
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
        """Note that entries were passed on, or refused for good."""
        with self._lock:
            for position in positions:
                entry = self._open.get(position)
                if entry is not None:
                    entry.forwarded = True
            self._changed = True

    def look(self, waiting: Callable[[], Mapping[str, float]], *, last: bool = False) -> None:
        """Note what is not waited for any more, if it is time for that.

        To be called by the thread that reads traces, between two of them.

        Args:
            waiting: Returns the traces that are not read yet, and when the first came of what is not.
            last: There will be no other chance.
        """
        if not last and not self._due.is_set():
            return
        with self._lock:
            open_traces = waiting()
            for entry in self._open.values():
                if entry.awaited:
                    # A log record belongs to a span that may be still to come.
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
        """Have the thread that reads traces look, and wait for that; return whether it did."""
        self._looked.clear()
        self._due.set()
        return self._looked.wait(timeout_s)

    def forget(self, positions: Iterable[int]) -> set[str]:
        """Forget entries that another server owns now; return the traces that only they wait for."""
        with self._lock:
            gone = [self._open.pop(position, None) for position in positions]
            waiting = {trace for entry in self._open.values() for trace in entry.awaited}
        return {trace for entry in gone if entry for trace in entry.awaited} - waiting

    def forget_open(self) -> set[str]:
        """Forget the entries with a trace that is still waited for; return these traces."""
        with self._lock:
            positions = [key for key, entry in self._open.items() if entry.awaited]
        return self.forget(positions)

    def settle(self, timeout_s: float = _FLUSH_S) -> bool:
        """Flush, and note in the spool what is done; return whether that worked.

        Args:
            timeout_s: Seconds that the flush may take.
        """
        with self._lock:
            if not self._changed:
                return True
            self._changed = False
            settlement = self._settlement()
        done = bool(self._flush(timeout_s)) and self._keeper.settle(*settlement)
        with self._lock:
            if not done:
                self._changed = True
                return False
            for position in settlement.done:
                self._open.pop(position, None)
            for position, parts in settlement.parts.items():
                entry = self._open.get(position)
                if entry is not None:  # else another settlement overtook this one
                    entry.noted |= parts
        return True

    def end(self, timeout_s: float) -> None:
        """Settle no more by itself, and wait for a settlement that is under way for so long at most."""
        self._ending.set()
        self._looked.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _settlement(self) -> _Settlement:
        done = [position for position, entry in self._open.items() if entry.is_done]
        parts = {
            position: entry.parts - entry.noted
            for position, entry in self._open.items()
            if not entry.is_done and entry.parts - entry.noted
        }
        return _Settlement(done, parts)

    def _work(self) -> None:
        while not self._ending.wait(self._interval_s):
            self._looked.clear()
            self._due.set()
            self._looked.wait()
            if not self._ending.is_set():
                self.settle()
