"""Tell whether texts mention an entity: a name, a place, a number, a date.

`LexicalEntityRecall` and the judged `context_entity_recall` share this: only membership matters,
so the contexts' own entities are never extracted.  Five tiers are tried in order, each looser
than the one before, and the tier that decided is reported.  No judge is asked here.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from .dates import date_keys, may_hold, number_keys
from .score import ScoreItem, evidence_item
from .text.analysis import Analysis, analyse
from .text.stems import CONTENT, STOP_WORDS
from .text.tokens import has_han, normalise, tokens

__all__ = [
    "EntityFinder",
    "EntityMatch",
    "EntityTier",
    "distinct_entities",
    "entity_evidence",
    "entity_recall",
    "normalise_entity",
    "stands_in",
]

EntityTier = Literal["string", "number", "accents", "stems", "han"]
"""What made an entity count as mentioned.

``string``: the same letters at word boundaries, whatever the case, width, quotes and articles.
``number``: the same number or date in another form. ``accents``: the same but for accents.
``stems``: the same Snowball stems in the same order. ``han``: the same but for 市, 省, 县 or 区.
"""

_QUOTES = re.compile('["“”„«»‹›「」『』《》〈〉`*_]+')
_ASCII_QUOTES = '"`*_'
_ASCII_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "‑": "-", "–": "-", "‐": "-"})
_ARTICLE = re.compile(r"(?:the|an|a)\s+(?=\S)")
_EDGES = " \t\n.,;:!?…。，、；：！？()[]{}（）【】'"
_HAN_SUFFIXES = ("市", "省", "县", "區", "区", "縣")


class EntityMatch(NamedTuple):
    """Where an entity was found."""

    tier: EntityTier
    """What made it count."""
    text_index: int
    """Position of the first text that mentions it, counted from 0."""


def _flatten(text: str) -> str:
    normal = normalise(text)
    if not normal.isascii():
        normal = _QUOTES.sub(" ", normal.translate(_APOSTROPHES))
    else:
        for quote in _ASCII_QUOTES:
            normal = normal.replace(quote, " ")
        if "  " not in normal and not any(map(normal.__contains__, _ASCII_SPACES)):
            return normal.strip(" ")
    return " ".join(normal.split())


def normalise_entity(entity: str) -> str:
    """Return the form in which entities are compared and counted as distinct.

    NFKC, casefold, spaces collapsed; quotes, a leading article and punctuation at the ends gone.
    """
    flat = _flatten(entity)
    return (
        _ARTICLE.sub("", flat.strip(_EDGES), count=1)
        if _ARTICLE.match(flat)
        else (flat.strip(_EDGES) or flat)
    )


def distinct_entities(entities: Iterable[str]) -> tuple[str, ...]:
    """Drop blank entities and repeats (after `normalise_entity`); keep the order and spelling."""
    seen: dict[str, str] = {}
    for entity in entities:
        key = normalise_entity(entity)
        if key:
            seen.setdefault(key, entity)
    return tuple(seen.values())


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _stems(words: Iterable[str]) -> list[str]:
    content = CONTENT
    return [word if (stemmed := content[word]) is None else stemmed for word in words]


def _stem_line(words: Iterable[str]) -> str:
    return f" {' '.join(_stems(words))} "


def _is_bound(text: str, position: int) -> bool:
    """Tell whether a word ends or begins at `position`, a place between two characters."""
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if not (before.isalnum() and after.isalnum()):
        return True
    return has_han(before) or has_han(after)


def _mentions(text: str, entity: str) -> bool:
    """Tell whether `entity` stands in `text` at word boundaries."""
    start = text.find(entity)
    while start >= 0:
        end = start + len(entity)
        if _is_bound(text, start) and _is_bound(text, end) and not _cuts_number(text, start, end):
            return True
        start = text.find(entity, start + 1)
    return False


def _cuts_number(text: str, start: int, end: int) -> bool:
    # "5" is not in "3.5", nor "1" in "1,000".
    before = text[max(0, start - 2) : start]
    after = text[end : end + 2]
    cut_before = (
        len(before) == 2 and before[0].isdigit() and before[1] in ".," and text[start].isdigit()
    )
    cut_after = (
        len(after) == 2 and after[1].isdigit() and after[0] in ".," and text[end - 1].isdigit()
    )
    return cut_before or cut_after


def _flat(known: Analysis) -> str:
    return _flatten(known.text)


def _keys(known: Analysis) -> frozenset[str]:
    flat = known.kept(_flat)
    return date_keys(flat) | number_keys(flat)


def _unaccented(known: Analysis) -> str:
    return _without_accents(known.kept(_flat))


def _stemmed(known: Analysis) -> str:
    return _stem_line(known.tokens)


class EntityFinder:
    """Looks entities up in a list of texts; each text is prepared once, and only as far as needed.

    The forms that the tiers search are kept with the text (see `text.analysis`), so that a chunk
    that is retrieved again costs nothing.

    Args:
        texts: The contexts, in order. Blank ones mention nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [analyse(text) for text in texts]
        self._flat = [known.kept(_flat) for known in self._texts]

    def find(self, entity: str) -> EntityMatch | None:
        """Return the tier and the first text that mention `entity`, or None.

        All texts are tried at one tier before the next, so the tightest tier is reported.
        """
        wanted = normalise_entity(entity)
        if not wanted:
            return None
        for index, flat in enumerate(self._flat):
            if wanted in flat and _mentions(flat, wanted):
                return EntityMatch("string", index)
        return (
            self._find_number(wanted)
            or self._find_unaccented(wanted)
            or self._find_stems(wanted)
            or self._find_han(wanted)
        )

    def _find_number(self, wanted: str) -> EntityMatch | None:
        keys = _whole_keys(wanted)
        if not keys:
            return None
        for index, flat in enumerate(self._flat):
            if may_hold(flat, keys) and not keys.isdisjoint(self._texts[index].kept(_keys)):
                return EntityMatch("number", index)
        return None

    def _find_unaccented(self, wanted: str) -> EntityMatch | None:
        bare = _without_accents(wanted)
        if not bare:
            return None
        for index, flat in enumerate(self._flat):
            if bare == wanted and flat.isascii():
                continue  # neither has an accent to lose: the first tier has seen this
            if _mentions(self._texts[index].kept(_unaccented), bare):
                return EntityMatch("accents", index)
        return None

    def _find_stems(self, wanted: str) -> EntityMatch | None:
        stems = _stems(tokens(wanted))
        line = f" {' '.join(stems)} "
        if not line.strip():
            return None
        # A stem that is no stop word is among a text's content, or nowhere in it.
        needed = frozenset(stems) - STOP_WORDS
        for index, known in enumerate(self._texts):
            if needed <= known.content_set and line in known.kept(_stemmed):
                return EntityMatch("stems", index)
        return None

    def _find_han(self, wanted: str) -> EntityMatch | None:
        bare = _without_suffix(wanted)
        if bare == wanted:
            return None
        for index, flat in enumerate(self._flat):
            if bare in flat:
                return EntityMatch("han", index)
        return None


