"""Writes on each result what is the same for all of a meter: `Marking`, the last station before the exporters.

Who reads results elsewhere, such as ``ragmeter serve``, knows by it which parts of its requests an application
tells apart, and whether it tells of changes itself.
"""

from __future__ import annotations

from dataclasses import replace

from ragmeter.exporters.protocol import ScoredRun
from ragmeter.quality.segments import Segments

__all__ = ["Marking"]


class Marking:
    """Marks results. Thread-safe: it changes nothing of its own.

    Args:
        segments: Which parts are told apart.
        alarms: Whether the meter tells of changes.
    """

    def __init__(self, segments: Segments, *, alarms: bool) -> None:
        self._segments = segments
        self._alarms = alarms

    def marked(self, result: ScoredRun) -> ScoredRun:
        """Return the same result with the marks."""
        if not self._alarms and not self._segments.names:
            return result
        segments = dict(self._segments.of(result.run))
        return replace(result, segments=segments, alarms=self._alarms)
