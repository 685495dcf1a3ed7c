"""Normal forms of the dates in a text, in English, Russian and Chinese.

`entities` and `named_entities` call this, with text that is casefolded and has single spaces. A date's key is
``date:1960-04-21``, ``date:1960-04`` or ``date:--04-21``; ambiguous spellings have every reading. A full date
mentions its month and its year as well.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from .numerals import HAN_NUMERAL, han_value
from .word_lists import read_entries, read_pattern

_MONTHS = tuple(read_entries("months").values())
_MONTH_PATTERNS = tuple(re.compile(rf"(?:{'|'.join(forms)})\.?\Z") for forms in _MONTHS)
_MONTH = rf"((?:{'|'.join(form for forms in _MONTHS for form in forms)})(?![a-zа-яё])\.?)"
_MONTH_WORD = re.compile(_MONTH)
_YEAR = r"(\d{4})(?!\d)"
_DAY = r"(\d{1,2})"
_NTH = r"(?:st|nd|rd|th|-?е|-?го)?"
_AND = r" ?(?:-|,| to| and| по| и|至|到) ?(?:the )?"
_DAY_MONTH = re.compile(
    rf"(?<![\d.,-])(?:{_DAY}{_NTH}{_AND})?{_DAY}{_NTH}(?: of)? {_MONTH}(?:,? (?:of )?{_YEAR})?"
)
_MONTH_DAY = re.compile(
    rf"(?<![a-zа-яё]){_MONTH} (?:the )?{_DAY}{_NTH}(?!\d|[.,:]\d|%)(?:{_AND}{_DAY}{_NTH}(?!\d))?"
    rf"(?:,? {_YEAR})?"
)
_MONTH_YEAR = re.compile(rf"(?<![a-zа-яё]){_MONTH},? (?:of )?{_YEAR}")
_ISO = re.compile(r"(?<!\d)(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)|(?<!\d)((?:19|20)\d\d)(\d\d)(\d\d)(?!\d)")
_NUMERIC = re.compile(
    r"(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d)|(?<![\d.-])(\d\d)([-/.])(\d\d)\6(\d\d)(?![-.]?\d)"
)
_PARTED = re.compile(r"[-/.]\d{1,2}[-/.]\d|(?<!\d)(?:19|20)\d{6}(?!\d)")
"""The inside of a date in digits, cheap to search for."""
_HAN_DATE = re.compile(r"(?:(?<!\d)(\d{4}) ?年 ?)?(?<!\d)(\d{1,2}) ?月(?: ?(\d{1,2}) ?[日号號])?")
_HAN_DATE_IN_HAN = re.compile(
    r"(?:[〇零一二三四五六七八九]{4}年)?[一二三四五六七八九十]{1,2}月(?:[一二三四五六七八九十]{1,3}[日号號])?"
)
_DIGIT = re.compile("[0-9〇零一二三四五六七八九十](?:(?<=[0-9])|[年月日])")
_ANY_MONTH = read_pattern("dates.any_month")
_NUMBER = re.compile(r"\d+")
_REACH = 40
"""Longest distance in a date from one of its numbers to its ends, in characters, generously."""
_NEAR = 20
"""Longest distance from the first letters of a month to its day or year, in characters, generously."""
_YEAR_WORD = re.compile(r" ?(?:года|году|год|г\.?|year)\Z")

_Spotted = tuple[int, int, frozenset[str]]


def _key(year: str | None, month: int, day: str | None) -> str | None:
    if not 1 <= month <= 12 or (day is not None and not 1 <= int(day) <= 31):
        return None
    start = f"{int(year):04d}-{month:02d}" if year else f"--{month:02d}"
    return f"date:{start}" if day is None else f"date:{start}-{int(day):02d}"


def month_number(word: str) -> int:
    """Return the number of the month that a word names, 1 to 12, or 0."""
    for number, pattern in enumerate(_MONTH_PATTERNS, start=1):
        if pattern.match(word):
            return number
    return 0


def _date_spots(match: re.Match[str], year: str | None, month: int, *days: str | None) -> Iterable[_Spotted]:
    keys = (_key(year, month, day) for day in days if day is not None or len(days) == 1)
    if known := frozenset(filter(None, keys)):
        yield match.start(), match.end(), known


def _of_numeric(match: re.Match[str]) -> Iterable[_Spotted]:
    # 04/05/1960 may be the fourth of May or the fifth of April: both count.
    first, second = match[1] or match[5], match[3] or match[7]
    years = [match[4]] if match[4] else [f"{century}{match[8]}" for century in (19, 20)]
    orders = ((first, second), (second, first))
    keys = (_key(year, int(month), day) for day, month in orders for year in years)
    if known := frozenset(filter(None, keys)):
        yield match.start(), match.end(), known


def _of_han(match: re.Match[str]) -> Iterable[_Spotted]:
    if match[1] or match[3]:  # 4月 alone is as good as four months
        yield from _date_spots(match, match[1], int(match[2]), match[3])


def _of_han_in_han(match: re.Match[str]) -> Iterable[_Spotted]:
    written = HAN_NUMERAL.sub(lambda numeral: han_value(numeral[0]) or "0", match[0])
    digits = _HAN_DATE.fullmatch(written)
    if digits is not None:
        for _, _, keys in _of_han(digits):
            yield match.start(), match.end(), keys


_Form = tuple[re.Pattern[str], Callable[[re.Match[str]], Iterable[_Spotted]]]
_DIGIT_FORMS: tuple[_Form, ...] = (
    (
        _ISO,
        lambda found: _date_spots(found, found[1] or found[5], int(found[3] or found[6]), found[4] or found[7]),
    ),
    (_NUMERIC, _of_numeric),
)
_MONTH_FORMS: tuple[_Form, ...] = (
    (_DAY_MONTH, lambda one: _date_spots(one, one[4], month_number(one[3]), one[2], one[1])),
    (_MONTH_DAY, lambda one: _date_spots(one, one[4], month_number(one[1]), one[2], one[3])),
    (_MONTH_YEAR, lambda one: _date_spots(one, one[2], month_number(one[1]), None)),
)
_HAN_FORMS: tuple[_Form, ...] = ((_HAN_DATE, _of_han), (_HAN_DATE_IN_HAN, _of_han_in_han))


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Return the parts of `text` around numbers, from space to space: each date is inside one."""
    start = end = -1
    for number in _NUMBER.finditer(text):
        if number.end() <= end - _REACH // 2:
            continue
        left, right = max(0, number.start() - _REACH), min(len(text), number.end() + _REACH)
        left = max(0, text.rfind(" ", max(0, left - _REACH), left))
        if left > end:
            if end > start:
                yield start, end
            start = left
        space = text.find(" ", right, right + _REACH)
        end = right if space < 0 else space
    if end > start:
        yield start, end


