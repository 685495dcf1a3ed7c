"""Words that are names in one place and everyday words in another: may, apple, roman, роман.

`names` and `named_entities` read them.  All are casefolded, with е for ё.  The lists are short on
purpose: in a text that uses capitals the capital decides, and only where it can't do they.
"""

from .stems import STOP_WORDS
from .word_lists import read_entries, read_words

__all__ = [
    "ASKING",
    "COMMON",
    "MATERIAL",
    "NAMES",
    "NOT_NAMES",
    "OPENERS",
    "ORDINALS",
    "SUBJECTS",
    "TITLES",
]

_LISTS = read_entries("beside_names")

COMMON = read_words("common")
"""Everyday words that are also names."""

ASKING = frozenset(_LISTS["asking"])
"""Words that open questions and requests, and are names as well."""

SUBJECTS = frozenset(_LISTS["subjects"])
"""What follows a word of `ASKING` that is none."""

NAMES = read_words("names")
"""Names that are hardly ever anything else, in their basic form."""

NOT_NAMES = STOP_WORDS | read_words("not_names")
"""Capitalised words that are no names: what opens sentences, days of the week."""

ORDINALS = frozenset(_LISTS["ordinals"])
"""What can follow in a name and opens sentences elsewhere: Екатерина Вторая, Alexander the Great."""

OPENERS = read_words("openers")
"""Verbs and nouns that open sentences, capitalised, before a name."""

TITLES = read_words("titles")
"""What stands before a name, capitalised where it opens the sentence, and is no part of it."""

MATERIAL = read_words("material")
"""Nouns that open English sentences without an article, and so look like names."""
