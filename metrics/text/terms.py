"""The words by which texts are compared if Chinese must not look alike: Han runs as bigrams.

A term is a content token (`tokens.content_tokens`) or, in a run of Han characters, each pair of neighbours:
single characters are so common that any two Chinese texts on one subject share most of them. Texts without a
Han character have the same terms as content tokens. The lexical metrics of the answer and of the question's
relevance call this.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, filterfalse
from operator import add
from typing import NamedTuple

from .analysis import Analysis
from .characters import HAN
from .stems import CONTENT, MARK
from .tokens import LEAST_HAN, is_han, runs_of_line, words_beginning

_PAIRS = re.compile(f"^[{HAN}]{{2}}$", re.MULTILINE)
_SINGLE = re.compile(f"^[{HAN}]$", re.MULTILINE)
_OTHERS = re.compile(f"^(?:[^{HAN}\n].*|[{HAN}])$", re.MULTILINE)
"""In text with one run of Han characters or one word per line: single characters, and words."""
_ALTERED = ("i", "e", "y", "bl")
_TIE = re.compile("[a-z]ie$")
"""The stem of "tying", too."""
_NONE = frozenset[str]()
_BIGRAM = 2
_HALF = 0.5
"""Credit of a bigram if a text has both characters, but apart: a word split differently."""


class SearchTerms(NamedTuple):
    """The terms to search for: a small part of a text's own terms."""

    terms: frozenset[str]
    pairs: frozenset[str]
    """The bigrams of Han among them."""
    others: frozenset[str]
    """The others."""
    single: frozenset[str]
    """The Han characters in these."""


class Vocabulary(NamedTuple):
    """The searched terms that a text has."""

    words: frozenset[str]
    """The terms."""
    characters: frozenset[str]
    """The single Han characters of terms that it may have in part."""


def terms_of_line(line: str) -> list[str]:
    """Return the terms of a sentence or another text without layout, in order."""
    return _terms_of_runs(runs_of_line(line))


def _terms_of_runs(runs: Iterable[str]) -> list[str]:
    """Return the terms of words and runs of Han characters, in order."""
    found: list[str] = []
    for run in runs:
        if run < LEAST_HAN or not is_han(run):
            stemmed = CONTENT[run]
            if stemmed is not None:
                found.append(stemmed)
        elif len(run) == 1:
            found.append(run)
        else:
            found += map(add, run, run[1:])
    return found


def sentence_terms(known: Analysis) -> list[list[str]]:
    """Return the terms of each sentence.  To be used as ``known.memoize(sentence_terms)``."""
    if not known.has_han:
        return known.sentence_content
    return [_terms_of_runs(filter(None, line.split("\n"))) for line in known.memoize(sentence_lines)]


def word_lines(known: Analysis) -> str:
    """Return the words and runs of Han characters of a text, one a line, and `MARK` after each sentence.

    To be used as ``known.memoize(word_lines)``.
    """
    return "\n".join(known.marked_runs if known.has_han else known.marked_tokens)


def sentence_lines(known: Analysis) -> list[str]:
    """Return the words and runs of Han characters of each sentence, separated by line breaks.

    To be used as ``known.memoize(sentence_lines)``.
    """
    return known.memoize(word_lines).split(MARK)[:-1]


def search_terms(terms: Iterable[str]) -> SearchTerms:
    """Return the terms in the form for searches."""
    every = frozenset(terms)
    lines = "\n".join(every)
    if lines.isascii():
        return SearchTerms(every, frozenset(), every, frozenset())
    pairs = frozenset(_PAIRS.findall(lines))
    return SearchTerms(every, pairs, every - pairs, frozenset(_SINGLE.findall(lines)))


def find_terms(known: Analysis, looked_for: SearchTerms) -> Vocabulary:
    """Return the searched terms that a text has."""
    if not known.has_han:
        own = known.stems if known.is_cut else known.content_set
        return Vocabulary(looked_for.terms.intersection(own), frozenset())
    line = known.memoize(word_lines)
    words = frozenset(filter(line.__contains__, looked_for.pairs))
    parts = looked_for.single.union("".join(looked_for.pairs - words))
    if looked_for.others:
        words |= looked_for.others.intersection(chain.from_iterable(known.memoize(sentence_others)))
    return Vocabulary(words, frozenset(filter(line.__contains__, parts)))


def words_with(terms: Collection[str], texts: Sequence[Analysis]) -> list[dict[str, str]]:
    """Return for each text its words with one of these terms, none of Han, each with its term.

    Only words that begin like a term are stemmed: a stem is a word's beginning, except for the last letter of
    some in English ("happi" of "happy", "come" of "coming", "sky" of "skies", "possibl" of "possibility").
    """
    if not texts:
        return []
    beginnings = {(term.endswith(_ALTERED) and term[:-1]) or term for term in terms}
    beginnings.update(f"{term[0]}y" for term in terms if _TIE.match(term))
    return [
        {word: stemmed for word in words if (stemmed := CONTENT[word]) in terms and stemmed}
        for words in words_beginning([known.plain for known in texts], beginnings)
    ]


