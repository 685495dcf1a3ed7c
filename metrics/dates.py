"""Normal forms of the numbers and dates in a text, in English, Russian and Chinese.

`entities` alone calls this, with text that is casefolded and has single spaces.  A date's key is
``date:1960-04-21``, a number's ``number:1000``; ambiguous spellings give every reading.
"""

import re
from collections.abc import Iterable

__all__ = ["date_keys", "date_spans", "may_hold", "number_keys"]

_MONTHS = (
    ("january", "jan", "январ", "янв"),
    ("february", "feb", "феврал", "фев"),
    ("march", "mar", "март", "мар"),
    ("april", "apr", "апрел", "апр"),
    ("may", "may", "ма[йяею]", "мая"),
    ("june", "jun", "июн", "июн"),
    ("july", "jul", "июл", "июл"),
    ("august", "aug", "август", "авг"),
    ("september", "sept?", "сентябр", "сент?"),
    ("october", "oct", "октябр", "окт"),
    ("november", "nov", "ноябр", "нояб?"),
    ("december", "dec", "декабр", "дек"),
)
_MONTH_PATTERNS = tuple(
    re.compile(rf"(?:{full}|{short}|{russian}[а-яё]{{0,3}}|{brief})\.?\Z")
    for full, short, russian, brief in _MONTHS
)
_MONTH = r"([a-zа-яё]{3,10}\.?)"
_YEAR = r"(\d{4})"
_DAY = r"(\d{1,2})"
_DAY_MONTH_YEAR = re.compile(
    rf"(?<!\d){_DAY}(?:st|nd|rd|th|-?е|-?го)?(?: of)? {_MONTH},? {_YEAR}(?!\d)"
)
_MONTH_DAY_YEAR = re.compile(rf"(?<![a-zа-яё]){_MONTH} {_DAY}(?:st|nd|rd|th)?,? {_YEAR}(?!\d)")
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_NUMERIC = re.compile(r"(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d)")
_HAN_DATE = re.compile(r"(?<!\d)(\d{4}) ?年 ?(\d{1,2}) ?月 ?(\d{1,2}) ?[日号]")
_FOUR_DIGITS = re.compile(r"\d{4,}")
_AFTER_YEAR = re.compile(r"[-/.]\d| ?年")
_DIGIT = re.compile(r"\d")
_LONGEST_BEFORE_YEAR = 24
"""Characters that the day and the month may take before the year, with room to spare."""
_YEAR_WORD = re.compile(r" ?(?:года|году|год|г\.?|year)\Z")

_GROUPS = r"(?:[,'\u00a0\u2009\u202f ]\d{3})+(?:\.\d+)?"
_GROUPED = rf"\d{{1,3}}{_GROUPS}"
# The grouped form may not begin after a digit, a full stop or a comma.  Both forms begin with the
# same digit, so that the search jumps from digit to digit.
_NUMBER = re.compile(rf"\d(?:(?<![\d.,]\d)\d{{0,2}}{_GROUPS}(?!\d)|\d*(?:[.,]\d+)*)")
_POINTS = re.compile("[.,]")
_SEPARATORS = re.compile("[,' \u00a0\u2009\u202f]")
_ONLY_NUMBER = re.compile(rf"[-+~≈№#$€£¥₽]? ?({_GROUPED}|\d+(?:[.,]\d+)*) ?[%$€£¥₽]?\Z")


def _key(year: str, month: int, day: int) -> str | None:
    if 1 <= month <= 12 and 1 <= day <= 31:
        return f"date:{int(year):04d}-{month:02d}-{day:02d}"
    return None


def _month_number(word: str) -> int:
    for number, pattern in enumerate(_MONTH_PATTERNS, start=1):
        if pattern.match(word):
            return number
    return 0


