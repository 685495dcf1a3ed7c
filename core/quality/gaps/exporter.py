"""The exporter ``"gaps"``: keeps of scored requests what `ragmeter.RagMeter.gaps` lists."""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.exporters.protocol import ScoredRun

from .memory import GapMemory

__all__ = ["GapExporter"]


class GapExporter:
    """Keeps what scored requests tell of knowledge gaps, in this process; nothing leaves it.

    Attributes:
        gap_memory: What it has kept: some 10 MB at most, of the last 14 days.
    """

    def __init__(self) -> None:
        self.gap_memory = GapMemory()

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Keep what these requests tell."""
        for scored in batch:
            self.gap_memory.add_run(scored)

    def flush(self, timeout_s: float) -> bool:
        """Return True: nothing waits here."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Keep what there is: it can still be listed."""
        del timeout_s