def _has_dated_month(text: str) -> bool:
    return any(
        _MONTH_WORD.match(text, month.start())
        and _NUMBER.search(text, max(0, month.start() - _NEAR), month.end() + _NEAR)
        for month in _ANY_MONTH.finditer(text)
    )


@lru_cache(maxsize=8)  # keys and positions of one text are requested in turn
def _date_spots_in(text: str) -> tuple[_Spotted, ...]:
    """Return the dates in reading order, without overlaps: the form that begins first takes precedence."""
    if _DIGIT.search(text) is None:
        return ()
    forms = _DIGIT_FORMS if _PARTED.search(text) else ()
    if "月" in text:
        forms += _HAN_FORMS
    every = [found for pattern, read in forms for match in pattern.finditer(text) for found in read(match)]
    # Searching for month names everywhere costs more than all the rest: they are near a number.
    for start, end in _windows(text) if _has_dated_month(text) else ():
        if _ANY_MONTH.search(text, start, end):
            every += [
                found
                for pattern, read in _MONTH_FORMS
                for match in pattern.finditer(text, start, end)
                for found in read(match)
            ]
    # Of two that begin together, the more complete one.
    every.sort(key=lambda found: (found[0], -found[1]))
    kept: list[_Spotted] = []
    end = 0
    for found in every:
        if found[0] >= end:
            kept.append(found)
            end = found[1]
    return tuple(kept)


def _implied_keys(key: str) -> set[str]:
    """Return the other keys that a date implies: April 21, 1960 is a day in April 1960."""
    date = key.partition(":")[2]
    if date.startswith("--"):
        return set()
    year = f"number:{date[:4].lstrip('0') or '0'}"
    return {year, f"date:{date[:7]}", f"date:-{date[4:]}"} if len(date) > 7 else {year}


def date_keys(text: str, *, whole: bool = False) -> frozenset[str]:
    """Return the keys of the dates in `text`; with `whole`, only if it is one date.

    Without `whole` the month, the day and the year of a fuller date are mentioned, too.
    """
    if whole:
        text = _YEAR_WORD.sub("", text)
        for start, end, found in _date_spots_in(text):
            if start == 0 and end == len(text):
                return found
        return frozenset()
    keys = set[str]()
    for _, _, found in _date_spots_in(text):
        keys.update(found)
        keys.update(*map(_implied_keys, found))
    return frozenset(keys)


def date_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each date in `text`, without overlaps."""
    small = text.lower()
    if len(small) != len(text):  # some capital letter has a longer small form: indexes would shift
        return []
    return [(start, end) for start, end, _ in _date_spots_in(small)]
