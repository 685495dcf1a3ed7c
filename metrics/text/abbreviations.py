"""Word lists for the sentence rules: abbreviations and words that open sentences.

`sentences` and `layout` read them.  Entries are casefolded and lack their last full stop.
"""

from .word_lists import read_entries

_LISTS = read_entries("sentence_ends")

NEVER_ENDS = frozenset(_LISTS["never_ends"])
"""A full stop after these never ends a sentence."""

ENDS_IF_CAPITAL = frozenset(_LISTS["ends_if_capital"])
"""A full stop after these ends a sentence only when a capital letter follows."""

NUMBER_WORDS = frozenset(_LISTS["number_words"])
"""After a number these mean years, centuries and units, and end a sentence before a capital letter."""

STARTERS = frozenset(_LISTS["starters"])
"""Words that open a sentence more often than they follow an initial."""

NEVER_LAST = frozenset(_LISTS["never_last"])
"""Words that do not end a title, a list entry or another self-contained line."""

HYPHENATED = NEVER_LAST.union(_LISTS["hyphenated"])
"""Words that are often joined to others by a hyphen: beside one, a hyphen at the end of a line belongs to the
word."""
