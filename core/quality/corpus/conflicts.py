"""Pairs of chunks that say the same with other numbers or months.

What is seen is the same sentence, or nearly, with another figure in its place.  Contradictions in other words,
negations and names are not.  A chunk that two others contradict in two ways is one of a series, such as the
pages of one template, and is not listed; two that say the same, as overlapping chunks do, are one way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from ragmeter.quality.gaps.chunks import ChunkTerms

from .figures import FiguredSentence

__all__ = ["Conflict", "find_conflicts", "overlap"]

ALIKE = 0.5
"""Share of the words of the shorter chunk that the other has, from which on both are about one thing."""
SAME = 0.85
"""The same of two sentences (Jaccard), from which on they say the same."""
_PROBES = 4
_MOST_TOGETHER = 24
"""Chunks with one sentence from which on it is a set phrase."""


class Conflict(NamedTuple):
    """Two chunks that say the same with another figure."""

    ranks: tuple[int, int]
    """The chunks, the smaller rank first."""
    texts: tuple[str, str]
    """Of each, the sentence."""
    figures: tuple[str, str]
    """Of each, the first figure that the other has not."""


def find_conflicts(chunks: Iterable[ChunkTerms]) -> list[Conflict]:
    """Return the conflicts among chunks; their order plays no part."""
    ordered = sorted(chunks, key=lambda chunk: chunk.rank)
    places: defaultdict[int, list[tuple[int, FiguredSentence]]] = defaultdict(list)
    for place, chunk in enumerate(ordered):
        for sentence in chunk.figured:
            for word in sentence.words[:_PROBES]:
                places[word].append((place, sentence))
    found: dict[tuple[int, int], Conflict] = {}
    said_against: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    for one, other in _candidates(places):
        pair = one[0], other[0]
        conflict = None if pair in found else _conflict(ordered, one, other)
        if conflict is not None:
            found[pair] = conflict
            said_against[one[0]].add(other[1].figures)
            said_against[other[0]].add(one[1].figures)
    return [found[pair] for pair in sorted(found) if all(len(said_against[at]) == 1 for at in pair)]


def _candidates(
    places: dict[int, list[tuple[int, FiguredSentence]]],
) -> Iterator[tuple[tuple[int, FiguredSentence], tuple[int, FiguredSentence]]]:
    for word in sorted(places):
        together = places[word]
        if len(together) > 1:
            yield from (
                (one, other)
                for one, other in combinations(together[:_MOST_TOGETHER], 2)
                if one[0] < other[0]
            )


def _conflict(
    chunks: list[ChunkTerms], one: tuple[int, FiguredSentence], other: tuple[int, FiguredSentence]
) -> Conflict | None:
    (place, mine), (their_place, theirs) = one, other
    if len(mine.figures) != len(theirs.figures) or Counter(mine.figures) == Counter(theirs.figures):
        return None
    differing = next(
        pair for pair in zip(mine.figures, theirs.figures, strict=True) if pair[0] != pair[1]
    )
    if differing[0].startswith("month") != differing[1].startswith("month"):
        return None
    if mine.key != theirs.key and not _is_same(mine, theirs):
        return None
    a, b = chunks[place], chunks[their_place]
    if overlap(a, b) < ALIKE:
        return None
    # What one of them says with both figures elsewhere, it does not deny.
    if _says(a, theirs) or _says(b, mine):
        return None
    return Conflict((a.rank, b.rank), (mine.text, theirs.text), differing)


def overlap(one: ChunkTerms, other: ChunkTerms) -> float:
    """Return the share of the words of the one with fewer that the other has."""
    words = [chunk.words for chunk in (one, other)]
    least = min(map(len, words))
    return len(words[0] & words[1]) / least if least else 0.0


def _is_same(mine: FiguredSentence, theirs: FiguredSentence) -> bool:
    own, other = frozenset(mine.words), frozenset(theirs.words)
    return len(own & other) >= SAME * len(own | other)


def _says(chunk: ChunkTerms, sentence: FiguredSentence) -> bool:
    return any(one.key == sentence.key and one.figures == sentence.figures for one in chunk.figured)
