"""Select the requests to score, export and judge, each with its probability.

Three things decide: the request's hash; the probability that the judge's budget allows (`_admission`); and,
with ``keep="worst"``, whether it is bad: it failed, found nothing, has a ``bad`` verdict, or scored among the
worst recently.

The hash is of the trace id alone, so that all services of a trace decide alike, with the purpose as salt: the
id itself would repeat the decision of a head sampler (behind ``TraceIdRatioBased(0.1)`` a tenth of requests
would be all of them), and one salt for all purposes would judge only the first of the sampled requests. A
request without a trace is hashed by its run id.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple
from uuid import UUID

from ragmeter.exporters.protocol import Selection
from ragmeter.metrics import RagSample, Score, Verdict
from ragmeter.quality.recent_values import RecentValues

from ._admission import Admission

__all__ = [
    "Candidate",
    "Chances",
    "Choice",
    "Purpose",
    "Selector",
    "TailSampling",
    "place",
    "within",
]


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

    def keeps(
        self, sample: RagSample, scores: Mapping[str, Score], verdict: Verdict | None
    ) -> bool:
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
