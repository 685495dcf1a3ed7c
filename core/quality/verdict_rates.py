"""The share of requests with a verdict that people label bad.

From labels drawn by `ragmeter label`; requests picked by hand are worse than others with their verdict, and
do not count.  Read by `ragmeter label` and `agreement`, by the meter and by the server's page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.metrics._display.wording import percent
from ragmeter.metrics.sample import SampleStatus
from ragmeter.metrics.verdict import Verdict, VerdictRules

from .labels import Label, labelled_requests, probability_sample, read_labels

LEAST_LABELS = 50
"""Least number of labelled requests with a verdict for these rates to replace the defaults."""
GOOD_FROM = 0.75
"""Least label of a good request: grade 4 of 5."""
_WORDS = ("good", "suspect", "bad")


class VerdictRate(NamedTuple):
    """P(people: bad | word), with its 95 % interval (Wilson's, 1927)."""

    word: str
    """The word of a verdict, or another name of a part of the requests."""
    share: float
    """Share of the requests with this word that people call bad, 0 to 1."""
    lower: float
    upper: float
    n: int
    """Labelled requests with this word."""


def verdict_rates(
    labels: Iterable[Label], good_from: float = GOOD_FROM, words: Sequence[str] = _WORDS
) -> tuple[VerdictRate, ...]:
    """Return the rate of each word that labelled requests have, weighted by their drawing probabilities.

    Args:
        labels: Labels of one score; volunteered ones, and those without verdict or value, do not count.
        good_from: Least mean of a request's raters for it to be good.
        words: The words of a verdict, in the order of the rates.
    """
    by_word: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for one in probability_sample(labelled_requests(labels)):
        if one.mean is not None:
            by_word[one.verdict].append((1 / (one.probability or 1.0), one.mean < good_from))
    found = []
    for word in filter(by_word.__contains__, words):
        said = by_word[word]
        weight = sum(each for each, _ in said)
        share = sum(each for each, is_bad in said if is_bad) / weight
        n_eff = weight**2 / sum(each * each for each, _ in said)
        found.append(VerdictRate(word, share, *wilson_interval(share, n_eff), len(said)))
    return tuple(found)


def rates_in(path: Path) -> Mapping[str, VerdictRate]:
    """Return the rates by word of the most labelled score in a file; empty below `LEAST_LABELS`.

    Raises:
        ConfigurationError: The file cannot be read, or has lines but no label.
    """
    labels, bad = read_labels(path)
    if bad and not labels:
        raise ConfigurationError(f"{str(path)!r}, line {bad[0].line}: {bad[0].reason}")
    return rates_of(labels)


def rates_of(labels: Iterable[Label], words: Sequence[str] = _WORDS) -> Mapping[str, VerdictRate]:
    """Return the rates by word of the most labelled score; empty below `LEAST_LABELS`."""
    by_score: dict[str, list[Label]] = defaultdict(list)
    for one in labels:
        by_score[one.score].append(one)
    every = [verdict_rates(found, words=words) for found in by_score.values()]
    most = max(every, key=lambda rates: sum(one.n for one in rates), default=())
    if sum(one.n for one in most) < LEAST_LABELS:
        return {}
    return {one.word: one for one in most}


def sentences(rates: Mapping[str, VerdictRate]) -> dict[str, str]:
    """Return each rate as a sentence."""
    return {
        word: f"of {one.n} labelled requests called {word} here, people call {percent(one.share)} bad "
        f"[{100 * one.lower:.0f}, {100 * one.upper:.0f}]"
        for word, one in rates.items()
    }


@dataclass(frozen=True, kw_only=True)
class _RatedRules(VerdictRules):
    """Rules whose verdicts include the rate of their word."""

    rates: Mapping[str, str] = field(default_factory=dict, hash=False)

    def of_values(self, values: Mapping[str, float], status: SampleStatus = "ok") -> Verdict | None:
        verdict = super().of_values(values, status)
        rate = None if verdict is None else self.rates.get(verdict.word)
        return verdict if verdict is None or rate is None else verdict.model_copy(update={"rate": rate})


def rated_rules(rules: VerdictRules, labels: Path) -> VerdictRules:
    """Return rules whose verdicts include the rate of their word; unchanged below `LEAST_LABELS`.

    Raises:
        ConfigurationError: The file of labels cannot be read.
    """
    rates = rates_in(labels)
    return _RatedRules(**asdict(rules), rates=sentences(rates)) if rates else rules
