"""The page: received requests, their quality, since when it is worse, and which sentence is at fault.

`Pages` builds it from a store's reader, the detectors' changes and the server's health; it keeps no state and
computes no statistics of its own.
"""

from ._asked import RANGES
from ._golden import GoldenEntry, GoldenSet
from ._labels import LABELLED_SCORE, Labels
from ._news import Standing
from ._numbers import percent, read_in
from ._pages import Pages
from ._sources import Sources
from ._words import Words, words_in

__all__ = [
    "LABELLED_SCORE",
    "RANGES",
    "GoldenEntry",
    "GoldenSet",
    "Labels",
    "Pages",
    "Sources",
    "Standing",
    "Words",
    "percent",
    "read_in",
    "words_in",
]
