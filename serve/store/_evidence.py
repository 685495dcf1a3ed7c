"""Which sentences of an answer the contexts support, and which words of the question each chunk has.

Recomputed from the stored texts when a request is opened, with the word comparison of the free metrics
(`lexical_groundedness`, `lexical_context_relevance`); nothing is stored for it. The marks show shared words,
not meaning; a judge's findings about a chunk are shown beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragmeter.metrics import VerdictRules
from ragmeter.metrics.text.analysis import Analysis, analyse
from ragmeter.metrics.text.citations import without_marks
from ragmeter.metrics.text.framing import compared_terms
from ragmeter.metrics.text.question_words import topic_terms
from ragmeter.metrics.text.scripts import share_a_script
from ragmeter.metrics.text.terms import (
    Vocabulary,
    as_written,
    credit,
    find_terms,
    present,
    search_terms,
    sentence_terms,
    together,
    vocabulary_of,
)

Support = Literal["found", "partly", "missing", "unknown", "declines"]
"""Support of a sentence of the answer, by its share of words, with the thresholds of the verdict's rules.
``partly``: also where `fact_conflict` found a fact that no chunk has beside words that chunks have.
``unknown``: the sentence has no word to compare, or is in another script than every chunk; ``declines``: the
answer refuses, which needs no chunk."""

MOST_SUPPORTERS = 3
"""Most context sentences shown for one sentence of the answer, which often combines two facts."""
MOST_WORK = 200_000
"""Words of the answer times sentences of the contexts, beyond which no supporters are searched."""


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of the answer."""

    number: int
    """Counted from 1."""
    text: str
    """Text of the sentence."""
    share: float | None
    """Share of the sentence's words that all contexts together have, 0 to 1; None: no word to compare."""
    support: Support
    """Class of that share."""
    supporters: tuple[tuple[int, int], ...] = ()
    """Supporting context sentences: (chunk, sentence), each counted from 1."""


@dataclass(frozen=True, slots=True)
class ChunkSentence:
    """A sentence of a chunk."""

    number: int
    """Counted from 1."""
    text: str
    """Text of the sentence."""
    carries: tuple[int, ...] = ()
    """Numbers of the answer's sentences that it supports."""
    question_words: tuple[str, ...] = ()
    """The question's words in the sentence, as written there."""


@dataclass(frozen=True, slots=True)
class MarkedChunk:
    """One retrieved chunk."""

    number: int
    """Rank of the chunk, from 1."""
    sentences: tuple[ChunkSentence, ...]
    """The chunk's text, by sentence."""
    words_found: int | None
    """Number of the question's topic words in the chunk; None: not comparable."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The marks of a request's texts."""

    answer: tuple[AnswerSentence, ...] = ()
    """The answer, by sentence."""
    chunks: tuple[MarkedChunk, ...] = ()
    """The chunks, by rank."""
    topic_words: int = 0
    """Number of the question's topic words."""
    other_script: bool = False
    """Whether the answer is in a script that no chunk is written in, so that shared words mean nothing."""


def evidence(
    question: str | None,
    answer: str | None,
    contexts: Sequence[str],
    *,
    declines: bool = False,
    conflicting: Collection[int] = (),
) -> Evidence:
    """Return the marks for a request.

    Args:
        question: The question or the search query; None: unknown.
        answer: The answer; its citation marks are ignored. None: no answer.
        contexts: The chunks' texts, by rank.
        declines: Whether the answer refuses; its sentences then need no chunk.
        conflicting: Numbers of the answer's sentences with a fact that no chunk has.
    """
    known = [analyse(text) for text in contexts]
    for one in known:
        one.cut_by_sentence()
    said = without_marks(answer or "")
    comparable = bool(known) and share_a_script(said, known)
    sentences = _answer_sentences(said, known, comparable=comparable)
    if declines:
        sentences = tuple(
            one if one.support == "found" else replace(one, support="declines", supporters=())
            for one in sentences
        )
    sentences = tuple(
        replace(one, support="partly") if one.support == "found" and one.number in conflicting else one
        for one in sentences
    )
    asked = analyse(question or "")
    topics = asked.memoize(topic_terms) if question else []
    readable = bool(topics) and share_a_script(asked, known)
    return Evidence(
        answer=sentences,
        chunks=tuple(
            MarkedChunk(
                number,
                _chunk_sentences(one, number, sentences, topics if readable else ()),
                _words(topics, one, readable),
            )
            for number, one in enumerate(known, start=1)
        ),
        topic_words=len(topics),
        other_script=bool(sentences) and bool(known) and not comparable,
    )


