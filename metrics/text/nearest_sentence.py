"""Finds the sentence of a chunk that an absent fact contradicts, and the fact that stands there instead."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile

from .amounts import LOOSE, flat, is_range, value_and_unit
from .analysis import Analysis
from .contraries import other_month
from .designations import other_designation
from .facts import CODE, MONTH, Fact, inner_names
from .quantities import Quantity, quantities
from .stems import CONTENT
from .terms import Vocabulary, held_in_line, search_terms, sentence_lines
from .tokens import normalise

_BEFORE_DIGIT = frozenset("0123456789.,")
_NEAR = 80
"""Characters around a number whose text is compared."""


def nearest_sentence(
    fact: Fact, said: str, terms: Sequence[str], contexts: Sequence[Analysis], each: Sequence[Vocabulary]
) -> tuple[int, str, str] | None:
    """Return the chunk's index, its sentence and its differing fact; None: no sentence differs.

    It is the sentence that shares most words with the fact's sentence, at least half of them, and has another
    number of the same unit (the one with the most similar text around it) or, for a name, most of the words
    and another name.

    Args:
        fact: The fact.
        said: Its sentence.
        terms: The terms of its sentence.
        contexts: The chunks.
        each: The terms of the answer that each chunk has.
    """
    beside = frozenset(terms).difference([CONTENT[word] for word in normalise(fact.text).split()])
    is_name = not fact.is_number and fact.units is not MONTH
    least = max(3, 0.75 * len(beside)) if is_name else max(1, 0.5 * len(beside))
    best: tuple[int, int, str, str] | None = None
    for place, (context, held) in enumerate(zip(contexts, each, strict=True)):
        here = beside & held.words
        if len(here) < least:
            continue
        if context.has_han:
            looked_for = search_terms(here)
            lines = context.memoize(sentence_lines)
            counts = [len(held_in_line(line, looked_for)) for line in lines]
        else:
            counts = [*map(len, map(here.__and__, context.sentence_sets))]
        if max(counts, default=0) < (least if best is None else max(least, best[0] + 1)):
            continue
        for sentence, shared in zip(context.sentences, counts, strict=True):
            if shared < least or (best is not None and shared <= best[0]):
                continue
            if fact.units is MONTH:
                other = other_month(sentence, fact.text, said)
            else:
                other = _other_name(sentence, terms) if is_name else _other_number(sentence, fact, said)
            if other is not None:
                best = (shared, place, sentence, other)
    return None if best is None else best[1:]


def _other_number(sentence: str, fact: Fact, said: str) -> str | None:
    if fact.units is CODE:
        return other_designation(sentence, fact.text)
    own = flat(said)
    there, numbers = _numbers_in(sentence)
    start, end = _place_of(flat(fact.text), own)
    before, after = own[:start], own[end:]
    stated = frozenset().union(*[one.keys for one in quantities(own[max(0, start - _NEAR) : end + _NEAR])])
    best: tuple[int, str] | None = None
    for one in numbers:
        units = frozenset(unit for _, unit in map(value_and_unit, one.keys)) - LOOSE
        if (units & fact.units or units == fact.units) and not is_range(one.keys) and not stated & one.keys:
            alike = _alike(after, there[one.end :]) + _alike(before[::-1], there[: one.start][::-1])
            if best is None or alike > best[0]:
                best = alike, there[one.start : one.end]
    return None if best is None else best[1]


@lru_cache(maxsize=8)  # requested for each fact of an answer in turn
def _numbers_in(sentence: str) -> tuple[str, list[Quantity]]:
    there = flat(sentence)
    return there, quantities(there)


def _place_of(number: str, text: str) -> tuple[int, int]:
    """Return where a number stands in a text, in no longer one; 0 and 0: nowhere."""
    start = text.find(number)
    while start >= 0:
        end = start + len(number)
        if text[start - 1 : start] not in _BEFORE_DIGIT and not text[end : end + 1].isdecimal():
            return start, end
        start = text.find(number, start + 1)
    return 0, 0


def _alike(some: str, other: str) -> int:
    """Return the length of what two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, other, strict=False)))


def _other_name(sentence: str, terms: Sequence[str]) -> str | None:
    return next((name for name, last in inner_names(sentence) if CONTENT[last] not in terms), None)
