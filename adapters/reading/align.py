"""Where passages stand in texts that a model was sent: whole, cut at an end, or in parts. Knows only strings.

Passages and prompts are compared by their letters and digits (`letters`).  Whole passages claim their places
first, the longest before the others, so that a chunk which is a part of another one is seen only where it
stands on its own; then beginnings and ends, then what else is left of a passage, by runs of words.
Time is linear in the letters of all: nothing is compared pairwise.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from .letters import (
    IDEOGRAPHS,
    collapsed,
    letters_of,
    places_of_words,
    tokens_in,
    weight_of,
    words_of,
)

__all__ = ["Place", "Shown", "align", "stands_for_itself"]

MIN_ALONE = 12
"""A text of fewer letters, or of one word, is too common to be recognised by itself: it counts
only beside another text that was found. A Chinese or Japanese character counts as three letters."""

MIN_FREE = 20
"""A text of fewer letters must begin and end where words do."""

MIN_CUT = 32
"""How much of a text's beginning or end must be there when the text was cut."""

MIN_MIDDLE = 60
"""How much of its middle: two chunks of one article share up to this much by chance."""

WHOLE = 0.93
"""Share of a text's letters that stand in order from which it counts as shown whole, with changes."""

NEIGHBOURHOOD = 80
"""How many letters may stand between a short text and the one it is found beside: a line of metadata."""

MOST_PLACES = 64
"""How many places of one text are looked at where texts are cut; prompts repeat no chunk as often."""

_WORDS_IN_A_ROW = 4
"""So many words of a passage are looked for among a prompt's to find where a part of it begins."""


class Shown(NamedTuple):
    """A passage, or a part of one, as a prompt shows it."""

    passage: int
    """Which of the passages."""
    place: int
    """Where it begins, in letters of all texts together: what comes first has the smaller one."""
    call: int
    """Which call's texts show it."""
    text: str | None
    """What of it stands there, as the passage writes it, parts joined by an ellipsis; None: all of it."""


def align(
    passages: Sequence[str],
    calls: Sequence[Sequence[str]],
    question: str | None = None,
    *,
    parts: bool = True,
) -> list[Shown]:
    """Return which passages stand in the texts that calls were sent, in the texts' order.

    Args:
        passages: Retrieved texts in retrieval order, duplicates included. Of equal ones, as many are
            returned as the texts show, the first ones first.
        calls: The texts of each call.
        question: What the user asked: a passage that is a part of it is not seen there.
        parts: Whether to look for parts of passages that are neither beginning nor end, too.
    """
    groups = _grouped(passages)
    page = Page(calls, len(groups))
    asked = "" if question is None else letters_of(question)
    found: list[Place] = []
    missing: list[_Group] = []
    common = [group for group in groups if group.is_common]
    question_is_open = any(group.letters in asked for group in groups)
    for group in groups:
        if group.is_common:
            continue
        letters = group.letters
        if question_is_open and len(asked) > len(letters):
            question_is_open = False
            page.claim(page.places(asked), len(asked))
        places = page.places(letters, whole_words=group.weight < MIN_FREE)
        page.claim(places, len(letters))
        if letters == asked:
            question_is_open = False
            del places[-1:]
        group.shown_whole = bool(places)
        found += [Place(place, len(letters), group) for place in places]
        if len(places) < len(group.indices):
            missing.append(group)
    cut = _cut(missing, page)
    found += _with_parts(missing, cut, page, passages) if parts and missing else cut
    if not found:
        return []
    if common and question_is_open:
        page.claim(page.places(asked), len(asked))
    found += _beside(common, page, [(one.start, len(one.group.letters)) for one in found])
    return [
        Shown(index, one.start, page.call_at(one.start), _text_of(passages[index], one))
        for index, one in _chosen(_counted(found, page), passages, calls)
    ]


class Place(NamedTuple):
    """A place that shows a text, or a part of it."""

    start: int
    length: int
    group: _Group
    runs: tuple[tuple[int, int], ...] = ()
    """Which of the text's letters stand there, from and to; empty: all."""


_MARKS = re.compile(r"[^\w\s]+")


def _text_of(passage: str, place: Place) -> str | None:
    """Return the part of a passage that stands at a place, as the passage writes it; None: all of it."""
    runs = place.runs
    if not runs or sum(end - start for start, end in runs) >= WHOLE * len(place.group.letters):
        return None
    text, spans, sizes = places_of_words(passage)
    ends = [0, *accumulate(sizes)]
    pieces: list[str] = []
    for start, end in runs:  # into the word that a cut went through
        first = spans[min(bisect_right(ends, start), len(spans)) - 1]
        last = spans[min(bisect_right(ends, end - 1), len(spans)) - 1]
        marks = _MARKS.match(text, last[1])
        pieces.append(text[first[0] : last[1] if marks is None else marks.end()])
    return " … ".join(pieces)


