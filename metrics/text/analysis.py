"""Caches the analyses of texts, so that several metrics share one.

All free metrics of one request read the same few texts; `analyse` returns the same `Analysis` to each of
them. The cache is bounded by bytes, shared by all threads, and holds a text longer than its bound only until
the next text arrives.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, filterfalse
from typing import Any, TypeVar

from ragmeter.metrics._process import fork
from ragmeter.metrics._process.bounded_table import BoundedTable
from ragmeter.metrics._process.lazy_attribute import lazy_attribute

from .cleaning import clean
from .layout import key_of, units
from .sentences import sentences_of
from .stems import CONTENT
from .tokens import (
    MARK,
    content_of,
    content_set_of,
    has_han,
    is_han,
    line_tokens,
    runs_of_lines,
    tokens_of_lines,
    tokens_of_runs,
)

T = TypeVar("T")

_REMEMBERED_MIB = 40
"""Memory limit of all cached analyses, by `Analysis.most_bytes`."""
_REMEMBERED_BY_SERVERS_MIB = 16
"""The same of a process that scores for applications, and sees fewer chunks again."""
_MIB = 1024 * 1024

_BYTES_OF_TEXT = 2_000
"""Bytes of the objects around a text of any length."""
_BYTES = 32
_BYTES_NOT_ASCII = 56
_BYTES_HAN = 170
"""Bytes per character, with all the forms that free metrics cache: measured with a reference; without one it
is a half to two thirds of that (for Chinese, a third)."""

_NO_STEM = frozenset((None,))

_SHARED_WORDS = 100_000
_LONGEST_SHARED = 64
"""Longest word that is shared between texts, in characters: 15 MB at most."""


class _Words(dict[str, str]):
    """Interns words: one object per word for all texts; filled on demand, emptied when full.

    Saves almost half of the memory, and the hashing of every token of a new text.
    """

    def __missing__(self, word: str) -> str:
        if len(self) >= _SHARED_WORDS:
            self.clear()
        if len(word) <= _LONGEST_SHARED:
            self[word] = word
        return word


_words = _Words()


def shared(words: Iterable[str]) -> list[str]:
    """Return `words` as interned objects, shared by all cached texts."""
    return list(map(_words.__getitem__, words))


class Analysis:
    """One text, and its tokens and sentences; each is computed on first access."""

    def __init__(self, text: str, without: re.Pattern[str] | None = None) -> None:
        self.original = text
        """The original text."""
        self._without = without
        self._kept: dict[Any, Any] = {}

    def memoize(self, make: Callable[["Analysis"], T]) -> T:
        """Return ``make(self)``, cached with this analysis.

        Other modules cache their own forms of a text this way.  `make` must be a module's function, the
        same object every time, and its result must not refer to this analysis.
        """
        kept = self._kept
        if make not in kept:
            kept[make] = make(self)
        made: T = kept[make]
        return made

    def cut_by_sentence(self) -> None:
        """Derive the tokens from the sentences' tokens, which costs less than computing both."""
        if not self.has_han:  # then they always do
            _ = self.marked_tokens

    @lazy_attribute
    def text(self) -> str:
        """The cleaned text (`cleaning.clean`), from which all readers start."""
        text = clean(self.original)
        return text if self._without is None else self._without.sub(" ", text)

    @lazy_attribute
    def has_han(self) -> bool:
        """Whether the text has a Han character."""
        return self._came_with_han if self.text is self.original else has_han(self.text)

    @lazy_attribute
    def _came_with_han(self) -> bool:
        return has_han(self.original)

    @property
    def most_bytes(self) -> int:
        """An upper estimate of this analysis's size in bytes."""
        is_ascii = self.original.isascii()
        each = _BYTES if is_ascii else _BYTES_HAN if self._came_with_han else _BYTES_NOT_ASCII
        return _BYTES_OF_TEXT + each * len(self.original)

    def without(self, pattern: re.Pattern[str]) -> "Analysis":
        """Return the analysis of the same text with a space for each match of `pattern`."""
        return Analysis(self.original, pattern)

    @lazy_attribute
    def tokens(self) -> list[str]:
        """As `text.tokens`; must not be changed."""
        # No token crosses the end of a sentence, so the sentences' tokens are the text's.
        if self.is_cut or self.has_han:
            return [*chain.from_iterable(self._by_sentence(self.marked_tokens))]
        return shared(line_tokens(self.plain))

    @lazy_attribute
    def content(self) -> list[str]:
        """As `text.content_tokens`; must not be changed."""
        return content_of(self.tokens)

    @lazy_attribute
    def content_set(self) -> frozenset[str]:
        """The distinct content tokens."""
        if self.is_cut:
            return frozenset(self.stems) - _NO_STEM  # type: ignore[return-value]
        return content_set_of(self.tokens)

    @lazy_attribute
    def sentences(self) -> list[str]:
        """As `text.sentences`; must not be changed."""
        return sentences_of(self.units)

    @lazy_attribute
    def units(self) -> list[str]:
        """As `layout.units`; must not be changed."""
        return units(self.text)

    @lazy_attribute
    def plain(self) -> str:
        """The text without its layout: its units, one a line; it contains every sentence."""
        return "\n".join(self.units)

    @lazy_attribute
    def exact_key(self) -> str:
        """As `layout.exact_key`."""
        return key_of(self.units, self.text)

    @lazy_attribute
    def marked_tokens(self) -> list[str]:
        """The tokens of all sentences, with `MARK` after each sentence; must not be changed."""
        if self.has_han:
            return shared(tokens_of_runs(self.marked_runs))
        return shared(tokens_of_lines(self.sentences))

    @lazy_attribute
    def marked_runs(self) -> list[str]:
        """As `marked_tokens`, with each run of Han characters in one piece; must not be changed."""
        return runs_of_lines(self.sentences)

    @lazy_attribute
    def spans(self) -> list[slice]:
        """The place of each sentence in `marked_tokens`, without its mark; must not be changed."""
        marked = self.marked_tokens
        found: list[slice] = []
        start = 0
        for _ in self.sentences:
            end = marked.index(MARK, start)
            found.append(slice(start, end))
            start = end + 1
        return found

    @lazy_attribute
    def stems(self) -> list[str | None]:
        """The result of `content_of` for each of `marked_tokens`: None for stop words and marks."""
        return list(map(CONTENT.__getitem__, self.marked_tokens))

    @property
    def is_cut(self) -> bool:
        """Whether the tokens of its sentences are already computed."""
        return "marked_tokens" in self.__dict__

    @property
    def is_stemmed(self) -> bool:
        """Whether the stems of all words are known, which are most of the work for a new text."""
        return "stems" in self.__dict__

    def _by_sentence(self, words: list[T]) -> list[list[T]]:
        return [words[span] for span in self.spans]

    @property
    def sentence_tokens(self) -> list[list[str]]:
        """The tokens of each sentence."""
        return self._by_sentence(self.marked_tokens)

    @lazy_attribute
    def sentence_content(self) -> list[list[str]]:
        """The content tokens of each sentence."""
        is_none = _NO_STEM.__contains__
        sentences = self._by_sentence(self.stems)
        return [list(filterfalse(is_none, stems)) for stems in sentences]  # type: ignore[arg-type]

    @lazy_attribute
    def sentence_sets(self) -> list[frozenset[str | None]]:
        """The distinct content tokens of each sentence, and None if it has other tokens, too."""
        return list(map(frozenset, self._by_sentence(self.stems)))

    @lazy_attribute
    def windows(self) -> tuple[Sequence[int], list[frozenset[str | None]]]:
        """The positions of sentences, and their sets: two neighbours are a window of the text.

        In a text that repeats itself, repeated windows are left out.
        """
        sets = self.sentence_sets
        pairs = list(zip(sets, [*sets[1:], frozenset[str | None]()], strict=False))
        if len(set(pairs)) * 2 > len(pairs):
            return range(len(sets)), sets
        seen: set[tuple[frozenset[str | None], frozenset[str | None]]] = set()
        starts: list[int] = []
        kept: list[frozenset[str | None]] = []
        for at, pair in enumerate(pairs):
            if pair in seen:
                continue
            seen.add(pair)
            if not starts or starts[-1] != at:
                # Nothing separates it from the previous one, so it is no neighbour.
                starts += (at, at)
                kept += (frozenset(), sets[at])
            if at + 1 < len(sets):
                starts.append(at + 1)
                kept.append(sets[at + 1])
        return starts, kept


