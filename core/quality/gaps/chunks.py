"""Terms of retrieved chunks, to check whether one of them would have suited another request.

The hashes of the words of each sentence are stored, of a bounded number of distinct chunks; no text. A lookup
is the relevance of `ragmeter.metrics.computed.lexical_context_relevance`, on hashes.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.question_words import topic_terms
from ragmeter.metrics.text.terms import sentence_terms
from ragmeter.metrics.text.tokens import is_han

from .sample import rank_of

if TYPE_CHECKING:
    from ragmeter.quality.corpus.figures import FiguredSentence

_END = 0
_MOST_TERMS = 2_000
"""Most terms stored of a chunk."""
_NEAREST = 8
"""Number of chunks whose relevance is computed: those with most of the question's words, by their weights."""


def hash_of(term: str) -> int:
    """Return the hash of a term: 32 bits, never 0, the same in every process."""
    return crc32(term.encode("utf-8", "replace")) or 1


def topic_hashes(question: str) -> bytes:
    """Return the hashes of the words that name a question's topic, in order, four bytes each."""
    return array("I", sorted(set(map(hash_of, analyse(question).memoize(topic_terms))))).tobytes()


class ChunkTerms(NamedTuple):
    """The stored data of a chunk."""

    rank: int
    """`rank_of` its text."""
    terms: array[int]
    """The hashes of the terms of each sentence, and of its single Han characters; each sentence ends with
    `_END`."""
    figured: tuple[FiguredSentence, ...] = ()
    """The sentences with a number or a month."""

    @property
    def words(self) -> frozenset[int]:
        """The distinct terms."""
        return frozenset(self.terms) - {_END}

    @property
    def sentences(self) -> Iterator[frozenset[int]]:
        """The distinct terms of each sentence."""
        begun = 0
        for at, term in enumerate(self.terms):
            if term == _END:
                yield frozenset(self.terms[begun:at])
                begun = at + 1


def read_chunk(text: str) -> ChunkTerms:
    """Return the terms of a chunk."""
    from ragmeter.quality.corpus.figures import figured_sentences  # noqa: PLC0415 -- many patterns

    kept = array("I")
    left = _MOST_TERMS
    for terms in analyse(text).memoize(sentence_terms):
        pairs = filter(is_han, terms[:left])
        hashes = dict.fromkeys(map(hash_of, chain(terms[:left], chain.from_iterable(pairs))))
        left -= len(hashes)
        if hashes:
            kept.extend((*hashes, _END))
        if left <= 0:
            break
    return ChunkTerms(rank_of(text), kept[:], figured_sentences(text))  # without spare capacity


class ChunkSearch:
    """Finds the chunk with the highest relevance to a question."""

    def __init__(self, chunks: Iterable[ChunkTerms]) -> None:
        self._chunks = sorted(chunks, key=lambda chunk: chunk.rank)
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, chunk in enumerate(self._chunks):
            for term in chunk.words:
                places[term].append(place)
        self._places = dict(places)

    def __len__(self) -> int:
        return len(self._chunks)

    def best_relevance(self, question: str) -> float:
        """Return the highest relevance of any chunk to a question, 0 to 1."""
        topic = analyse(question).memoize(topic_terms)
        wanted = [(hash_of(term), *(map(hash_of, term) if is_han(term) else ())) for term in topic]
        weights: Counter[int] = Counter()
        for term, *_ in wanted:
            here = self._places.get(term, ())
            weight = round(1000 * math.log1p(len(self._chunks) / len(here))) if here else 0
            for place in here:
                weights[place] += weight
        nearest = sorted(weights, key=lambda place: (-weights[place], place))[:_NEAREST]
        return max((_relevance(wanted, self._chunks[place]) for place in nearest), default=0.0)


def _relevance(wanted: Sequence[Sequence[int]], chunk: ChunkTerms) -> float:
    looked_for = frozenset(chain.from_iterable(wanted))
    found = [looked_for.intersection(sentence) for sentence in chunk.sentences]
    whole = _credit(wanted, frozenset[int]().union(*found))
    pairs = zip(found, [*found[1:], frozenset[int]()], strict=True)
    return (whole + max(_credit(wanted, one | other) for one, other in pairs)) / 2 / len(wanted)


def _credit(wanted: Sequence[Sequence[int]], there: frozenset[int]) -> float:
    """Return the number of terms found; a bigram of which only the characters occur counts half."""
    return sum(
        1.0 if term in there else 0.5 if characters and there.issuperset(characters) else 0.0
        for term, *characters in wanted
    )
