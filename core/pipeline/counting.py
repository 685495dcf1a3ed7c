"""Count every request once for the estimates of quality, with its sampling probability.

The scoring thread counts a request with its free scores, and again with a late reference; the returned
callback counts the judged scores. The sums and estimates belong to `ragmeter.quality`.
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

from .sampling import Choice, JudgingSteps

if TYPE_CHECKING:
    from ragmeter.watch.version_watch import VersionWatch

OnJudged = Callable[[Mapping[str, Score]], None]
"""Counts the judged scores of a request, given all its scores."""


class Counting:
    """Counts requests. For one thread; the returned callbacks may run on any.

    Args:
        population: Returns the judged scores that apply to a request.
        scores_all: Whether sampled-out requests are scored, too (``keep="worst"``).
        guard: Contains internal errors, so that a request continues in any case.
        versions: Compares new versions with the one before; None: no alarms.
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
        """Count a request with its free scores; return the callback for its judged scores.

        Args:
            run: The request.
            scores: Its free scores.
            verdict: Their verdict.
            choice: Whether it is exported and judged.
            asked: The steps of its judging cascade; None: no cascade.
        """
        if choice is None and not self._scores_all:
            return None  # not in the estimated population
        if self._versions is not None:
            with self._guard:
                self._versions.add(run, scores, verdict)
        with self._guard:
            judged = self._population.scores_of(run.sample)
            free: dict[str, Score | CountedShare] = dict(scores)
            word = None if verdict is None else verdict.word
            for share in (*verdict_shares(word), *ungrounded_shares(scores)):
                free[share.name] = share
            counted = self._table.count_request(run, free, judged)
            if counted is not None and judged and choice is not None and choice.unjudged is None:
                probability = choice.chances.judge_sample_rate
                if self._scores_all:
                    # The population includes sampled-out requests.
                    probability *= choice.chances.sample_rate
                by_chance = choice.chances.judge_selection == "sampled"
                return self._on_judged(counted, judged, probability, asked, by_chance=by_chance)
        return None

    def count_reference(
        self, before: RagRun, run: RagRun, scores: Mapping[str, Score], selection: Selection
    ) -> OnJudged | None:
        """Count the scores made possible by a request's first reference; later references change no sum.

        Requests selected only for being bad are left out: they are not a random sample of their kind.

        Args:
            before: The request without its reference.
            run: The request with its reference.
            scores: The free scores that the reference made possible.
            selection: Why it was exported.
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
                # Every amended request gets these judged scores.
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
                    self._table.count_judged(counted, scores, judged, probability, by_chance=by_chance)
                    return
                for one in judged:
                    if (rate := asked.rate_of(one.name)) is not None:
                        chance = by_chance and rate[1]
                        known = probability * rate[0]
                        self._table.count_judged(counted, scores, [one], known, by_chance=chance)

        return count