class _Codes(dict[str, str]):
    """Word → a character that is no token of any text, for texts that are compared."""

    def __missing__(self, word: str) -> str:
        number = len(self)
        code = self[word] = chr(number + (_PRIVATE if number < _NEAR else _FAR - _NEAR))
        return code


_PRIVATE, _FAR = 0xE000, 0xF0000
_NEAR = 0xF900 - _PRIVATE
"""Largest number of two-byte codes; texts with others need twice the memory and time."""
_MOST_CODES = _NEAR + 0x110000 - _FAR


def comparable_tokens(texts: Sequence[Analysis]) -> Sequence[Sequence[str]]:
    """Return the tokens of texts for comparison with each other.

    If one has Han characters, each token is a character: a Han character represents itself, a word becomes
    one that only these texts have, so that a chunk is one string and not a list of hundreds.
    """
    if not any(one.has_han for one in texts):
        return [one.tokens for one in texts]
    runs = [one.marked_runs if one.has_han else one.tokens for one in texts]
    if sum(map(len, runs)) > _MOST_CODES:
        return [one.tokens for one in texts]
    codes = _Codes()
    return [
        "".join(
            [run if "\u3400" <= run < "\ua000" or is_han(run) else codes[run] for run in own if run != MARK]
        )
        for own in runs
    ]


