"""The places of passages in texts sent to a model: whole, cut at an end, or in parts. Strings only.

Passages and prompts are compared by their letters and digits (`letters`). Whole passages claim their places
first, the longest before the others, so that a chunk which is a part of another one is found only outside
that one; then beginnings and ends, then the rest of a passage, by runs of words. Time is linear in the
letters of all: nothing is compared pairwise.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from .letters import collapsed, letters_of, places_of_words, tokens_in, weight_of, words_of
from .prompt_page import MOST_PLACES, WORDS_IN_A_ROW, Page, grams_of

MIN_ALONE = 12
"""A text of fewer letters, or of one word, is too common to be recognised alone: it counts only beside
another text that was found. A Chinese or Japanese character counts as three letters."""

MIN_FREE = 20
"""A text of fewer letters must begin and end at word boundaries."""

MIN_CUT = 32
"""Share of a text's beginning or end that must be present when the text was cut."""

MIN_MIDDLE = 60
"""The same for its middle: two chunks of one article share up to this much by chance."""

WHOLE = 0.93
"""Share of a text's letters, in order, from which it counts as shown whole, with changes."""

NEIGHBOURHOOD = 80
"""Letters allowed between a short text and the one it is found beside: a line of metadata."""


class Shown(NamedTuple):
    """A passage, or a part of one, as a prompt shows it."""

    passage: int
    """The index of the passage."""
    place: int
    """Its beginning, in letters of all texts together; smaller for earlier texts."""
    call: int
    """The index of the call whose texts show it."""
    text: str | None
    """The part shown, in the passage's own writing, pieces joined by an ellipsis; None: all of it."""


def align(
    passages: Sequence[str], calls: Sequence[Sequence[str]], question: str | None = None, *, parts: bool = True
) -> list[Shown]:
    """Return the passages that occur in the texts sent to calls, in the texts' order.

    Args:
        passages: Retrieved texts in retrieval order, duplicates included. Of equal ones, as many are
            returned as the texts show, the first ones first.
        calls: The texts of each call.
        question: The user's question: a passage that is a part of it is not found there.
        parts: Whether to look also for parts of passages that are neither beginning nor end.
    """
    groups = _grouped(passages)
    page = Page(calls, len(groups))
    asked = "" if question is None else letters_of(question)
    found: list[Place] = []
    missing: list[_Group] = []
    common = [group for group in groups if group.is_common]
    question_is_open = any(map(asked.__contains__, [group.letters for group in groups]))
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
    if common:
        found += _beside(common, page, [(one.start, len(one.group.letters)) for one in found])
    return [
        Shown(index, one.start, page.call_at(one.start), _text_of(passages[index], one) if one.runs else None)
        for index, one in _chosen(_counted(found, page), passages, calls)
    ]


class Place(NamedTuple):
    """A place in a prompt that shows a text or a part of it."""

    start: int
    length: int
    group: _Group
    runs: tuple[tuple[int, int], ...] = ()
    """Ranges of the text's letters that occur there, from and to; empty: all."""


_MARKS = re.compile(r"[^\w\s]+")


def _text_of(passage: str, place: Place) -> str | None:
    """Return the part of a passage shown at a place, in the passage's own writing; None: all of it."""
    runs = place.runs
    if sum(end - start for start, end in runs) >= WHOLE * len(place.group.letters):
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
    """Return whether a text is long enough to be recognised without a found neighbour."""
    weight = weight_of(letters_of(text)) if weight is None else weight
    return weight >= MIN_ALONE and (weight >= 2 * MIN_ALONE or len(words_of(text)) >= 2)


class _Group:
    """Passages that a template may make equal: equal letters and digits."""

    __slots__ = ("indices", "is_common", "letters", "shown_whole", "weight")

    def __init__(self, letters: str, text: str) -> None:
        self.letters = letters
        self.weight = weight_of(letters)
        self.is_common = self.weight < 2 * MIN_ALONE and not stands_for_itself(text, self.weight)
        """Whether the text is too short to be recognised without a neighbour."""
        self.indices: list[int] = []
        self.shown_whole = False


