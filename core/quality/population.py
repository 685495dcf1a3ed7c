"""Select the judged scores that apply to a request, judged or not, and the free proxy of each.

An estimate corrects the judged requests to all requests that could have been judged: those with the inputs of
the score. This module returns these scores of a request before anything is judged. Called by the pipeline on
the scoring thread, which owns the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragmeter.metrics import Metric, RagSample, Score, ScoreDirection
from ragmeter.metrics.protocol import is_measurable

from .measurement import measurement_of
from .verdict_shares import CountedShare

_COVERAGE = "lexical_query_coverage"
_RELEVANCE = "lexical_context_relevance"
PROXIES: Mapping[str, Sequence[str]] = {
    "faithfulness": ("lexical_groundedness",),
    "answer_relevancy": (_COVERAGE,),
    "context_relevancy": (_RELEVANCE, _COVERAGE),
    "context_precision": ("lexical_context_precision", _RELEVANCE, _COVERAGE),
    "context_utilization": ("lexical_context_utilization", _RELEVANCE, _COVERAGE),
    "context_recall": ("lexical_context_recall",),
    "context_entity_recall": ("lexical_entity_recall",),
    "context_sufficiency": (_COVERAGE,),
    "judged_precision": (_RELEVANCE, _COVERAGE),
    "judged_average_precision": (_RELEVANCE, _COVERAGE),
    "judged_ndcg": (_RELEVANCE, _COVERAGE),
    "judged_hit_rate": (_RELEVANCE, _COVERAGE),
    "judged_refusal": ("refusal",),
    "rag_quest_eval_recall": ("token_f1",),
    "rag_quest_eval_precision": ("token_f1",),
    "span_support": ("lexical_groundedness",),
    "semantic_context_relevance": (_RELEVANCE, _COVERAGE),
}
"""Judged score → its possible free proxies; the first one with a value is used."""
UNKNOWN_PROXY = 0.5
"""Used if no proxy has a value. Any fixed number leaves the estimate unbiased."""
_OF_REFERENCE = "reference."
MAX_KINDS = 256
"""Most combinations of available inputs to cache."""


class JudgedScore(NamedTuple):
    """A score that only requests chosen to be judged have."""

    name: str
    judge: str
    """Identifies judge, prompt and formula: another one measures another quantity."""
    lowest: float
    highest: float
    """Its range."""
    direction: ScoreDirection = "higher"
    """The better direction."""


class Population:
    """Finds the judged scores that apply to a request.

    Args:
        metrics: The metrics that are measured only for chosen requests.
        judge_model: The judge's model, if there is one.
    """

    def __init__(self, metrics: Sequence[Metric], judge_model: str | None) -> None:
        self._metrics = [
            (metric, scores) for metric in metrics if (scores := _bounded_scores(metric, judge_model))
        ]
        inputs = {option for metric, _ in self._metrics for need in metric.needs for option in need.split("|")}
        self._fields = sorted(name for name in inputs if not name.startswith(_OF_REFERENCE))
        self._reference_fields = sorted(
            name.removeprefix(_OF_REFERENCE) for name in inputs if name.startswith(_OF_REFERENCE)
        )
        self._known: dict[tuple[object, ...], tuple[JudgedScore, ...]] = {}

    def scores_of(self, sample: RagSample) -> tuple[JudgedScore, ...]:
        """Return the judged scores whose inputs `sample` has."""
        if not self._metrics:
            return ()
        reference = sample.reference
        kind = (
            sample.status,
            sample.contexts_by,
            *[getattr(sample, name) is None for name in self._fields],
            *([] if reference is None else map(reference.supplies, self._reference_fields)),
        )
        found = self._known.get(kind)
        if found is None:
            if len(self._known) >= MAX_KINDS:
                self._known.clear()
            found = self._known[kind] = tuple(
                score for metric, scores in self._metrics if is_measurable(metric, sample) for score in scores
            )
        return found


def proxy_value(name: str, scores: Mapping[str, Score | CountedShare]) -> float:
    """Return a free estimate of a judged score, 0 to 1."""
    for proxy in PROXIES.get(name, ()):
        score = scores.get(proxy)
        if score is not None and (value := score.value) is not None:
            # A score of the application may have the name of a built-in one.
            return value if 0.0 <= value <= 1.0 else UNKNOWN_PROXY
    return UNKNOWN_PROXY


def _bounded_scores(metric: Metric, judge_model: str | None) -> tuple[JudgedScore, ...]:
    lowest, highest = metric.range
    if lowest is None or highest is None or lowest >= highest:
        return ()
    judge = (judge_model if metric.judged else None) or ""
    return tuple(
        JudgedScore(name, measurement_of(name, metric.definition, judge), lowest, highest, direction)
        for name in metric.score_names
        if (direction := metric.direction_of(name)) != "none"
    )
