"""Which requests are worth keeping although they were not sampled: the bad ones.

``RagMeter(keep="worst")`` scores every request for free and keeps, beside the sampled ones, those
that failed, found nothing, or scored among the worst of late: the lowest, or the highest where lower
is better.  The decision is made on the scoring thread and remembers numbers only, no texts.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping

from ragmeter.metrics import RagSample, Score

__all__ = ["WorstKeeper"]

WINDOW = 1_000
"""Scores per name that the comparison looks back at."""
SHARE = 0.05
"""A score counts as bad when it is below this quantile of the window, best side up."""
WARM_UP = 50
"""Scores needed before the quantile means anything."""


class _Recent:
    """The last `WINDOW` values of one score, sorted and by age."""

    def __init__(self) -> None:
        self._by_age: deque[float] = deque()
        self._sorted: list[float] = []

    def is_low(self, value: float) -> bool:
        """Return whether `value` is below the window's low quantile, then take it in."""
        known = len(self._sorted)
        low = known >= WARM_UP and value < self._sorted[int(known * SHARE)]
        self._by_age.append(value)
        bisect.insort(self._sorted, value)
        if len(self._by_age) > WINDOW:
            oldest = self._by_age.popleft()
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]
        return low


class WorstKeeper:
    """Remembers recent lexical scores and picks out the worst. For one thread."""

    def __init__(self) -> None:
        self._recent: dict[str, _Recent] = {}

    def keeps(self, sample: RagSample, scores: Mapping[str, Score]) -> bool:
        """Return whether the request failed, found nothing, or scored among the worst of late."""
        low = False
        for score in scores.values():
            if score.method == "lexical" and score.value is not None and score.direction != "none":
                goodness = -score.value if score.direction == "lower" else score.value
                # Every score is taken in, also once the decision has fallen.
                low = self._recent.setdefault(score.name, _Recent()).is_low(goodness) or low
        empty = scores.get("empty_retrieval")
        found_nothing = sample.contexts == () or (empty is not None and empty.value == 1.0)
        return low or found_nothing or sample.status == "error"
