"""All texts of all calls as one page of letters and digits: places of texts, and claims on them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from .letters import IDEOGRAPHS, collapsed, letters_of, tokens_in, words_of

MOST_PLACES = 64
"""Places of one text that are compared where texts are cut; no prompt repeats a chunk as often."""

WORDS_IN_A_ROW = 4
"""Consecutive words of a passage that are looked for in a prompt to find the begin of a part."""

_BETWEEN = "\0"
_GRAM = 16
"""Length and distance of the letter runs of all texts whose places are indexed, once."""
_FEW = 4
"""Places of a text's beginning above which its middle and its end are looked up, too."""
SMALL = 1_000_000
"""Letters, times texts looked for, up to which reading is as fast as an index."""
_MOST_READ = 10_000_000
"""Letters that are read for repetitive texts; beyond them their last places count."""


class Page:
    """All texts of all calls as one, reduced to letters and digits, with the claimed places."""

    def __init__(self, calls: Iterable[Iterable[str]], n_passages: int) -> None:
        self._texts: list[str] = []
        self._calls: list[int] = []
        pieces: list[str] = []
        length = 0
        for texts in calls:
            self._calls.append(length)
            for text in texts:
                letters = letters_of(text)
                length += len(letters) + len(_BETWEEN)
                self._texts.append(text)
                pieces += (letters, _BETWEEN)
        self.letters = "".join(pieces)
        self._is_read = n_passages * len(self.letters) <= SMALL
        self._word_ends: frozenset[int] | None = None
        self._claimed = bytearray(len(self.letters))
        self._last: dict[str, int] = {}
        self._earlier: dict[str, list[int]] = {}
        self._reads = _MOST_READ
        self._words: tuple[list[str], list[int]] | None = None
        self._grams: dict[tuple[str, ...], int] | None = None
        self._rough: set[tuple[str, ...]] | None = None

    def call_at(self, place: int) -> int:
        """Return the index of the call whose text contains a place."""
        return bisect_right(self._calls, place) - 1

    def places(self, letters: str, *, whole_words: bool = False) -> list[int]:
        """Return the places of a text, ascending, outside all claims, without overlaps."""
        found = self._unclaimed(letters)
        if not whole_words:
            return found
        size = len(letters)
        return [place for place in found if self._ends_word(place) and self._ends_word(place + size)]

    def _unclaimed(self, letters: str) -> list[int]:
        found: list[int] = []
        length = len(letters)
        noted = None if self._is_read or length < 2 * _GRAM else self._noted(letters)
        if noted is not None:
            following = 0
            for place in noted:
                if place >= following and self.is_free(place, place + length):
                    found.append(place)
                    following = place + length
            return found
        place = self.letters.find(letters)
        while place >= 0:
            claimed = self._claimed.rfind(1, place, place + length)
            if claimed < 0:
                found.append(place)
            # A place that begins before the end of a claim overlaps it as well.
            place = self.letters.find(letters, place + length if claimed < 0 else claimed + 1)
        return found

    def _noted(self, letters: str) -> list[int] | None:
        """Return the last places of a text by an index of the page, which avoids a search per text.

        None: it is repetitive, as a table's rows are, and has too many indexed places; then the page is
        searched.
        """
        page = self.letters
        if not self._last:
            every = range(0, len(page) - _GRAM + 1, _GRAM)
            grams = [page[at : at + _GRAM] for at in every]
            self._last = dict(zip(grams, every, strict=True))
            if len(self._last) < len(grams):
                for gram, at in zip(grams, every, strict=True):
                    if self._last[gram] != at:
                        self._earlier.setdefault(gram, []).append(at)
        fewest: list[int] | None = None
        repeats = False
        room = len(letters) - 2 * _GRAM
        for begin in (0, room // 2, room):  # many texts may have the same beginning or end
            found: list[int] = []
            grams = [letters[offset : offset + _GRAM] for offset in range(begin, begin + _GRAM)]
            for offset, gram in enumerate(grams, begin):
                if gram in self._last:
                    earlier = self._earlier.get(gram, ())[-MOST_PLACES:]
                    found += [at - offset for at in (*earlier, self._last[gram])]
            if fewest is None or len(found) < len(fewest):
                fewest, repeats = found, len({*grams}) < _GRAM
            if len(found) <= _FEW:
                break
        if repeats and len(fewest or ()) > MOST_PLACES and self._reads > 0:
            self._reads -= len(page)
            return None
        last = sorted(place for place in set(fewest or ()) if place >= 0)[-MOST_PLACES:]
        return [place for place in last if page.startswith(letters, place)]

    def _ends_word(self, place: int) -> bool:
        if self._word_ends is None:
            pieces = (piece for text in self._texts for piece in (*words_of(text), _BETWEEN))
            self._word_ends = frozenset((0, *accumulate(map(len, pieces))))
        return place in self._word_ends or bool(IDEOGRAPHS.search(self.letters, max(place - 1, 0), place + 1))

    def word_end_before(self, place: int, least: int) -> int:
        """Return the last end of a word up to `place`, but at least `least`."""
        while place > least and not self._ends_word(place):
            place -= 1
        return place

    def word_start_after(self, place: int, most: int) -> int:
        """Return the first beginning of a word from `place` on, but at most `most`."""
        while place < most and not self._ends_word(place):
            place += 1
        return place

    def claim(self, places: Sequence[int], length: int) -> None:
        """Exclude places, which overlap no claim, from further searches."""
        for place in places:
            self._claimed[place : place + length] = b"\1" * length

    def is_free(self, start: int, end: int) -> bool:
        """Return whether there is no claim between two places."""
        return self._claimed.find(1, start, end) < 0

    def free_until(self, start: int, most: int) -> int:
        """Return the end of the unclaimed part from `start` on, within `most` letters."""
        end = min(start + most, len(self.letters))
        claimed = self._claimed.find(1, start, end)
        return end if claimed < 0 else claimed

    def free_from(self, end: int, most: int) -> int:
        """Return the begin of the unclaimed part before `end`, within `most` letters."""
        start = max(end - most, 0)
        return max(self._claimed.rfind(1, start, end) + 1, start)

    def words(self) -> tuple[list[str], list[int]]:
        """Return the words of all texts, separated by text, and the begin of each in the letters."""
        if self._words is None:
            words = [word for text in self._texts for word in (*tokens_in(text), _BETWEEN)]
            self._words = words, [0, *accumulate(map(len, words))]
        return self._words

    def grams(self) -> dict[tuple[str, ...], int]:
        """Return the last place of each run of words among the words."""
        if self._grams is None:
            words = self.words()[0]
            self._grams = dict(zip(grams_of(words), range(len(words)), strict=False))
        return self._grams

    def may_show(self, passage: str) -> bool:
        """Return whether three consecutive words may occur here: a split in C that rejects most passages."""
        if IDEOGRAPHS.search(passage):
            return True
        if self._rough is None:
            self._rough = set()
            for text in self._texts:
                self._rough.update(_threes(text))
        return not self._rough.isdisjoint(_threes(passage))

    def divides(self, start: int, end: int) -> bool:
        """Return whether `start` and `end` are in different texts."""
        return self.letters.find(_BETWEEN, start, end) >= 0


def _threes(text: str) -> Iterator[tuple[str, ...]]:
    words = collapsed(text).casefold().split()
    return zip(words, words[1:], words[2:], strict=False)


def grams_of(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the runs of words that one search looks for."""
    return zip(*(words[start:] for start in range(WORDS_IN_A_ROW)), strict=False)
