"""What `evaluate` returns: a list of samples' scores that also says what they amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean
from typing import Any

from . import _notebook as notebook
from .sample import RagSample
from .score import Score, ScoreDirection
from .verdict import Verdict, VerdictRules

__all__ = ["Evaluation", "SampleScores", "ScoreMean"]

_WORST_FIRST = ("bad", "suspect", None, "good")


class SampleScores(dict[str, Score]):
    """The scores of one sample by name, in the order of the metrics, and what they say together."""

    def __init__(self, scores: Iterable[Score], sample: RagSample, rules: VerdictRules) -> None:
        super().__init__((score.name, score) for score in scores)
        self.sample = sample
        """What was scored."""
        self.verdict: Verdict | None = rules.verdict(self, sample.status)
        """``good``, ``suspect`` or ``bad`` with the reasons; None: nothing that could be judged by."""

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per score: ``score``, ``value``, ``status``, ``label``, ``explanation``.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return notebook.frame_of_scores(self)

    def _repr_html_(self) -> str:
        return notebook.html_of_scores(self, self.verdict)


@dataclass(frozen=True, slots=True)
class ScoreMean:
    """All scores of one name."""

    name: str
    """The score's name."""
    count: int
    """How many samples have a value."""
    mean: float | None
    """The mean of the values; None when there is none. Its interval: ``ragmeter evaluate``."""
    without_value: Mapping[str, int]
    """How many have none, by status."""
    direction: ScoreDirection
    """Which way is better."""


class Evaluation(list[SampleScores]):
    """A list of `SampleScores`, one per sample in order, with a summary and the worst of them."""

    @property
    def summary(self) -> dict[str, ScoreMean]:
        """What the scores of each name amount to, in the order of the metrics."""
        by_name: dict[str, list[Score]] = {}
        for scores in self:
            for name, score in scores.items():
                by_name.setdefault(name, []).append(score)
        return {name: _mean(name, scores) for name, scores in by_name.items()}

    def worst(self, count: int = 5) -> list[SampleScores]:
        """Return the samples to look at first: by verdict, then by how low their scores are.

        Args:
            count: How many, at most.
        """
        return [self[number] for number in self._worst_first()[:count]]

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row per sample: question, verdict, codes, and each score.

        A score without a value is ``<NA>``, never 0.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return notebook.frame_of_rows(self._rows())

    def _rows(self) -> list[notebook.Row]:
        return [notebook.Row(each.sample.question, each, each.verdict) for each in self]

    def _worst_first(self) -> list[int]:
        def badness(number: int) -> tuple[int, float]:
            scores = self[number]
            word = None if scores.verdict is None else scores.verdict.word
            good = [
                score.value if score.direction == "higher" else 1.0 - score.value
                for score in scores.values()
                if score.value is not None
                and score.direction != "none"
                and score.range == (0.0, 1.0)
            ]
            return _WORST_FIRST.index(word), fmean(good) if good else 1.0

        return sorted(range(len(self)), key=badness)

    def _repr_html_(self) -> str:
        rows = self._rows()
        means = [
            [
                escape(one.name),
                str(one.count),
                "–" if one.mean is None else f"{one.mean:.2f}",
                ", ".join(f"{count} {status}" for status, count in one.without_value.items()),
            ]
            for one in self.summary.values()
        ]
        summary = notebook.html_table(["score", "n", "mean", "without a value"], means)
        worst = notebook.html_of_rows(rows, self._worst_first()[:5])
        return f"{notebook.html_of_verdicts(rows)}{summary}<p><b>The worst</b></p>{worst}"


def _mean(name: str, scores: Sequence[Score]) -> ScoreMean:
    values = [score.value for score in scores if score.value is not None]
    return ScoreMean(
        name=name,
        count=len(values),
        mean=fmean(values) if values else None,
        without_value=Counter(score.status for score in scores if score.value is None),
        direction=scores[0].direction,
    )
