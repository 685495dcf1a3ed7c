"""How far do the chunks carry the answer: its words, their order, and the worst that is in none?

The number behind the verdict. It is no share of anything; `lexical_groundedness` is the one for people.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from operator import not_
from types import MappingProxyType

from rapidfuzz.distance import LCSseq

from ragmeter.metrics._wording import counted
from ragmeter.metrics.metric import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score
from ragmeter.metrics.text.analysis import Analysis
from ragmeter.metrics.text.function_words import has_cyrillic
from ragmeter.metrics.text.scripts import share_a_script
from ragmeter.metrics.text.terms import sentence_terms
from ragmeter.metrics.text.tokens import has_han, normalise

from ._claims import Claims, claims_of

__all__ = ["Support"]

_OFF = 0.04
"""Taken off for each unsupported word of the longest run of them, and for each fact that is in no chunk."""
_LONGEST_RUN = 5
"""Words of an invented clause; a longer run says no more."""
_MOST_FACTS = 2
_LOOKED_UP = 256
"""Runs of characters up to which each is looked for in a chunk: cheaper than all runs of the chunk."""
_GRAM = 5
_HAN_GRAM = 3


@dataclass(frozen=True)
class Support(ComputedMetric):
    """How far do the chunks carry what the answer claims?

        lacking = 1 - (words + neighbours + order) / 3
        support = 1 - lacking / 2 - .04 (longest run, 5 at most, + facts, 2 at most), not below 0
        words      = share of the answer's claiming words that any chunk has
        neighbours = share of its pairs of neighbouring words that a chunk has; of Cyrillic text:
                     of its runs of five characters, which forgive endings; of Chinese, of three
        order      = longest common subsequence with the chunks / claiming words
        unsupported_words_max = unsupported words of the sentence that has most

    Words about the given texts, the question and the answer ("based on the provided passages"), numbers that
    only count ("passage 3"), function words and sentences that refuse claim nothing.  The longest run is of
    unsupported words in a row: what is invented stands together, a paraphrase is scattered.  Facts: as
    `fact_conflict`.

    Range: support 0.0 to 1.0, no share of anything: read `lexical_groundedness`; below .52 the verdict is bad,
        below .65 suspect.  unsupported_words_max: 0 up, lower is better; to sort by, no rule reads it.
    Needs: ``contexts``, ``answer``.
    Cost: no judge.
    Source: ours; constants chosen by hand among several dozen variants, on MTRAG and halves of RAGTruth QA,
        BEGIN and RCB, whose figures in docs/verdict.md are therefore optimistic.
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no answer, or retrieval was not captured; ``skipped``: it failed.
        ``undefined``: the answer claims nothing, or is in a script that no context is written in.
    """

    name = "support"
    score_names = ("support", "unsupported_words_max")
    needs = ("contexts", "answer")
    method = "lexical"
    target = "answer"
    definition = "1"
    directions = MappingProxyType({"unsupported_words_max": "lower"})

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Compare words, neighbours and order; the evidence is per sentence."""
        claims = claims_of(sample)
        words = sum(map(len, claims.terms))
        if not words:
            return self._without_value("the answer claims nothing")
        if not share_a_script(claims.answer, claims.contexts):
            return self._without_value("answer and chunks are in different scripts")
        unsupported = sum(claims.unsupported)
        shares = (1 - unsupported / words, _neighbours(claims), _order(claims, words))
        facts = min(_MOST_FACTS, len(claims.facts) + len(claims.denied))
        value = (1 + sum(shares) / len(shares)) / 2 - _OFF * (
            min(_LONGEST_RUN, claims.longest_run) + facts
        )
        said, summary = claims.weakest_said
        most = max(claims.unsupported)
        return (
            self.make_score(
                "support",
                max(0.0, value),
                items=claims.sentence_items(),
                explanation=f"{unsupported:g} of {counted(words, 'claiming word')} in no chunk{said}",
                summary=f"{unsupported:g} of {counted(words, 'word')} unsupported{summary}",
            ),
            self.make_score(
                "unsupported_words_max",
                float(most),
                range=(0.0, None),
                explanation=f"at most {counted(most, 'unsupported word')} in a sentence{said}",
                summary=f"{most:g}{summary}",
            ),
        )

    def _without_value(self, why: str) -> tuple[Score, Score]:
        return (
            self.make_score("support", None, explanation=why, summary=why),
            self.make_score(
                "unsupported_words_max", None, range=(0.0, None), explanation=why, summary=why
            ),
        )


def _neighbours(claims: Claims) -> float:
    """Return the share of neighbours in the answer's claiming sentences that stand together in a chunk, too."""
    answer = claims.answer
    claiming = [bool(terms) for terms in claims.terms]
    text = answer.kept(_normalised)
    for sentence in compress(answer.sentences, map(not_, claiming)):
        text = text.replace(normalise(sentence), "", 1).strip().replace("  ", " ")
    if has_cyrillic(text) or has_han(text):
        length = _HAN_GRAM if has_han(text) else _GRAM
        said = _grams(text, length)
        there: set[str] = set()
        for context in claims.contexts:
            known = context.kept(_normalised)
            if len(said) > _LOOKED_UP:
                there |= said & _grams(known, length)
            else:
                there.update(filter(known.__contains__, said - there))
        return len(there) / len(said) if said else 1.0
    ends = [end + 1 for end in answer.sentence_ends]
    parts = (answer.stems[start:end] for start, end in zip([0, *ends], ends, strict=False))
    stems = list(chain.from_iterable(compress(parts, claiming)))
    pairs = [pair for pair in pairwise(stems) if pair != (None, None)]
    wanted = frozenset(pairs)
    held: set[tuple[str | None, str | None]] = set()
    for context in claims.contexts:
        held |= wanted.intersection(pairwise(context.stems))
    return sum(map(held.__contains__, pairs)) / len(pairs) if pairs else 1.0


def _normalised(known: Analysis) -> str:
    return normalise(known.plain)


def _grams(text: str, length: int) -> frozenset[str]:
    return frozenset(text[at : at + length] for at in range(len(text) - length + 1))


def _order(claims: Claims, words: int) -> float:
    """Return the longest common subsequence of terms, by the answer's."""
    said = [term for sentence in claims.terms for term in sentence]
    there: list[str] = []
    wanted = frozenset(said)
    for context in claims.contexts:
        held = (
            chain.from_iterable(context.kept(sentence_terms))
            if has_han(context.text)
            else context.stems
        )
        there += [term for term in held if term in wanted]
    return LCSseq.similarity(said, there) / words
