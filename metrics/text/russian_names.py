"""Whether two Russian words can be cases of one name.

`names` calls this. Snowball's stemmer is made for search: for it Иванов and Иван, Петров and Петра are one
word. Here a word is split by the declensions of names, and two words are one name if one declension yields
the same stem for both.
"""

from functools import lru_cache

from .word_lists import read_entries

_DECLENSIONS = {
    declension: tuple(ending.strip("-") for ending in endings)
    for declension, endings in read_entries("declensions").items()
}
_SURNAME = ("", "а", "у", "ым", "ом", "е", "ой", "ы", "ых", "ыми")
_SURNAME_STEMS = ("ов", "ев", "ин", "ын")
_STEM_ENDS = {"hard": "бвгджзклмнпрстфхцчшщ", "hushing": "жшчщц"}
"""The final consonants of a declension's stems, where endings alone would be ambiguous."""

_SHORTEST_STEM = 2


@lru_cache(maxsize=20_000)
def name_stems(word: str) -> frozenset[tuple[str, str]]:
    """Return the declensions that a casefolded word can follow, each with its stem."""
    if word.isascii():
        return frozenset()
    found: set[tuple[str, str]] = set()
    for declension, endings in _DECLENSIONS.items():
        for ending in endings:
            if word.endswith(ending):
                stem = word[: len(word) - len(ending)] if ending else word
                if len(stem) >= _SHORTEST_STEM and _STEM_ENDS.get(declension, stem[-1:]).count(stem[-1]):
                    found.add((declension, stem))
    for ending in _SURNAME:
        stem = word[: len(word) - len(ending)] if ending else word
        if word.endswith(ending) and stem.endswith(_SURNAME_STEMS) and len(stem) > 3:
            found.add(("surname", stem))
    if word.endswith("лев") or word.startswith("льв"):
        found |= {("lion", "") for form in _DECLENSIONS["lion"] if form == word}
    return frozenset(found)


def same_russian_name(one: str, other: str) -> bool:
    """Return whether two casefolded words, with е for ё, can be cases of one name."""
    if one == other:
        return True
    return one[:1] == other[:1] and not name_stems(one).isdisjoint(name_stems(other))
