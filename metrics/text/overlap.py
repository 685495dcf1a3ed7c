"""Compare token lists: longest common subsequence, ROUGE-L, token F1, coverage.

The lexical and ROUGE metrics call this; common subsequences are found in `subsequences`.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from .analysis import analyse
from .encoding import encode

_ARTICLES = frozenset({"a", "an", "the"})


def lcs_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two token lists."""
    from .subsequences import lcs_of_encoded  # noqa: PLC0415 -- rapidfuzz, for few requests

    (wanted,), (found,) = encode([one], [other])
    return lcs_of_encoded(wanted, found)


class Overlap(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    """Share of the candidate that is in the reference."""
    recall: float
    """Share of the reference that is in the candidate."""
    f1: float
    """2PR / (P + R), 0.0 when both are 0."""


def _f1(shared: int, candidate: int, reference: int) -> Overlap:
    precision = shared / candidate if candidate else 0.0
    recall = shared / reference if reference else 0.0
    if not shared:
        return Overlap(precision, recall, 0.0)
    return Overlap(precision, recall, 2 * precision * recall / (precision + recall))


def rouge_l(reference: Sequence[str], candidate: Sequence[str]) -> Overlap:
    """Return ROUGE-L of two token lists; all 0.0 when either is empty."""
    if not reference or not candidate:
        return Overlap(0.0, 0.0, 0.0)
    return _f1(lcs_length(reference, candidate), len(candidate), len(reference))


def _answer_tokens(text: str) -> list[str]:
    return [word for word in analyse(text).tokens if word not in _ARTICLES]


def token_f1(prediction: str, reference: str) -> float:
    """Return the F1 of the tokens that two texts share, counted with repeats.

    NFKC, casefold; without punctuation, spaces and the articles a, an, the; Unicode words, each Han character
    separately (SQuAD's F1, Rajpurkar et al. 2016, for three languages).

    Returns:
        0.0 to 1.0; 1.0 when neither text has a token, 0.0 when only one has.
    """
    return _multiset_f1(_answer_tokens(prediction), _answer_tokens(reference)).f1


def token_overlap(prediction: str, reference: str) -> Overlap | None:
    """Return `token_f1` with its precision and recall, or None when the reference has no token."""
    wanted = _answer_tokens(reference)
    return _multiset_f1(_answer_tokens(prediction), wanted) if wanted else None


def _multiset_f1(predicted: Sequence[str], wanted: Sequence[str]) -> Overlap:
    if not predicted and not wanted:
        return Overlap(1.0, 1.0, 1.0)
    left: dict[str, int] = {}
    for word in wanted:
        left[word] = left.get(word, 0) + 1
    shared = 0
    for word in predicted:
        if left.get(word, 0) > 0:
            left[word] -= 1
            shared += 1
    return _f1(shared, len(predicted), len(wanted))


def coverage(words: Sequence[str], known: Collection[str]) -> float | None:
    """Return the share of `words`, with repeats, that is in `known` (a set); None without words."""
    if not words:
        return None
    return sum(map(known.__contains__, words)) / len(words)
