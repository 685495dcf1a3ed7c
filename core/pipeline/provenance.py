"""Add to each result what is the same for all of a meter: segments, judge and alarms.

Readers of results, such as ``ragmeter serve``, learn from it which segments the application distinguishes,
its judge and its prices, and whether it notifies people of changes itself. The last stage before the
exporters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragmeter.exporters.protocol import JudgeIdentity, ScoredRun
from ragmeter.quality.segments import Segments

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import Judge

__all__ = ["Marking"]


class Marking:
    """Adds provenance to results. Thread-safe.

    Args:
        segments: The distinguished segments.
        judge: The judge; None: there is none.
        alarms: Whether the meter notifies of changes.
    """

    def __init__(self, segments: Segments, judge: Judge | None, *, alarms: bool) -> None:
        self._segments = segments
        self._judge = None if judge is None else _identity(judge)
        self._alarms = alarms

    def with_marks(self, result: ScoredRun) -> ScoredRun:
        """Return the result with its provenance."""
        if not self._alarms and not self._segments.names and self._judge is None:
            return result
        return replace(
            result,
            segments=dict(self._segments.of(result.run)),
            judge=self._judge,
            alarms=self._alarms,
        )


def _identity(judge: Judge) -> JudgeIdentity:
    budget = judge.budget
    return JudgeIdentity(
        model=judge.model,
        endpoint=getattr(judge, "endpoint_kind", "custom"),
        input_price=None if budget is None else budget.input_price,
        output_price=None if budget is None else budget.output_price,
    )
