"""Name a measurement: a score, its formula or prompt, and the judging model.

Two judges, or two formulas, measure two quantities under one name: their values have no common mean, a
difference between them is not a fall, and each has a separate baseline. Sums, detectors and the server's
store distinguish them only by `measurement_of`.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

BY_WORDS = frozenset({"lexical_groundedness", "support"})
"""Scores that change with the style of an answer as with its truth."""


@lru_cache(maxsize=4096)
def measurement_of(score: str, definition: str, judge: str = "") -> str:
    """Return a short hash of formula and judge.

    Args:
        score: Name of the score.
        definition: Version of its formula or prompt, as `Score.definition`.
        judge: The judging model; empty: none, or unknown.
    """
    text = f"{score}@{definition} {judge}"
    return blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
