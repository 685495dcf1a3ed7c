"""Compare token lists: longest common subsequence, ROUGE-L, token F1, coverage.

The lexical and ROUGE metrics call this.  Subsequences are found by rapidfuzz on whole lists,
never by a quadratic loop in Python; pairs too long for one uninterrupted call are done in steps
that let other threads run.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, count, repeat
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from .sentences import sentences
from .tokens import tokens

__all__ = [
    "Alphabet",
    "RougeScore",
    "coverage",
    "lcs_length",
    "lcs_of_encoded",
    "rouge_l",
    "rouge_l_recall",
    "rouge_scores",
    "token_f1",
    "token_overlap",
]

_UNINTERRUPTED_CELLS = 2_000_000_000
"""Pairs of tokens compared in one call of rapidfuzz, which keeps the interpreter lock: 0.3 s."""

_MOST_CELLS = 200_000_000_000
"""Pairs of tokens compared at all: tens of seconds."""

_ARTICLES = frozenset({"a", "an", "the"})
_ALPHABET_SIZE = 0x110000


class Alphabet:
    """Gives every distinct token of some texts a character of its own: token lists become strings.

    rapidfuzz compares strings several times faster than lists.  Tokens that are not in the
    alphabet are left out, which changes no common subsequence with a text that is.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        distinct = dict.fromkeys(chain.from_iterable(texts))
        if len(distinct) >= _ALPHABET_SIZE:
            raise ValueError("the texts have more than a million distinct tokens")
        # Character 0 stays free, to stand between texts; no token is a line break.
        characters = dict(zip(distinct, map(chr, count(1)), strict=False))
        characters["\n"] = "\0"
        self._character = characters.get

    def encode(self, words: Sequence[str]) -> str:
        """Write those of `words` that are in the alphabet, with one character each."""
        return "".join(map(self._character, words, repeat("")))

    def encode_all(self, texts: Sequence[Sequence[str]]) -> list[str]:
        """Write many texts in one go, which for sentences costs half of writing them one by one."""
        if not texts:
            return []
        lined: list[str] = []
        for words in texts:
            lined += words
            lined.append("\n")
        return self.encode(lined)[:-1].split("\0")


def lcs_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two token lists."""
    alphabet = Alphabet([one])
    return lcs_of_encoded(alphabet.encode(one), alphabet.encode(other))


def lcs_of_encoded(one: str, other: str) -> int:
    """Return the length of the longest common subsequence of two strings, whatever their size.

    Raises:
        ValueError: They are too long to compare in a minute.
    """
    cells = len(one) * len(other)
    if cells <= _UNINTERRUPTED_CELLS:
        return LCSseq.similarity(one, other)
    if cells > _MOST_CELLS:
        raise ValueError(f"texts of {len(one)} and {len(other)} tokens are too long to compare")
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


class RougeScore(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    """Share of the candidate that is in the reference."""
    recall: float
    """Share of the reference that is in the candidate."""
    f1: float
    """2PR / (P + R), 0.0 when both are 0."""


def _f1(shared: int, candidate: int, reference: int) -> RougeScore:
    precision = shared / candidate if candidate else 0.0
    recall = shared / reference if reference else 0.0
    if not shared:
        return RougeScore(precision, recall, 0.0)
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall))


def rouge_l(reference: Sequence[str], candidate: Sequence[str]) -> RougeScore:
    """Return ROUGE-L of two token lists; all 0.0 when either is empty."""
    if not reference or not candidate:
        return RougeScore(0.0, 0.0, 0.0)
    return _f1(lcs_length(reference, candidate), len(candidate), len(reference))


def rouge_l_recall(reference: str, candidate: str) -> float | None:
    """Return which share of the reference's tokens the candidate has, in the same order.

        longest common subsequence of the token lists / number of reference tokens

    Tokens as `tokens` cuts them, so English, Russian and Chinese count alike (Lin 2004, ROUGE-L,
    on Unicode tokens and without stemming).

    Returns:
        0.0 to 1.0, or None when the reference has no token.
    """
    wanted = tokens(reference)
    return lcs_length(wanted, tokens(candidate)) / len(wanted) if wanted else None


def _answer_tokens(text: str) -> list[str]:
    return [word for word in tokens(text) if word not in _ARTICLES]


def token_f1(prediction: str, reference: str) -> float:
    """Return the F1 of the tokens that two texts share, counted with their repeats.

    NFKC, casefold; punctuation, spaces and the articles a, an, the dropped; Unicode words, each
    Han character on its own (SQuAD's F1, Rajpurkar et al. 2016, for three languages).

    Returns:
        0.0 to 1.0; 1.0 when neither text has a token, 0.0 when only one has.
    """
    return _multiset_f1(_answer_tokens(prediction), _answer_tokens(reference)).f1


def token_overlap(prediction: str, reference: str) -> RougeScore | None:
    """Return `token_f1` with its precision and recall, or None when the reference has no token."""
    wanted = _answer_tokens(reference)
    return _multiset_f1(_answer_tokens(prediction), wanted) if wanted else None


def _multiset_f1(predicted: Sequence[str], wanted: Sequence[str]) -> RougeScore:
    if not predicted and not wanted:
        return RougeScore(1.0, 1.0, 1.0)
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
    """Return which share of `words`, repeats counted, is in `known` (a set); None without words."""
    if not words:
        return None
    return sum(map(known.__contains__, words)) / len(words)


class _UnicodeTokenizer:
    """rouge-score's tokenizer interface over `tokens`; its own knows only ``[a-z0-9]``."""

    def tokenize(self, text: str) -> list[str]:
        return tokens(text)


def rouge_scores(
    reference: str, candidate: str, kinds: Sequence[str] = ("rouge1", "rouge2", "rougeLsum")
) -> Mapping[str, RougeScore]:
    """Compute ROUGE with Google's rouge-score on our tokens, for Russian and Chinese as well.

    Slow (pure Python, quadratic for ``rougeL*``): for reports, not for every request.

    Args:
        reference: The text that should have been written.
        candidate: The text that was.
        kinds: ``rouge1`` … ``rouge9``, ``rougeL``, ``rougeLsum`` (union over our sentences).
    """
    from rouge_score.rouge_scorer import RougeScorer  # noqa: PLC0415 -- imports nltk and absl

    scorer = RougeScorer(list(kinds), tokenizer=_UnicodeTokenizer())
    scored = scorer.score("\n".join(sentences(reference)), "\n".join(sentences(candidate)))
    return {
        kind: RougeScore(score.precision, score.recall, score.fmeasure)
        for kind, score in scored.items()
    }
