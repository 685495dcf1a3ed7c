"""How much of what was retrieved is golden, and how much of the golden was retrieved?

One metric, three scores, four matching strategies; matches are found in `matching`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ragmeter.metrics._display.wording import number_of, quote_text
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem, ScoreMethod

from ._matching import Components, Matcher, MatchingBackend, MatchingStrategy, TruthMatch

MOST_ITEMS: Final = 500
"""Most evidence items per score; a chunk of megabytes has more sentences than anyone reads."""
# A request has a hundred items or more, whose fields are known to have the right types: validating each again
# takes two thirds of the time to create them.
_item: Callable[[tuple[object, ...]], ScoreItem] = partial(tuple.__new__, ScoreItem)
_NO_GOLDEN = ("no golden context", "no golden context")


@dataclass(frozen=True)
class PrecisionRecallF1(ComputedMetric):
    """How much of what was retrieved is golden, and how much of the golden was retrieved?

        precision = retrieved components that match a golden one / retrieved components
        recall    = distinct golden components that are matched / distinct golden components
        f1        = 2PR / (P + R), 0.0 when both are 0

    A component is a chunk or a sentence, as the strategy says; one may match many.  Retrieved
    repeats count each time.  Layout is no difference (line breaks, indentation, ``>``); a sentence
    has a letter or digit, and a golden chunk without one matches only its equal.

    Range: 0.0 to 1.0 each, dimensionless.
    Needs: ``contexts``, ``reference.contexts``.
    Cost: no judge; tens of microseconds for short chunks.
    Source: continuous-eval 0.3.14, ``PrecisionRecallF1``; ROUGE-L after Lin 2004.
    Differs from the source: thresholds are reached with ``>=`` (its code, not its page); ROUGE-L is
        the textbook one on Unicode tokens unless ``backend="rouge_compat"``; nothing to divide by
        is ``undefined`` unless ``zero_division`` says otherwise.  ``rouge_compat`` with
        ``zero_division=0.0`` and nltk's punkt as `split_sentences` gives its numbers bit for bit.

    Args:
        strategy: What is compared, and how: a `MatchingStrategy` or its value.
        threshold: Least ROUGE-L recall, over 0.0 to 1.0; None: 0.7 for chunks, 0.8 for sentences.
        backend: ``unicode`` (English, Russian and Chinese alike) or ``rouge_compat``.
        zero_division: Value in place of ``undefined``; None: no value.
        dedupe_retrieved: Count equal retrieved components once.
        split_sentences: Splits a chunk into sentences; None: `ragmeter.metrics.sentences`.

    Without a value:
        ``missing_input``: no golden contexts were given, or retrieval was not captured.
        ``undefined``: `precision` when nothing was retrieved; `recall` and `f1` when the golden
        contexts were given empty.
    """

    strategy: MatchingStrategy = MatchingStrategy.ROUGE_SENTENCE_MATCH
    threshold: float | None = None
    backend: MatchingBackend = "unicode"
    zero_division: float | None = None
    dedupe_retrieved: bool = False
    split_sentences: Callable[[str], Sequence[str]] | None = None
    method: ScoreMethod = field(init=False)
    definition: str = field(init=False)
    _matcher: Matcher = field(init=False, repr=False, compare=False)

    name = "precision_recall_f1"
    score_names = ("precision", "recall", "f1")
    needs = ("contexts", "reference.contexts")
    target = "retrieval"

    def __post_init__(self) -> None:
        if self.zero_division is not None and not 0 <= self.zero_division <= 1:
            raise ConfigurationError(f"zero_division is {self.zero_division!r}; it is None or from 0.0 to 1.0")
        matcher = Matcher(self.strategy, self.threshold, self.backend, self.split_sentences)
        object.__setattr__(self, "strategy", matcher.strategy)
        object.__setattr__(self, "_matcher", matcher)
        object.__setattr__(self, "method", "rouge" if matcher.strategy.uses_rouge else "exact")
        object.__setattr__(self, "definition", matcher.definition)

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Match and count, with the matches as evidence."""
        golden = sample.reference.contexts if sample.reference else ()
        texts = [context.text for context in sample.contexts or ()]
        retrieved, truth = self._matcher.components(texts, golden)
        truth = truth.distinct()
        if self.dedupe_retrieved:
            retrieved = retrieved.distinct()
        matches = self._matcher.match(retrieved, truth)
        found_by: dict[int, tuple[int, float | None]] = {}
        for position, match in enumerate(matches):
            for index in match.matched:
                found_by.setdefault(index, (position, match.value if index == match.best else None))
        precision = len(found_by) / retrieved.size if retrieved.size else None
        recall = sum(bool(match.matched) for match in matches) / truth.size if truth.size else None
        f1 = None if recall is None else _harmonic_mean(precision or 0.0, recall)
        nothing_retrieved = "nothing was retrieved"
        if sample.contexts and not retrieved.size:
            nothing_retrieved = "no retrieved context has a sentence"
        unit = "sentence" if self.strategy.by_sentence else "chunk"
        right = f"{len(found_by)} of {number_of(retrieved.size, f'retrieved {unit}')} golden"
        found = sum(bool(match.matched) for match in matches)
        covered = f"{found} of {number_of(truth.size, f'golden {unit}')} retrieved"
        missed = [text for text, match in zip(truth.texts, matches, strict=False) if not match.matched]
        lost = f"{covered}; not {quote_text(missed[0])}" if missed else covered
        return (
            self._score(
                "precision",
                precision,
                (right, right) if retrieved.size else (nothing_retrieved, nothing_retrieved),
                _retrieved_items(retrieved, truth, found_by),
            ),
            self._score(
                "recall",
                recall,
                (lost, covered) if truth.size else _NO_GOLDEN,
                _golden_items(retrieved, truth, matches),
            ),
            self._score(
                "f1", f1, (f"{right}, {lost}", f"{right}, {covered}") if truth.size else _NO_GOLDEN, ()
            ),
        )

    def _score(
        self, name: str, value: float | None, said: tuple[str, str], items: Sequence[ScoreItem]
    ) -> Score:
        explanation, summary = said
        return self.make_score(
            name,
            self.zero_division if value is None else value,
            explanation=explanation,
            summary=summary,
            items=items,
        )


def _harmonic_mean(precision: float, recall: float) -> float:
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


def _retrieved_items(
    retrieved: Components, truth: Components, found_by: dict[int, tuple[int, float | None]]
) -> list[ScoreItem]:
    """Return evidence for each retrieved component: the first golden one that it matches."""
    items: list[ScoreItem] = []
    for index, (item, text) in enumerate(zip(retrieved.ids[:MOST_ITEMS], retrieved.texts, strict=False)):
        by = found_by.get(index)
        if by is None:
            items.append(_item((item, False, text, None, None, None)))
        else:
            position, value = by
            items.append(_item((item, True, text, truth.texts[position], None, value)))
    return items


def _golden_items(retrieved: Components, truth: Components, matches: Sequence[TruthMatch]) -> list[ScoreItem]:
    """Return evidence for each golden component: the nearest retrieved one."""
    texts = retrieved.texts
    return [
        _item((item, bool(matched), text, None if best is None else texts[best], None, value))
        for item, text, (matched, best, value) in zip(
            truth.ids[:MOST_ITEMS], truth.texts, matches, strict=False
        )
    ]
