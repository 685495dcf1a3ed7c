"""Which of the scored requests go out, and which of those are judged, each with its probability.

Three things decide: the request's places (see `sampling`), the probability that the judge's budget
allows (`pacing`), and whether it is among the worst of late (`worst`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ragmeter.exporters.protocol import Selection
from ragmeter.metrics import RagSample, Score

from ._pacing import JudgePacer
from ._rates import Purpose, place, within
from ._worst import WorstKeeper
from .scoring import Chances

__all__ = ["Candidate", "Choice", "Selector"]


class Candidate(NamedTuple):
    """A request that may be chosen, as far as choosing by chance goes."""

    run_id: str | UUID
    trace_id: int | None

    def within(self, purpose: Purpose, rate: float) -> bool:
        """Return whether the request is among the share `rate` chosen for `purpose`.

        Its place is worked out when somebody asks, which is rarely on its own path.
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
        pacer: Lowers that as the budget demands; None: nothing is judged.
        worst: Picks out the worst; None: chance alone decides.
    """

    def __init__(
        self,
        sample_rate: float,
        judge_sample_rate: float,
        pacer: JudgePacer | None,
        worst: WorstKeeper | None,
    ) -> None:
        self._sample_rate = sample_rate
        self._judge_sample_rate = judge_sample_rate
        self._pacer = pacer
        self._worst = worst

    def choose(
        self, candidate: Candidate, sample: RagSample, scores: Mapping[str, Score]
    ) -> Choice | None:
        """Return what becomes of a scored request; None: it is sampled out."""
        worst = self._worst is not None and self._worst.keeps(sample, scores)
        sampled = candidate.within("sample", self._sample_rate)
        if not worst and not sampled:
            return None
        sample_rate = 1.0 if worst else self._sample_rate
        selection: Selection = "sampled" if sampled else "worst"
        if self._pacer is None:
            return Choice(Chances(sample_rate, 1.0, selection, selection), None)
        judge_rate = self._pacer.arrived()
        chosen = candidate.within("judge", judge_rate)
        # Room for bad ones was there, or not, before anybody knew that this is one.
        if worst and self._pacer.takes_worst():
            judge_selection: Selection = selection if chosen else "worst"
            return Choice(Chances(sample_rate, 1.0, selection, judge_selection), None)
        unjudged = None
        if not chosen:
            wanted = candidate.within("judge", self._judge_sample_rate)
            unjudged = "paced" if wanted else "sampled_out"
        return Choice(Chances(sample_rate, judge_rate, selection, selection), unjudged)
