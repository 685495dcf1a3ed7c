"""Russian words and Chinese characters without a topic, the counterpart of `stems.STOP_WORDS` for English.

`content_tokens` keeps them, as the definitions of many scores depend on its tokens. The metrics that compare
an answer or a question with chunks leave them out, by stem.
"""

import re
from functools import lru_cache

from .stems import stem
from .word_lists import read_words

_CYRILLIC = re.compile("[\u0400-\u04ff]")

RUSSIAN_FUNCTION_WORDS = read_words("russian_function")
HAN_GRAMMAR = frozenset("的了吗呢吧啊是在和与及或也都就而但且并被把将之其着您我你他她它们这那哪谁可会能要需还")
"""Particles, pronouns, connectives and modal verbs of Chinese: a bigram with one of them claims nothing."""
"""Casefolded, ё as е."""


@lru_cache(maxsize=1)
def russian_function_stems() -> frozenset[str]:
    """Return the stems of `RUSSIAN_FUNCTION_WORDS`."""
    return frozenset(map(stem, RUSSIAN_FUNCTION_WORDS))


def has_cyrillic(text: str) -> bool:
    """Return whether `text` has a Cyrillic letter."""
    return not text.isascii() and _CYRILLIC.search(text) is not None
