"""Counts every request once for the estimates of quality, with the probability that it was chosen with.

A station beside the others: the scoring thread counts a request when its free scores are there, and again
when a reference came late; what that returns counts the judged scores when they have come.  The
sums themselves, and what is read off them, belong to `ragmeter.quality`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragmeter._runtime.guard import Guard
from ragmeter.exporters.protocol import RagRun, Selection
from ragmeter.metrics import Score, Verdict
from ragmeter.quality.manner import ungrounded_shares
from ragmeter.quality.population import JudgedScore, Population
from ragmeter.quality.sums import CountedRequest, QualityTable
from ragmeter.quality.verdict_shares import CountedShare, verdict_shares

from .cascade import JudgingSteps
from .sampling import Choice

if TYPE_CHECKING:
    from ragmeter.watch.version_watch import VersionWatch

__all__ = ["Counting", "OnJudged"]

OnJudged = Callable[[Mapping[str, Score]], None]
"""Counts the judged scores of a request; given all scores that are known of it."""


class Counting:
    """Counts requests. For one thread; what it returns may be called on any.

    Args:
        table: Holds the sums.
        population: Says which judged scores a request is a case of.
        scores_all: Whether requests are scored that are sampled out (``keep="worst"``).
        guard: Contains our own errors: a request goes on whatever becomes of its count.
        versions: Compares new versions with those before; None: no one wants to know.
    """

    def __init__(
        self,
        table: QualityTable,
        population: Population,
        guard: Guard,
        *,
        scores_all: bool,
        versions: VersionWatch | None = None,
    ) -> None:
        self._table = table
        self._population = population
        self._guard = guard
        self._scores_all = scores_all
        self._versions = versions

    def count_request(
        self,
        run: RagRun,
        scores: Mapping[str, Score],
        verdict: Verdict | None,
        choice: Choice | None,
        asked: JudgingSteps | None = None,
    ) -> OnJudged | None:
        """Count a request that was scored for free; return what counts its judged scores.

        Args:
            run: The request.
            scores: Its free scores.
            verdict: What these say together.
            choice: What becomes of it.
            asked: Which of the judged scores it is asked for; None: all.
        """
        if choice is None and not self._scores_all:
            return None  # not among those whose mean is estimated
        if self._versions is not None:
            with self._guard:
                self._versions.add(run, scores, verdict)
        with self._guard:
            judged = self._population.scores_of(run.sample)
            free: dict[str, Score | CountedShare] = dict(scores)
            for share in (*verdict_shares(verdict), *ungrounded_shares(scores)):
                free[share.name] = share
            counted = self._table.count_request(run, free, judged)
            if counted is not None and judged and choice is not None and choice.unjudged is None:
                probability = choice.chances.judge_sample_rate
                if self._scores_all:
                    # Those that were sampled out were seen, too.
                    probability *= choice.chances.sample_rate
                by_chance = choice.chances.judge_selection == "sampled"
                return self._on_judged(counted, judged, probability, asked, by_chance=by_chance)
        return None

    def count_reference(
        self, before: RagRun, run: RagRun, scores: Mapping[str, Score], selection: Selection
    ) -> OnJudged | None:
        """Count what the first reference of a request made possible; later ones change no sum.

        Requests that are known only because they are bad are left out: the others of their kind
        were forgotten.

        Args:
            before: The request as it was.
            run: The request with its reference.
            scores: The free scores that the reference made possible.
            selection: How it came to be exported.
        """
        if before.sample.reference is not None or run.sample.reference is None:
            return None
        if selection == "worst":
            return None
        with self._guard:
            earlier = frozenset(self._population.scores_of(before.sample))
            judged = [one for one in self._population.scores_of(run.sample) if one not in earlier]
            counted = self._table.count_request(run, scores, judged, about=" with reference")
            if counted is not None and judged:
                # Whatever is asked about it now is asked about every request that is amended.
                return self._on_judged(counted, judged, 1.0)
        return None

    def _on_judged(
        self,
        counted: CountedRequest,
        judged: Sequence[JudgedScore],
        probability: float,
        asked: JudgingSteps | None = None,
        *,
        by_chance: bool = True,
    ) -> OnJudged:
        def count(scores: Mapping[str, Score]) -> None:
            with self._guard:
                if asked is None:
                    self._table.count_judged(
                        counted, scores, judged, probability, by_chance=by_chance
                    )
                    return
                for one in judged:
                    if (rate := asked.rate_of(one.name)) is not None:
                        chance = by_chance and rate[1]
                        known = probability * rate[0]
                        self._table.count_judged(counted, scores, [one], known, by_chance=chance)

        return count
