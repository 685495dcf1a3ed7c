"""Russian words without a topic, the counterpart of `stems.STOP_WORDS` for English.

`content_tokens` keeps them, as the definitions of many scores depend on its tokens. The metrics that compare
an answer or a question with chunks leave them out, by stem.
"""

import re
from functools import lru_cache

from .stems import stem
from .word_lists import read_words

_CYRILLIC = re.compile("[\u0400-\u04ff]")

RUSSIAN_FUNCTION_WORDS = read_words("russian_function")
"""Casefolded, ё as е."""


@lru_cache(maxsize=1)
def russian_function_stems() -> frozenset[str]:
    """Return the stems of `RUSSIAN_FUNCTION_WORDS`."""
    return frozenset(map(stem, RUSSIAN_FUNCTION_WORDS))


def has_cyrillic(text: str) -> bool:
    """Return whether `text` has a Cyrillic letter."""
    return not text.isascii() and _CYRILLIC.search(text) is not None
