"""The meter's own counters, kept so that they always reconcile.

``captured = exported + every drop + in flight`` at any moment: each method moves
a request from one column to another in one piece, and may be called from anywhere; see `Tally`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from ragmeter.exporters.protocol import MeterStats
from ragmeter.metrics import _fork as fork

from .guard import REPEAT_AFTER_S, OncePerMinute
from .tally import Tally

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

__all__ = ["Counters"]

logger = logging.getLogger("ragmeter")

_CAPTURED = (("captured", ""), 1)
_EXPORTED = (("exported", ""), 1)
_EXPECTED = frozenset({"sampled_out", "paced", "fork", "no_provider"})


class Counters:
    """The tallies behind `MeterStats`. Thread-safe; nothing here waits for a lock."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._may_log = OncePerMinute()
        fork.forget(self._leave_to_parent)

    def captured(self) -> None:
        """Count a request that was handed to the meter."""
        self._tally.add(_CAPTURED)

    def withdrawn(self) -> None:
        """Take back a capture: there was no request to report after all."""
        self._tally.add((("captured", ""), -1))

    def exported(self) -> None:
        """Count a captured request that an exporter has taken."""
        self._tally.add(_EXPORTED)

    def dropped(self, reason: str, count: int = 1) -> None:
        """Count captured requests that were given up."""
        self._tally.add((("dropped", reason), count))
        self._tell(reason, "requests are not scored")

    def lost(self, reason: str, count: int = 1) -> None:
        """Count requests that never reached the meter: captured and dropped at once."""
        self._tally.add((("captured", ""), count), (("dropped", reason), count))
        self._tell(reason, "requests are not scored")

    def judge_skipped(self, reason: str) -> None:
        """Count a request that is exported without some or all of its judged scores."""
        self._tally.add((("judge_skipped", reason), 1))
        self._tell(reason, "requests are not judged")

    def amended(self, outcome: str) -> None:
        """Count a reference or feedback that came after the fact: ``applied`` or ``unknown``."""
        self._tally.add((("amendments", outcome), 1))

    def export_failed(self, exporter: str, count: int = 1) -> None:
        """Count runs that an exporter lost."""
        self._tally.add((("export_errors", exporter), count))

    def judge_called(self, call: JudgeCall) -> None:
        """Count one call to the judge, or one answer from its cache."""
        if call.cached:
            self._tally.add((("judge_cache_hits", ""), 1))
            return
        self._tally.add(
            (("judge_calls", ""), call.calls),
            (("input_tokens", ""), call.input_tokens),
            (("output_tokens", ""), call.output_tokens),
        )

    @property
    def seen(self) -> int:
        """Requests captured so far."""
        return self._tally.counts()["captured", ""]

    @property
    def in_flight(self) -> int:
        """Captured requests that are neither exported nor dropped yet."""
        return _in_flight(self._tally.counts())

    def snapshot(
        self,
        *,
        queue_size: int,
        queue_bytes: int,
        internal_errors: dict[str, int],
        export_backlog: dict[str, int],
    ) -> MeterStats:
        """Return all counters as of now."""
        counts = self._tally.counts()
        return MeterStats(
            captured=counts["captured", ""],
            exported=counts["exported", ""],
            dropped=_column(counts, "dropped"),
            judge_skipped=_column(counts, "judge_skipped"),
            in_flight=_in_flight(counts),
            queue_size=queue_size,
            queue_bytes=queue_bytes,
            internal_errors=internal_errors,
            export_errors=_column(counts, "export_errors"),
            export_backlog=export_backlog,
            amendments=_column(counts, "amendments"),
            judge_calls=counts["judge_calls", ""],
            judge_cache_hits=counts["judge_cache_hits", ""],
            input_tokens=counts["input_tokens", ""],
            output_tokens=counts["output_tokens", ""],
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

    def _leave_to_parent(self) -> None:
        # In a forked child: what was in flight is the parent's to export.
        inherited = self.in_flight
        self._tally.clear()
        if inherited > 0:
            self.lost("fork", inherited)


def _column(counts: Mapping[Hashable, int], name: str) -> dict[str, int]:
    return {
        str(key[1]): count
        for key, count in counts.items()
        if isinstance(key, tuple) and key[0] == name
    }


def _in_flight(counts: Mapping[Hashable, int]) -> int:
    gone = counts["exported", ""] + sum(_column(counts, "dropped").values())
    return counts["captured", ""] - gone