def _without_suffix(entity: str) -> str:
    # Two characters must remain: 城市 is a word of its own, not a city called 城.
    if len(entity) > 2 and entity.endswith(_HAN_SUFFIXES) and has_han(entity):
        return entity[:-1]
    return entity


def _whole_keys(wanted: str) -> frozenset[str]:
    """Normal forms of an entity that is nothing but a number or a date."""
    return date_keys(wanted, whole=True) or number_keys(wanted, whole=True)


def _all_keys(entity: str) -> frozenset[str]:
    """Every form under which one entity equals another, for lists of entities."""
    wanted = normalise_entity(entity)
    keys = {
        f"string:{wanted}",
        f"string:{_without_accents(wanted)}",
        f"stems:{_stem_line(tokens(wanted))}",
    }
    keys.add(f"string:{_without_suffix(wanted)}")
    keys.update(_whole_keys(wanted))
    return frozenset(keys)


def stands_in(entity: str, text: str) -> bool:
    """Return whether `text` mentions `entity`, by any of the tiers; a blank entity stands nowhere.

    The public question for whoever was handed an entity, by a judge for example, and wants to know
    whether the text has it.
    """
    return EntityFinder((text,)).find(entity) is not None


def entity_evidence(
    entities: Iterable[str], texts: Sequence[str], chunk_ids: Sequence[str]
) -> list[ScoreItem]:
    """Look every entity up in `texts`; return one item each, with the chunk and the tier.

    Args:
        entities: What to look for, in order.
        texts: The chunks' texts.
        chunk_ids: How the evidence names the chunk at the same position.
    """
    finder = EntityFinder(texts)
    items: list[ScoreItem] = []
    for number, entity in enumerate(entities, start=1):
        match = finder.find(entity)
        items.append(
            evidence_item(
                id=f"entity-{number}",
                verdict=match is not None,
                text=entity,
                evidence=chunk_ids[match.text_index] if match else None,
                reason=f"tier: {match.tier}" if match else "not found",
            )
        )
    return items


def entity_recall(
    reference_entities: Iterable[str], context_entities: Iterable[str], *, strict: bool = False
) -> float | None:
    """Which share of the reference's entities is among the contexts' entities?

    Args:
        reference_entities: What should have been found; repeats and blanks do not count.
        context_entities: What was found.
        strict: Compare the strings as they are, the plain |CE ∩ GE| / |GE| of ragas 0.4.3 (without
            its epsilon); otherwise two entities are equal when any tier says so.

    Returns:
        0.0 to 1.0, or None when there is no reference entity.
    """
    if strict:
        wanted_strings = {entity for entity in reference_entities if entity.strip()}
        if not wanted_strings:
            return None
        return len(wanted_strings & set(context_entities)) / len(wanted_strings)
    wanted = distinct_entities(reference_entities)
    if not wanted:
        return None
    found: set[str] = set()
    for entity in context_entities:
        if normalise_entity(entity):
            found.update(_all_keys(entity))
    return sum(not found.isdisjoint(_all_keys(entity)) for entity in wanted) / len(wanted)