def stands_for_itself(text: str, weight: int | None = None) -> bool:
    """Return whether a text is long enough to be recognised where nothing else is found."""
    weight = weight_of(letters_of(text)) if weight is None else weight
    return weight >= MIN_ALONE and (weight >= 2 * MIN_ALONE or len(words_of(text)) >= 2)


class _Group:
    """Passages that a template may make equal: equal letters and digits."""

    __slots__ = ("indices", "is_common", "letters", "shown_whole", "weight")

    def __init__(self, letters: str, text: str) -> None:
        self.letters = letters
        self.weight = weight_of(letters)
        self.is_common = not stands_for_itself(text, self.weight)
        """Whether the text is too short to be recognised by itself."""
        self.indices: list[int] = []
        self.shown_whole = False


def _counted(found: Sequence[Place], page: Page) -> list[Place]:
    """Return the places that count, in order: no more of a text than were retrieved, the last ones.

    A call that shows several texts which another one shows as well shows them again (a draft and its
    revision). Calls that show one text each add up.
    """
    by_call: dict[int, list[Place]] = {}
    for one in sorted(found, key=lambda one: one.start):
        by_call.setdefault(page.call_at(one.start), []).append(one)
    kept = [*by_call]
    if len(kept) > 1:
        kept = []
        tallies = {
            call: Counter(one.group.letters for one in shown) for call, shown in by_call.items()
        }
        for call in sorted(by_call, key=lambda call: (-len(by_call[call]), -call)):
            if len(by_call[call]) < 2 or not any(tallies[call] <= tallies[other] for other in kept):
                kept.append(call)
    left = {one.group.letters: len(one.group.indices) for one in found}
    counted: list[Place] = []
    for call in sorted(kept, reverse=True):
        for one in reversed(by_call[call]):
            if left[one.group.letters]:
                left[one.group.letters] -= 1
                counted.append(one)
    return counted[::-1]


def _grouped(passages: Sequence[str]) -> list[_Group]:
    """Return the passages by their letters and digits, longest first; those without any are left out."""
    groups: dict[str, _Group] = {}
    for index, text in enumerate(passages):
        letters = letters_of(text)
        if letters:
            group = groups.get(letters)
            if group is None:
                group = groups[letters] = _Group(letters, text)
            group.indices.append(index)
    return sorted(groups.values(), key=lambda group: -len(group.letters))


def _cut(missing: Sequence[_Group], page: Page) -> list[Place]:
    """Find texts that were cut; where several begin alike, the one that agrees longest stands there."""
    found: list[Place] = []
    for find_all in (_beginnings, _ends):
        seen = {one.group.letters for one in found}
        cuts = [
            cut for group in missing if group.letters not in seen for cut in find_all(group, page)
        ]
        # At equal length the last place, as for whole texts.
        for cut in sorted(cuts, key=lambda cut: (-cut.length, -cut.start)):
            if page.is_free(cut.start, cut.start + cut.length):
                page.claim([cut.start], cut.length)
                found.append(cut)
    return found


def _beginnings(group: _Group, page: Page) -> Iterator[Place]:
    letters = group.letters
    key = _head(letters)
    if len(key) >= len(letters):
        return
    for place in page.places(key)[-MOST_PLACES:]:
        limit = page.free_until(place + len(key), len(letters))
        end = place + _common_prefix(letters, page.letters, place, limit)
        # By chance, what follows may begin with the letter that was cut off.
        end = page.word_end_before(end, place + len(key))
        yield Place(place, end - place, group, ((0, end - place),))


def _ends(group: _Group, page: Page) -> Iterator[Place]:
    letters = group.letters
    key = _head(letters[::-1])[::-1]
    if len(key) >= len(letters):
        return
    for place in page.places(key)[-MOST_PLACES:]:
        end = place + len(key)
        limit = page.free_from(end, len(letters))
        start = end - _common_suffix(letters, page.letters, end, limit)
        start = page.word_start_after(start, place)
        yield Place(start, end - start, group, ((len(letters) - end + start, len(letters)),))


class _Run(NamedTuple):
    """Words in a row of a passage that stand in the texts: where in its letters, and where in theirs."""

    weight: int
    group: _Group
    begin: int
    start: int
    length: int


