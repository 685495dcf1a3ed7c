"""The meter's own counters, kept so that they always reconcile.

``captured = exported + every drop + in flight`` at any moment: each method moves
a request from one column to another under one short lock.  The lock is reentrant
because the garbage collector may finish an abandoned stream, and so offer a request,
while this very thread holds it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

from ragmeter.exporters.protocol import MeterStats

from .guard import REPEAT_AFTER_S, OncePerMinute

if TYPE_CHECKING:
    from ragmeter.metrics.judge.contract import JudgeCall

__all__ = ["Counters"]

logger = logging.getLogger("ragmeter")

_EXPECTED = frozenset({"sampled_out", "paced", "fork", "no_provider"})


class Counters:
    """Thread-safe tallies behind `MeterStats`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._may_log = OncePerMinute()
        self._clear()

    def _clear(self) -> None:
        self._captured = 0
        self._exported = 0
        self._dropped: Counter[str] = Counter()
        self._judge_skipped: Counter[str] = Counter()
        self._export_errors: Counter[str] = Counter()
        self._amendments: Counter[str] = Counter()
        self._judge_calls = 0
        self._judge_cache_hits = 0
        self._input_tokens = 0
        self._output_tokens = 0

    def captured(self) -> None:
        """Count a request that was handed to the meter."""
        with self._lock:
            self._captured += 1

    def withdrawn(self) -> None:
        """Take back a capture: there was no request to report after all."""
        with self._lock:
            self._captured -= 1

    def exported(self) -> None:
        """Count a captured request that was handed to the exporters."""
        with self._lock:
            self._exported += 1

    def dropped(self, reason: str, count: int = 1) -> None:
        """Count captured requests that were given up."""
        with self._lock:
            self._dropped[reason] += count
        self._tell(reason, "requests are not scored")

    def lost(self, reason: str, count: int = 1) -> None:
        """Count requests that never reached the meter: captured and dropped at once."""
        with self._lock:
            self._captured += count
            self._dropped[reason] += count
        self._tell(reason, "requests are not scored")

    def judge_skipped(self, reason: str) -> None:
        """Count a request that is exported without some or all of its judged scores."""
        with self._lock:
            self._judge_skipped[reason] += 1
        self._tell(reason, "requests are not judged")

    def amended(self, outcome: str) -> None:
        """Count a reference or feedback that came after the fact: ``applied`` or ``unknown``."""
        with self._lock:
            self._amendments[outcome] += 1

    def export_failed(self, exporter: str, count: int = 1) -> None:
        """Count runs that an exporter lost."""
        with self._lock:
            self._export_errors[exporter] += count

    def judge_called(self, call: JudgeCall) -> None:
        """Count one call to the judge, or one answer from its cache."""
        with self._lock:
            if call.cached:
                self._judge_cache_hits += 1
                return
            self._judge_calls += 1
            self._input_tokens += call.input_tokens
            self._output_tokens += call.output_tokens

    @property
    def seen(self) -> int:
        """Requests captured so far."""
        return self._captured

    @property
    def in_flight(self) -> int:
        """Captured requests that are neither exported nor dropped yet."""
        with self._lock:
            return self._captured - self._exported - sum(self._dropped.values())

    def snapshot(
        self, *, queue_size: int, queue_bytes: int, internal_errors: dict[str, int]
    ) -> MeterStats:
        """Return all counters as of now."""
        with self._lock:
            return MeterStats(
                captured=self._captured,
                exported=self._exported,
                dropped=dict(self._dropped),
                judge_skipped=dict(self._judge_skipped),
                in_flight=self._captured - self._exported - sum(self._dropped.values()),
                queue_size=queue_size,
                queue_bytes=queue_bytes,
                internal_errors=internal_errors,
                export_errors=dict(self._export_errors),
                amendments=dict(self._amendments),
                judge_calls=self._judge_calls,
                judge_cache_hits=self._judge_cache_hits,
                input_tokens=self._input_tokens,
                output_tokens=self._output_tokens,
            )

    def _tell(self, reason: str, consequence: str) -> None:
        # Sampling is what was asked for, and a missing provider is told elsewhere; of everything
        # else somebody should hear.
        if reason not in _EXPECTED and self._may_log.allows((reason, consequence)):
            logger.warning(
                "ragmeter: %s (%s); counted in RagMeter.stats() and ragmeter.dropped. "
                "(further ones are counted, not logged, for %d s)",
                consequence,
                reason,
                int(REPEAT_AFTER_S),
            )

    def reset_after_fork(self) -> None:
        """Start again in a child process: what the parent had in flight is the parent's to export."""
        inherited = self._captured - self._exported - sum(self._dropped.values())
        self._lock = threading.RLock()
        self._may_log.reset_after_fork()
        self._clear()
        if inherited > 0:
            self.lost("fork", inherited)
