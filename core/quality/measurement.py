"""Name a measurement: a score, its formula or prompt, and the judging model.

Two judges, or two formulas, measure two quantities under one name: their values have no common mean, a
difference between them is not a fall, and each has its own baseline. Sums, detectors and the server's store
distinguish them by `measurement_of` alone.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

__all__ = ["BY_WORDS", "measurement_of"]

BY_WORDS = frozenset({"lexical_groundedness", "support"})
"""Scores that another manner moves as another truth does."""


@lru_cache(maxsize=4096)
def measurement_of(score: str, definition: str, judge: str = "") -> str:
    """Return a short hash of formula and judge.

    Args:
        score: Name of the score.
        definition: Version of its formula or prompt, as `Score.definition`.
        judge: The model that judges; empty: none does, or it is unknown.
    """
    text = f"{score}@{definition} {judge}"
    return blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
