"""Words, then a detector, then the judge: who is dearer is asked where who is cheaper is undecided.

A meter is given a `Cascade`; `JudgingSteps` says who is asked about one request, how probably.  What the
cheaper one has decided is asked about all the same with a small probability, so every request's is above 0, and
the means, weighed by the inverses, are those of all requests (Horvitz, Thompson 1952; as a design of two phases
Särndal, Swensson, Wretman, *Model Assisted Survey Sampling*, 1992, ch. 9).
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
"""What the words say, the first one that has a value."""


def check_cascade(cascade: Cascade | float | None, metrics: Sequence[Metric]) -> Cascade | None:
    """Return a cascade if there is anyone to ask.

    Raises:
        ConfigurationError: There is no one.
    """
    if cascade is not None and not any(map(_is_dear, metrics)):
        raise ConfigurationError("cascade has no one to ask; pass a judge or a detector")
    return cast("Cascade | None", cascade)  # of a number `Sampling` has made one


class JudgingSteps:
    """Who is asked about one request, step by step, and with which probability. For one thread at a time.

    One draw decides whether chance alone has everyone asked. So no probability is below `Cascade.least`, and
    those that chance chose are a fair picture of all, of every score.

    Args:
        cascade: Where who is undecided.
        candidate: The request, as far as choosing by chance goes.
        scores: Its free scores.
        metrics: What would be measured without a cascade.
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
        self.now: tuple[Metric, ...] = tuple(one for one in metrics if not _is_dear(one))
        """What is measured at this step."""
        self.spared: tuple[Metric, ...] = ()
        """What is not measured, as who is cheaper has decided."""
        detectors = tuple(one for one in metrics if _is_detector(one))
        judges = tuple(one for one in metrics if one.judged)
        said = (_value(scores, name) for name in _WORDS)
        value = next((one for one in said if one is not None), None)
        # Who is asked later is taken to be: where a step fails, that one's value is missing, not unasked.
        self._later: tuple[Metric, ...] = ()
        if self._asks(value, cascade.words, (*detectors, *judges)):
            self._later = judges if detectors else ()
            self.now += detectors or judges

    def further(self, scores: Mapping[str, Score]) -> bool:
        """Go on to the next step, when what is measured `now` has answered; return whether there is one.

        Args:
            scores: All that is known of the request.
        """
        later, self._later = self._later, ()
        names = (name for one in self.now if _is_detector(one) for name in one.score_names)
        value = _value(scores, next(names, ""))
        # Of what the words have decided chance has chosen this one: the detector changes nothing.
        is_open = not later or self._rates[later[0].score_names[0]] == (1.0, self._by_chance)
        if not later or (is_open and not self._asks(value, self._cascade.detector, later)):
            return False
        self.now = later
        return True

    def rate_of(self, score: str) -> tuple[float, bool] | None:
        """Return with which probability a score was asked for, and whether chance alone would have; None: not.

        Given that its request was chosen to be judged.
        """
        return self._rates.get(score, (1.0, True))

    def with_probabilities(self, scores: Sequence[Score]) -> list[Score]:
        """Return scores with the probability that they were asked for with."""
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
        """Return whether these are asked, given what who is cheaper says, and note with which probability."""
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


def _is_dear(metric: Metric) -> bool:
    return metric.judged or _is_detector(metric)
