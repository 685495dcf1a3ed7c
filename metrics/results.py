"""The results of `evaluate` and `ragmeter.Scorer`: a list of samples' scores, and their summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from ._display import data_frames as frames
from ._display import html
from ._display.failures import Failures
from ._display.ranking import RULE, badness_of
from ._display.summary import ScoreSummary, summarize
from .sample import RagSample
from .score import Score
from .verdict import Verdict, VerdictRules

SHOWN = 10
"""Most rows shown in a notebook."""


class SampleScores(dict[str, Score]):
    """The scores of one sample by name, in the order of the metrics, and their verdict."""

    def __init__(self, scores: Iterable[Score], sample: RagSample, rules: VerdictRules) -> None:
        super().__init__((score.name, score) for score in scores)
        self.sample = sample
        """The sample."""
        self.verdict: Verdict | None = rules.verdict(self, sample.status)
        """``good``, ``suspect`` or ``bad`` with the reasons; None: no basis for a verdict."""

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per score: ``score``, ``value``, ``status``, ``label``, ``explanation``.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return frames.frame_of_scores(self.values())

    def _repr_html_(self) -> str:
        return html.fragment(html.request(_html_row(self)))


class Summaries(dict[str, ScoreSummary]):
    """The summaries of scores by name, in the order of the metrics."""

    def __init__(self, summaries: Iterable[ScoreSummary], failures: Sequence[str] = ()) -> None:
        super().__init__((one.name, one) for one in summaries)
        self.failures = list(failures)
        """Scores lost to a failing judge or metric: a line for each kind, the most frequent first, with an
        example."""

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per score name: number of values, mean, interval and percentiles.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return frames.frame_of_summaries(self.values())

    def _repr_html_(self) -> str:
        return html.fragment(html.summary_table(list(self.values())), html.problems(self.failures))


class Evaluation(list[SampleScores]):
    """A list of `SampleScores`, one per sample in order, with a summary and the worst samples."""

    @property
    def summary(self) -> Summaries:
        """The summary by score name: mean with its 95 % interval, percentiles, missing values."""
        failures = Failures()
        for number, each in enumerate(self):
            for score in each.values():
                failures.add(score, f"row {number}")
        return Summaries(summarize(self), failures.lines())

    def worst(self, count: int = 5) -> list[SampleScores]:
        """Return the samples to inspect first: by verdict, then by how low their scores are.

        Args:
            count: Largest number of samples.
        """
        return [self[number] for number in self._worst_first()[:count]]

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per sample: question, verdict, codes, and each score.

        A score without a value is ``<NA>``, never 0.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return frames.frame_of_rows([_html_row(each) for each in self])

    def _worst_first(self) -> list[int]:
        badness = [badness_of(each.values(), each.verdict.word if each.verdict else None) for each in self]
        return sorted(range(len(self)), key=badness.__getitem__, reverse=True)

    def _questions_first(self) -> list[html.ShownRow]:
        """Return the worst sample of each of the worst questions, with the number that it represents."""
        worst: dict[str | int, int] = {}
        times: Counter[str | int] = Counter()
        for number in self._worst_first():
            question = self[number].sample.question
            key = number if question is None else question
            worst.setdefault(key, number)
            times[key] += 1
        return [
            _html_row(self[number], f"row {number}")._replace(times=times[key])
            for key, number in islice(worst.items(), SHOWN)
        ]

    def _repr_html_(self) -> str:
        summary = self.summary
        return html.fragment(
            html.overview([each.verdict for each in self]),
            html.summary_table(list(summary.values())),
            html.problems(summary.failures),
            f'<p class="soft">{RULE}</p>',
            html.rows_table(self._questions_first(), summary),
        )


def _html_row(one: SampleScores, place: str = "") -> html.ShownRow:
    return html.ShownRow(one.sample.question, one, one.verdict, place)
