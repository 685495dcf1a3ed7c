"""What a judge did since it was built, counted as it happens.

`OpenAIJudge` keeps one and hands out `JudgeStats`.  It counts calls made in this process and those
that a worker process reports; it asks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragmeter.metrics import _fork as fork

from .protocol import JudgeCall

__all__ = ["JudgeStats", "Tally"]


@dataclass(frozen=True, slots=True)
class JudgeStats:
    """What a judge did since it was built."""

    calls: int = 0
    """Calls made, as the wire saw them: attempts that failed and step-downs among them."""
    input_tokens: int = 0
    """Prompt tokens."""
    output_tokens: int = 0
    """Completion tokens."""
    cached_tokens: int = 0
    """Prompt tokens that the endpoint read from its own cache."""
    cache_hits: int = 0
    """Items answered without asking."""
    cache_misses: int = 0
    """Items asked about."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Calls that failed, by class."""
    cost: float = 0.0
    """What was spent, if the budget knows prices."""

    @property
    def cache_hit_ratio(self) -> float | None:
        """Share of the items that were answered without asking; None before the first."""
        items = self.cache_hits + self.cache_misses
        return self.cache_hits / items if items else None


class Tally:
    """Counts calls, tokens, errors and cache hits. Thread-safe."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def called(self, call: JudgeCall) -> None:
        """Count a call."""
        with self._lock:
            self._counts["calls"] += call.calls
            self._counts["input_tokens"] += call.input_tokens
            self._counts["output_tokens"] += call.output_tokens
            self._counts["cached_tokens"] += call.cached_tokens
            if call.error_type is not None:
                self._errors[call.error_type] += 1

    def answered(self, hits: int, misses: int) -> None:
        """Count items answered without asking, and items asked about."""
        with self._lock:
            self._counts["cache_hits"] += hits
            self._counts["cache_misses"] += misses

    def stats(self, cost: float) -> JudgeStats:
        """Return all counts as of now."""
        with self._lock:
            return JudgeStats(**self._counts, errors=dict(self._errors), cost=cost)
