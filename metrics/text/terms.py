"""The words by which texts are compared where Chinese must not look alike: Han runs as bigrams.

A term is a content token (`tokens.content_tokens`) or, of a run of Han characters, each pair of
neighbours: single characters are so common that any two Chinese texts on one subject share most
of them.  Texts without a Han character have the same terms as content tokens.  The lexical
metrics of the answer and of the question's relevance call this.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add
from typing import NamedTuple

from .analysis import Analysis
from .characters import HAN
from .function_words import has_cyrillic, russian_function_stems
from .stems import CONTENT, MARK
from .tokens import has_han, is_han, runs_of_lines

__all__ = [
    "Vocabulary",
    "as_written",
    "compared_terms",
    "credit",
    "present",
    "sentence_runs",
    "sentence_terms",
    "terms_of_line",
    "terms_of_runs",
    "together",
    "vocabulary",
    "vocabulary_of",
]

_HAN = re.compile(f"[{HAN}]")
_PAIR = re.compile("..", re.DOTALL)
_BIGRAM = 2
_HALF = 0.5
"""Credit of a bigram of which a text has both characters, but apart: a word cut otherwise."""


class Vocabulary(NamedTuple):
    """What a text has, to look terms up in."""

    words: frozenset[str]
    """Its distinct terms."""
    characters: frozenset[str]
    """Its Han characters one by one."""


def terms_of_line(line: str) -> list[str]:
    """Return the terms of a sentence or another text whose layout plays no part, in order."""
    return terms_of_runs(runs_of_lines([line])[:-1])


def terms_of_runs(runs: Iterable[str]) -> list[str]:
    """Return the terms of words and runs of Han characters, in order."""
    found: list[str] = []
    for run in runs:
        if not is_han(run):
            stemmed = CONTENT[run]
            if stemmed is not None:
                found.append(stemmed)
        elif len(run) == 1:
            found.append(run)
        else:
            found += map(add, run, run[1:])
    return found


def sentence_terms(known: Analysis) -> list[list[str]]:
    """Return the terms of each sentence.  To be used as ``known.kept(sentence_terms)``."""
    if not has_han(known.text):
        return known.sentence_content
    return list(map(terms_of_runs, sentence_runs(known)))


def sentence_runs(known: Analysis) -> list[list[str]]:
    """Return the words and the runs of Han characters of each sentence."""
    found: list[list[str]] = [[]]
    for run in known.marked_runs:
        if run == MARK:
            found.append([])
        else:
            found[-1].append(run)
    return found[:-1]


def compared_terms(known: Analysis) -> list[list[str]]:
    """Return `sentence_terms` of an answer, less Russian function words.

    To be used as ``known.kept(compared_terms)``.
    """
    sentences = known.kept(sentence_terms)
    if not has_cyrillic(known.text):
        return sentences
    dropped = russian_function_stems()
    return [[term for term in sentence if term not in dropped] for sentence in sentences]


def vocabulary(known: Analysis) -> Vocabulary:
    """Return what a text has.  To be used as ``known.kept(vocabulary)``."""
    if not has_han(known.text):
        return Vocabulary(known.content_set, frozenset())
    runs = known.marked_runs
    han = list(filter(is_han, runs))
    # What crosses the border of two runs nothing is compared with.
    line = "\n".join(han)
    others = [run for run in runs if not is_han(run) or len(run) == 1]
    pairs = (_PAIR.findall(line), _PAIR.findall(line, 1))
    return Vocabulary(frozenset(chain(*pairs, terms_of_runs(others))), frozenset(line))


def vocabulary_of(terms: Iterable[str]) -> Vocabulary:
    """Return the vocabulary of a text that has these terms."""
    words = frozenset(terms)
    han = (term for term in words if _HAN.match(term))
    return Vocabulary(words, frozenset(character for term in han for character in term))


def together(vocabularies: Sequence[Vocabulary], wanted: Iterable[str]) -> Vocabulary:
    """Return what several texts have together, of the terms that are `wanted`."""
    terms = frozenset(wanted)
    return Vocabulary(
        frozenset().union(*[terms & one.words for one in vocabularies]),
        frozenset().union(*[one.characters for one in vocabularies]),
    )


def credit(terms: Sequence[str], held: Vocabulary) -> float:
    """Return how many of `terms`, repeats counted, are in `held`.

    A Han bigram of which only the two characters are there counts half; a Han character that
    stands alone is there when the character is.
    """
    words, characters = held
    whole = sum(map(words.__contains__, terms))
    if not characters or whole == len(terms):
        return whole
    part = 0.0
    for term in terms:
        if term not in words and term[0] in characters and term[-1] in characters:
            part += 1.0 if len(term) == 1 else _HALF
    return whole + part


def present(terms: Iterable[str], held: Vocabulary) -> list[str]:
    """Return those of `terms` for which `credit` gives anything."""
    words, characters = held
    if not characters:
        return [term for term in terms if term in words]
    return [
        term
        for term in terms
        if term in words or (term[0] in characters and term[-1] in characters)
    ]


def as_written(terms: Sequence[str], known: Analysis) -> list[str]:
    """Return the words of a text that have these terms, as the text writes them first.

    Bigrams of Han that overlap are joined to the run that they were cut from.
    """
    stems = {term for term in terms if not _is_bigram(term)}
    written: dict[str, str] = {}
    for word in known.tokens if stems else ():
        stemmed = CONTENT[word]
        if stemmed in stems and stemmed is not None:
            written.setdefault(stemmed, word)
    text, lowered = known.text, known.text.lower()
    found: list[str] = []
    last = ""
    for term in terms:
        if _is_bigram(term) and _is_bigram(last) and last[-1] == term[0]:
            found[-1] += term[1]
        else:
            word = written.get(term, term)
            at = lowered.find(word) if len(lowered) == len(text) else -1
            found.append(word if at < 0 else text[at : at + len(word)])
        last = term
    return found


def _is_bigram(term: str) -> bool:
    return len(term) == _BIGRAM and _HAN.match(term) is not None
