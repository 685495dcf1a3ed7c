"""Measures the share of the retrieved text that repeats an earlier chunk.

Called by `retrieval_health`: the prompt pays twice for overlapping windows, near copies and shared
boilerplate, and `duplicate_ratio`, which compares whole chunks, is 0 for all of them.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

_SIZE = 5
_LEAST_SHARE = 0.6


_RUNS = [slice(at, at + _SIZE) for at in range(1000)]
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


def repetitions(chunks: Sequence[str]) -> Repetitions:
    """Compare chunks, with one character per token, by their runs of five tokens.

    A chunk of fewer tokens is one run.  Linear in the tokens.
    """
    if len(chunks) == 1:
        return Repetitions(0.0 if chunks[0] else None, [])
    sets = list(map(_shingles, chunks))
    total = sum(map(len, sets))
    if not total:
        return Repetitions(None, [])
    seen: set[str] = set()
    first: dict[str, int] = {}
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


def _shingles(words: str) -> frozenset[str]:
    count = max(1, len(words) - _SIZE + 1) if words else 0
    if count > len(_RUNS):
        return frozenset([words[at : at + _SIZE] for at in range(count)])
    return frozenset(map(words.__getitem__, _RUNS[:count]))


def _pairs(
    number: int, again: frozenset[str], first: dict[str, int], sets: Sequence[frozenset[str]]
) -> list[Repetition]:
    found: list[Repetition] = []
    for earlier, count in sorted(Counter(map(first.__getitem__, again)).items()):
        of_earlier = len(sets[earlier]) < len(sets[number])
        share = count / min(len(sets[earlier]), len(sets[number]))
        if share >= _LEAST_SHARE:
            found.append(Repetition(number, earlier, share, of_earlier))
    return found
