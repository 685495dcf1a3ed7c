"""Match retrieved texts with the texts that should have been retrieved.

`PrecisionRecallF1` and `RankedRetrieval` find here which components (chunks or sentences) match. Four
strategies, and two backends for those that use ROUGE-L; no score is computed here.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain, compress
from typing import Literal, NamedTuple

from ragmeter.metrics._process.lazy_attribute import lazy_attribute
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.encoding import encode, encoded_pair
from ragmeter.metrics.text.layout import exact_key
from ragmeter.metrics.text.sentences import RULES
from ragmeter.metrics.text.tokens import tokens

from ._rouge_compat import CompatText, covers

ROUGE_CHUNK_MATCH_THRESHOLD = 0.7
"""Least ROUGE-L recall of a golden chunk by a retrieved chunk for a match."""

ROUGE_SENTENCE_MATCH_THRESHOLD = 0.8
"""Least ROUGE-L recall of a golden sentence by a retrieved sentence for a match."""

MatchingBackend = Literal["unicode", "rouge_compat"]
"""``unicode``: textbook ROUGE-L on Unicode tokens. ``rouge_compat``: as continuous-eval 0.3.14."""

_MOST_SHARED_IDS = 64
"""Most chunks, and sentences of a chunk, with precomputed ids for all requests."""


class MatchingStrategy(str, Enum):
    """The compared components (chunks or sentences), and the comparison (equality or ROUGE-L recall)."""

    EXACT_CHUNK_MATCH = "exact_chunk_match"
    """A retrieved chunk equals a golden chunk except for their layout (`text.layout.exact_key`)."""
    EXACT_SENTENCE_MATCH = "exact_sentence_match"
    """A sentence of a retrieved chunk equals a sentence of a golden chunk, likewise."""
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
        """Whether ROUGE-L decides, not equality."""
        return self in (self.ROUGE_CHUNK_MATCH, self.ROUGE_SENTENCE_MATCH)


class Components:
    """Chunks or sentences, in order: four lists of one length.

    Args:
        ids: ``chunk-2`` or ``chunk-2/sentence-1``, counted from 1.
        texts: Their texts.
        encoded: Their tokens encoded by `text.encoding`, for the backend that compares them; None: empty
            strings.
        key: Returns the key by which texts are equal.
    """

    def __init__(
        self, ids: Sequence[str], texts: Sequence[str], encoded: Sequence[str] | None, key: Callable[[str], str]
    ) -> None:
        self.ids = ids
        self.texts = texts
        self.encoded = [""] * len(ids) if encoded is None else encoded
        self._key = key

    @lazy_attribute
    def keys(self) -> list[str]:
        """The key of each."""
        return list(map(self._key, self.texts))

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.ids)

    def distinct(self) -> "Components":
        """Return the components without repetitions, in order."""
        first = dict(zip(reversed(self.keys), range(self.size - 1, -1, -1), strict=True))
        if len(first) == self.size:
            return self
        at = sorted(first.values())
        ids, texts, encoded = (
            [side[position] for position in at] for side in (self.ids, self.texts, self.encoded)
        )
        return Components(ids, texts, encoded, self._key)


class TruthMatch(NamedTuple):
    """The retrieved components that match one golden component."""

    matched: tuple[int, ...]
    """Indexes of the matching retrieved components, ascending."""
    best: int | None
    """Index of the best of all retrieved components, if known and above 0."""
    value: float | None
    """ROUGE-L recall by the best one, if known; 1.0 for an exact match."""


def _least_count(total: int, threshold: float) -> int:
    """Return the smallest n with ``n / total >= threshold``, in floating point as the original."""
    count = max(0, int(total * threshold) - 1)
    while count / total < threshold:
        count += 1
    return count


class Matcher:
    """A validated strategy with its threshold and backend.

    Args:
        strategy: The components and their comparison.
        threshold: Least ROUGE-L recall, more than 0.0 and at most 1.0; None: that of the strategy.
        backend: The implementation of ROUGE-L.
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
                ROUGE_SENTENCE_MATCH_THRESHOLD if self.strategy.by_sentence else ROUGE_CHUNK_MATCH_THRESHOLD
            )
        self.threshold = threshold
        self.backend: MatchingBackend = backend
        self._split = split_sentences

    @property
    def definition(self) -> str:
        """The definition of a match, for `Metric.definition`."""
        if self.strategy.uses_rouge:
            how = f"{self.backend}/{self.threshold:g}"
            return f"{self._version}/{self.strategy.value}/{how}"
        return f"{self._version}/{self.strategy.value}"

    @property
    def _version(self) -> str:
        # As in the original package, layout matters, unless ragmeter splits the sentences.
        own = self.strategy.by_sentence and self._split is None
        return RULES if own or self.backend == "unicode" else "1"

    def components(self, retrieved: Sequence[str], golden: Sequence[str]) -> tuple[Components, Components]:
        """Split texts into components; a text without sentences has none.

        Returns:
            The components of all retrieved and those of all golden texts.
        """
        encodes = self.strategy.uses_rouge and self.backend == "unicode"
        wanted = found = None
        if not self.strategy.by_sentence:
            if encodes:
                wanted, found = encoded_pair(golden, retrieved).chunks
            return self._chunks(retrieved, found), self._chunks(golden, wanted)
        found_split, wanted_split = self._sentences(retrieved), self._sentences(golden)
        if encodes and self._split is None:
            wanted, found = encoded_pair(golden, retrieved).sentences
        elif encodes:
            wanted, found = encode(
                [tokens(sentence) for sentences in wanted_split for sentence in sentences],
                [tokens(sentence) for sentences in found_split for sentence in sentences],
            )
        return self._components(found_split, found), self._components(wanted_split, wanted)

    def _sentences(self, texts: Sequence[str]) -> list[list[str]]:
        if self._split is None:
            return [analyse(text).sentences for text in texts]
        return [_strings(self._split(text)) for text in texts]

    def _chunks(self, texts: Sequence[str], encoded: Sequence[str] | None) -> Components:
        key: Callable[[str], str] = str if self.backend == "rouge_compat" else _chunk_key
        return Components(chunk_ids(len(texts)), texts, encoded, key)

    def _components(self, split: Sequence[Sequence[str]], encoded: Sequence[str] | None) -> Components:
        ids: list[str] = []
        for number, sentences in enumerate(split, start=1):
            ids += _sentence_ids(number, len(sentences))
        key: Callable[[str], str] = str
        if self.backend != "rouge_compat":
            key = _sentence_key if self._split is None else exact_key
        return Components(ids, list(chain.from_iterable(split)), encoded, key)

    def match(self, retrieved: Components, truth: Components) -> list[TruthMatch]:
        """Return one `TruthMatch` per component of `truth`, which must not have repeats."""
        if not self.strategy.uses_rouge:
            return _match_exactly(retrieved.keys, truth.keys)
        if self.backend == "rouge_compat":
            return _match_like_the_package(retrieved.texts, truth.texts, self.threshold)
        return _match_by_tokens(retrieved, truth, self.threshold)


