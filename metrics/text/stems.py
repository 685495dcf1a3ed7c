"""Stop words and Snowball stems, cached per word.

`tokens.content_of` and the entity tiers call this. Snowball's stemmer objects store the current word in
themselves, so they are used only under a lock; a cached stem needs none.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from ragmeter.metrics._process import fork

__all__ = ["CONTENT", "MARK", "STOP_WORDS", "stem"]

STOP_WORDS = frozenset(
    "a an the of to in on at by for and or is are was were be been being it its this that these "
    "those with as from has have had not but which who whom their they he she his her you your we "
    "our i do does did can will would may might should could also into than then there here such "
    "if so about over under between during after before more most some any each other".split()
)
"""English function words without a topic; checked before stemming."""

MARK = "\0"
"""Follows each sentence in a list of several sentences' tokens; neither content nor a token."""

_LONGEST_WORD = 64
"""Longest word to stem, in characters; a longer "word" is base64 or similar: stemming it is slow and
useless."""

_REMEMBERED_WORDS = 100_000
"""Most cached stems; about 20 MB at most."""

_CYRILLIC = re.compile("[\u0400-\u04ff]")
_lock = fork.lock()


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 -- the library's spelling


@lru_cache(maxsize=1)
def _stemmers() -> tuple[_Stemmer, _Stemmer]:
    # Importing snowballstemmer reads some forty languages: not before a word needs it. The classes are
    # imported directly, because the package's factory returns PyStemmer's if that is installed, and scores
    # must not depend on it.
    from snowballstemmer.english_stemmer import EnglishStemmer  # noqa: PLC0415
    from snowballstemmer.russian_stemmer import RussianStemmer  # noqa: PLC0415

    return _with_tables(EnglishStemmer), _with_tables(RussianStemmer)


def _with_tables(stemmer: Any) -> _Stemmer:
    """Return a stemmer that finds endings in tables, which halves its time; its own search compares letters."""
    tables: dict[int, tuple[dict[str, Any], list[int]]] = {}

    class WithTables(stemmer):  # type: ignore[misc]
        cursor: int

        def find_among_b(self, endings: Sequence[Any]) -> int:
            known = tables.get(id(endings))
            if known is None:  # they are attributes of the class, and remain
                results = {one.s: one.result for one in endings}
                sizes = sorted(set(map(len, results)), reverse=True)
                known = tables[id(endings)] = results, sizes
            results, sizes = known
            end, most = self.cursor, self.cursor - self.limit_backward
            for size in sizes:
                if size <= most and (result := results.get(self.current[end - size : end])):
                    self.cursor = end - size
                    return int(result)
            return 0

    made: _Stemmer = WithTables()
    return made


def _stem(word: str) -> str:
    if len(word) > _LONGEST_WORD:
        return word
    if word.isascii():
        if word.isdigit():
            return word
        english, _ = _stemmers()
        return english.stemWord(word)
    if _CYRILLIC.search(word):
        _, russian = _stemmers()
        return russian.stemWord(word.replace("ё", "е"))
    return word


class _ContentWords(dict[str, "str | None"]):
    """Word → its stem, or None for a stop word; filled on demand, emptied when full."""

    def __missing__(self, word: str) -> str | None:
        with _lock:
            stemmed = None if word in STOP_WORDS or word == MARK else _stem(word)
            if len(self) >= _REMEMBERED_WORDS:
                self.clear()
            if len(word) <= _LONGEST_WORD:
                self[word] = stemmed
        return stemmed


CONTENT: dict[str, str | None] = _ContentWords()
"""Casefolded word → its stem, or None for a stop word. Look up with ``[]`` only."""


def stem(word: str) -> str:
    """Return the Snowball stem of a casefolded word, stop words included."""
    stemmed = CONTENT[word]
    return word if stemmed is None else stemmed
