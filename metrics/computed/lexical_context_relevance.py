"""Is at least one retrieved chunk about the topic of the question, judged by words?

The free score for retrieval without a reference: it requires one chunk on topic, while
`lexical_query_coverage` combines the words of all chunks and counts "how long" as a topic.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from ragmeter.metrics._display.wording import first_words, number_of
from ragmeter.metrics.errors import TooLongError
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import Analysis, analyse, analyse_all
from ragmeter.metrics.text.question_words import asks, topic_terms
from ragmeter.metrics.text.scripts import share_a_script
from ragmeter.metrics.text.terms import (
    SearchTerms,
    Vocabulary,
    as_written,
    credit,
    find_terms,
    present,
    search_terms,
    sentence_lines,
    sentence_others,
    vocabulary_of,
    words_with,
)
from ragmeter.metrics.text.tokens import words_beginning

from .precision_recall_f1 import MOST_ITEMS

_FEW_TERMS = 40
"""Most topic words for which it costs less to stem only the words of a chunk that begin like one of them."""
_MOST_WORK = 2_000_000
"""Most topic words of a Chinese question times sentences of a chunk: half a second."""


_NONE = frozenset[str]()


@dataclass(frozen=True)
class LexicalContextRelevance(ComputedMetric):
    """Does at least one chunk hold what the question names?

        cov(T)     = share of the question's distinct topic words that T has
        rel(chunk) = (cov(chunk) + cov(its best two consecutive sentences)) / 2
        value      = the largest rel(chunk)

    The question is the one that was searched with (`RagSample.search_query`) where a chat's last turn
    was condensed with what was said before it.

    Topic words are content tokens less question words, courtesies and auxiliaries (all of them,
    when none is left); Han runs give bigrams, and one of which only the two characters are there
    counts half.

    Range: 0.0 to 1.0, dimensionless; below 0.3 the retrieval is off topic more often than not.
    Needs: ``question``, ``contexts``.
    Cost: no judge.
    Source: ours; AUROC .92 (English), .90 (Russian), .92 (Chinese) for "the right chunk is among
        three", against the nearest wrong chunks by BM25, on XQuAD; .70 on the last turns of MTRAG.
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no question, or retrieval was not captured.
        ``undefined``: a turn of a chat asks nothing (no question mark, asking word or key words: ask with
            the condensed question, `RagSample.search_query`); the question has no token, or is in a
            script that no chunk is written in.
    """

    name = "lexical_context_relevance"
    score_names = ("lexical_context_relevance",)
    needs = ("question", "contexts")
    method = "lexical"
    target = "retrieval"
    definition = "4"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Measure every chunk; the evidence is each one's value and best passage."""
        question, contexts, topic, why = self._inputs(sample)
        if why is not None:
            return self.undefined_scores(why)
        if all(not context.units for context in contexts):
            nothing = "nothing was retrieved"
            return (self.make_score(self.name, 0.0, explanation=nothing, summary=nothing),)
        for context in contexts:
            context.cut_by_sentence()
        search = _TopicSearch(topic, contexts)
        found = list(map(search.relevance, range(len(contexts))))
        values = [value for value, _ in found]
        best = values.index(max(values))
        items = [
            ScoreItem(f"chunk-{rank}", None, context.text, passage or None, None, value)
            for rank, (context, (value, passage)) in enumerate(
                zip(contexts[:MOST_ITEMS], found, strict=False), start=1
            )
        ]
        explanation, summary = _explanation(question, topic, search.vocabularies, best)
        return (
            self.make_score(self.name, found[best][0], items=items, explanation=explanation, summary=summary),
        )

    def value_of(self, sample: RagSample) -> float | None:
        """Return only the value: sentences are split only in chunks that may be the best."""
        _, contexts, topic, why = self._inputs(sample)
        if why is not None:
            return None
        search = _TopicSearch(topic, contexts)
        best = 0.0
        for whole, place in sorted(zip(search.wholes, count()), reverse=True):
            if whole / len(topic) <= best:  # a chunk's value is at most its share of the words
                break
            best = max(best, search.relevance(place)[0])
        return best

    def _inputs(self, sample: RagSample) -> tuple[Analysis, tuple[Analysis, ...], Sequence[str], str | None]:
        """Return question, chunks and topic words, and the reason if they cannot be compared."""
        question = analyse(sample.searched_for or "")
        contexts = analyse_all([context.text for context in sample.contexts or ()])
        topic = question.memoize(topic_terms)
        why = None
        if sample.search_query is None and not asks(question):
            why = "no question in the turn: ask with the condensed one"
        elif not topic:
            why = "no topic word in the question"
        elif any(context.units for context in contexts) and not share_a_script(question, contexts):
            why = "question and chunks are in different scripts"
        return question, contexts, topic, why