_CHUNK_IDS = tuple(f"chunk-{number}" for number in range(1, _MOST_SHARED_IDS + 1))


def chunk_ids(count: int) -> Sequence[str]:
    """Return the ids of the first `count` chunks in evidence."""
    if count <= _MOST_SHARED_IDS:
        return _CHUNK_IDS[:count]
    return [f"chunk-{number}" for number in range(1, count + 1)]


@lru_cache(maxsize=_MOST_SHARED_IDS)
def _shared_ids(chunk: int) -> tuple[str, ...]:
    return tuple(f"chunk-{chunk}/sentence-{n}" for n in range(1, _MOST_SHARED_IDS + 1))


def _sentence_ids(chunk: int, count: int) -> Sequence[str]:
    if max(chunk, count) <= _MOST_SHARED_IDS:
        return _shared_ids(chunk)[:count]
    return [f"chunk-{chunk}/sentence-{n}" for n in range(1, count + 1)]


def _strings(split: Iterable[str]) -> list[str]:
    found = list(split)
    if set(map(type, found)) <= {str}:
        return found
    for sentence in found:
        # It is the caller's function, so its result is checked.
        if not isinstance(sentence, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"split_sentences returned {type(sentence).__name__}, not strings")
    return list(map(str.__str__, found))  # a subclass's, as plain strings


def _chunk_key(text: str) -> str:
    return analyse(text).exact_key


def _sentence_key(sentence: str) -> str:
    # ragmeter's sentences have no layout left except spaces beside Han.
    return sentence if sentence.isascii() else exact_key(sentence)


def _positions(texts: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        found.setdefault(text, []).append(position)
    return found


def _match_exactly(retrieved: Sequence[str], truth: Sequence[str]) -> list[TruthMatch]:
    positions = _positions(retrieved)
    return [
        TruthMatch(tuple(at), at[0], 1.0) if (at := positions.get(text)) else TruthMatch((), None, None)
        for text in truth
    ]


def _match_by_tokens(retrieved: Components, truth: Components, threshold: float) -> list[TruthMatch]:
    from ragmeter.metrics.text.subsequences import lcs_rows  # noqa: PLC0415 -- rapidfuzz, for few requests

    rows = lcs_rows(list(filter(None, truth.encoded)), retrieved.encoded)
    needed: dict[int, int] = {}
    matches: list[TruthMatch] = []
    for key, characters in zip(truth.keys, truth.encoded, strict=True):
        total = len(characters)
        if not total:
            # Nothing except punctuation: no recall, only equality.
            matches.extend(_match_exactly(retrieved.keys, [key]))
            continue
        if total not in needed:
            needed[total] = _least_count(total, threshold)
        matches.append(_best_of(next(rows), total, needed[total]))
    return matches


def _best_of(lengths: Sequence[int], total: int, needed: int) -> TruthMatch:
    """Return which texts have `needed` of `total` tokens, and which has most; `lengths` is by text."""
    if not lengths:
        return TruthMatch((), None, None)
    best = total if total in lengths else max(lengths)
    first = lengths.index(best)
    if best < needed:
        return TruthMatch((), first if best else None, best / total)
    if isinstance(lengths, bytes):
        reaching: Sequence[int] = lengths.translate(_step(needed))
    else:
        reaching = [int(length >= needed) for length in lengths]
    matched: tuple[int, ...] = (first,)
    if reaching.count(1) > 1:
        matched = tuple(compress(range(len(lengths)), reaching))
    return TruthMatch(matched, first, best / total)


@lru_cache(maxsize=256)
def _step(needed: int) -> bytes:
    """Return a table that maps bytes from `needed` on to 1, others to 0."""
    return bytes(needed) + b"\1" * (256 - needed)


def _match_like_the_package(
    retrieved: Sequence[str], truth: Sequence[str], threshold: float
) -> list[TruthMatch]:
    prepared = [(CompatText(text), at) for text, at in _positions(retrieved).items()]
    matches: list[TruthMatch] = []
    for text in truth:
        wanted = CompatText(text)
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