def _with_parts(
    missing: Sequence[_Group], cut: Sequence[Place], page: Page, passages: Sequence[str]
) -> list[Place]:
    """Add ends of passages whose beginning stands there, and runs of words of those that nothing shows yet."""
    found: list[Place] = []
    for one in cut:
        until = one.runs[0][1]
        for end in _ends(one.group, page) if one.runs[0][0] == 0 else ():
            if end.runs[0][0] >= until and page.is_free(end.start, end.start + end.length):
                page.claim([end.start], end.length)
                found.append(one._replace(runs=(*one.runs, *end.runs)))
                break
        else:
            found.append(one)
    shown = {one.group.letters for one in cut}
    runs: list[_Run] = []
    for group in missing:
        passage = passages[group.indices[0]]
        if not (group.shown_whole or group.letters in shown) and page.may_show(passage):
            runs += _runs(group, tokens_in(passage), page)
    pieces: dict[str, list[_Run]] = {}
    for run in sorted(runs, key=lambda run: -run.weight):
        if page.is_free(run.start, run.start + run.length):
            page.claim([run.start], run.length)
            pieces.setdefault(run.group.letters, []).append(run)
    for taken in pieces.values():
        first = min(taken, key=lambda run: run.start)
        whole = tuple(sorted((run.begin, run.begin + run.length) for run in taken))
        found.append(Place(first.start, first.length, first.group, whole))
    return found


def _runs(group: _Group, own: Sequence[str], page: Page) -> Iterator[_Run]:
    """Yield the longest runs of a passage's words that weigh enough: at its ends less than in its middle."""
    words, begins = page.words()
    hits = [page.grams().get(gram) for gram in _grams(own)]
    if not any(hit is not None for hit in hits):
        return
    offsets = [0, *accumulate(map(len, own))]
    at = 0
    while at < len(hits):
        place = hits[at]
        if place is None:
            at += 1
            continue
        end = at + _WORDS_IN_A_ROW
        while (
            end < len(own) and place + end - at < len(words) and words[place + end - at] == own[end]
        ):
            end += 1
        weight = weight_of("".join(own[at:end]))
        if weight >= (MIN_CUT if at == 0 or end == len(own) else MIN_MIDDLE):
            yield _Run(weight, group, offsets[at], begins[place], offsets[end] - offsets[at])
        at = end


def _grams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(_WORDS_IN_A_ROW)), strict=False)


def _head(letters: str) -> str:
    """Return the shortest beginning that weighs `MIN_CUT`."""
    if weight_of(letters) < MIN_CUT:
        return letters
    low, high = MIN_CUT // 3, MIN_CUT
    while low < high:
        middle = (low + high) // 2
        if weight_of(letters[:middle]) < MIN_CUT:
            low = middle + 1
        else:
            high = middle
    return letters[:low]


def _common_prefix(letters: str, page: str, start: int, limit: int) -> int:
    low, high = 0, min(len(letters), limit - start)
    while low < high:
        middle = (low + high + 1) // 2
        if page.startswith(letters[low:middle], start + low):
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(letters: str, page: str, end: int, limit: int) -> int:
    low, high = 0, min(len(letters), end - limit)
    size = len(letters)
    while low < high:
        middle = (low + high + 1) // 2
        if page.startswith(letters[size - middle : size - low], end - middle):
            low = middle
        else:
            high = middle - 1
    return low


def _beside(groups: Sequence[_Group], page: Page, shown: Sequence[tuple[int, int]]) -> list[Place]:
    """Find texts too short to be recognised by themselves: between others, or next to one."""
    spans = sorted((start, start + length) for start, length in shown)
    found: list[Place] = []
    for group in groups:
        length = len(group.letters)
        near = [
            (distance, place)
            for place in page.places(group.letters, whole_words=True)
            if (distance := _distance(place, place + length, spans, page)) <= NEIGHBOURHOOD
        ]
        places = [place for _, place in sorted(near)[: len(group.indices)]]
        page.claim(places, length)
        found += [Place(place, length, group) for place in places]
    return found


def _distance(start: int, end: int, spans: Sequence[tuple[int, int]], page: Page) -> int:
    """Return how many letters part a place from the nearest found text; 0 between two of them."""
    place = bisect_right(spans, (start, end))
    gaps: list[int] = []
    if place and not page.divides(spans[place - 1][1], start):
        gaps.append(start - spans[place - 1][1])
    if place < len(spans) and not page.divides(end, spans[place][0]):
        gaps.append(spans[place][0] - end)
    return 0 if len(gaps) == 2 else min(gaps, default=NEIGHBOURHOOD + 1)


def _chosen(
    found: Sequence[Place],
    passages: Sequence[str],
    calls: Sequence[Sequence[str]],
) -> Iterator[tuple[int, Place]]:
    """Yield a candidate's index with each place: those that stand there to the letter before the others."""
    waiting: dict[str, Iterator[int]] = {}
    prompts: list[str] | None = None
    for one in found:
        letters = one.group.letters
        if letters not in waiting:
            indices = one.group.indices
            if len({passages[index] for index in indices}) > 1:
                if prompts is None:
                    prompts = [collapsed(text) for texts in calls for text in texts]
                indices = _exact_first(indices, passages, prompts)
            waiting[letters] = iter(indices)
        yield next(waiting[letters]), one