def _may_hold_date(text: str) -> bool:
    """Tell whether what stands beside a year can be the rest of a date.

    Most years in prose stand alone; trying every form at every character costs more than all
    else that is done with a text.
    """
    for year in _FOUR_DIGITS.finditer(text):
        start, end = year.span()
        if end - start > 4:  # every form has a year of four digits, and no digit beside it
            continue
        before = text[max(0, start - _LONGEST_BEFORE_YEAR) : start]
        if before[-1:] in (" ", "-", "/", ".") and _DIGIT.search(before) is not None:
            return True
        if _AFTER_YEAR.match(text, end):
            return True
    return False


def date_keys(text: str, *, whole: bool = False) -> frozenset[str]:
    """Return the keys of the full dates in `text`; with `whole`, only if it is one date."""
    if not _may_hold_date(text):
        return frozenset()
    if whole:
        text = _YEAR_WORD.sub("", text)
    keys: set[str | None] = set()

    def add(match: re.Match[str], year: str, month: int, day: int) -> None:
        if not whole or match.end() - match.start() == len(text):
            keys.add(_key(year, month, day))

    for match in _DAY_MONTH_YEAR.finditer(text):
        add(match, match[3], _month_number(match[2]), int(match[1]))
    for match in _MONTH_DAY_YEAR.finditer(text):
        add(match, match[3], _month_number(match[1]), int(match[2]))
    for match in (*_ISO.finditer(text), *_HAN_DATE.finditer(text)):
        add(match, match[1], int(match[2]), int(match[3]))
    for match in _NUMERIC.finditer(text):
        # 04/05/1960 is the fourth of May or the fifth of April: both.
        add(match, match[4], int(match[3]), int(match[1]))
        add(match, match[4], int(match[1]), int(match[3]))
    return frozenset(key for key in keys if key is not None)


def date_spans(text: str) -> list[tuple[int, int]]:
    """Return where the full dates of `text`, as written, begin and end, without overlaps."""
    small = text.lower()
    if len(small) != len(text):  # some capital has a longer small form: places would shift
        return []
    if not _may_hold_date(small):
        return []
    spans: list[tuple[int, int]] = []
    for pattern in (_DAY_MONTH_YEAR, _MONTH_DAY_YEAR, _ISO, _NUMERIC, _HAN_DATE):
        for match in pattern.finditer(small):
            start, end = match.span()
            if date_keys(small[start:end]) and not any(a < end and start < b for a, b in spans):
                spans.append((start, end))
    return sorted(spans)


def number_keys(text: str, *, whole: bool = False) -> frozenset[str]:
    """Return the keys of the numbers in `text`; with `whole`, only if it is one number."""
    if whole:
        only = _ONLY_NUMBER.match(text)
        return _readings(only[1]) if only else frozenset()
    keys: set[str] = set()
    for match in _NUMBER.finditer(text):
        keys |= _readings(match[0])
        if " " in match[0]:
            # "in 2004 300 people": the parts may be numbers of their own.
            for part in match[0].split(" "):
                keys |= _readings(part)
    return frozenset(keys)


def may_hold(text: str, keys: Iterable[str]) -> bool:
    """Tell whether `text` may have one of `keys`; no is certain, and costs next to nothing.

    Whatever the separators, the last three digits of a number stand together in the text, and so
    do those of its fraction and of a date's year.
    """
    for key in keys:
        kind, _, rest = key.partition(":")
        if kind == "date":
            # A year is read from the digits of any script.
            if rest[:4] in text or not text.isascii():
                return True
        elif all(part[-3:] in text for part in _POINTS.split(rest)):
            return True
    return False


def _readings(number: str) -> frozenset[str]:
    if number.isdecimal():
        return frozenset((_plain(number),))
    if re.fullmatch(_GROUPED, number):
        return frozenset({_plain(_SEPARATORS.sub("", number))})
    if number.count(",") == 1 and "." not in number:
        return frozenset({_plain(number.replace(",", "."))})  # a decimal comma
    if number.count(".") <= 1 and "," not in number:
        return frozenset({_plain(number)})
    return frozenset({f"number:{number}"})


def _plain(number: str) -> str:
    whole, _, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    # lstrip rather than int(): Python refuses to read numbers of thousands of digits.
    whole = whole.lstrip("0") or "0"
    return f"number:{whole}.{fraction}" if fraction else f"number:{whole}"