def _counted(found: Sequence[Place], page: Page) -> list[Place]:
    """Return the places that count, in order: at most as many per text as were retrieved, the last ones.

    A call that shows several texts which another one shows as well shows them again (a draft and its
    revision). Calls that show one text each add up.
    """
    by_call: dict[int, list[Place]] = {}
    for one in sorted(found, key=attrgetter("start")):
        by_call.setdefault(page.call_at(one.start), []).append(one)
    kept = [*by_call]
    if len(kept) > 1:
        kept = []
        tallies = {call: Counter(one.group.letters for one in shown) for call, shown in by_call.items()}
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
    return [groups[letters] for letters in sorted(groups, key=len, reverse=True)]


def _cut(missing: Sequence[_Group], page: Page) -> list[Place]:
    """Find texts that were cut; where several have the same beginning, the one that agrees longest counts."""
    found: list[Place] = []
    for find_all in (_beginnings, _ends):
        seen = {one.group.letters for one in found}
        cuts = [cut for group in missing if group.letters not in seen for cut in find_all(group, page)]
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
        end = place + _agreement(letters, page.letters[place:limit])
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
        start = end - _agreement(letters[::-1], page.letters[limit:end][::-1])
        start = page.word_start_after(start, place)
        yield Place(start, end - start, group, ((len(letters) - end + start, len(letters)),))


class _Run(NamedTuple):
    """Consecutive words of a passage that occur in the texts: their places in its letters and in the texts'."""

    weight: int
    group: _Group
    begin: int
    start: int
    length: int


def _with_parts(
    missing: Sequence[_Group], cut: Sequence[Place], page: Page, passages: Sequence[str]
) -> list[Place]:
    """Add ends of passages whose beginning was found, and runs of words of passages not yet found."""
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
    """Yield the longest sufficiently long runs of a passage's words: at its ends shorter ones suffice."""
    words, begins = page.words()
    hits = [page.grams().get(gram) for gram in grams_of(own)]
    if not any(hit is not None for hit in hits):
        return
    offsets = [0, *accumulate(map(len, own))]
    at = 0
    while at < len(hits):
        place = hits[at]
        if place is None:
            at += 1
            continue
        end = at + WORDS_IN_A_ROW
        while end < len(own) and place + end - at < len(words) and words[place + end - at] == own[end]:
            end += 1
        weight = weight_of("".join(own[at:end]))
        if weight >= (MIN_CUT if at == 0 or end == len(own) else MIN_MIDDLE):
            yield _Run(weight, group, offsets[at], begins[place], offsets[end] - offsets[at])
        at = end


def _head(letters: str) -> str:
    """Return the shortest beginning that weighs `MIN_CUT`."""
    least = MIN_CUT // 3
    sizes = range(least, MIN_CUT)
    return letters[: least + bisect_left(sizes, MIN_CUT, key=lambda size: weight_of(letters[:size]))]


def _agreement(one: str, other: str) -> int:
    """Return the number of equal letters at the beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _beside(groups: Sequence[_Group], page: Page, shown: Sequence[tuple[int, int]]) -> list[Place]:
    """Find texts too short to be recognised alone: between other found texts, or next to one."""
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
    """Return the number of letters between a place and the nearest found text; 0 between two of them."""
    place = bisect_right(spans, (start, end))
    gaps: list[int] = []
    if place and not page.divides(spans[place - 1][1], start):
        gaps.append(start - spans[place - 1][1])
    if place < len(spans) and not page.divides(end, spans[place][0]):
        gaps.append(spans[place][0] - end)
    return 0 if len(gaps) == 2 else min(gaps, default=NEIGHBOURHOOD + 1)


def _chosen(
    found: Sequence[Place], passages: Sequence[str], calls: Sequence[Sequence[str]]
) -> Iterator[tuple[int, Place]]:
    """Yield a candidate's index with each place: verbatim matches before the others."""
    waiting: dict[str, Iterator[int]] = {}
    prompts: list[str] | None = None
    for one in found:
        letters = one.group.letters
        if letters not in waiting:
            indices = one.group.indices
            if len({passages[index] for index in indices}) > 1:
                if prompts is None:
                    prompts = [collapsed(text) for texts in calls for text in texts]
                # They differ in punctuation only, as ``-5`` and ``5``: those that a prompt contains come first,
                # longer ones before others, because "5" is also a part of "-5".
                plain = {index: collapsed(passages[index]) for index in indices}
                exact = {index for index in indices if any(plain[index] in text for text in prompts)}
                indices = sorted(indices, key=lambda at: (at not in exact, -len(plain[at]), at))
            waiting[letters] = iter(indices)
        yield next(waiting[letters]), one
