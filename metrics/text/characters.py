"""Classes of characters for which Python's regular expressions have no name.

`tokens`, `layout` and `sentences` build their expressions from these; nothing here reads a text.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from .word_lists import read_lines

HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""The Han characters, as the inside of a regular expression's character class."""

WIDE = f"{HAN}\u3001-\u30ff\u31f0-\u31ff\uff01-\uff9f"
"""Characters written without adjacent spaces: Han, kana, and their punctuation and wide forms. The Korean
wide forms and the ideographic space are not included."""

BREAKS = "\n\r\x0b\x0c\x85\u2028\u2029"
"""Line ends."""

OTHER_THAN_RUSSIAN = re.compile("[^\0-\x7f\xab\xbb\u0401\u0410-\u044f\u0451\u2013\u2014\u2018-\u201e]")
"""Anything except ASCII, the letters of Russian, its quotes and dashes, which are already in Unicode's normal
forms. One search for anything else is faster than one for Han characters or accents."""

_FIVE_DIGITS = 5  # for a code point beyond U+FFFF


@lru_cache(maxsize=2)
def marks(*, astral: bool) -> str:
    """Return the combining marks (categories Mn, Mc, Me), as the inside of a character class.

    Args:
        astral: Include those beyond U+FFFF, which make every search several times slower.
    """
    spans = " ".join(read_lines("marks")).split()
    return character_class(span for span in spans if astral or len(span.partition("-")[0]) < _FIVE_DIGITS)


def character_class(spans: Iterable[str]) -> str:
    """Return code points and ranges (``483-489``, in hexadecimal) as the inside of a character class."""
    return "".join("-".join(chr(int(end, 16)) for end in span.split("-")) for span in spans)
