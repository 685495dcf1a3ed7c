"""Detect the script of a text, so that words of two scripts are not compared.

The lexical metrics call this: between a Russian answer and an English chunk shared words mean nothing, and
"nothing shared" must not be reported as "not supported".
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from .analysis import Analysis
from .characters import character_class
from .word_lists import read_entries

_SCRIPTS = {name: character_class(spans) for name, (_, *spans) in read_entries("scripts").items()}
_PATTERNS = {name: re.compile(f"[{letters}]+") for name, letters in _SCRIPTS.items()}
_NOT_LATIN = re.compile(f"[{''.join(_SCRIPTS.values())}]")
_LATIN = re.compile("[A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]+")
_HAN_LETTERS = 2
"""Weight of a Han character in letters."""
_LATIN_SHARE = 3
"""Most Latin letters per letter of another script for a text to count as the latter: names of products and
terms are Latin everywhere."""


@lru_cache
def _others(script: str) -> re.Pattern[str]:
    """Return a pattern for a letter of any script except this one and Latin."""
    return re.compile(f"[{''.join(letters for name, letters in _SCRIPTS.items() if name != script)}]")


def script_of(known: Analysis) -> str | None:
    """Return the script of a text; None if it has no known letter.

    It is the script of most letters, but for a script beside Latin words a quarter of the letters is enough.
    For ``known.memoize(script_of)``.
    """
    text = known.text
    first = None if text.isascii() else _NOT_LATIN.search(text)
    if first is None:
        return "latin" if _LATIN.search(text) else None
    script = next(name for name, letters in _PATTERNS.items() if letters.match(first[0]))
    count = _count(_PATTERNS[script], text)
    weighed = count * _HAN_LETTERS if script == "han" else count
    if len(text) <= _LATIN_SHARE * weighed and _HAN_LETTERS * (len(text) - count) < weighed:
        return script  # whatever the other letters are
    scripts = _PATTERNS if _others(script).search(text) else (script,)
    counts = {name: _count(_PATTERNS[name], text) for name in scripts}
    if "han" in counts:
        counts["han"] *= _HAN_LETTERS
    top = max(counts, key=counts.__getitem__)
    if len(text) <= _LATIN_SHARE * counts[top]:
        return top
    return "latin" if _count(_LATIN, text) > _LATIN_SHARE * counts[top] else top


def _count(letters: re.Pattern[str], text: str) -> int:
    return len("".join(letters.findall(text)))


def share_a_script(text: Analysis, others: Iterable[Analysis]) -> bool:
    """Return whether any of `others` has the script of `text`, if both are known.

    A text without letters, such as a number, can be compared with anything.
    """
    script = text.memoize(script_of)
    seen = None
    for other in others:
        seen = other.memoize(script_of) or seen
        if seen == script:
            return True
    return script is None or seen is None
