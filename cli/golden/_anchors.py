"""Finds the texts of golden labels in the chunks of an index, and classifies the labels.

Texts are compared as sequences of words, Chinese character by character, ignoring case, punctuation and
layout, so that a text that was only split or wrapped differently is found.  A match is certain if exactly one
chunk has 90 % of the label's words and all its numbers and names; Chinese names are not checked beyond the
90 %.  Other labels are left to a person, and make scores by id ``undefined``: a recall over the remaining
labels would answer another question.  It reads and writes no files.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["valid", "re-anchorable", "merged", "split", "orphaned"]

COVERED = 0.9
"""Share of a label's words that a chunk, or its parts together, must have."""
FILLED = 0.8
"""Share of a chunk's words from which it is the label's text under another id, and not merged with more
text."""
_RUN = 5
"""Successive words that count as a match, as single words occur everywhere."""
_LEAST_PART = 0.1
"""Share of a label's words that a part must add."""
_NAMED = 5
"""Most chunks to name if it is unclear which one has a label's text."""
_HAN = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of the index."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class GoldenLabel:
    """One golden label: an id and the text it named."""

    id: str
    text: str | None
    """None: the text is unknown."""


@dataclass(frozen=True, slots=True)
class LabelOutcome:
    """The outcome of a label."""

    kind: Kind
    ids: tuple[str, ...]
    """The chunks with its text; if that is uncertain, the candidates."""
    share: float
    """Share of its words found there, 0.0 to 1.0; 0.0 if its text is unknown."""
    sure: bool
    """Whether it can be repaired without a person."""
    reason: str
    """The outcome in a sentence, without any text."""


_NAME = re.compile(r"(?<=[^\W\d_]\s|[,;:]\s|\d\s)[^\W\d_]\w*")
"""A word that does not begin a sentence; if capitalised, it is a name."""


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, normalised for comparison."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(re.findall(r"[^\W_]+", _HAN.sub(r" \1 ", folded)))


