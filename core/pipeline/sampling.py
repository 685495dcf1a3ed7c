"""Select the requests to score, export and judge, each with its probability.

Three things decide: the request's hash; the probability that the judge's budget allows (`_admission`); and,
with ``keep="worst"``, whether it is bad: it failed, found nothing, has a ``bad`` verdict, or scored among the
worst recently.

The hash is of the trace id alone, so that all services of a trace decide alike, with the purpose as salt: the
id itself would repeat the decision of a head sampler (behind ``TraceIdRatioBased(0.1)`` a tenth of requests
would be all of them), and one salt for all purposes would judge only the first of the sampled requests. A
request without a trace is hashed by its run id.

A cascade judges in steps (words, a detector, the judge), a costlier one only where the cheaper one is
undecided. `JudgingSteps` selects the steps of one request and their probability. Decided requests also
continue to the next step, with a small probability, so that every probability is above 0 and means weighted
by the inverses are those of all requests (Horvitz, Thompson 1952; as two-phase sampling in Särndal, Swensson,
Wretman, *Model Assisted Survey Sampling*, 1992, ch. 9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple, cast
from uuid import UUID

from ragmeter.exporters.protocol import Selection
from ragmeter.metrics import ConfigurationError, Metric, RagSample, Score, Verdict
from ragmeter.quality.recent_values import RecentValues

from ._admission import Admission

if TYPE_CHECKING:
    from ragmeter.settings.options import Cascade


class Chances(NamedTuple):
    """Probabilities that a request is scored and judged."""

    sample_rate: float
    """Probability of being scored."""
    judge_sample_rate: float
    """Probability of being judged, given that it is scored."""
    selection: Selection = "sampled"
    """Whether it was sampled, or selected only for being bad."""
    judge_selection: Selection = "sampled"
    """The same for judging."""


class Candidate(NamedTuple):
    """The identity of a request, for sampling."""

    run_id: str | UUID
    trace_id: int | None
    chosen: Chances | None = None
    """The probabilities of another process that selected it: it is scored, and judged at most with theirs."""

    def within(self, purpose: Purpose, rate: float) -> bool:
        """Return whether the request is in the share `rate` for `purpose`.

        The hash is computed when needed, which is rarely on the request's path.
        """
        return rate >= 1.0 or within(place(purpose, self.trace_id, str(self.run_id)), rate)


class Choice(NamedTuple):
    """The decision on a request with free scores."""

    chances: Chances
    """Its probabilities."""
    unjudged: str | None
    """Why it is not judged: ``sampled_out``, or ``paced`` if the budget lowered the probability."""


class Selector:
    """Selects requests. For one thread.

    Args:
        sample_rate: Probability that a request is scored.
        judge_sample_rate: Probability that a scored one is judged, if the budget suffices.
        admission: Lowers it to the budget; None: nothing is judged.
        tail: Selects the worst; None: only sampling decides.
    """

    def __init__(
        self,
        sample_rate: float,
        judge_sample_rate: float,
        admission: Admission | None,
        tail: TailSampling | None,
    ) -> None:
        self._sample_rate = sample_rate
        self._judge_sample_rate = judge_sample_rate
        self._admission = admission
        self._tail = tail

    def choose(
        self,
        candidate: Candidate,
        sample: RagSample,
        scores: Mapping[str, Score],
        verdict: Verdict | None = None,
    ) -> Choice | None:
        """Return the decision on a scored request; None: sampled out.

        Args:
            candidate: The request's identity.
            sample: The request's sample.
            scores: Its free scores.
            verdict: Their verdict.
        """
        worst = self._tail is not None and self._tail.keeps(sample, scores, verdict)
        there = candidate.chosen
        most = self._judge_sample_rate
        if there is None:
            sampled = candidate.within("sample", self._sample_rate)
            if not worst and not sampled:
                return None
            sample_rate = 1.0 if worst else self._sample_rate
        else:
            sampled = there.selection == "sampled"
            worst = worst or not sampled
            sample_rate = there.sample_rate
            most = min(most, there.judge_sample_rate)
        selection: Selection = "sampled" if sampled else "worst"
        if self._admission is None:
            return Choice(Chances(sample_rate, 1.0, selection, selection), None)
        judge_rate = min(self._admission.count_request(), most)
        chosen = candidate.within("judge", judge_rate)
        # Whether there is budget for bad requests does not depend on this one.
        if worst and self._admission.takes_worst():
            judge_selection: Selection = selection if chosen else "worst"
            return Choice(Chances(sample_rate, 1.0, selection, judge_selection), None)
        unjudged = None
        if not chosen:
            wanted = candidate.within("judge", most)
            unjudged = "paced" if wanted else "sampled_out"
        return Choice(Chances(sample_rate, judge_rate, selection, selection), unjudged)


Purpose = Literal["sample", "judge", "cascade", "label", "shadow"]
"""The purposes of sampling. Shares nest: only sampled requests are judged, and only judged ones go through a
cascade or to people for labels; each draw is independent of the one before."""

_SPACE = 1 << 64
_TRACE_ID_BYTES = 16


def place(purpose: Purpose, trace_id: int | None, run_id: str) -> int:
    """Return the request's hash in [0, 2^64): BLAKE2b of its id, personalised with the purpose."""
    own = run_id.encode("utf-8", "replace")
    data = trace_id.to_bytes(_TRACE_ID_BYTES, "big") if trace_id else own
    return int.from_bytes(blake2b(data, digest_size=8, person=purpose.encode()).digest(), "big")


def within(place: int, rate: float) -> bool:
    """Return whether a request at `place` is in the share `rate` of all requests."""
    return place < round(rate * _SPACE)


WINDOW = 1_000
"""Scores per name in the window of comparison."""
SHARE = 0.05
"""A score below this quantile of the window, with higher as better, counts as bad."""
WARM_UP = 50
"""Scores needed before the quantile means anything."""


class TailSampling:
    """Remembers recent lexical scores and selects the worst. For one thread."""

    def __init__(self) -> None:
        self._recent: dict[str, RecentValues] = {}

    def keeps(self, sample: RagSample, scores: Mapping[str, Score], verdict: Verdict | None) -> bool:
        """Return whether the request failed, found nothing, is bad, or scored among the worst recently."""
        low = False
        for score in scores.values():
            if score.method == "lexical" and score.value is not None and score.direction != "none":
                goodness = -score.value if score.direction == "lower" else score.value
                recent = self._recent.setdefault(score.name, RecentValues(WINDOW))
                low = low or (len(recent) >= WARM_UP and goodness < recent.quantile(SHARE))
                # Every score enters the window, also after the decision.
                recent.add(goodness)
        empty = scores.get("empty_retrieval")
        found_nothing = sample.contexts == () or (empty is not None and empty.value == 1.0)
        if low or found_nothing or sample.status == "error":
            return True
        return verdict is not None and verdict.word == "bad"


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
        self, cascade: Cascade, candidate: Candidate, scores: Mapping[str, Score], metrics: Sequence[Metric]
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
        """Continue with the next step, after the metrics of `now`; return whether there is one."""
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
        """Return the probability of a score, and whether it was drawn by chance; None: not selected.

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

    def _asks(self, value: float | None, undecided: tuple[float, float], metrics: tuple[Metric, ...]) -> bool:
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