def sentence_others(known: Analysis) -> list[frozenset[str]]:
    """Return the terms of each sentence that are not bigrams.

    To be used as ``known.memoize(sentence_others)``.
    """
    found: list[frozenset[str]] = []
    own: list[str] = []
    for run in _OTHERS.findall(known.memoize(word_lines)):
        if run == MARK:
            found.append(frozenset(_terms_of_runs(own)) if own else _NONE)
            own = []
        else:
            own.append(run)
    return found


def held_in_line(line: str, looked_for: SearchTerms) -> set[str]:
    """Return the searched terms in one of `sentence_lines`."""
    found = set(filter(line.__contains__, looked_for.pairs))
    if looked_for.others:
        found |= looked_for.others.intersection(_terms_of_runs(_OTHERS.findall(line)))
    return found


def in_order(known: Analysis, terms: frozenset[str], others: frozenset[str]) -> list[str]:
    """Return all occurrences of the terms in a text with Han characters, in the text's order.

    Args:
        known: The text.
        terms: The terms, bigrams and others.
        others: Terms that are not bigrams, and perhaps not searched for.
    """
    if not terms.isdisjoint(others):
        return [term for sentence in known.memoize(sentence_terms) for term in sentence if term in terms]
    line = known.memoize(word_lines)
    places: list[tuple[int, str]] = []
    for term in terms:
        at = line.find(term)
        while at >= 0:
            places.append((at, term))
            at = line.find(term, at + 1)
    return [term for _, term in sorted(places)]


def vocabulary_of(terms: Iterable[str]) -> Vocabulary:
    """Return the vocabulary of a text with these terms."""
    words = frozenset(terms)
    han = filter(is_han, words)
    return Vocabulary(words, frozenset(character for term in han for character in term))


def together(vocabularies: Iterable[Vocabulary]) -> Vocabulary:
    """Return the combined vocabulary of several texts."""
    every = list(vocabularies)
    return Vocabulary(
        frozenset().union(*[one.words for one in every]), frozenset().union(*[one.characters for one in every])
    )


def credit(terms: Sequence[str], there: Vocabulary) -> float:
    """Return the number of `terms`, with repeats, that a text has.

    A Han bigram of which only the two characters occur counts half; a single Han character counts if it
    occurs.
    """
    return credit_each((terms,), there)[0]


def credit_each(sentences: Iterable[Sequence[str]], there: Vocabulary) -> list[float]:
    """Return the `credit` of the terms of each sentence."""
    words, characters = there
    if not characters:
        return [sum(map(words.__contains__, terms)) for terms in sentences]
    found: list[float] = []
    for terms in sentences:
        absent = list(filterfalse(words.__contains__, terms))
        whole: float = len(terms) - len(absent)
        if absent:
            parts = [t for t in absent if t[0] in characters and t[-1] in characters]
            whole += sum([1.0 if len(term) == 1 else _HALF for term in parts], 0.0)
        found.append(whole)
    return found


def present(terms: Iterable[str], there: Vocabulary) -> list[str]:
    """Return the `terms` with a `credit` above 0."""
    words, characters = there
    if not characters:
        return list(filter(words.__contains__, terms))
    return [term for term in terms if term in words or (term[0] in characters and term[-1] in characters)]


def absent_runs(terms: Sequence[str], there: Vocabulary) -> tuple[list[str], int]:
    """Return the `terms` without a `credit`, and the longest run of them."""
    words, characters = there
    absent: list[str] = []
    run = longest = 0
    for term in terms:
        if term in words or (term[0] in characters and term[-1] in characters):
            run = 0
        else:
            absent.append(term)
            run += 1
            longest = max(longest, run)
    return absent, longest


def as_written(terms: Sequence[str], known: Analysis) -> list[str]:
    """Return the words of a text with these terms, in their first spelling in the text.

    Overlapping bigrams of Han are joined to their run.
    """
    first: dict[str | None, str] = {}
    if not all(map(_is_bigram, terms)):
        first = dict(zip(reversed(known.stems), reversed(known.marked_tokens), strict=True))
    text, lowered = known.text, known.text.lower()
    found: list[str] = []
    last = ""
    for term in terms:
        if _is_bigram(term) and _is_bigram(last) and last[-1] == term[0]:
            found[-1] += term[1]
        else:
            word = first.get(term, term)
            at = lowered.find(word) if len(lowered) == len(text) else -1
            found.append(word if at < 0 else text[at : at + len(word)])
        last = term
    return found


def _is_bigram(term: str) -> bool:
    return len(term) == _BIGRAM and term >= LEAST_HAN and is_han(term)
