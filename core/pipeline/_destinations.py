"""What the exporters can do with a result, asked before anybody pays for one.

An exporter may lack a destination (OpenTelemetry without an SDK delivers nothing), and may want the
free scores of requests that it is not given to write.  Both are optional methods; an exporter
without them delivers what it is given and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.no_data_warning import Silence
from ragmeter._runtime.stats import Counters
from ragmeter.exporters.protocol import (
    Exporter,
    MayLackDestination,
    MeasuresEveryRequest,
    ScoredRun,
)

__all__ = ["Destinations"]


class Destinations:
    """Asks and tells the exporters what does not go through their queues. For one thread.

    Args:
        exporters: The meter's exporters.
        counters: Where results without a destination are counted.
        silence: Says so, once.
        guard_for: Makes a guard for a component.
    """

    def __init__(
        self,
        exporters: Sequence[Exporter],
        counters: Counters,
        silence: Silence,
        guard_for: Callable[[str], Guard],
    ) -> None:
        self._all = len(exporters)
        self._uncertain = [one for one in exporters if isinstance(one, MayLackDestination)]
        self._measuring = [one for one in exporters if isinstance(one, MeasuresEveryRequest)]
        self._counters = counters
        self._silence = silence
        self._guard = guard_for("exporter.delivers")
        self._measure_guard = guard_for("exporter.measure")

    @property
    def measuring(self) -> bool:
        """Whether an exporter wants the free scores of every request."""
        return bool(self._measuring)

    def any_delivers(self) -> bool:
        """Return whether the next result reaches somebody, and count the exporters it does not reach.

        Without any exporter that is what was asked for, and True.
        """
        mute = [one for one in self._uncertain if not self._delivers(one)]
        if not mute:
            return True
        names = [type(one).__name__ for one in mute]
        self._silence.undelivered(names)
        if len(mute) == self._all:
            return False
        for name in names:
            self._counters.export_failed(f"{name}:no_provider")
        return True

    def measured(self, scored: ScoredRun) -> None:
        """Tell who wants them the free scores of a request that is not exported."""
        for exporter in self._measuring:
            with self._measure_guard:
                exporter.measure(scored)

    def _delivers(self, exporter: MayLackDestination) -> bool:
        with self._guard:
            return exporter.delivers()
        return True  # it failed to say: what it cannot deliver it will count itself
