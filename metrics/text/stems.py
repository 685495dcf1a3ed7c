"""Stop words and Snowball stems, cached per word.

`tokens.content_of` and the entity tiers call this. Snowball's stemmer objects store the current word in
themselves, so they are used only under a lock; a cached stem needs none.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from ragmeter.metrics._process import fork

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


@lru_cache(maxsize=1)
def _stemmers() -> tuple[Callable[[str], str], Callable[[str], str]]:
    from Stemmer import Stemmer  # noqa: PLC0415 -- not before a word needs it

    # Without its own cache: the table below is one.
    return Stemmer("english", 0).stemWord, Stemmer("russian", 0).stemWord


def _stem(word: str) -> str:
    if len(word) > _LONGEST_WORD:
        return word
    if word.isascii():
        if word.isdigit():
            return word
        english, _ = _stemmers()
        return english(word)
    if _CYRILLIC.search(word):
        _, russian = _stemmers()
        return russian(word.replace("ё", "е"))
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
