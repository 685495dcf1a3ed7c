"""The requests of the last minutes, so that late truth finds them.

A reference or a user's feedback often comes after the answer.  The pipeline
remembers what it exported within a bounded window (number, bytes, age) by run id and by trace
id; `RagMeter.attach_reference` and `RagMeter.feedback` look it up here.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ragmeter.exporters.run import RagRun
from ragmeter.metrics import Reference, Score

__all__ = ["Amendment", "RecentRuns", "request_key"]


@dataclass(frozen=True, slots=True)
class Amendment:
    """Something learned about a request after it was exported."""

    key: str
    """Run id, or trace id as 32 hexadecimal digits."""
    reference: Reference | None = None
    """What should have been said and found."""
    score: Score | None = None
    """What somebody thought of it."""


def request_key(run_or_trace_id: str | int) -> str:
    """Return the key of a request: run ids as they are, trace ids as 32 hexadecimal digits."""
    if isinstance(run_or_trace_id, int):
        return f"{run_or_trace_id:032x}"
    return run_or_trace_id


class RecentRuns:
    """A bounded window of exported runs. Thread-safe.

    Args:
        max_runs: At most so many; 0: remember none.
        max_bytes: At most so many bytes of text.
        max_age_s: None older than this.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        max_runs: int,
        max_bytes: int,
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._fresh()

    def _fresh(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, tuple[float, int, RagRun]] = OrderedDict()
        self._by_trace: dict[str, str] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def remember(self, run: RagRun) -> None:
        """Add a run, or replace what is known of it, and forget the oldest beyond the bounds."""
        if not self._max_runs:
            return
        sample = run.sample
        size = len(sample.question or "") + len(sample.answer or "")
        size += sum(len(context.text) for context in sample.contexts or ())
        now = self._clock()
        with self._lock:
            self._forget(run.run_id)
            self._runs[run.run_id] = (now, size, run)
            self._bytes += size
            if run.trace_id is not None:
                self._by_trace[request_key(run.trace_id)] = run.run_id
            while self._runs:
                oldest, (since, _, _) = next(iter(self._runs.items()))
                if (
                    len(self._runs) <= self._max_runs
                    and self._bytes <= self._max_bytes
                    and now - since <= self._max_age_s
                ):
                    break
                self._forget(oldest)

    def find(self, key: str) -> RagRun | None:
        """Return the run with this run id or trace id (the newest of the trace), or None."""
        with self._lock:
            entry = self._runs.get(self._by_trace.get(key, key))
            if entry is None or self._clock() - entry[0] > self._max_age_s:
                return None
            return entry[2]

    def reset_after_fork(self) -> None:
        """Forget the parent's requests."""
        self._fresh()

    def _forget(self, run_id: str) -> None:
        entry = self._runs.pop(run_id, None)
        if entry is None:
            return
        self._bytes -= entry[1]
        trace_id = entry[2].trace_id
        if trace_id is not None:
            trace_key = request_key(trace_id)
            if self._by_trace.get(trace_key) == run_id:
                del self._by_trace[trace_key]
