"""Whether texts mention an entity: a name, a place, a number, a date.

`LexicalEntityRecall` and the judged `context_entity_recall` share this: only membership matters, so the
contexts' entities are never extracted. Numbers and dates are compared by value, names word by word; the tier
that decided is reported. No judge is called here.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from ragmeter.metrics.score import ScoreItem

from .analysis import Analysis, analyse
from .characters import HAN
from .cleaning import clean
from .dates import date_keys, date_spans
from .han_names import stands_in_han, without_suffix
from .names import Name, NameIndex, Word, compose, name_of, stable_part
from .quantities import has_worded_numbers, may_hold, number_keys, quantities
from .tokens import has_han, normalise

EntityTier = Literal["string", "number", "accents", "stems", "han"]
"""Tiers by which an entity counts as mentioned. ``string``: the same letters at word boundaries, whatever the
width, quotes and articles, and whatever the case if it does not distinguish a name from a word. ``number``:
the same number or date in another form. ``accents``: the same except for accents. ``stems``: other forms of
the same words, a full name in another order or with initials. ``han``: the same except for 市, 省, 县 or 区."""

_TIERS: tuple[EntityTier, ...] = ("string", "number", "accents", "stems", "han")
_QUOTES = re.compile('["“”„«»‹›「」『』《》〈〉`*_]+')
_ASCII_QUOTES = '"`*_'
_ASCII_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "‑": "-", "–": "-", "‐": "-", "‒": "-", "−": "-"})
_ARTICLE = re.compile(r"(?:the|an|a)\s+(?=\S)")
_EDGES = " \t\n.,;:!?…。，、；：！？()[]{}（）【】'"
_NET = re.compile(r"\.[^\W\d_]")
_INITIAL = re.compile(r"(?:\A|[\s.])[^\W\d_]\Z")
_HAN_GAP = re.compile(rf"(?<=[{HAN}])\s+|\s+(?=[{HAN}])")
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_NUMBERED = re.compile("[\\d〇零一二两三四五六七八九十百千万亿]|век|столет|centur")
_PLAIN_BEFORE = frozenset(" \n\t([{\"«“„'‘`*_")
_PLAIN_AFTER = frozenset(' \n\t,;!?)]}"»”`*_')
_PLAIN_TRIES = 8
"""Positions at which a name is tried as written before the words of the text are indexed."""


class EntityMatch(NamedTuple):
    """The place where an entity was found."""

    tier: EntityTier
    """The tier that matched."""
    text_index: int
    """Index of the first text that mentions it, from 0."""


def _flatten(text: str) -> str:
    normal = normalise(text)
    if not normal.isascii():
        normal = _QUOTES.sub(" ", normal.translate(_APOSTROPHES)).replace("ё", "е")
    else:
        for quote in _ASCII_QUOTES:
            normal = normal.replace(quote, " ")
        if "  " not in normal and not any(map(normal.__contains__, _ASCII_SPACES)):
            return normal.strip(" ")
    return " ".join(normal.split())


def _trim(text: str) -> str:
    """Strip punctuation at the ends, except the full stop of .NET and of an initial."""
    bare = text.strip(_EDGES)
    if not bare:
        return text
    start = text.find(bare)
    end = start + len(bare)
    if start and _NET.match(text, start - 1):
        start -= 1
    if text[end : end + 1] == "." and _INITIAL.search(bare):
        end += 1
    return text[start:end]


def normalise_entity(entity: str) -> str:
    """Return the form in which entities are compared for distinctness.

    NFKC, casefold, spaces collapsed; without quotes, a leading article and punctuation at the ends.
    """
    flat = _trim(_flatten(clean(entity)))
    return _ARTICLE.sub("", flat, count=1) if _ARTICLE.match(flat) else flat


def distinct_entities(entities: Iterable[str]) -> tuple[str, ...]:
    """Drop blank entities and repeats (after `normalise_entity`); keep the order and spelling."""
    seen: dict[str, str] = {}
    for entity in entities:
        key = normalise_entity(entity)
        if key:
            seen.setdefault(key, entity)
    return tuple(seen.values())


class _SearchedEntity(NamedTuple):
    """An entity, prepared for look-ups."""

    flat: str
    """Normalised as by `normalise_entity`."""
    keys: frozenset[str]
    """Its value, if it is only a number or a date."""
    han: str
    """With Han characters: its form for the search in Chinese text; else empty."""
    name: Name
    """Its words as a name."""
    needed: tuple[tuple[str, ...], ...]
    """For each word, prefixes of which one is in every text that mentions it, ignoring accents."""


@lru_cache(maxsize=2_000)
def _prepare(entity: str) -> _SearchedEntity:
    flat = normalise_entity(entity)
    keys = frozenset[str]()
    if _NUMBERED.search(flat):
        keys = date_keys(flat, whole=True) or number_keys(flat, whole=True)
    cased = _trim(" ".join(_QUOTES.sub(" ", compose(clean(entity))).split()))
    name = name_of(cased)
    needed = [_needed_parts(word, person=name.person) for word in name.words if word.folded.isalpha()]
    han = _HAN_GAP.sub("", flat) if has_han(flat) else ""
    return _SearchedEntity(flat, keys, han, name, tuple(needed))


def _needed_parts(word: Word, *, person: bool) -> tuple[str, ...]:
    part, letter = stable_part(word), word.folded[0]
    if word.initial:
        return (letter,)
    if word.surface.isupper():
        return (part, f"{letter}.")  # US, U.S.
    return (part, f"{letter}.") if person else (part,)


def _flat(known: Analysis) -> str:
    return _flatten(known.plain)


def _han_flat(known: Analysis) -> str:
    return _HAN_GAP.sub("", normalise(known.plain))


def _keys(known: Analysis) -> frozenset[str]:
    flat = known.memoize(_flat)
    # The numbers inside a date do not count separately; its year does.
    found = quantities(flat, date_spans(flat))
    return date_keys(flat).union(*[one.keys for one in found])


def _has_worded_numbers(known: Analysis) -> bool:
    return has_worded_numbers(known.memoize(_flat))


def _composed_text(known: Analysis) -> str:
    return compose(known.plain)


def _is_accented(known: Analysis) -> bool:
    return not known.text.isascii() and _ACCENTED.search(known.memoize(_flat)) is not None


def _index(known: Analysis) -> NameIndex:
    return NameIndex(known.memoize(_composed_text))


def _stands_plainly(text: str, name: str, *, inside: bool) -> bool:
    """Return whether `text` has `name` as written, delimited by spaces or punctuation.

    False proves nothing: then the comparison of words decides.

    Args:
        text: Composed.
        name: Composed.
        inside: Only inside a sentence of small letters, where a capital letter is significant.
    """
    start = text.find(name)
    for _ in range(_PLAIN_TRIES):
        if start < 0:
            return False
        end = start + len(name)
        before = text[start - 1] in _PLAIN_BEFORE if start else True
        if inside:
            before = before and text[max(0, start - 2) : start - 1].islower()
        if before and (
            end == len(text)
            or text[end] in _PLAIN_AFTER
            or (text[end] in ".:" and text[end + 1 : end + 2] in ("", " ", "\n"))
        ):
            return True
        start = text.find(name, start + 1)
    return False


class EntityFinder:
    """Looks entities up in a list of texts; each text is prepared once, and only as far as necessary.

    The search forms of a text are cached with it (see `text.analysis`), so that a chunk that is retrieved
    again costs nothing. One look-up takes time linear in the texts.

    Args:
        texts: The contexts, in order. Blank ones mention nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [analyse(text) for text in texts]

    def find(self, entity: str) -> EntityMatch | None:
        """Return the strictest tier by which any text mentions `entity`, with the first such text, or None."""
        wanted = _prepare(entity)
        if not wanted.flat:
            return None
        best: EntityMatch | None = None
        for index, known in enumerate(self._texts):
            tier = _tier(wanted, known)
            if tier == "string":
                return EntityMatch(tier, index)
            if tier is not None and (best is None or _TIERS.index(tier) < _TIERS.index(best.tier)):
                best = EntityMatch(tier, index)
        return best


