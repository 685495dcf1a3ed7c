"""Measures the share of the retrieved text that repeats an earlier chunk.

Called by `retrieval_health`: the prompt pays twice for overlapping windows, near copies and shared
boilerplate, and `duplicate_ratio`, which compares whole chunks, is 0 for all of them.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

_SIZE = 5
_LEAST_SHARE = 0.6


def _runs(length: int) -> list[slice]:
    return [slice(at, at + _SIZE) for at in range(length)]


_LONGEST = 1000
_RUNS = _runs(_LONGEST)
"""Made once: creating them costs as much as splitting."""


class Repetition(NamedTuple):
    """A pair of chunks of which one has most of the other."""

    chunk: int
    """Index of the later chunk, from 0."""
    earlier: int
    """Index of the earlier chunk."""
    share: float
    """Their common share of the smaller one."""
    of_earlier: bool
    """Whether the earlier chunk is the smaller one."""


class Repetitions(NamedTuple):
    """The repetitions among the chunks of a request."""

    share: float | None
    """Share of shingles that an earlier chunk had; None without a shingle."""
    pairs: list[Repetition]
    """The pairs that share most of the smaller one, in order."""


def repetitions(chunks: Sequence[Sequence[str]]) -> Repetitions:
    """Compare chunks by their runs of five tokens: lists of tokens, or texts with one character per token.

    A chunk of fewer tokens is one run.  Linear in the tokens.
    """
    if len(chunks) == 1:
        return Repetitions(0.0 if chunks[0] else None, [])
    sets = list(map(_shingles, chunks))
    total = sum(map(len, sets))
    if not total:
        return Repetitions(None, [])
    seen: set[object] = set()
    first: dict[object, int] = {}
    repeated, known, smallest = 0, 0, total
    pairs: list[Repetition] = []
    for number, own in enumerate(sets):
        known_before = len(seen)
        seen |= own
        if len(seen) == known_before + len(own):
            smallest = min(smallest, len(own)) if own else smallest
            continue
        again = own.intersection(chain.from_iterable(sets[:number]))
        # The source of repeats is searched only if they could be most of some chunk.
        if again and len(again) >= _LEAST_SHARE * min(len(own), smallest):
            for earlier in range(known, number):
                for shingle in sets[earlier]:
                    first.setdefault(shingle, earlier)
            known = number
            pairs += _pairs(number, again, first, sets)
        repeated += len(again)
        smallest = min(smallest, len(own)) if own else smallest
    return Repetitions(repeated / total, pairs)


def _shingles(words: Sequence[str]) -> frozenset[object]:
    if len(words) < _SIZE:
        return frozenset({tuple(words)} if words else ())
    if isinstance(words, str):
        runs = islice(_RUNS if len(words) < _LONGEST else _runs(len(words)), len(words) - _SIZE + 1)
        return frozenset([words[run] for run in runs])
    return frozenset(zip(*[words[start:] for start in range(_SIZE)], strict=False))


def _pairs(
    number: int, again: frozenset[object], first: dict[object, int], sets: Sequence[frozenset[object]]
) -> list[Repetition]:
    found: list[Repetition] = []
    for earlier, count in sorted(Counter(map(first.__getitem__, again)).items()):
        of_earlier = len(sets[earlier]) < len(sets[number])
        share = count / min(len(sets[earlier]), len(sets[number]))
        if share >= _LEAST_SHARE:
            found.append(Repetition(number, earlier, share, of_earlier))
    return found
