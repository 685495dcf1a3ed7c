"""How far do the chunks support the answer: its words, their order, and the longest unsupported run?

The number behind the verdict. It is not a share; `lexical_groundedness` is the one for people.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from types import MappingProxyType

from ragmeter.metrics._display.wording import number_of
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score
from ragmeter.metrics.text.analysis import Analysis
from ragmeter.metrics.text.function_words import has_cyrillic
from ragmeter.metrics.text.stems import CONTENT, MARK
from ragmeter.metrics.text.terms import in_order, word_lines
from ragmeter.metrics.text.tokens import has_han, line_tokens, normalise, runs_of_line

from ._claims import FACT, Claims, claims_of

_OFF = 0.05
"""Deduction for each word of the longest unsupported run, and for a fact as for `FACT` words."""
_LONGEST_RUN = 5
"""Longest run that counts, in words: the length of an invented clause."""
_SHARE_OF_RUN = 1 / 3
"""For a short answer, the share of its words beyond which a longer run does not count."""
_MOST_FACTS = 2
_LOOKED_UP = 256
"""Most runs of characters to search individually: cheaper than computing all runs of the chunks."""
_DECORATION = re.compile(r"(?:[^\w\s.,;:!?…-]|(?<!\S)[-]+(?!\S))+")
"""Characters to ignore: quotes, emoji, marks of lists and tables."""
_GRAM = 5
_HAN_GRAM = 3


@dataclass(frozen=True)
class Support(ComputedMetric):
    """How far do the chunks carry what the answer claims?

        lacking = 1 - (words + neighbours + order) / 3
        support = 1 - lacking / 2 - .25 run - .1 (facts, 2 at most), not below 0
        words      = share of the answer's claiming words that any chunk has
        neighbours = share of its pairs of neighbouring words that a chunk has; of Cyrillic text:
                     of its runs of five characters, which forgive endings; of Chinese, of three, where one
                     character stands for whatever parts two words
        order      = longest common subsequence with the chunks / claiming words, the chunks in the order in
                     which the answer speaks of them
        run        = longest run of unsupported words / 5, or / a third of the claiming words where these are
                     fewer than 15; 1 at most
        unsupported_words_max = unsupported words of the sentence that has most

    Words about the given texts, the question and the answer ("based on the provided passages"), numbers that
    only count ("passage 3"), amounts that a chunk has in another notation ("25 megabytes" for 25 MB), function
    words, bigrams of Chinese with a character of its grammar, replies ("No, ..."), sentences that refuse, and
    those that only agree or admire ("Yes, it is!") claim nothing. The longest run is of unsupported words in a
    row: what is invented stands together, a paraphrase is scattered. Facts: as `fact_conflict`.

    Range: support 0.0 to 1.0, no share of anything: read `lexical_groundedness`; below .47 the verdict is bad,
        below .58 suspect.  unsupported_words_max: 0 up, lower is better; to sort by, no rule reads it.
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
    reads_carried = True
    method = "lexical"
    target = "answer"
    definition = "8"
    directions = MappingProxyType({"unsupported_words_max": "lower"})
    ranges = MappingProxyType({"unsupported_words_max": (0.0, None)})

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Compare words, neighbours and order; the evidence is per sentence."""
        claims = claims_of(sample)
        words = sum(map(len, claims.terms))
        if not words:
            return self.undefined_scores("the answer claims nothing")
        if not claims.comparable:
            return self.undefined_scores("answer and chunks are in different scripts")
        unsupported = sum(claims.unsupported)
        shares = (1 - unsupported / words, _neighbours(claims), _order(claims, words))
        facts = min(_MOST_FACTS, len(claims.facts) + len(claims.denied))
        most_run = min(_LONGEST_RUN, max(1.0, words * _SHARE_OF_RUN))
        run = _LONGEST_RUN * min(1.0, claims.longest_run / most_run)
        value = (1 + sum(shares) / len(shares)) / 2 - _OFF * (run + FACT * facts)
        said, summary = claims.weakest_said
        most = max(claims.unsupported)
        return (
            self.make_score(
                "support",
                max(0.0, value),
                items=claims.sentence_items(
                    [
                        1 - missing / len(terms) if terms else None
                        for terms, missing in zip(claims.terms, claims.unsupported, strict=True)
                    ]
                ),
                explanation=f"{unsupported:g} of {number_of(words, 'claiming word')} in no chunk{said}",
                summary=f"{unsupported:g} of {number_of(words, 'word')} unsupported{summary}",
            ),
            self.make_score(
                "unsupported_words_max",
                float(most),
                explanation=f"at most {number_of(most, 'unsupported word')} in a sentence{said}",
                summary=f"{most:g}{summary}",
            ),
        )


def _neighbours(claims: Claims) -> float:
    """Return the share of neighbouring words in the answer's claims that are adjacent in a chunk, too."""
    answer = claims.answer
    texts = [text for text, terms in zip(claims.texts, claims.terms, strict=True) if terms]
    whole = " ".join(texts)
    if has_cyrillic(whole) or has_han(whole):
        length, form, known_form = (
            (_HAN_GRAM, _han_form, word_lines) if has_han(whole) else (_GRAM, _plain_form, _known)
        )
        said = frozenset().union(*[_grams(form(text), length) for text in texts])
        absent = claims.looked_for.pairs - claims.held.words
        possible = [gram for gram in said if absent.isdisjoint((gram[:2], gram[1:3]))] if absent else said
        known = MARK.join([context.memoize(known_form) for context in claims.contexts])
        there = _grams(known, length) if len(possible) > _LOOKED_UP else known
        return sum(map(there.__contains__, possible)) / len(said) if said else 1.0
    stems: list[str | None] = []
    for span, sentence, text, terms in zip(
        answer.spans, answer.sentences, claims.texts, claims.terms, strict=True
    ):
        if terms:
            own = answer.stems[span] if text == sentence else map(CONTENT.__getitem__, line_tokens(text))
            stems += [*own, None]
    pairs = [pair for pair in pairwise(stems) if pair != (None, None)]
    wanted = frozenset(pairs)
    held: set[tuple[str | None, str | None]] = set()
    for context in claims.contexts:
        held |= wanted.intersection(zip(context.stems, context.stems[1:], strict=False))  # reuses its tuple
    return sum(map(held.__contains__, pairs)) / len(pairs) if pairs else 1.0


