"""Match retrieved texts with the texts that should have been retrieved.

`PrecisionRecallF1` and `RankedRetrieval` ask here which components (chunks or sentences) match.
Four strategies, and two backends for those that use ROUGE-L; no score is computed here.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import repeat
from typing import Literal, NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import LCSseq

from .errors import ConfigurationError
from .rouge_compat import CompatText, covers
from .text.analysis import analyse
from .text.overlap import Alphabet, lcs_of_encoded
from .text.tokens import tokens

__all__ = [
    "ROUGE_CHUNK_MATCH_THRESHOLD",
    "ROUGE_SENTENCE_MATCH_THRESHOLD",
    "Component",
    "Matcher",
    "MatchingBackend",
    "MatchingStrategy",
    "TruthMatch",
    "distinct",
]

ROUGE_CHUNK_MATCH_THRESHOLD = 0.7
"""Least ROUGE-L recall of a golden chunk by a retrieved chunk; reached is matched."""

ROUGE_SENTENCE_MATCH_THRESHOLD = 0.8
"""Least ROUGE-L recall of a golden sentence by a retrieved sentence; reached is matched."""

MatchingBackend = Literal["unicode", "rouge_compat"]
"""``unicode``: textbook ROUGE-L on Unicode tokens. ``rouge_compat``: as continuous-eval 0.3.14."""

_CELLS_PER_CALL = 2_000_000_000


class MatchingStrategy(str, Enum):
    """What is compared (chunks or sentences), and how (equality or ROUGE-L recall)."""

    EXACT_CHUNK_MATCH = "exact_chunk_match"
    """A retrieved chunk equals a golden chunk, character by character."""
    EXACT_SENTENCE_MATCH = "exact_sentence_match"
    """A sentence of a retrieved chunk equals a sentence of a golden chunk."""
    ROUGE_CHUNK_MATCH = "rouge_chunk_match"
    """ROUGE-L recall of the golden chunk is at least 0.7."""
    ROUGE_SENTENCE_MATCH = "rouge_sentence_match"
    """ROUGE-L recall of the golden sentence is at least 0.8."""

    @property
    def by_sentence(self) -> bool:
        """Whether chunks are split into sentences first."""
        return self in (self.EXACT_SENTENCE_MATCH, self.ROUGE_SENTENCE_MATCH)

    @property
    def uses_rouge(self) -> bool:
        """Whether ROUGE-L decides, rather than equality."""
        return self in (self.ROUGE_CHUNK_MATCH, self.ROUGE_SENTENCE_MATCH)


class Component(NamedTuple):
    """One chunk or sentence."""

    id: str
    """``chunk-2`` or ``chunk-2/sentence-1``, counted from 1."""
    text: str
    """Its text."""
    words: Sequence[str]
    """Its tokens, for the backend that compares them; else empty."""


class TruthMatch(NamedTuple):
    """What was retrieved of one golden component."""

    matched: tuple[int, ...]
    """Positions of the retrieved components that match it, ascending."""
    best: int | None
    """Position of the best of all retrieved components, if known and not worthless."""
    value: float | None
    """ROUGE-L recall by the best one, if known; 1.0 for an exact match."""


def _least_count(total: int, threshold: float) -> int:
    """Return the smallest n with ``n / total >= threshold``, in floating point as the peer."""
    count = max(0, int(total * threshold) - 1)
    while count / total < threshold:
        count += 1
    return count


class Matcher:
    """A strategy with its threshold and backend, checked once.

    Args:
        strategy: What is compared, and how.
        threshold: Least ROUGE-L recall, more than 0.0 and at most 1.0; None: the strategy's own.
        backend: How ROUGE-L is computed.
        split_sentences: Splits a chunk into sentences; None: `ragmeter.metrics.sentences`.

    Raises:
        ConfigurationError: An argument is not one of the allowed values.
    """

    def __init__(
        self,
        strategy: MatchingStrategy | str,
        threshold: float | None,
        backend: MatchingBackend,
        split_sentences: Callable[[str], Sequence[str]] | None,
    ) -> None:
        try:
            self.strategy = MatchingStrategy(strategy)
        except ValueError:
            allowed = ", ".join(f"MatchingStrategy.{one.name}" for one in MatchingStrategy)
            raise ConfigurationError(f"strategy is {strategy!r}; it is one of {allowed}") from None
        if backend not in ("unicode", "rouge_compat"):
            raise ConfigurationError(f"backend is {backend!r}; it is 'unicode' or 'rouge_compat'")
        if threshold is not None and not self.strategy.uses_rouge:
            raise ConfigurationError(f"{self.strategy.name} compares for equality: no threshold")
        if threshold is not None and not 0 < threshold <= 1:
            raise ConfigurationError(f"threshold is {threshold!r}; it is more than 0, at most 1")
        if threshold is None:
            threshold = (
                ROUGE_SENTENCE_MATCH_THRESHOLD
                if self.strategy.by_sentence
                else ROUGE_CHUNK_MATCH_THRESHOLD
            )
        self.threshold = threshold
        self.backend: MatchingBackend = backend
        self._split = split_sentences

    @property
    def definition(self) -> str:
        """Name what decides a match, for `Metric.definition`."""
        if not self.strategy.uses_rouge:
            return f"1/{self.strategy.value}"
        return f"1/{self.strategy.value}/{self.backend}/{self.threshold:g}"

    def components(self, texts: Sequence[str]) -> list[Component]:
        """Cut `texts` into what is compared; a text without sentences gives none."""
        cut = self.strategy.uses_rouge and self.backend == "unicode"
        if not self.strategy.by_sentence:
            return [
                Component(f"chunk-{n}", text, analyse(text).tokens if cut else ())
                for n, text in enumerate(texts, start=1)
            ]
        found: list[Component] = []
        for n, text in enumerate(texts, start=1):
            known = analyse(text)
            split = known.sentences if self._split is None else _strings(self._split(text))
            words: Iterable[Sequence[str]] = repeat(())
            if cut:
                words = known.sentence_tokens if self._split is None else map(tokens, split)
            found.extend(
                Component(f"chunk-{n}/sentence-{m}", sentence, cut_sentence)
                for m, (sentence, cut_sentence) in enumerate(
                    zip(split, words, strict=False), start=1
                )
            )
        return found

    def match(self, retrieved: Sequence[Component], truth: Sequence[Component]) -> list[TruthMatch]:
        """Return one `TruthMatch` per component of `truth`, which has no repeats."""
        if not self.strategy.uses_rouge:
            return _match_exactly(retrieved, truth)
        if self.backend == "rouge_compat":
            return _match_like_the_package(retrieved, truth, self.threshold)
        return _match_by_tokens(retrieved, truth, self.threshold)


def _strings(split: Iterable[str]) -> list[str]:
    found = list(split)
    for sentence in found:
        # It is the caller's function: its word is not taken.
        if not isinstance(sentence, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"split_sentences returned {type(sentence).__name__}, not strings")
    return found


def distinct(components: Iterable[Component]) -> list[Component]:
    """Drop components whose text came before."""
    seen: dict[str, Component] = {}
    for component in components:
        seen.setdefault(component.text, component)
    return list(seen.values())


def _positions(components: Sequence[Component]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for position, component in enumerate(components):
        found.setdefault(component.text, []).append(position)
    return found


def _match_exactly(retrieved: Sequence[Component], truth: Sequence[Component]) -> list[TruthMatch]:
    positions = _positions(retrieved)
    return [
        TruthMatch(tuple(at), at[0], 1.0)
        if (at := positions.get(component.text))
        else TruthMatch((), None, None)
        for component in truth
    ]


def _match_by_tokens(
    retrieved: Sequence[Component], truth: Sequence[Component], threshold: float
) -> list[TruthMatch]:
    alphabet = Alphabet(component.words for component in truth)
    encoded = alphabet.encode_all([component.words for component in retrieved])
    size = sum(map(len, encoded))
    matches: list[TruthMatch] = []
    for component in truth:
        wanted = alphabet.encode(component.words)
        if not wanted:
            # Nothing but punctuation: there is no recall, only equality.
            matches.extend(_match_exactly(retrieved, [component]))
            continue
        needed = _least_count(len(wanted), threshold)
        found = _common_lengths(wanted, encoded, needed, len(wanted) * size)
        if not found:
            matches.append(TruthMatch((), None, None))
            continue
        matched = sorted(index for length, index in found if length >= needed)
        length, best = found[0]
        matches.append(TruthMatch(tuple(matched), best if length else None, length / len(wanted)))
    return matches


def _common_lengths(
    wanted: str, encoded: Sequence[str], needed: int, cells: int
) -> list[tuple[int, int]]:
    """Return (length, index) of every text that reaches `needed`, or of the best; best first."""
    if cells > _CELLS_PER_CALL:
        lengths = [lcs_of_encoded(wanted, one) for one in encoded]
        return sorted(
            ((n, i) for i, n in enumerate(lengths)), key=lambda found: (-found[0], found[1])
        )
    hits = process.extract(
        wanted, encoded, scorer=LCSseq.similarity, score_cutoff=needed, limit=None
    )
    if not hits and encoded:
        hits = [process.extractOne(wanted, encoded, scorer=LCSseq.similarity)]
    return [(length, index) for _, length, index in hits]


def _match_like_the_package(
    retrieved: Sequence[Component], truth: Sequence[Component], threshold: float
) -> list[TruthMatch]:
    prepared = [(CompatText(text), at) for text, at in _positions(retrieved).items()]
    matches: list[TruthMatch] = []
    for component in truth:
        wanted = CompatText(component.text)
        matched: list[int] = []
        if not wanted.is_empty:
            needed = _least_count(len(wanted.words), threshold)
            words = wanted.words
            for candidate, at in prepared:
                if len(words & candidate.words) >= needed and covers(wanted, candidate, needed):
                    matched.extend(at)
        matched.sort()
        matches.append(TruthMatch(tuple(matched), matched[0] if matched else None, None))
    return matches
