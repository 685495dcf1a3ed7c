"""The shares of *bad*, and of not *good*, requests as scores with means.

A fault that breaks one request in twenty hardly changes a mean of support, but doubles the share of bad ones.
Both shares come from the free scores, which every request has, so the selection of judged requests cannot
bias them. They are counted as the other scores are, with intervals, segments, objectives and alarms, and are
in no result of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ragmeter.metrics import ScoreDirection, ScoreStatus, VerdictRules

VERDICT_BAD = "verdict_bad"
"""Name of the share of requests that are *bad*."""
VERDICT_NOT_GOOD = "verdict_not_good"
"""Name of the share of requests that are *bad* or *suspect*."""


class CountedShare(NamedTuple):
    """A value that is counted like a request's scores; a `Score` would be shown as well."""

    name: str
    value: float
    definition: str
    direction: ScoreDirection = "lower"
    status: ScoreStatus = "ok"
    error_type: str | None = None
    range: tuple[float, float] = (0.0, 1.0)


_OF_WORD: Mapping[str, tuple[CountedShare, CountedShare]] = {
    word: (
        CountedShare(VERDICT_BAD, bad, VerdictRules.definition),
        CountedShare(VERDICT_NOT_GOOD, not_good, VerdictRules.definition),
    )
    for word, bad, not_good in (("good", 0.0, 0.0), ("suspect", 0.0, 1.0), ("bad", 1.0, 1.0))
}


def verdict_shares(word: str | None) -> tuple[CountedShare, ...]:
    """Return 1.0 or 0.0 for *bad*, and for not *good*; empty without a basis for a verdict, and so a word."""
    return _OF_WORD.get(word or "", ())
