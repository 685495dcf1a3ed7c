"""Chinese words that show where a name ends: places, everyday words, surnames, name characters.

`han_names` and the Chinese part of `named_entities` read them.  Simplified characters; a compact
selection from general knowledge, no dictionary.
"""

from .word_lists import read_words

PLACES = read_words("han_places")
"""Names without a suffix that would identify them."""

_DIRECTIONS = "东南西北中"
WORDS = read_words("han_everyday") | {
    f"{one}{other}" for one in _DIRECTIONS for other in "部段岸侧边面路街门区方站郊端角麓坡线翼城"
}
"""Everyday words of two characters or more, mainly those that share characters with names."""

SURNAMES = frozenset("".join(read_words("han_surnames")))
"""Surnames of one character."""

COMPOUND_SURNAMES = read_words("han_compound_surnames")
"""Surnames of two characters and more."""

GIVEN = frozenset("".join(read_words("han_given")))
"""Characters of given names."""
