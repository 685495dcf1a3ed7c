"""Pairs of chunks that make the same statement with other numbers or months.

A conflict is the same sentence, or nearly, with another figure in its place. Contradictions in other words,
negations and names are not detected. A chunk that two others contradict in two ways belongs to a series, such
as the pages of one template, and is not listed; two others with the same contradiction, such as overlapping
chunks, count as one way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from heapq import nsmallest
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from ragmeter.quality.gaps.chunks import ChunkTerms

if TYPE_CHECKING:
    from .figures import FiguredSentence

ALIKE = 0.5
"""Least share of the shorter chunk's words in the other one for both to have the same topic."""
SAME = 0.85
"""Least similarity (Jaccard) of two sentences that make the same statement."""
_PROBES = 4
"""Number of rarest words of a sentence, shared with others, by which sentences are looked up for comparison."""
_MOST_TOGETHER = 24
"""Number of chunks with one sentence from which it is a set phrase."""


class Conflict(NamedTuple):
    """Two chunks that make the same statement with different figures."""

    ranks: tuple[int, int]
    """The chunks, the smaller rank first."""
    texts: tuple[str, str]
    """The conflicting sentence of each."""
    figures: tuple[str, str]
    """The first figure of each that the other lacks."""


def find_conflicts(chunks: Iterable[ChunkTerms]) -> list[Conflict]:
    """Return the conflicts among chunks, independent of their order."""
    ordered = sorted(chunks, key=lambda chunk: chunk.rank)
    places: defaultdict[int, list[tuple[int, FiguredSentence]]] = defaultdict(list)
    counts = Counter(word for chunk in ordered for sentence in chunk.figured for word in sentence.words)
    for place, chunk in enumerate(ordered):
        for sentence in chunk.figured:
            shared = (word for word in sentence.words if counts[word] > 1)
            rare = nsmallest(_PROBES, shared, key=counts.__getitem__)
            for probe in {sentence.key, *rare}:
                places[probe].append((place, sentence))
    found: dict[tuple[int, int], Conflict] = {}
    said_against: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    for word in sorted(places):
        for one, other in combinations(places[word][:_MOST_TOGETHER], 2):
            pair = one[0], other[0]
            conflict = None if one[0] >= other[0] or pair in found else _conflict(ordered, one, other)
            if conflict is not None:
                found[pair] = conflict
                said_against[one[0]].add(other[1].figures)
                said_against[other[0]].add(one[1].figures)
    return [found[pair] for pair in sorted(found) if all(len(said_against[at]) == 1 for at in pair)]


def _conflict(
    chunks: list[ChunkTerms], one: tuple[int, FiguredSentence], other: tuple[int, FiguredSentence]
) -> Conflict | None:
    (place, mine), (their_place, theirs) = one, other
    if len(mine.figures) != len(theirs.figures) or Counter(mine.figures) == Counter(theirs.figures):
        return None
    differing = next(pair for pair in zip(mine.figures, theirs.figures, strict=True) if pair[0] != pair[1])
    if differing[0].startswith("month") != differing[1].startswith("month"):
        return None
    own, other_words = frozenset(mine.words), frozenset(theirs.words)
    if mine.key != theirs.key and len(own & other_words) < SAME * len(own | other_words):
        return None
    a, b = chunks[place], chunks[their_place]
    if overlap(a, b) < ALIKE:
        return None
    # A chunk that states both figures elsewhere does not contradict the other.
    if _says(a, theirs) or _says(b, mine):
        return None
    return Conflict((a.rank, b.rank), (mine.text, theirs.text), differing)


def overlap(one: ChunkTerms, other: ChunkTerms) -> float:
    """Return the share of the smaller set's words that the other has."""
    words = [chunk.words for chunk in (one, other)]
    least = min(map(len, words))
    return len(words[0] & words[1]) / least if least else 0.0


def _says(chunk: ChunkTerms, sentence: FiguredSentence) -> bool:
    return any(one.key == sentence.key and one.figures == sentence.figures for one in chunk.figured)
