"""Writes on each result what is the same for all of a meter: `Marking`, the last station before the exporters.

Who reads results elsewhere, such as ``ragmeter serve``, knows by it which parts of its requests an application
tells apart, who judged them and at what price, and whether it tells of changes itself.
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
    """Marks results. Thread-safe: it changes nothing of its own.

    Args:
        segments: Which parts are kept separate.
        judge: Who gives the verdicts; None: no one does.
        alarms: Whether the meter tells of changes.
    """

    def __init__(self, segments: Segments, judge: Judge | None, *, alarms: bool) -> None:
        self._segments = segments
        self._judge = None if judge is None else _identity(judge)
        self._alarms = alarms

    def with_marks(self, result: ScoredRun) -> ScoredRun:
        """Return the same result with the marks."""
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
