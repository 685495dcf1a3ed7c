"""An answer's claims beyond its chunks: words, numbers, names, denials, sentence by sentence.

`lexical_groundedness`, `support` and `fact_conflict` share it, so they refer to the same sentence and the
same facts, and analyse a request once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ragmeter.metrics._display.wording import first_words, number_of, quote_text
from ragmeter.metrics._process.lazy_attribute import lazy_attribute
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import ScoreItem
from ragmeter.metrics.text.analysis import Analysis, analyse, analyse_all, latest
from ragmeter.metrics.text.citations import without_marks
from ragmeter.metrics.text.framing import claim_terms, claim_texts, compared_terms, fenced_code
from ragmeter.metrics.text.negation import Denial, denials
from ragmeter.metrics.text.scripts import share_a_script
from ragmeter.metrics.text.terms import (
    SearchTerms,
    Vocabulary,
    absent_runs,
    as_written,
    credit_each,
    find_terms,
    search_terms,
    together,
)

from .precision_recall_f1 import MOST_ITEMS

if TYPE_CHECKING:
    from ragmeter.metrics.text.facts import Fact

FACT = 2
"""Number of words for which a number or name counts, in support and in the choice of the weakest sentence."""


class Absent(NamedTuple):
    """A number or name that no chunk has."""

    fact: Fact
    instead: tuple[int, str, str] | None
    """The chunk's index, its sentence and its differing fact."""


@dataclass(frozen=True)
class Claims:
    """The claims of an answer, matched with its chunks."""

    answer: Analysis
    contexts: Sequence[Analysis]
    texts: Sequence[str]
    """The part of each sentence that may claim something."""
    terms: Sequence[Sequence[str]]
    """The claiming terms of each sentence."""
    looked_for: SearchTerms
    """All terms of the answer."""
    each: Sequence[Vocabulary]
    """The terms of the answer that each chunk has, claiming or not."""
    held: Vocabulary
    """The combined terms of the chunks."""
    unsupported: Sequence[float]
    """The number of claiming terms of each sentence that no chunk has, nor their amount in other words."""
    longest_run: int
    """Longest run of terms that no chunk has: inventions are contiguous, a paraphrase is scattered."""
    facts: Sequence[Absent]
    """Numbers and names that no chunk has."""
    denied: Sequence[Denial]
    """Clauses whose opposite a chunk states."""

    def sentence_items(self, shares: Sequence[float | None]) -> list[ScoreItem]:
        """Return the answer's sentences as evidence, each with its share of words that chunks have."""
        return [
            ScoreItem(f"sentence-{at}", None, text, None, None, share)
            for at, (text, share) in enumerate(zip(self.answer.sentences[:MOST_ITEMS], shares, strict=False), 1)
        ]

    @lazy_attribute
    def comparable(self) -> bool:
        """Whether the answer is in a script that a chunk is written in."""
        return share_a_script(self.answer, self.contexts)

    @lazy_attribute
    def weakest_said(self) -> tuple[str, str]:
        """Describe the weakest sentence, with and without its unsupported words; empty if there is none."""
        at = self.weakest
        if at is None:
            return "", ""
        lacking, _ = absent_runs([*dict.fromkeys(self.terms[at])], self.held)
        words = f", not found: {first_words(as_written(lacking, self.answer))}" if lacking else ""
        return (
            f"; least: {quote_text(self.answer.sentences[at])}{words}",
            f"; weakest: sentence-{at + 1} ({number_of(self.unsupported[at], 'unsupported word')})",
        )

    @lazy_attribute
    def weakest(self) -> int | None:
        """Index of the sentence with most unsupported content; None: no such sentence."""
        weights = list(self.unsupported)
        for fact, _ in self.facts:
            weights[fact.sentence] += FACT
        for denial in self.denied:
            weights[denial.sentence] += FACT
        worst = max(weights, default=0.0)
        return weights.index(worst) if worst > 0 else None


def claims_of(sample: RagSample, *, carried: bool = True) -> Claims:
    """Return an answer's claims; cached for the metrics of the same request.

    Args:
        sample: The request.
        carried: Whether chunks of earlier turns count.
    """
    contexts = [item.text for item in (sample.support if carried else sample.contexts or ())]
    key = ("claims", sample.question, sample.answer, *contexts)
    return latest(key, lambda: _claims(sample.question or "", sample.answer or "", contexts))


def _claims(question: str, answer: str, texts: Sequence[str]) -> Claims:
    # Its rules take longer to compile than the rest of a metric; building a meter does not need them.
    from ragmeter.metrics.text.facts import absent_facts  # noqa: PLC0415
    from ragmeter.metrics.text.nearest_sentence import nearest_sentence  # noqa: PLC0415

    said = without_marks(answer)
    contexts = analyse_all(texts)
    for context in contexts:
        context.cut_by_sentence()  # other metrics need the sentences
    texts, terms = said.memoize(claim_texts), said.memoize(claim_terms)
    looked_for = said.memoize(_every_term)
    each = [find_terms(context, looked_for) for context in contexts]
    there = together(each)
    unsupported = [len(one) - found for one, found in zip(terms, credit_each(terms, there), strict=True)]
    runs = [
        absent_runs(one, there) if missing else ([], 0) for one, missing in zip(terms, unsupported, strict=True)
    ]
    lacking = [absent for absent, _ in runs]
    asked = analyse(question)
    absent, restated = absent_facts(texts, terms, lacking, contexts, asked, said.memoize(fenced_code))
    for at, again in enumerate(restated):
        if again and lacking[at]:
            runs[at] = absent_runs(terms[at], there._replace(words=there.words.union(again)))
            unsupported[at] -= len(lacking[at]) - len(runs[at][0])
    facts = [
        Absent(fact, nearest_sentence(fact, texts[fact.sentence], terms[fact.sentence], contexts, each))
        for fact in absent
    ]
    return Claims(
        said,
        contexts,
        texts,
        terms,
        looked_for,
        each,
        there,
        unsupported,
        max((run for _, run in runs), default=0),
        [one for one in facts if one.fact.is_number or one.instead],
        denials(texts, terms, lacking, contexts),
    )


def _every_term(answer: Analysis) -> SearchTerms:
    sentences = (*answer.memoize(compared_terms), *answer.memoize(claim_terms))
    return search_terms(chain.from_iterable(sentences))
