"""Numbers as words, in English, Russian and Chinese: two hundred and five, сто двадцать, 半年.

`facts` calls this for the numbers that no chunk has in figures.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain

from .stems import CONTENT
from .units import UNIT
from .word_lists import read_entries

_WORDS = read_entries("spelled_numbers")
_SPELLED = _WORDS.keys() | {f"{tens}{ones}" for tens in range(2, 10) for ones in range(1, 10)}
"""Numbers whose words are known."""
_PARTS = {**read_entries("number_parts")}
for _value, _forms in read_entries("cardinals").items():
    _PARTS[_value] = [*_PARTS.get(_value, ()), *_forms]
_VALUES = list(map(float, _PARTS))
_LEAST_SCALE = 1000.0
_UNITS = read_entries("units")
_NO_LETTERS = re.compile(r"\W+")
BESIDE = 24
"""Characters beside a number that may contain its unit, or words about it."""
_FEW = 4
"""Parts of them, the first often empty, that may be it: four to six hours; four tablets in 24 hours is none."""
_EXACT = frozenset(form for forms in _PARTS.values() for form in forms if form.isalpha())
"""The forms that are one word; the others are regular expressions."""
_STEMS = frozenset(
    max(re.findall("[a-zа-я]+", form), key=len)
    for forms in _PARTS.values()
    for form in forms
    if not form.isalpha()
)
"""The longest word in each of those."""


@cache
def _spelling_pattern(value: str) -> re.Pattern[str]:
    """Return the pattern of the words for one of `_SPELLED`."""
    words = _WORDS.get(value)
    if words is None:  # twenty-three
        tens, ones = _WORDS[f"{value[0]}0"], _WORDS[value[1]]
        words = [f"(?:{'|'.join(tens)})[ -]?(?:{'|'.join(ones)})"]
    return re.compile(rf"(?<![a-zа-я])(?:{'|'.join(words)})(?![a-z])")


def spells(text: str, value: str) -> bool:
    """Return whether a text in lower case may have a number as a word in any sense: half is 2 and 50."""
    return value in _SPELLED and _spelling_pattern(value).search(text) is not None


def spelled_places(text: str, value: str) -> list[tuple[int, int]]:
    """Return where the words start and end by which a text in lower case `spells` a number."""
    return [one.span() for one in _spelling_pattern(value).finditer(text)] if value in _SPELLED else []


def spells_amount(text: str, value: str, units: frozenset[str]) -> bool:
    """Return whether a text in lower case `spells` a number, and near it what begins like a unit.

    A word such as полгода, which is more than a number, needs no unit.
    """
    spelled = {spelling for unit in units for spelling in _UNITS[unit]}
    begun = tuple({spelling[:3] for spelling in spelled if len(spelling) > 2})
    for start, end in spelled_places(text, value):
        near = _NO_LETTERS.split(text[end : end + BESIDE])[:_FEW]
        bare = _run_pattern()[0].fullmatch(text, start, end) is not None
        if not bare or any(word in spelled or word.startswith(begun) for word in near):
            return True
    return False


def small_value(word: str) -> float:
    """Return the number from 1 to 20 in a word or figures, or 0."""
    if word.isdecimal():
        return float(word)
    return next((n for n in range(1, 21) if word in _WORDS[str(n)]), 0)


@cache
def _run_pattern() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of one number word and of a run of them."""
    word = "|".join(f"(?P<n{at}>{'|'.join(forms)})" for at, forms in enumerate(_PARTS.values()))
    plain = "|".join("|".join(forms) for forms in _PARTS.values())
    part = rf"(?:{plain})(?![a-zа-я])"
    return re.compile(rf"(?:{word})(?![a-zа-я])"), re.compile(rf"(?<![a-zа-я]){part}(?:[ -](?:and )?{part})*")


def spelled_values(text: str, words: Iterable[str]) -> frozenset[str]:
    """Return the numbers of English and Russian words in a text in lower case, ё as е: two hundred and five.

    Args:
        text: The text.
        words: Its words: most texts have none for a number, which takes a tenth of the search.
    """
    if _EXACT.isdisjoint(words) and not any(map(text.__contains__, _STEMS)):
        return frozenset()
    return frozenset([value for _, _, value in _runs(text)])


def spelled_amounts(text: str) -> list[tuple[int, int, int, str]]:
    """Return start, end, end with the unit, and value of the numbers above one that are words before a unit.

    Of a text as `spelled_values` reads it.
    """
    found: list[tuple[int, int, int, str]] = []
    for start, end, value in _runs(text):
        unit = UNIT.match(text, end)
        of_figures = text[:start].rstrip(" -")[-1:].isdecimal()  # 4.3 billion dollars
        if unit is not None and value not in ("0", "1") and not of_figures:
            found.append((start, end, unit.end(1), value))
    return found


def number_stems() -> frozenset[str | None]:
    """Return the terms of words for numbers: a text without any has no `spelled_amounts`."""
    words = filter(str.isalpha, chain.from_iterable(_WORDS.values()))
    return frozenset(map(CONTENT.__getitem__, {*_EXACT, *_STEMS, *words}))


def _runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and value of each run of number words."""
    word, run = _run_pattern()
    for run_found in run.finditer(text):
        whole = section = 0.0
        for one in word.finditer(run_found[0]):
            value = _VALUES[int((one.lastgroup or "n0")[1:])]
            if value >= _LEAST_SCALE or one[0] in ("hundred", "dozen"):
                section = (section or 1.0) * value
            else:
                section += value
            if value >= _LEAST_SCALE:
                whole, section = whole + section, 0.0
        yield *run_found.span(), f"{whole + section:.10g}"
