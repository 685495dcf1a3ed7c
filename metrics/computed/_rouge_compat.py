"""ROUGE-L as the package `rouge` 1.0.1 computes it, which continuous-eval 0.3.14 matches with.

Bit for bit its values, its ties and its limitations (case and punctuation count, "." splits everywhere, words
are a set), but iterative and without tables, so that long texts neither raise nor take long. Only `_matching`
calls this; new measurements should use the `unicode` backend.
"""

from collections.abc import Iterator

from ragmeter.metrics._process.lazy_attribute import lazy_attribute

_MOST_CELLS = 400_000_000
"""Most bits for one pair of segments: 50 MB."""


class CompatText:
    """One text split as the package does: at full stops, then at white space."""

    def __init__(self, text: str) -> None:
        self.segments = [" ".join(piece.split()).split(" ") for piece in text.split(".") if piece]
        self.words = frozenset(word for segment in self.segments for word in segment)

    @property
    def is_empty(self) -> bool:
        """Whether the package would raise, and continuous-eval return "no match"."""
        return not self.segments

    @lazy_attribute
    def segment_sets(self) -> list[frozenset[str]]:
        """The distinct words of each segment."""
        return [frozenset(segment) for segment in self.segments]

    @lazy_attribute
    def segments_with(self) -> dict[str, list[int]]:
        """Word → indexes of the segments that have it."""
        found: dict[str, list[int]] = {}
        for position, words in enumerate(self.segment_sets):
            for word in words:
                found.setdefault(word, []).append(position)
        return found


def _lcs_words(truth: list[str], retrieved: list[str], common: frozenset[str]) -> set[str]:
    """Return the words of the longest common subsequence that the package's traceback picks."""
    if truth == retrieved:
        return set(truth)
    # A retrieved word that the truth lacks never changes the path: the traceback skips it. This does not
    # apply to the truth's words.
    columns = [word for word in retrieved if word in common]
    if len(truth) * len(columns) > _MOST_CELLS:
        raise ValueError(f"segments of {len(truth)} and {len(retrieved)} words are too long")
    positions: dict[str, int] = {}
    for position, word in enumerate(columns):
        positions[word] = positions.get(word, 0) | (1 << position)
    full = row = (1 << len(columns)) - 1
    rows: list[int] = []
    for word in truth:
        shared = row & positions.get(word, 0)
        if shared:
            row = ((row + shared) | (row - shared)) & full
        rows.append(row)
    # A zero bit j of row i means that the length at (i, j + 1) exceeds that at (i, j). If the words differ
    # and the length falls to the left, it must be the same above: the package goes up. Otherwise it goes
    # left.
    picked: set[str] = set()
    i, j = len(truth) - 1, len(columns) - 1
    while i >= 0 and j >= 0:
        if truth[i] == columns[j]:
            picked.add(truth[i])
            i -= 1
            j -= 1
        elif rows[i] >> j & 1:
            j -= 1
        else:
            i -= 1
    return picked


def _unions(truth: CompatText, retrieved: CompatText) -> Iterator[tuple[int, int, set[str]]]:
    """Yield, after each pair of segments that can add words, the indexes and the union so far."""
    union: set[str] = set()
    for t, wanted in enumerate(truth.segment_sets):
        missing = (wanted & retrieved.words) - union
        candidates = sorted({r for word in missing for r in retrieved.segments_with[word]})
        for r in candidates:
            common = wanted & retrieved.segment_sets[r]
            if common <= union:
                continue
            union |= _lcs_words(truth.segments[t], retrieved.segments[r], common)
            yield t, r, union
        yield t, -1, union


def covers(truth: CompatText, retrieved: CompatText, needed: int) -> bool:
    """Return whether the package's union for the pair has at least `needed` words.

    Stops as soon as the result is known, which for most pairs is before the first subsequence.
    """
    if truth.is_empty or retrieved.is_empty:
        return False
    hope = len(truth.words & retrieved.words)
    if hope < needed:
        return False
    if needed <= 0:
        return True
    # Words that occur only in already processed segments of the truth, and that were not picked, are lost.
    last_segment = {word: t for t, words in enumerate(truth.segment_sets) for word in words}
    ending: dict[int, list[str]] = {}
    for word in truth.words & retrieved.words:
        ending.setdefault(last_segment[word], []).append(word)
    for t, r, union in _unions(truth, retrieved):
        if len(union) >= needed:
            return True
        if r < 0:
            hope -= sum(word not in union for word in ending.get(t, ()))
            if hope < needed:
                return False
    return False
