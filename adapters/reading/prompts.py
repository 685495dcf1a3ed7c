"""Which retrieved texts stand in the prompts that were sent to the model, as templates changed them.

Adapters note the prompts of a request's model calls by reference and ask here, on the worker. A
prompt is compared and then forgotten. No framework is known here: texts in, indices out.

Texts are compared by their letters and digits. What templates do to a text falls away: whitespace,
indentation, bullets, quotes (``> ``), braces doubled for a template, capitals.  Escapes are read first:
line breaks and code points as JSON and Python write them, however often they were escaped, and the
entities of HTML and XML.  Each is read where it stands and in retrieved texts as well, so that a part of a
text reads as it does in the whole.  A text that does not stand in a prompt as a whole may stand there cut:
its beginning, or its end, of at least `MIN_CUT` letters.

No place in a prompt counts twice: the longest texts claim theirs first, so a chunk that is a part of
another one is seen only where it stands on its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ragmeter.requests.size import weight_of as bytes_of

from .letters import IDEOGRAPHS, collapsed, letters_of, weight_of, words_of

__all__ = ["Prompt", "Sent", "new_bytes", "prompt_of", "seen_in_prompts"]


MIN_ALONE = 12
"""A text of fewer letters, or of one word, is too common to be recognised by itself: it counts
only beside another text that was found. A Chinese or Japanese character counts as three letters."""

MIN_FREE = 20
"""A text of fewer letters must begin and end where words do."""

MIN_CUT = 32
"""How much of a text's beginning or end must be there when the text was cut."""

NEIGHBOURHOOD = 80
"""How many letters may stand between a short text and the one it is found beside: a line of metadata."""

MAX_PROMPTS = 4_000_000
"""Prompts of more characters together are not compared."""

_MOST_PLACES = 1_000
"""How many places of one text are looked at where texts are cut; prompts repeat no chunk as often."""


class Prompt(NamedTuple):
    """What one model call was sent."""

    texts: Sequence[str]
    """Instructions, the user's message and what came after it: where retrieved texts stand."""
    history: Sequence[str] = ()
    """Earlier turns and what the model said itself: looked at only if `texts` shows nothing."""


Sent = tuple[tuple[str, tuple[str, ...]], ...]
"""Role and texts of each message that a model call was sent, by reference."""


def new_bytes(sent: Sent, known: set[int]) -> int:
    """Return the bytes of texts that are not among the `known` ones yet, by identity; note them there.

    An agent's calls are sent the whole conversation again each time: its texts are held once.
    """
    size = 0
    for _, texts in sent:
        for text in texts:
            if id(text) not in known:
                known.add(id(text))
                size += bytes_of(text)
    return size


def prompt_of(messages: Iterable[tuple[str, Sequence[str]]]) -> Prompt:
    """Return the prompt that a conversation makes, given as role and texts of each message.

    A document of an earlier turn, or one that the model quoted, says nothing about this request. So
    what comes before the last user messages is history, but for the system's instructions.

    Args:
        messages: Role (``system``, ``developer``, ``user`` or ``human``, ``assistant`` or ``ai``,
            anything else) and texts, in the order sent.
    """
    sent = list(messages)
    users = [place for place, (role, _) in enumerate(sent) if role in _USER]
    turn = users[-1] if users else 0
    while turn > 0 and sent[turn - 1][0] in _USER:
        turn -= 1
    texts: list[str] = []
    history: list[str] = []
    for place, (role, parts) in enumerate(sent):
        is_new = role in _INSTRUCTIONS or (place >= turn and role not in _MODEL)
        (texts if is_new else history).extend(parts)
    return Prompt(texts, history)


_USER = frozenset({"user", "human"})
_MODEL = frozenset({"assistant", "ai", "AIMessageChunk", "model", "chatbot"})
_INSTRUCTIONS = frozenset({"system", "developer"})


def seen_in_prompts(
    candidates: Sequence[str], prompts: Sequence[Prompt], question: str | None = None
) -> tuple[int, ...] | None:
    """Return which candidates stand in the prompts, in the prompts' order; None if none does.

    Args:
        candidates: Retrieved texts in retrieval order, duplicates included.
        prompts: Prompts of the calls that made the answer, in their order. They add up: one call
            may show one document, the next one another.
        question: What the user asked. It stands in a prompt in its own right, so a chunk that is
            a part of it is not seen there.

    Returns:
        Indices of `candidates`. Of equal texts, as many as the prompts show, the first ones first.
        None means that the prompts show nothing, or are longer than `MAX_PROMPTS`: another rule has to
        decide.
    """
    if (
        sum(len(text) for prompt in prompts for text in (*prompt.texts, *prompt.history))
        > MAX_PROMPTS
    ):
        return None
    fresh = [prompt.texts for prompt in prompts]
    seen = _match(candidates, fresh, question)
    if seen is None and any(prompt.history for prompt in prompts):
        whole = [(*prompt.history, *prompt.texts) for prompt in prompts]
        seen = _match(candidates, whole, question)
    return seen


