"""Check retrieved contexts before the answer is generated, with the rate of bad requests like it from labels.

By words only: it checks whether question and chunks share words, and errs as `lexical_context_relevance`
does. The share of bad requests in a band comes from the user's labels, if any. It is no gate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ragmeter.metrics import LexicalContextRelevance, RagSample, VerdictRules
from ragmeter.requests.inputs import as_context, as_contexts

from .labels import Label, read_labels
from .verdict_rates import LEAST_LABELS, VerdictRate, rates_of

Band = Literal["nothing_retrieved", "off_topic", "unclear", "on_topic", "unknown"]


@dataclass(frozen=True, slots=True)
class Look:
    """Assessment of a request before its answer."""

    band: Band
    """Relevance of its best chunk to the question, by words; ``unknown``: the question has no topic word."""
    relevance: float | None
    """`lexical_context_relevance`, 0 to 1; None: unknown."""
    p_bad: float | None
    """Share of the labelled requests of this band that people call bad; None: not calibrated."""
    lower: float | None
    """The ends of its 95 % interval."""
    upper: float | None
    why: str
    """Basis of the rate, or why it is not calibrated."""


def band_of(relevance: float | None, rules: VerdictRules) -> Band:
    """Return the band of a relevance, by the thresholds of the verdict."""
    if relevance is None:
        return "unknown"
    if relevance < rules.off_topic_below:
        return "off_topic"
    return "on_topic" if relevance >= rules.on_topic_from else "unclear"


def band_rates(labels: Iterable[Label], rules: VerdictRules) -> Mapping[str, VerdictRate]:
    """Return the rate of each band, as `rates_of`; labels without a relevance do not count."""
    banded = (
        replace(one, verdict=band_of(one.relevance, rules)) for one in labels if one.relevance is not None
    )
    return rates_of(banded, get_args(Band))


class RetrievalLook:
    """Assesses retrieved chunks before the answer.

    Args:
        rules: Their thresholds separate the bands.
        labels: File of ``ragmeter label``; None: no labels.
    """

    def __init__(self, rules: VerdictRules, labels: str | os.PathLike[str] | None) -> None:
        self._rules = rules
        self._metric = LexicalContextRelevance()
        self._rates = {} if labels is None else band_rates(read_labels(Path(labels))[0], rules)

    def look(self, question: str, contexts: Iterable[Any]) -> Look:
        """Return the result for a question and its chunks."""
        given: Sequence[Any] = [as_context(one) for one in as_contexts(contexts, "contexts")]
        relevance: float | None = None
        if given:
            sample = RagSample(question=question, contexts=given)
            relevance = self._metric.value_of(sample)
        band = band_of(relevance, self._rules) if given else "nothing_retrieved"
        rate = self._rates.get(band)
        if rate is None:
            why = f"not calibrated: {LEAST_LABELS} labels with a relevance, some of this band, are needed"
            return Look(band, relevance, None, None, None, why)
        why = f"{rate.n} labelled requests of this band"
        return Look(band, relevance, rate.share, rate.lower, rate.upper, why)
