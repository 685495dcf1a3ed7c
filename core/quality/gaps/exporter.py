"""The exporter ``"gaps"``: stores the data of `ragmeter.RagMeter.gaps`, and announces new gaps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from ragmeter.exporters.protocol import ListPoint, ScoredRun, UnbufferedExporter
from ragmeter.quality.corpus.memory import USE, CorpusMemory, used_places
from ragmeter.quality.corpus.view import ChunkReport
from ragmeter.quality.list_points import corpus_points, gap_points

from .gap import Gap
from .memory import GapMemory

LOOK_EVERY_S = 600.0
"""Seconds between two searches for new gaps; one takes up to a second, on this exporter's thread."""
_MOST_KNOWN = 200
"""Most announced gaps to remember; the oldest is dropped first."""


class GapExporter(UnbufferedExporter):
    """Collects data on knowledge gaps from scored requests, in this process only.

    Args:
        clock: Monotonic seconds.

    Attributes:
        gap_memory: The stored samples of the last 14 days, 10 MB at most.
        corpus_memory: The counts of chunks, some 4 MB at most.
        gap_exporter: The exporter itself; a meter finds it by this attribute.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.gap_memory, self.corpus_memory = GapMemory(), CorpusMemory()
        self.gap_exporter = self
        self._clock = clock
        self._next_look = clock() + LOOK_EVERY_S
        self._callbacks: list[Callable[[Gap], object]] = []
        self._known: dict[str, frozenset[int]] = {}
        self._is_fresh = False

    def on_gap(self, callback: Callable[[Gap], object]) -> None:
        """Call `callback` once with each new gap from now on, on the thread of this exporter."""
        self._callbacks.append(callback)

    def chunks(self) -> ChunkReport:
        """Return the report on retrieved chunks."""
        return self.corpus_memory.view(self.gap_memory.chunks())

    def points(self) -> Iterator[ListPoint]:
        """Yield the measurements of the lists of gaps and chunks."""
        yield from gap_points(self.gap_memory.gaps().gaps)
        yield from corpus_points(self.chunks())

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Record these requests."""
        for scored in batch:
            bad = self.gap_memory.add_run(scored)
            if not scored.late:
                self.corpus_memory.add(
                    scored.sample.contexts or (),
                    at=scored.run.started_ns / 1e9,
                    bad=bad,
                    used=used_places(scored.scores.get(USE)),
                )
        self._is_fresh = True
        if self._clock() >= self._next_look:
            self._announce()

    def shutdown(self, timeout_s: float) -> None:
        """Search for new gaps once more, if time permits; the lists can still be read."""
        if timeout_s >= 1.0:
            self._announce()

    def _announce(self) -> None:
        self._next_look = self._clock() + LOOK_EVERY_S
        if not self._callbacks or not self._is_fresh:
            return
        self._is_fresh = False
        found = self.gap_memory.gaps()
        for gap in found.gaps:
            members = frozenset(found.members[gap.id])
            # Two groups are the same if they share at least a third of the smaller one.
            is_new = not any(
                len(members & other) * 3 >= min(len(members), len(other)) for other in self._known.values()
            )
            is_new = self._known.pop(gap.id, None) is None and is_new
            self._known[gap.id] = members
            while len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            if is_new:
                for callback in self._callbacks:
                    callback(gap)
