"""The shares of requests that are *bad*, and that are not *good*, as scores with means: what people look at.

A fault that breaks one request in twenty hardly moves a mean of support, and doubles the share of bad ones.
Both rest on the free scores, which every request has, so no choice of the judge's bends them.  They are counted
beside the other scores, with intervals, segments, objectives and alarms, and are in no result of a request.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragmeter.metrics import Score, Verdict, VerdictRules

__all__ = ["SHARES", "VERDICT_BAD", "VERDICT_NOT_GOOD", "verdict_shares"]

VERDICT_BAD = "verdict_bad"
"""Name of the share of requests that are *bad*."""
VERDICT_NOT_GOOD = "verdict_not_good"
"""Name of the share of requests that are *bad* or *suspect*."""


def _share(name: str, value: float) -> Score:
    return Score(
        name=name,
        value=value,
        status="ok",
        method="exact",
        direction="lower",
        definition=VerdictRules.definition,
    )


_OF_WORD: Mapping[str, tuple[Score, Score]] = {
    word: (_share(VERDICT_BAD, bad), _share(VERDICT_NOT_GOOD, not_good))
    for word, bad, not_good in (("good", 0.0, 0.0), ("suspect", 0.0, 1.0), ("bad", 1.0, 1.0))
}
SHARES = _OF_WORD["good"]
"""What they are, whatever their value."""


def verdict_shares(verdict: Verdict | None) -> tuple[Score, ...]:
    """Return 1.0 or 0.0 for *bad*, and for not *good*; nothing where there is nothing to judge by."""
    return () if verdict is None else _OF_WORD[verdict.word]