class _TopicSearch:
    """Chunks, searched for the topic words of a question.

    Attributes:
        vocabularies: The words that each chunk has.
        wholes: Their number in each chunk.
    """

    def __init__(self, topic: Sequence[str], contexts: Sequence[Analysis]) -> None:
        self._topic = topic
        self._contexts = contexts
        terms = search_terms(topic)
        if len(topic) > _FEW_TERMS:
            for context in contexts:
                _ = context.stems
        has_han = bool(terms.pairs or terms.single)
        searched = [None if one.is_stemmed or (has_han and one.has_han) else one for one in contexts]
        found = iter(words_with(terms.terms, list(filter(None, searched))))
        self._words = [None if one is None else next(found) for one in searched]
        self.vocabularies = [
            find_terms(context, terms) if words is None else vocabulary_of(words.values())
            for context, words in zip(contexts, self._words, strict=True)
        ]
        self.wholes = [credit(topic, there) for there in self.vocabularies]
        self._han = _HanTopic(terms) if has_han else None

    def relevance(self, place: int) -> tuple[float, str]:
        """Return the relevance of one chunk, and its best passage."""
        context, words, whole = self._contexts[place], self._words[place], self.wholes[place]
        if not whole:
            return 0.0, ""
        if self._han is not None and context.has_han:
            covered, start, end = self._han.best_passage(context, self.vocabularies[place])
        else:
            covered, start, end = _best_passage(
                _terms_by_sentence(context, words, self.vocabularies[place].words)
            )
        passage = " ".join(context.sentences[start:end])
        return (whole + covered) / 2 / len(self._topic), passage


def _terms_by_sentence(
    context: Analysis, words: Mapping[str, str] | None, terms: frozenset[str]
) -> dict[int, frozenset[str]]:
    """Return the terms of each sentence that has any.

    Args:
        context: The chunk.
        words: Its words that have a term, each with its term; None: its stems are known.
        terms: The terms that it has.
    """
    if words is None:
        held = [terms & own for own in context.sentence_sets]
    else:
        each = words_beginning(context.sentences, words)
        held = [frozenset(map(words.__getitem__, own & words.keys())) for own in each]
    return {at: own for at, own in enumerate(held) if own}


def _best_passage(by_sentence: Mapping[int, frozenset[str]]) -> tuple[float, int, int]:
    """Return the largest number of terms in two neighbouring sentences, and their start and end."""
    best, start, end = 0, 0, 0
    for at, own in by_sentence.items():
        following = by_sentence.get(at + 1)
        covered = len(own if following is None else own | following)
        if covered > best:
            best, start = covered, at
            end = at + 1 if covered == len(own) else at + 2
    return best, start, end


class _HanTopic:
    """Topic words to search in the sentences of chunks with Han characters."""

    def __init__(self, terms: SearchTerms) -> None:
        self._others = terms.others - terms.single
        self._bits = {term: 1 << place for place, term in enumerate((*terms.pairs, *terms.single))}
        self._size = len(self._bits)
        self._parts: dict[str, int] = {}
        for term, bit in self._bits.items():
            self._parts[term[0]] = self._parts.get(term[0], 0) | bit
            self._parts[term[-1]] = self._parts.get(term[-1], 0) | bit << self._size

    def best_passage(self, context: Analysis, there: Vocabulary) -> tuple[float, int, int]:
        """Do the same as `_best_passage`, counting bigrams that are half there.

        Args:
            context: The chunk.
            there: The words that it has.
        """
        if (self._size + len(self._others)) * len(context.sentences) > _MOST_WORK:
            raise TooLongError(f"more than {_MOST_WORK} pairs of a word and a sentence to compare")
        parts = self.parts_of(present(self._bits, there))
        held = [self.bits_in(line, parts) for line in context.memoize(sentence_lines)]
        held.append((0, 0))
        others = [_NONE] * len(held)
        if self._others:
            others = [*map(self._others.__and__, context.memoize(sentence_others)), _NONE]
        best, start, end = 0.0, 0, 0
        for at, ((own, part), (following, other_part)) in enumerate(pairwise(held)):
            if not (part or other_part or others[at] or others[at + 1]):
                continue
            both = self.credit(own | following, part | other_part) + len(others[at] | others[at + 1])
            if both > best:
                best, start = both, at
                end = at + 1 if self.credit(own, part) + len(others[at]) == both else at + 2
        return best, start, end

    def parts_of(self, terms: Iterable[str]) -> list[tuple[str, int]]:
        """Return the characters of words, each with the bits of those that it begins and, shifted, ends."""
        return [(one, self._parts[one]) for one in frozenset("".join(terms))]

    def bits_in(self, line: str, parts: Iterable[tuple[str, int]]) -> tuple[int, int]:
        """Return the bits of the words in a line, and of the parts of words there."""
        found = whole = 0
        for character, bits in parts:
            if character in line:
                found |= bits
        if halves := found & found >> self._size:
            for term, bit in self._bits.items():
                if halves & bit and term in line:
                    whole |= bit
        return whole, found

    def credit(self, whole: int, parts: int) -> float:
        """Return the number of words, a half for each with only its two characters."""
        return whole.bit_count() + (parts & parts >> self._size & ~whole).bit_count() / 2


def _explanation(
    question: Analysis, topic: Sequence[str], each: Sequence[Vocabulary], best: int
) -> tuple[str, str]:
    """Explain which words the best chunk has and which no chunk has, with and without quoting them."""
    has = len(present(topic, each[best]))
    anywhere = {term for one in each for term in present(topic, one)}
    nowhere = [term for term in topic if term not in anywhere]
    if has:
        explanation = f"chunk-{best + 1} has {has} of the question's {number_of(len(topic), 'topic word')}"
        summary = f"chunk-{best + 1}: {has} of {len(topic)}"
        if nowhere:
            summary += f"; {number_of(len(nowhere), 'word')} in no chunk"
    else:
        explanation = f"no chunk has any of the question's {number_of(len(topic), 'topic word')}"
        summary = f"no chunk has any of {number_of(len(topic), 'topic word')}"
    if nowhere:
        explanation += f"; in no chunk: {first_words(as_written(nowhere, question))}"
    return explanation, summary