def _exact_first(
    indices: Sequence[int], passages: Sequence[str], prompts: Sequence[str]
) -> list[int]:
    """Order texts that differ in signs only (``-5``, ``5``) by whether a prompt has those signs.

    Longer ones first: "5" stands in "-5", too.
    """
    plain = {index: collapsed(passages[index]) for index in indices}
    exact = {index for index in indices if any(plain[index] in text for text in prompts)}
    return sorted(indices, key=lambda index: (index not in exact, -len(plain[index]), index))


_BETWEEN = "\0"
_GRAM = 16
"""Every so many letters of all texts, so many in a row are noted, once, with where they stand."""
_FEW = 4
"""Where a text's beginning stands in more places, its middle and its end are asked, too."""
_SMALL = 1_000_000
"""So many letters, over all passages, are read as fast as noted."""
_MOST_READ = 10_000_000
"""So many letters are read for texts that repeat themselves; beyond them their last places count."""


class Page:
    """All texts of all calls as one, reduced to letters and digits, and what is claimed of it."""

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
        self._is_read = n_passages * len(self.letters) <= _SMALL
        self._word_ends: frozenset[int] | None = None
        self._claimed = bytearray(len(self.letters))
        self._last: dict[str, int] = {}
        self._earlier: dict[str, list[int]] = {}
        self._reads = _MOST_READ
        self._words: tuple[list[str], list[int]] | None = None
        self._grams: dict[tuple[str, ...], int] | None = None
        self._rough: set[tuple[str, ...]] | None = None

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
        noted = None if self._is_read or length < 2 * _GRAM else self._noted(letters)
        if noted is not None:
            following = 0
            for place in noted:
                if place >= following and self.is_free(place, place + length):
                    yield place
                    following = place + length
            return
        place = self.letters.find(letters)
        while place >= 0:
            claimed = self._claimed.rfind(1, place, place + length)
            if claimed < 0:
                yield place
            # What begins before the end of what is claimed overlaps it as well.
            place = self.letters.find(letters, place + length if claimed < 0 else claimed + 1)

    def _noted(self, letters: str) -> list[int] | None:
        """Return the last places of a text by what is noted of the page, which is not read for each text.

        None: it repeats itself, as a table's rows do, so that too much is noted; then the page is read.
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
        for begin in (0, room // 2, room):  # many texts may begin, or end, alike
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

    def _is_whole(self, start: int, end: int) -> bool:
        return self._partswords_of(start) and self._partswords_of(end)

    def _partswords_of(self, place: int) -> bool:
        if self._word_ends is None:
            pieces = (piece for text in self._texts for piece in (*words_of(text), _BETWEEN))
            self._word_ends = frozenset((0, *accumulate(map(len, pieces))))
        return place in self._word_ends or bool(
            IDEOGRAPHS.search(self.letters, max(place - 1, 0), place + 1)
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
        for place in places:
            self._claimed[place : place + length] = b"\1" * length

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing between two places is claimed."""
        return self._claimed.find(1, start, end) < 0

    def free_until(self, start: int, most: int) -> int:
        """Return how far what is unclaimed reaches from `start`, looked at over `most` letters."""
        end = min(start + most, len(self.letters))
        claimed = self._claimed.find(1, start, end)
        return end if claimed < 0 else claimed

    def free_from(self, end: int, most: int) -> int:
        """Return where what is unclaimed before `end` begins, looked at over `most` letters."""
        start = max(end - most, 0)
        return max(self._claimed.rfind(1, start, end) + 1, start)

    def words(self) -> tuple[list[str], list[int]]:
        """Return the words of all texts, a bar between texts, and where each begins in the letters."""
        if self._words is None:
            words = [word for text in self._texts for word in (*tokens_in(text), _BETWEEN)]
            self._words = words, [0, *accumulate(map(len, words))]
        return self._words

    def grams(self) -> dict[tuple[str, ...], int]:
        """Return where words in a row stand among the words, the last place of each."""
        if self._grams is None:
            words = self.words()[0]
            self._grams = dict(zip(_grams(words), range(len(words)), strict=False))
        return self._grams

    def may_show(self, passage: str) -> bool:
        """Return whether three words in a row may stand here: by a split in C, which spares most the rest."""
        if IDEOGRAPHS.search(passage):
            return True
        if self._rough is None:
            self._rough = set()
            for text in self._texts:
                self._rough.update(_threes(text))
        return not self._rough.isdisjoint(_threes(passage))

    def divides(self, start: int, end: int) -> bool:
        """Return whether `start` and `end` stand in different texts."""
        return self.letters.find(_BETWEEN, start, end) >= 0


def _threes(text: str) -> Iterator[tuple[str, ...]]:
    words = collapsed(text).casefold().split()
    return zip(words, words[1:], words[2:], strict=False)
