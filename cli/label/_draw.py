"""Chooses requests to label: drawn with a known probability, or the worst.

Drawing uses a hash of the request's id, so that all raters of a file see the same requests in the same order,
and a later session, or a larger one, continues where the last drawing ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragmeter.cli._results import ResultFile, ScoredRequest
from ragmeter.metrics import ConfigurationError

NEEDED = {
    "faithfulness": ("contexts", "answer"),
    "context_utilization": ("question", "contexts", "answer"),
    "context_relevancy": ("question", "contexts"),
    "context_sufficiency": ("question", "contexts"),
    "answer_relevancy": ("question", "answer"),
}
"""The texts that a rater needs for a score."""
NEEDED_OF_ANY = ("question", "answer")


class Drawing(NamedTuple):
    """The requests to show, in order."""

    requests: Sequence[ScoredRequest]
    probability: float | None
    """Probability of each request to be drawn; None: they were picked."""


def draw(results: ResultFile, score: str, count: int, *, at_least: float = 0.0) -> Drawing:
    """Draw requests, among those with a judged value if there are any.

    Each request has the same probability, whatever its properties. Those at the lowest places are drawn, and
    the probability is the next place above them: given that, each was drawn independently of the others.
    Requests added to the file since an earlier drawing are drawn with its probability, `at_least`, too, so
    there may be more than `count`.
    """
    able = sorted(_able(results, score), key=lambda one: one.place)
    probability = 1.0 if count >= len(able) else able[count].place
    probability = max(probability, at_least)
    chosen = [one for one in able if one.place < probability]
    return Drawing(chosen, probability)


def pick_worst(results: ResultFile, score: str, count: int) -> Drawing:
    """Pick the requests with the judge's lowest scores: to find faults, not for estimates."""
    known = [(value, one) for one in _able(results, score) if (value := one.value_of(score)) is not None]
    if not known:
        raise ConfigurationError(f"--worst: no request of {str(results.path)!r} has a value of {score}")
    turned = known[0][1].scores[score].lower_is_better
    known.sort(key=lambda pair: (-pair[0] if turned else pair[0], pair[1].place))
    return Drawing([one for _, one in known[:count]], None)


def _able(results: ResultFile, score: str) -> list[ScoredRequest]:
    """Return the requests that can be labelled; judged ones only, if any are."""
    needed = NEEDED.get(score, NEEDED_OF_ANY)
    able = [one for one in results.requests if one.has.issuperset(needed)]
    if not able:
        raise ConfigurationError(
            f"no request of {str(results.path)!r} has {' and '.join(needed)}, which people who label {score} "
            "must read; JsonlExporter(path, include_content=True) writes texts, and with scores of "
            "`ragmeter evaluate --out` name the data set: --data DATA"
        )
    return [one for one in able if one.value_of(score) is not None] or able
