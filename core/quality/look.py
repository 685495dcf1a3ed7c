"""A look at what was retrieved before the answer is written: what the user's labels say of requests like it.

Words alone: it sees whether question and chunks share words, and errs as `lexical_context_relevance` does.
How often requests of a band go badly is known from the user's own labels, or not at all.  It is no gate.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragmeter.metrics import LexicalContextRelevance, RagSample, VerdictRules
from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.requests.inputs import as_context, as_contexts

from .labels import Label, labelled_requests, probability_sample, read_labels
from .verdict_rates import GOOD_FROM, LEAST_LABELS

__all__ = ["BandRate", "Look", "RetrievalLook", "band_rates"]

Band = Literal["nothing_retrieved", "off_topic", "unclear", "on_topic", "unknown"]


class BandRate(NamedTuple):
    """P(people: bad | band), with its 95 % interval (Wilson's)."""

    share: float
    lower: float
    upper: float
    n: int


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a request before its answer."""

    band: Band
    """How its best chunk suits the question, by words; ``unknown``: the question has no topic word."""
    relevance: float | None
    """`lexical_context_relevance`, 0 to 1; None: unknown."""
    p_bad: float | None
    """Share of the labelled requests of this band that people call bad; None: not calibrated."""
    lower: float | None
    """The ends of its 95 % interval."""
    upper: float | None
    why: str
    """What that rests on, or why it is not calibrated."""


def band_of(relevance: float | None, rules: VerdictRules) -> Band:
    """Return the band of a relevance, by the thresholds of the verdict."""
    if relevance is None:
        return "unknown"
    if relevance < rules.off_topic_below:
        return "off_topic"
    return "on_topic" if relevance >= rules.on_topic_from else "unclear"


def band_rates(labels: Iterable[Label], rules: VerdictRules) -> Mapping[Band, BandRate]:
    """Return the rate of each band, of the score that most was said of; empty below `LEAST_LABELS`.

    Requests count with how each was drawn; those that were picked, and labels without a relevance, do not.
    """
    by_score: dict[str, list[Label]] = defaultdict(list)
    for one in labels:
        if one.relevance is not None:
            by_score[one.score].append(one)
    chosen = max(by_score.values(), key=len, default=[])
    relevance = {(one.source, one.request): one.relevance for one in chosen}
    said: dict[Band, list[tuple[float, bool]]] = defaultdict(list)
    for source in {one.source for one in chosen}:
        drawn = probability_sample(labelled_requests(one for one in chosen if one.source == source))
        for request in drawn:
            if request.mean is not None:
                band = band_of(relevance[source, request.request], rules)
                said[band].append((1 / (request.probability or 1.0), request.mean < GOOD_FROM))
    if sum(map(len, said.values())) < LEAST_LABELS:
        return {}
    found: dict[Band, BandRate] = {}
    for band, cases in said.items():
        weight = sum(each for each, _ in cases)
        share = sum(each for each, is_bad in cases if is_bad) / weight
        effective = weight**2 / sum(each * each for each, _ in cases)
        found[band] = BandRate(share, *wilson_interval(share, effective), len(cases))
    return found


class RetrievalLook:
    """Looks at what was retrieved.

    Args:
        rules: Whose thresholds part the bands.
        labels: File of ``ragmeter label``; None: there is none.
    """

    def __init__(self, rules: VerdictRules, labels: str | os.PathLike[str] | None) -> None:
        self._rules = rules
        self._metric = LexicalContextRelevance()
        self._rates = {} if labels is None else band_rates(read_labels(Path(labels))[0], rules)

    def look(self, question: str, contexts: Iterable[Any]) -> Look:
        """Return what is known."""
        given: Sequence[Any] = [as_context(one) for one in as_contexts(contexts, "contexts")]
        relevance: float | None = None
        if given:
            sample = RagSample(question=question, contexts=given)
            relevance = self._metric.compute(sample)[0].value
        band = band_of(relevance, self._rules) if given else "nothing_retrieved"
        rate = self._rates.get(band)
        if rate is None:
            why = f"not calibrated: {LEAST_LABELS} labels with a relevance, some of this band, are needed"
            return Look(band, relevance, None, None, None, why)
        why = f"{rate.n} labelled requests of this band"
        return Look(band, relevance, rate.share, rate.lower, rate.upper, why)