class _Group:
    """Candidates that a template may make equal: equal letters and digits."""

    __slots__ = ("indices", "is_common", "letters", "weight")

    def __init__(self, letters: str, text: str) -> None:
        self.letters = letters
        self.weight = weight_of(letters)
        self.is_common = self.weight < MIN_ALONE or (
            self.weight < 2 * MIN_ALONE and len(words_of(text)) < 2
        )
        """Whether the text is too short to be recognised by itself."""
        self.indices: list[int] = []


def _match(
    candidates: Sequence[str], calls: Sequence[Sequence[str]], question: str | None
) -> tuple[int, ...] | None:
    groups = _grouped(candidates)
    page = Page(calls)
    asked = "" if question is None else letters_of(question)
    found: list[tuple[int, _Group]] = []
    missing: list[_Group] = []
    common = [group for group in groups if group.is_common]
    own = [group for group in groups if not group.is_common]
    question_is_open = any(group.letters in asked for group in groups)
    for group in own:
        letters = group.letters
        if question_is_open and len(asked) > len(letters):
            question_is_open = False
            page.claim(page.places(asked), len(asked))
        places = page.places(letters, whole_words=group.weight < MIN_FREE)
        page.claim(places, len(letters))
        if letters == asked:
            question_is_open = False
            del places[-1:]
        found += [(place, group) for place in places]
        if len(places) < len(group.indices):
            missing.append(group)
    found += _cut(missing, page)
    if not found:
        return None
    if common and question_is_open:
        page.claim(page.places(asked), len(asked))
    found += _beside(common, page, [(place, len(group.letters)) for place, group in found])
    return tuple(_chosen(_counted(found, page), candidates, calls))


def _counted(found: Sequence[tuple[int, _Group]], page: Page) -> list[tuple[int, _Group]]:
    """Return the places that count, in order: no more of a text than were retrieved, the last ones.

    A call that shows several texts which another one shows as well shows them again (a draft and its
    revision). Calls that show one text each add up.
    """
    by_call: dict[int, list[tuple[int, _Group]]] = {}
    for place, group in sorted(found, key=lambda item: item[0]):
        by_call.setdefault(page.call_at(place), []).append((place, group))
    kept = [*by_call]
    if len(kept) > 1:
        kept = []
        tallies = {
            call: Counter(group.letters for _, group in shown) for call, shown in by_call.items()
        }
        for call in sorted(by_call, key=lambda call: (-len(by_call[call]), -call)):
            if len(by_call[call]) < 2 or not any(tallies[call] <= tallies[other] for other in kept):
                kept.append(call)
    left = {group.letters: len(group.indices) for _, group in found}
    counted: list[tuple[int, _Group]] = []
    for call in sorted(kept, reverse=True):
        for place, group in reversed(by_call[call]):
            if left[group.letters]:
                left[group.letters] -= 1
                counted.append((place, group))
    return counted[::-1]


def _grouped(candidates: Sequence[str]) -> list[_Group]:
    """Return the candidates by their letters and digits, longest first; those without any are left out."""
    groups: dict[str, _Group] = {}
    for index, text in enumerate(candidates):
        letters = letters_of(text)
        if letters:
            group = groups.get(letters)
            if group is None:
                group = groups[letters] = _Group(letters, text)
            group.indices.append(index)
    return sorted(groups.values(), key=lambda group: -len(group.letters))


class _Cut(NamedTuple):
    """A place that shows the beginning, or the end, of a text."""

    length: int
    start: int
    group: _Group


def _cut(missing: Sequence[_Group], page: Page) -> list[tuple[int, _Group]]:
    """Find texts that were cut; where several begin alike, the one that agrees longest stands there."""
    found: list[tuple[int, _Group]] = []
    for find_all in (_beginnings, _ends):
        seen = {group.letters for _, group in found}
        cuts = [
            cut for group in missing if group.letters not in seen for cut in find_all(group, page)
        ]
        # At equal length the last place, as for whole texts.
        for cut in sorted(cuts, key=lambda cut: (-cut.length, -cut.start)):
            before, after = page.free_around(cut.start + cut.length)
            is_free = before <= cut.start and cut.start + cut.length <= after
            if is_free:
                page.claim([cut.start], cut.length)
                found.append((cut.start, cut.group))
    return found