class Index:
    """The part of an index that matters for the labels: its ids, and the chunks that share runs of words.

    Several chunks may have one id, for example if labels name documents. One chunk is in memory at a time.
    """

    def __init__(self, labels: Iterable[GoldenLabel], chunks: Iterable[Chunk]) -> None:
        texts = {words_of(label.text or "") for label in labels}
        wanted = {run for words in texts for run in _runs(words, min(_RUN, len(words)))}
        sizes = {len(run) for run in wanted}
        short = {run for words in texts for size in range(1, _RUN) for run in _runs(words, size)}
        self.count = 0
        self._ids: set[str] = set()
        self._chunks: list[tuple[str, tuple[str, ...]]] = []
        self._having: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for chunk in chunks:
            self.count += 1
            self._ids.add(chunk.id)
            words = words_of(chunk.text)
            shared = {run for size in sizes for run in _runs(words, size) if run in wanted}
            if len(words) < _RUN and words in short:
                shared.add(words)
            if shared:
                for run in shared:
                    self._having[run].append(len(self._chunks))
                self._chunks.append((chunk.id, words))

    def find(self, label: GoldenLabel) -> LabelOutcome:
        """Return the outcome of a label."""
        words = words_of(label.text or "")
        if not words:
            return self._by_id(label)
        telling = _distinctive_words(label.text or "", words)
        matches = self._matches(words, telling)
        holders = [match for match in matches if match.share >= COVERED]
        own = next((match for match in holders if match.id == label.id), None)
        if own is not None and own.has_same_facts:
            return LabelOutcome("valid", (own.id,), own.share, True, "its chunk still holds its text")
        if holders:
            return self._match_whole(holders)
        return self._in_parts(words, matches, telling)

    def _by_id(self, label: GoldenLabel) -> LabelOutcome:
        if label.id in self._ids:
            reason = "there is a chunk with its id; what it was about is not known"
            return LabelOutcome("valid", (label.id,), 0.0, True, reason)
        reason = "no chunk has its id, and what it was about is not known"
        return LabelOutcome("orphaned", (), 0.0, False, reason)

    def _match_whole(self, holders: list[_Match]) -> LabelOutcome:
        """Return the outcome of a label whose whole text is in at least one chunk."""
        whole = [match for match in holders if match.share == 1.0] or holders
        alone = [match for match in whole if match.is_same] or whole
        names = tuple(dict.fromkeys(match.id for match in alone))
        match = alone[0]
        if len(names) > 1:
            reason = f"{len(names)} chunks hold its text: which one is meant is not sure"
            kind: Kind = "re-anchorable" if match.filled >= FILLED else "merged"
            return LabelOutcome(kind, names[:_NAMED], match.share, False, reason)
        if not match.has_same_facts:
            reason = "a chunk holds nearly its text, with other numbers or names"
            return LabelOutcome("re-anchorable", (match.id,), match.share, False, reason)
        if match.filled >= FILLED:
            return LabelOutcome(
                "re-anchorable", (match.id,), match.share, True, "its text stands under another id"
            )
        reason = "its text stands in one chunk together with more"
        return LabelOutcome("merged", (match.id,), match.share, True, reason)

    def _in_parts(self, words: tuple[str, ...], matches: list[_Match], telling: Counter[str]) -> LabelOutcome:
        """Return the outcome of a label whose whole text is in no chunk."""
        open_places, parts, sure = set(range(len(words))), [], True
        least = max(1.0, _LEAST_PART * len(words))
        left = list(matches)
        while left and open_places:
            left.sort(key=lambda match: (-len(match.places & open_places), match.id))
            best = left.pop(0)
            added = best.places & open_places
            if len(added) < least:
                break
            # If another chunk would add the same, it is uncertain which of them is meant.
            sure = sure and not any(added <= one.places and one.id != best.id for one in left)
            parts.append(best)
            open_places -= added
        share = 1.0 - len(open_places) / len(words)
        parts.sort(key=lambda part: min(part.places))
        names = tuple(dict.fromkeys(part.id for part in parts))
        if share < COVERED:
            reason = f"{share:.0%} of its text stands in the chunks"
            return LabelOutcome("orphaned", names[:_NAMED], share, False, reason)
        have = Counter(word for part in parts for word in part.words)
        if not sure or telling - have:
            reason = "its text stands in several chunks, not all of which are sure"
            return LabelOutcome("split", names, share, False, reason)
        return LabelOutcome("split", names, share, True, f"its text stands in {len(names)} chunks")

    def _matches(self, words: tuple[str, ...], telling: Counter[str]) -> list[_Match]:
        """Return the chunks that share a run of words, or a whole short chunk, with a text."""
        found = {n for run in _runs(words, min(_RUN, len(words))) for n in self._having.get(run, ())}
        for size in range(1, min(_RUN, len(words) + 1)):  # chunks that are shorter than a run
            for run in set(_runs(words, size)):
                found.update(n for n in self._having.get(run, ()) if self._chunks[n][1] == run)
        matches = [_Match(self._chunks[n][0], words, self._chunks[n][1], telling) for n in sorted(found)]
        return sorted(matches, key=lambda match: match.id)


class _Match:
    """A chunk compared with a label's text."""

    def __init__(
        self, name: str, wanted: tuple[str, ...], words: tuple[str, ...], telling: Counter[str]
    ) -> None:
        self._telling = telling
        self.id = name
        self._wanted = wanted
        self.words = words
        size = min(_RUN, len(wanted), len(words))
        self.places = _places(wanted, words, size)
        """Positions of the label's words in the chunk."""

    @property
    def share(self) -> float:
        return len(self.places) / len(self._wanted)

    @cached_property
    def filled(self) -> float:
        """Share of the chunk's words that belong to the label."""
        size = min(_RUN, len(self._wanted), len(self.words))
        return len(_places(self.words, self._wanted, size)) / len(self.words)

    @property
    def is_same(self) -> bool:
        return self._wanted == self.words

    @property
    def has_same_facts(self) -> bool:
        """Whether the chunk has all numbers and names of the label: another price is another text."""
        return not self._telling - Counter(self.words)


def _distinctive_words(text: str, words: tuple[str, ...]) -> Counter[str]:
    """Return the words in which texts of one pattern differ: numbers and names."""
    names = {word for name in _NAME.findall(text) if name[0].isupper() for word in words_of(name)}
    return Counter(word for word in words if any(map(str.isdigit, word)) or word in names)


def _runs(words: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    return (tuple(words[at : at + size]) for at in range(len(words) - size + 1)) if size else ()


def _places(words: tuple[str, ...], other: tuple[str, ...], size: int) -> set[int]:
    """Return the positions of those `words` that are in a run of `size` also found in `other`."""
    there = set(_runs(other, size))
    return {at + step for at, run in enumerate(_runs(words, size)) if run in there for step in range(size)}
