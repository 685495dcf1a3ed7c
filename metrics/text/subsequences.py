"""Lengths of longest common subsequences: of two strings, and of many with many.

`overlap` and the matching of chunks and sentences call this, with tokens encoded as characters (`encoding`).
The work is done by rapidfuzz, never by a quadratic loop in Python; pairs too long for one uninterrupted call
are processed in steps that let other threads run.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rapidfuzz.distance import LCSseq

from ragmeter.metrics.errors import TooLongError

_UNINTERRUPTED_CELLS = 300_000_000
"""Most pairs of tokens in one call of rapidfuzz, which keeps the interpreter lock: 50 ms."""

_MOST_CELLS = 40_000_000_000
"""Most pairs of tokens in total: seconds."""

_MOST_PAIRS = 10_000_000
"""Most pairs of texts in total: seconds."""

_MOST_LENGTHS = 250_000
"""Most lengths in memory at a time."""

_BYTE = 256


def _table_of_rapidfuzz() -> tuple[Callable[..., Any], int, int] | None:
    """Return rapidfuzz's table of all pairs and its names for one and four bytes a length.

    It compares many pairs at once (SIMD), some ten times faster than pair by pair. Its public form needs
    numpy to return the table; internally it is a plain buffer, which every version from 3.9 on has. None if
    this one has not, which is tested once with a small table.
    """
    try:
        from rapidfuzz.process_cpp_impl import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
            UINT8,
            UINT32,
            cdist,
        )

        for kind in (UINT8, UINT32):
            asked = cdist(["ab", "c"], ["b", "", "xa"], scorer=LCSseq.similarity, dtype=kind)
            rows: Any = memoryview(asked).tolist()
            if rows != [[1, 0, 1], [0, 0, 0]]:
                return None
    except (ImportError, AttributeError, TypeError, ValueError, BufferError):
        return None
    return cdist, UINT8, UINT32


_TABLE = _table_of_rapidfuzz()


def lcs_of_encoded(one: str, other: str) -> int:
    """Return the length of the longest common subsequence of two strings of any size.

    Raises:
        TooLongError: They are too long to compare in seconds.
    """
    cells = len(one) * len(other)
    if cells <= _UNINTERRUPTED_CELLS:
        return LCSseq.similarity(one, other)
    if cells > _MOST_CELLS:
        raise TooLongError(f"texts of {len(one)} and {len(other)} tokens to compare")
    if len(one) > len(other):
        one, other = other, one
    positions: dict[str, int] = {}
    for position, character in enumerate(one):
        positions[character] = positions.get(character, 0) | (1 << position)
    # Bit-parallel (Crochemore et al. 2001): a bit of `row` is 0 where the length grows.
    full = row = (1 << len(one)) - 1
    for character in other:
        shared = row & positions.get(character, 0)
        if shared:
            row = ((row + shared) | (row - shared)) & full
    return len(one) - row.bit_count()


def lcs_rows(ones: Sequence[str], others: Sequence[str]) -> Iterator[Sequence[int]]:
    """Yield for each of `ones` the lengths of its longest common subsequences with all `others`.

    A row is a `bytes` where no length can exceed 255, else a list.

    Raises:
        TooLongError: They are too many or too long to compare in seconds.
    """
    if len(ones) * len(others) > _MOST_PAIRS:
        raise TooLongError(f"{len(ones)} texts to compare with {len(others)}")
    if sum(map(len, ones)) * sum(map(len, others)) > _MOST_CELLS:
        raise TooLongError(f"texts of {sum(map(len, ones))} and {sum(map(len, others))} tokens to compare")
    longest = max(map(len, ones), default=0)
    cells = longest * sum(map(len, others))
    if _TABLE is None or not others or cells > _UNINTERRUPTED_CELLS:
        for one in ones:
            yield [lcs_of_encoded(one, other) for other in others]
        return
    table, one_byte, four_bytes = _TABLE
    width = len(others)
    at_once = max(1, min(_MOST_LENGTHS // width, _UNINTERRUPTED_CELLS // max(cells, 1)))
    kind = one_byte if longest < _BYTE else four_bytes
    for start in range(0, len(ones), at_once):
        block = ones[start : start + at_once]
        lengths = memoryview(table(block, others, scorer=LCSseq.similarity, dtype=kind))
        if longest < _BYTE:
            flat = lengths.tobytes()
            yield from [flat[at : at + width] for at in range(0, len(flat), width)]
        else:
            rows: Any = lengths.tolist()
            yield from rows
