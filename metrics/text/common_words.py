"""Words that are both names and everyday words: may, apple, roman, роман.

`names` and `named_entities` read them. All are casefolded, with е for ё. The lists are short on purpose: in a
text that uses capitals the capital letter decides; they are needed only where it cannot.
"""

from .stems import STOP_WORDS
from .word_lists import read_entries, read_words

_LISTS = read_entries("beside_names")

COMMON = read_words("common")
"""Everyday words that are also names."""

ASKING = frozenset(_LISTS["asking"])
"""Words that open questions and requests, and also are names."""

SUBJECTS = frozenset(_LISTS["subjects"])
"""Words after a word of `ASKING` that is not used as one."""

NAMES = read_words("names")
"""Names with hardly any other meaning, in their basic form."""

NOT_NAMES = STOP_WORDS | read_words("not_names")
"""Capitalised words that are no names: sentence openers, days of the week."""

ORDINALS = frozenset(_LISTS["ordinals"])
"""Words that can follow in a name but open sentences elsewhere: Екатерина Вторая, Alexander the Great."""

OPENERS = read_words("openers")
"""Verbs and nouns before a name, capitalised at the start of a sentence."""

TITLES = read_words("titles")
"""Words before a name, capitalised at the start of a sentence, that are not part of it."""

MATERIAL = read_words("material")
"""Nouns that open English sentences without an article, and so resemble names."""
