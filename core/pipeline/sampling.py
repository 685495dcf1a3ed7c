"""Which requests are scored, which of them go out, which are judged, each with its probability.

Three things decide: the request's places, by hash; the probability that the judge's budget allows
(`_admission`); and, with ``keep="worst"``, whether it is bad: it failed, found nothing, its verdict is
``bad``, or it scored among the worst recently.

A place is a function of the trace id alone, so that all services that see a trace decide alike.  The id
is hashed with the purpose as salt: a decision on the id itself would repeat that of a head sampler
(behind ``TraceIdRatioBased(0.1)`` every tenth request would be every one), and with one salt for all
purposes the judged requests would be the first of the sampled ones.  A request without a trace is
placed by its run id.
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
    """With which probabilities a request came to be scored and judged."""

    sample_rate: float
    """Of being scored."""
    judge_sample_rate: float
    """Of being judged, given that it was scored."""
    selection: Selection = "sampled"
    """Whether its place had it scored, or only that it is bad."""
    judge_selection: Selection = "sampled"
    """The same of judging."""


class Candidate(NamedTuple):
    """A request that may be chosen, as far as choosing by chance goes."""

    run_id: str | UUID
    trace_id: int | None
    chosen: Chances | None = None
    """It was chosen elsewhere, with these probabilities: it is scored, and judged at most as they say."""

    def within(self, purpose: Purpose, rate: float) -> bool:
        """Return whether the request is among the share `rate` chosen for `purpose`.

        Its place is worked out when it is needed, which is rarely on its own path.
        """
        return rate >= 1.0 or within(place(purpose, self.trace_id, str(self.run_id)), rate)


class Choice(NamedTuple):
    """What becomes of a request that was scored for free."""

    chances: Chances
    """With which probabilities it came to that."""
    unjudged: str | None
    """Why it is not judged: ``sampled_out`` or, as the budget lowered the probability, ``paced``."""


class Selector:
    """Chooses requests. For one thread.

    Args:
        sample_rate: Probability that a request is scored.
        judge_sample_rate: Probability that a scored one is judged, where the budget suffices.
        admission: Lowers that as the budget demands; None: nothing is judged.
        tail: Picks out the worst; None: chance alone decides.
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
        """Return what becomes of a scored request; None: it is sampled out.

        Args:
            candidate: The request, as far as choosing by chance goes.
            sample: What was asked, found and answered.
            scores: Its free scores.
            verdict: What these say together.
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
        # Room for bad ones was there, or not, before it was known that this is one.
        if worst and self._admission.takes_worst():
            judge_selection: Selection = selection if chosen else "worst"
            return Choice(Chances(sample_rate, 1.0, selection, judge_selection), None)
        unjudged = None
        if not chosen:
            wanted = candidate.within("judge", most)
            unjudged = "paced" if wanted else "sampled_out"
        return Choice(Chances(sample_rate, judge_rate, selection, selection), unjudged)


Purpose = Literal["sample", "judge", "cascade", "label", "shadow"]
"""What is chosen for. Shares nest where one is drawn from the other: only what is sampled is judged, only what
is judged is asked about in a cascade or given to people; each draw is independent of the one before."""

_SPACE = 1 << 64
_TRACE_ID_BYTES = 16


def place(purpose: Purpose, trace_id: int | None, run_id: str) -> int:
    """Return the request's place in [0, 2^64): BLAKE2b of its id, personalised with the purpose."""
    own = run_id.encode("utf-8", "replace")
    data = trace_id.to_bytes(_TRACE_ID_BYTES, "big") if trace_id else own
    return int.from_bytes(blake2b(data, digest_size=8, person=purpose.encode()).digest(), "big")


def within(place: int, rate: float) -> bool:
    """Return whether a request at `place` is among the share `rate` of all requests."""
    return place < round(rate * _SPACE)


WINDOW = 1_000
"""Scores per name that the comparison looks back at."""
SHARE = 0.05
"""A score counts as bad when it is below this quantile of the window, best side up."""
WARM_UP = 50
"""Scores needed before the quantile means anything."""


class TailSampling:
    """Remembers recent lexical scores and picks out the worst. For one thread."""

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
                # Every score is taken in, also once the decision has fallen.
                recent.add(goodness)
        empty = scores.get("empty_retrieval")
        found_nothing = sample.contexts == () or (empty is not None and empty.value == 1.0)
        if low or found_nothing or sample.status == "error":
            return True
        return verdict is not None and verdict.word == "bad"
