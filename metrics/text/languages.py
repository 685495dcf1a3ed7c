"""Detect the language of a text, well enough to distinguish the users of one application.

By script; among languages that share one, by a few small words and specific letters. No model and only tiny
word lists: a short text without such a word counts as the most common language of its script.
"""

import re
from functools import cache

from .analysis import Analysis
from .scripts import script_of
from .word_lists import read_entries

_READ_CHARACTERS = 2_000
_KANA = re.compile("[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
_UKRAINIAN = re.compile("[ґєії]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")


def language_of(text: str) -> str | None:
    """Return the language of a text as ISO 639-1, or None if it has no letter.

    Related languages that share a script count as its most common one: Cyrillic is ``ru``, or ``uk`` with
    letters that only Ukrainian has; Arabic script is ``ar``, Devanagari ``hi``.  Latin script is read by
    small words; without one it is ``en``.
    """
    known = Analysis(text[:_READ_CHARACTERS])
    text, script = known.text, script_of(known)
    if script is None:
        return None
    if script == "latin":
        return _of_small_words(text)
    if script == "han" and _KANA.search(text):
        return "ja"
    if script == "cyrillic" and _UKRAINIAN.search(text):
        return "uk"
    return read_entries("scripts")[script][0]


@cache
def _small_words() -> dict[str, frozenset[str]]:
    return {language: frozenset(words) for language, words in read_entries("small_words").items()}


def _of_small_words(text: str) -> str:
    words = [word.casefold() for word in _WORD.findall(text)]
    found = {language: sum(word in small for word in words) for language, small in _small_words().items()}
    # Of equally good ones the first: English.
    return max(found, key=found.__getitem__)