def _beginnings(group: _Group, page: Page) -> Iterator[_Cut]:
    letters = group.letters
    key = _head(letters)
    if len(key) >= len(letters):
        return
    for place in _few(page.places(key)):
        _, limit = page.free_around(place + len(key))
        end = place + _common_prefix(letters, page.letters, place, limit)
        # By chance, what follows may begin with the letter that was cut off.
        end = page.word_end_before(end, place + len(key))
        yield _Cut(end - place, place, group)


def _ends(group: _Group, page: Page) -> Iterator[_Cut]:
    letters = group.letters
    key = _head(letters[::-1])[::-1]
    if len(key) >= len(letters):
        return
    for place in _few(page.places(key)):
        end = place + len(key)
        limit, _ = page.free_around(end)
        start = end - _common_suffix(letters, page.letters, end, limit)
        start = page.word_start_after(start, place)
        yield _Cut(end - start, start, group)


def _few(places: list[int]) -> list[int]:
    return places[-_MOST_PLACES:]


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


def _beside(
    groups: Sequence[_Group], page: Page, shown: Sequence[tuple[int, int]]
) -> list[tuple[int, _Group]]:
    """Find texts too short to be recognised by themselves: between others, or next to one."""
    spans = sorted((start, start + length) for start, length in shown)
    found: list[tuple[int, _Group]] = []
    for group in groups:
        length = len(group.letters)
        near = [
            (distance, place)
            for place in page.places(group.letters, whole_words=True)
            if (distance := _distance(place, place + length, spans, page)) <= NEIGHBOURHOOD
        ]
        places = [place for _, place in sorted(near)[: len(group.indices)]]
        page.claim(places, length)
        found += [(place, group) for place in places]
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
    found: Sequence[tuple[int, _Group]],
    candidates: Sequence[str],
    calls: Sequence[Sequence[str]],
) -> Iterator[int]:
    """Yield a candidate for each place: those that stand there to the letter before the others."""
    waiting: dict[str, Iterator[int]] = {}
    prompts: list[str] | None = None
    for _, group in found:
        letters = group.letters
        if letters not in waiting:
            indices = group.indices
            if len({candidates[index] for index in indices}) > 1:
                if prompts is None:
                    prompts = [collapsed(text) for texts in calls for text in texts]
                indices = _exact_first(indices, candidates, prompts)
            waiting[letters] = iter(indices)
        yield next(waiting[letters])


def _exact_first(
    indices: Sequence[int], candidates: Sequence[str], prompts: Sequence[str]
) -> list[int]:
    """Order texts that differ in signs only (``-5``, ``5``) by whether a prompt has those signs.

    Longer ones first: "5" stands in "-5", too.
    """
    plain = {index: collapsed(candidates[index]) for index in indices}
    exact = {index for index in indices if any(plain[index] in text for text in prompts)}
    return sorted(indices, key=lambda index: (index not in exact, -len(plain[index]), index))


_BETWEEN = "\0"
_HEAD = 64
_HEADS = 8
"""Letters of a text that are looked for first, and how often: many texts may begin alike."""


class Page:
    """All texts of all calls as one, reduced to letters and digits, and what is claimed of it."""

    def __init__(self, calls: Iterable[Iterable[str]]) -> None:
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
        place = self._find(letters, 0)
        while place >= 0:
            claim = bisect_right(self._ends, place)
            if claim < len(self._starts) and self._starts[claim] < place + length:
                following = self._ends[claim]  # what begins before its end overlaps it as well
            else:
                yield place
                following = place + length
            place = self._find(letters, following)

    def _find(self, letters: str, start: int) -> int:
        """Return the first place of a text from `start` on, or -1."""
        # To find a long text Python prepares a table first, which takes longer than to find its beginning.
        head = letters[:_HEAD]
        if len(head) == len(letters):
            return self.letters.find(letters, start)
        last = len(self.letters) - len(letters) + _HEAD
        for _ in range(_HEADS):
            place = self.letters.find(head, start, last)
            if place < 0 or self.letters.startswith(letters, place):
                return place
            start = place + 1
        return self.letters.find(letters, start)

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
        if not places:
            return
        if len(places) == 1:
            self._claim_one(places[0], places[0] + length)
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

    def _claim_one(self, start: int, end: int) -> None:
        at = bisect_left(self._starts, start)
        if at < len(self._starts) and self._starts[at] == end:
            end = self._ends[at]
            del self._starts[at], self._ends[at]
        if at and self._ends[at - 1] == start:
            self._ends[at - 1] = end
        else:
            self._starts.insert(at, start)
            self._ends.insert(at, end)

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