def _known(context: Analysis) -> str:
    return _plain_form(context.plain)


def _plain_form(text: str) -> str:
    return " ".join(_DECORATION.sub("", normalise(text)).split())


def _han_form(text: str) -> str:
    # As in `word_lines`: some texts have a space between Han and Latin letters.
    return "\n".join(runs_of_line(text))


def _grams(text: str, length: int) -> frozenset[str]:
    return frozenset([text[at : at + length] for at in range(len(text) - length + 1)])


def _order(claims: Claims, words: int) -> float:
    """Return the longest common subsequence of terms, as a share of the answer's.

    Chunks are in the order in which the answer refers to them, not in that of their ranks.
    """
    from rapidfuzz.distance import LCSseq  # noqa: PLC0415 -- loads every distance there is

    said = [*chain.from_iterable(claims.terms)]
    first: dict[str | None, int] = {term: at for at, term in reversed([*enumerate(said)])}
    others = claims.looked_for.others
    each = {
        tuple(
            in_order(context, held.words.intersection(first), others)
            if context.has_han
            else filter(first.__contains__, context.stems)
        )
        for context, held in zip(claims.contexts, claims.each, strict=True)
    }
    there = sorted(each, key=lambda held: (_middle(map(first.__getitem__, held)), held))
    return LCSseq.similarity(said, [*chain.from_iterable(there)]) / words


def _middle(places: Iterable[int]) -> int:
    ordered = sorted(places)
    return ordered[len(ordered) // 2] if ordered else 0
