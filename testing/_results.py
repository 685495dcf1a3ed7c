"""`MeterResults`: wait until all requests of a test are scored, and return the results.

The fixture ``ragmeter_results`` is one. A captured request that was lost raises an error: no row is missing
silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragmeter.exporters.memory import InMemoryExporter, Results
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.meter import RagMeter


class MeterResults:
    """Call it for a meter's results: it waits until all requests so far are scored and judged.

    Args:
        meter: The meter.
        memory: Its exporter.
    """

    def __init__(self, meter: RagMeter, memory: InMemoryExporter) -> None:
        self._meter = meter
        self._memory = memory

    def __call__(self, timeout_s: float = 60.0) -> Results:
        """Return one result per request, oldest first, each with all its scores.

        Args:
            timeout_s: Longest wait for scores in seconds.

        Raises:
            TimeoutError: Some requests are not scored by then.
            RuntimeError: Some requests were captured and dropped, e.g. by sampling, or ragmeter contained an
                error, e.g. a reference that cannot be read.
        """
        if not self._meter.flush(timeout_s):
            raise TimeoutError(
                f"{self._meter.stats().in_flight} requests are not scored after {timeout_s:g} s: "
                "ragmeter_results(timeout_s=...) waits longer"
            )
        stats = self._meter.stats()
        if stats.dropped:
            raise RuntimeError(f"not every request was scored: {_counts(stats.dropped)}")
        if stats.internal_errors:
            raise RuntimeError(
                f"ragmeter contained errors, and scores may be missing: {_counts(stats.internal_errors)}; "
                "the log of the test names them"
            )
        return Results(merge_results(self._memory.results))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def merge_results(results: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Return one result per request, with late results merged in; the last value of a score counts."""
    found: dict[str, ScoredRun] = {}
    for result in results:
        earlier = found.get(result.run.run_id)
        found[result.run.run_id] = (
            result
            if earlier is None
            else replace(
                earlier, scores={**earlier.scores, **result.scores}, verdict=result.verdict or earlier.verdict
            )
        )
    return list(found.values())
