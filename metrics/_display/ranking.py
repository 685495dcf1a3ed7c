"""The order in which to inspect requests, for notebooks, data sets and archives.

Bad ones come first, then suspect ones, then those without a verdict, then good ones; among equals
those whose scores are farther from their better ends on average.  Scores that have no better end, or no
range from 0 to 1, do not count, and neither do those without a value: unknown is not bad.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from ragmeter.metrics.score import Score, ScoreDirection
from ragmeter.metrics.verdict import VerdictWord

RULE = (
    "Worst first: bad before suspect, before rows without a verdict, before good; then by how far a row's "
    "scores with a value are, on average, from their better ends. Of equal questions the worst row "
    "stands for all: × says how many there are."
)
"""The description of the order."""
_RANKS = {"bad": 3, "suspect": 2, None: 1, "good": 0}


class Badness(NamedTuple):
    """How bad a request is; the larger one of two is worse."""

    rank: int
    """3 bad, 2 suspect, 1 without a verdict, 0 good."""
    distance: float
    """Mean distance of the scores from their better ends, 0 to 1; 0.0 without such scores."""

    @property
    def is_perfect(self) -> bool:
        """Whether there is nothing to inspect: no bad verdict, and every score is at its better end."""
        return self.rank <= 1 and self.distance <= 0.0


def rank_of(word: VerdictWord | None) -> int:
    """Return the rank of a verdict's word."""
    return _RANKS[word]


def counts_as_badness(ends: tuple[float | None, float | None], direction: ScoreDirection) -> bool:
    """Return whether a score with this range and direction measures how bad a request is."""
    return direction != "none" and ends == (0.0, 1.0)


def distance_from_best(value: float, direction: ScoreDirection) -> float:
    """Return the distance of a value from 0 to 1 from its better end."""
    return value if direction == "lower" else 1.0 - value


def badness_of(scores: Iterable[Score], word: VerdictWord | None) -> Badness:
    """Return how bad a request is, by its scores and its verdict's word."""
    distances = [
        distance_from_best(score.value, score.direction)
        for score in scores
        if score.value is not None and counts_as_badness(score.range, score.direction)
    ]
    return Badness(rank_of(word), fmean(distances) if distances else 0.0)
