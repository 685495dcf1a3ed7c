"""Judge in steps (words, a detector, the judge), a costlier one only where the cheaper one is undecided.

`JudgingSteps` selects the steps of one request and their probability. Decided requests go on to the next step
with a small probability all the same, so that every probability is above 0 and means weighted by the inverses
are those of all requests (Horvitz, Thompson 1952; as two-phase sampling in Särndal, Swensson, Wretman, *Model
Assisted Survey Sampling*, 1992, ch. 9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ragmeter.metrics import ConfigurationError, Metric, Score

from .sampling import Candidate

if TYPE_CHECKING:
    from ragmeter.settings.options import Cascade

__all__ = ["JudgingSteps", "check_cascade"]

_WORDS = ("support", "lexical_groundedness")
"""Scores of the words step; the first with a value counts."""


def check_cascade(cascade: Cascade | float | None, metrics: Sequence[Metric]) -> Cascade | None:
    """Return the cascade of a meter with a judge or detector.

    Raises:
        ConfigurationError: There is neither.
    """
    if cascade is not None and not any(map(_is_costly, metrics)):
        raise ConfigurationError("cascade needs a judge or a detector; pass one")
    return cast("Cascade | None", cascade)  # `Sampling` has converted numbers


class JudgingSteps:
    """The steps of judging one request, with their probabilities. For one thread at a time.

    One draw decides whether all steps run by chance. So no probability is below `Cascade.least`, and the
    requests drawn are a representative sample for every score.

    Args:
        cascade: The undecided ranges.
        candidate: The request's identity, for the draw.
        scores: Its free scores.
        metrics: The metrics to measure without a cascade.
    """

    __slots__ = ("_by_chance", "_cascade", "_later", "_rates", "now", "spared")

    def __init__(
        self,
        cascade: Cascade,
        candidate: Candidate,
        scores: Mapping[str, Score],
        metrics: Sequence[Metric],
    ) -> None:
        self._cascade = cascade
        self._by_chance = candidate.within("cascade", cascade.least)
        self._rates: dict[str, tuple[float, bool] | None] = {}
        self.now: tuple[Metric, ...] = tuple(one for one in metrics if not _is_costly(one))
        """The metrics of this step."""
        self.spared: tuple[Metric, ...] = ()
        """The metrics skipped because a cheaper step has decided."""
        detectors = tuple(one for one in metrics if _is_detector(one))
        judges = tuple(one for one in metrics if one.judged)
        values = (_value(scores, name) for name in _WORDS)
        value = next((one for one in values if one is not None), None)
        # Later metrics count as asked: if a step before them fails, their values are missing, not skipped.
        self._later: tuple[Metric, ...] = ()
        if self._asks(value, cascade.words, (*detectors, *judges)):
            self._later = judges if detectors else ()
            self.now += detectors or judges

    def further(self, scores: Mapping[str, Score]) -> bool:
        """Go on to the next step, after the metrics of `now`; return whether there is one.

        Args:
            scores: All scores of the request so far.
        """
        later, self._later = self._later, ()
        names = (name for one in self.now if _is_detector(one) for name in one.score_names)
        value = _value(scores, next(names, ""))
        # Drawn by chance although the words had decided: the detector changes nothing.
        is_open = not later or self._rates[later[0].score_names[0]] == (1.0, self._by_chance)
        if not later or (is_open and not self._asks(value, self._cascade.detector, later)):
            return False
        self.now = later
        return True

    def rate_of(self, score: str) -> tuple[float, bool] | None:
        """Return the probability of a score, and whether it was drawn by chance; None: not asked for.

        Conditional on its request being selected for judging.
        """
        return self._rates.get(score, (1.0, True))

    def with_probabilities(self, scores: Sequence[Score]) -> list[Score]:
        """Return scores with their `asked_with` and `asked_by_chance`."""
        found = []
        for score in scores:
            rate = self._rates.get(score.name)
            if rate is not None:
                update = {"asked_with": rate[0], "asked_by_chance": rate[1]}
                found.append(score.model_copy(update=update))
            else:
                found.append(score)
        return found

    def _asks(
        self, value: float | None, undecided: tuple[float, float], metrics: tuple[Metric, ...]
    ) -> bool:
        """Return whether to run `metrics`, given the cheaper step's value; record their probability."""
        probability = self._cascade.probability(value, undecided)
        is_asked = self._by_chance or probability == 1.0
        rate = (probability, self._by_chance) if is_asked else None
        self._rates.update({name: rate for one in metrics for name in one.score_names})
        if not is_asked:
            self.spared = metrics
        return is_asked


def _value(scores: Mapping[str, Score], name: str) -> float | None:
    score = scores.get(name)
    return None if score is None or score.status != "ok" else score.value


def _is_detector(metric: Metric) -> bool:
    return metric.method == "detector"


def _is_costly(metric: Metric) -> bool:
    return metric.judged or _is_detector(metric)