class _Memory:
    """The most recently used analyses, bounded by their bytes."""

    def __init__(self, limit: int) -> None:
        self._lock = fork.lock()
        self.limit(limit)

    def limit(self, limit: int) -> None:
        """Drop all cached texts, and cache at most `limit` bytes from now on."""
        with self._lock:
            self._known: BoundedTable[str, Analysis] = BoundedTable(max_size=limit, keep_newest=True)
        self._latest: tuple[Any, Any] | None = None
        self._latest_texts: tuple[tuple[str, ...], tuple[Analysis, ...]] = (), ()

    def latest(self, key: Any, make: Callable[[], T]) -> T:
        """Return the last result if `key` is the same as last time, else compute it."""
        # One object in one step: no lock is needed; concurrent threads only compute more often.
        latest = self._latest
        if latest is None or latest[0] != key:
            latest = self._latest = (key, make())
        made: T = latest[1]
        return made

    def get(self, text: str) -> Analysis:
        """Return the analysis of `text`, evicting others for a new one."""
        with self._lock:
            known = self._known.get(text)
            if known is None:
                known = Analysis(text)
                self._known.put(text, known, known.most_bytes)
        return known

    def get_all(self, texts: tuple[str, ...]) -> tuple[Analysis, ...]:
        """Return the analysis of each text; several metrics of one request request the same ones."""
        asked, found = self._latest_texts
        if asked != texts:
            found = tuple(map(self.get, texts))
            if texts and texts[0] in self._known:  # all of them fit
                self._latest_texts = texts, found
        return found

    def clear(self) -> None:
        """Drop all cached texts."""
        self._known.clear()
        self._latest = None
        self._latest_texts = (), ()
        _words.clear()


_memory = _Memory(_REMEMBERED_MIB * _MIB)
fork.forget(_memory.clear)


def analyse(text: str) -> Analysis:
    """Return the `Analysis` of `text`, the same object as long as it is cached."""
    return _memory.get(text)


def analyse_all(texts: Iterable[str]) -> tuple[Analysis, ...]:
    """Return the `Analysis` of each text, as `analyse` does."""
    return _memory.get_all(tuple(texts))


def latest(texts: Any, make: Callable[[], T]) -> T:
    """Return ``make()``, or its last result if `texts` are the same as last time."""
    return _memory.latest(texts, make)


def limit_texts(mib: int = _REMEMBERED_BY_SERVERS_MIB) -> None:
    """Cache at most `mib` MiB of texts in this process, not 40; what is cached is dropped."""
    _memory.limit(mib * _MIB)


def forget_texts() -> None:
    """Drop every cached text, and the words that texts share."""
    _memory.clear()