def unknown_sentences(answer: str) -> tuple[AnswerSentence, ...]:
    """Return an answer's sentences with support ``unknown``: no chunk's text is known."""
    return tuple(
        AnswerSentence(number, text, None, "unknown")
        for number, text in enumerate(without_marks(answer).sentences, start=1)
    )


def _answer_sentences(
    said: Analysis, known: Sequence[Analysis], *, comparable: bool
) -> tuple[AnswerSentence, ...]:
    terms = said.memoize(compared_terms)
    looked_for = search_terms(term for sentence in terms for term in sentence)
    there = together(find_terms(one, looked_for) for one in known)
    places = [
        ((chunk, sentence), one)
        for chunk, context in enumerate(known, start=1)
        for sentence, one in enumerate(context.memoize(_sentence_vocabularies), start=1)
    ]
    affordable = len(places) * sum(map(len, terms)) <= MOST_WORK
    marked: list[AnswerSentence] = []
    for number, (text, own) in enumerate(zip(said.sentences, terms, strict=False), start=1):
        if not own or (known and not comparable):
            marked.append(AnswerSentence(number, text, None, "unknown"))
            continue
        share = credit(own, there) / len(own)
        supporters = _supporters(own, places) if affordable else ()
        marked.append(AnswerSentence(number, text, share, _support(share), supporters))
    return tuple(marked)


def _support(share: float) -> Support:
    rules = VerdictRules()
    if share < rules.unsupported_below:
        return "missing"
    return "partly" if share < rules.partly_unsupported_below else "found"


def _supporters(
    terms: Sequence[str], places: Sequence[tuple[tuple[int, int], Vocabulary]]
) -> tuple[tuple[int, int], ...]:
    """Return the context sentences that together have most of the words, chosen greedily."""
    left = list(terms)
    chosen: list[tuple[int, int]] = []
    # One shared word in six is chance rather than support.
    least = max(1.0, len(terms) / 6)
    while left and len(chosen) < MOST_SUPPORTERS:
        best, place, has = 0.0, None, None
        for at, one in places:
            found = credit(left, one)
            if found > best:
                best, place, has = found, at, one
        if place is None or has is None or best < least:
            break
        chosen.append(place)
        left = [term for term in left if not present((term,), has)]
    return tuple(chosen)


def _sentence_vocabularies(context: Analysis) -> list[Vocabulary]:
    return list(map(vocabulary_of, context.memoize(sentence_terms)))


def _chunk_sentences(
    context: Analysis, chunk: int, answer: Sequence[AnswerSentence], topics: Sequence[str]
) -> tuple[ChunkSentence, ...]:
    return tuple(
        ChunkSentence(
            number,
            text,
            tuple(
                one.number for one in answer if (chunk, number) in one.supporters and one.support != "missing"
            ),
            _question_words(topics, analyse(text)) if topics else (),
        )
        for number, text in enumerate(context.sentences, start=1)
    )


def _question_words(topics: Sequence[str], sentence: Analysis) -> tuple[str, ...]:
    here = present(topics, find_terms(sentence, search_terms(topics)))
    return tuple(word for word in as_written(here, sentence) if word in sentence.text)


def _words(topics: Sequence[str], context: Analysis, readable: bool) -> int | None:
    if not readable:
        return None
    return len(present(topics, find_terms(context, search_terms(topics))))
