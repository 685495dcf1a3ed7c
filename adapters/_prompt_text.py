"""The letters and digits of texts, and of prompts as one page, to find the ones in the other.

What templates do to a text falls away here: whitespace, indentation, bullets, quotes (``> ``), braces
doubled for a template, capitals.  Escapes are read first: line breaks and code points as JSON and Python
write them, however often they were escaped, and the entities of HTML and XML.  Each is read where it stands
and in retrieved texts as well, so that a part of a text reads as it does in the whole. Used by
`_prompts` only.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

__all__ = ["Page", "collapsed", "weight_of", "words_of"]

_WORDS = re.compile(r"[^\W_]+")
_IDEOGRAPHS = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_LINE_BREAKS = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ESCAPES = re.compile(
    r"(?<!\\)\\+(?:u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|[nrtbfv])"
)
_ENTITIES = re.compile(r"&(?:amp;)*(#?\w{1,31};)")
_BETWEEN = "\0"

SLICE = 50_000
"""So many characters are read in one go."""


class Page:
    """All texts of all calls as one, reduced to letters and digits, and what is claimed of it."""

    def __init__(self, calls: Iterable[Iterable[str]]) -> None:
        self._pieces: list[str] = []
        self._calls: list[int] = []
        length = 0
        for texts in calls:
            self._calls.append(length)
            for text in texts:
                words = words_of(text)
                length += sum(map(len, words)) + len(_BETWEEN)
                self._pieces += words
                self._pieces.append(_BETWEEN)
        self.letters = "".join(self._pieces)
        self._word_ends: frozenset[int] | None = None
        self._starts: list[int] = []
        self._ends: list[int] = []

    def call_at(self, place: int) -> int:
        """Return which call's text stands at a place."""
        return bisect_right(self._calls, place) - 1

    def places(self, letters: str, *, whole_words: bool = False) -> list[int]:
        """Return where a text stands, ascending, outside all that is claimed, without overlaps."""
        return [
            place
            for place in self._unclaimed(letters)
            if not whole_words or self._is_whole(place, place + len(letters))
        ]

    def _unclaimed(self, letters: str) -> Iterator[int]:
        length = len(letters)
        place = self.letters.find(letters)
        while place >= 0:
            claim = bisect_right(self._ends, place)
            if claim < len(self._starts) and self._starts[claim] < place + length:
                following = self._ends[claim]  # whatever begins before its end overlaps it as well
            else:
                yield place
                following = place + length
            place = self.letters.find(letters, following)

    def _is_whole(self, start: int, end: int) -> bool:
        return self._partswords_of(start) and self._partswords_of(end)

    def _partswords_of(self, place: int) -> bool:
        if self._word_ends is None:
            self._word_ends = frozenset((0, *accumulate(map(len, self._pieces))))
        return place in self._word_ends or bool(
            _IDEOGRAPHS.search(self.letters, max(place - 1, 0), place + 1)
        )

    def word_end_before(self, place: int, least: int) -> int:
        """Return the last end of a word up to `place`, but no less than `least`."""
        while place > least and not self._partswords_of(place):
            place -= 1
        return place

    def word_start_after(self, place: int, most: int) -> int:
        """Return the first beginning of a word from `place` on, but no more than `most`."""
        while place < most and not self._partswords_of(place):
            place += 1
        return place

    def claim(self, places: Sequence[int], length: int) -> None:
        """Take places, which overlap no claim, out of what can be found."""
        if not places:
            return
        spans = sorted(
            [
                *zip(self._starts, self._ends, strict=True),
                *((place, place + length) for place in places),
            ]
        )
        starts, ends = [spans[0][0]], [spans[0][1]]
        for start, end in spans[1:]:
            if start == ends[-1]:
                ends[-1] = end
            else:
                starts.append(start)
                ends.append(end)
        self._starts, self._ends = starts, ends

    def free_around(self, end: int) -> tuple[int, int]:
        """Return how far the unclaimed stretch before `end` reaches to both sides."""
        claim = bisect_left(self._starts, end)
        return (
            self._ends[claim - 1] if claim else 0,
            self._starts[claim] if claim < len(self._starts) else len(self.letters),
        )

    def divides(self, start: int, end: int) -> bool:
        """Return whether `start` and `end` stand in different texts."""
        return self.letters.find(_BETWEEN, start, end) >= 0


def collapsed(text: str) -> str:
    """Return a text with all its signs, without escapes and with single spaces."""
    return " ".join(_unescaped(text).split())


def words_of(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in small letters."""
    if len(text) <= SLICE:
        return _WORDS.findall(_unescaped(text).casefold())
    # In parts: a call into C holds the interpreter, and so the application, until it returns.
    words: list[str] = []
    start = 0
    while start < len(text):
        end = text.find(" ", start + SLICE, start + 2 * SLICE)
        if end < 0:
            end = min(start + 2 * SLICE, len(text))
            if end < len(text):  # not within an escape
                mark = max(text.rfind("\\", end - 12, end), text.rfind("&", end - 12, end))
                end = mark if mark > 0 else end
        words += _WORDS.findall(_unescaped(text[start:end]).casefold())
        start = end
    return words


def _unescaped(text: str) -> str:
    if "\\" in text:
        text = _ESCAPES.sub(_character, text)
    if "&" in text:
        text = _ENTITIES.sub(_entity, text)
    return _LINE_BREAKS.sub(" ", text) if "<" in text else text


def _character(escape: re.Match[str]) -> str:
    high, low, *codes = escape.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    code = next((code for code in codes if code is not None), None)
    if code is None:
        return " "
    number = int(code, 16)
    return chr(number) if number < 0x110000 else " "


def _entity(entity: re.Match[str]) -> str:
    return html.unescape("&" + entity[1])


def weight_of(letters: str) -> int:
    """Return how many letters a text is worth: a Chinese or Japanese character counts as three."""
    return len(letters) + (0 if letters.isascii() else 2 * len(_IDEOGRAPHS.findall(letters)))