def _tier(wanted: _SearchedEntity, known: Analysis) -> EntityTier | None:
    """Return the strictest tier by which one text mentions the entity."""
    if wanted.keys:
        return _tier_of_number(wanted, known)
    if wanted.han:
        text = known.memoize(_han_flat)
        if stands_in_han(text, wanted.han):
            return "string"
        bare = without_suffix(wanted.han)
        return "han" if bare != wanted.han and stands_in_han(text, bare) else None
    name = wanted.name
    text = known.memoize(_composed_text)
    if _stands_plainly(text, name.text, inside=not name.plain):
        return "string"
    # A word without any form in the text saves splitting the text into words.
    flat = known.memoize(_flat)
    for parts in wanted.needed:
        if not any(part in flat for part in parts) and not (parts[0].isascii() and known.memoize(_is_accented)):
            return None
    return known.memoize(_index).find(name)


def _tier_of_number(wanted: _SearchedEntity, known: Analysis) -> EntityTier | None:
    flat = known.memoize(_flat)
    if not may_hold(flat, wanted.keys) and not known.memoize(_has_worded_numbers):
        return None
    if wanted.keys.isdisjoint(known.memoize(_keys)):
        return None
    start = flat.find(wanted.flat)
    while start >= 0:
        end = start + len(wanted.flat)
        if not (flat[start - 1 : start].isalnum() or flat[end : end + 1].isalnum()):
            return "string"
        start = -1
    return "number"


def stands_in(entity: str, text: str) -> bool:
    """Return whether `text` mentions `entity`, by any of the tiers; a blank entity is never mentioned.

    For callers that receive an entity, for example from a judge, and need to check it against the text.
    """
    return EntityFinder((text,)).find(entity) is not None


def entity_evidence(entities: Iterable[str], texts: Sequence[str], chunk_ids: Sequence[str]) -> list[ScoreItem]:
    """Look every entity up in `texts`; return one item each, with the chunk and the tier.

    Args:
        entities: The entities, in order.
        texts: The chunks' texts.
        chunk_ids: The name of each chunk in the evidence.
    """
    finder = EntityFinder(texts)
    items: list[ScoreItem] = []
    for number, entity in enumerate(entities, start=1):
        match = finder.find(entity)
        items.append(
            ScoreItem(
                id=f"entity-{number}",
                verdict=match is not None,
                text=entity,
                evidence=chunk_ids[match.text_index] if match else None,
                reason=f"tier: {match.tier}" if match else "not found",
            )
        )
    return items
