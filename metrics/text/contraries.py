"""Finds what an answer reverses: the sign of a temperature, the era of a year, the month.

`facts` calls this for numbers whose value some chunk has, and for months that none has. Only where the chunks
have nothing but the contrary does it count.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap

from .dates import date_keys, date_spans, month_number
from .number_words import BESIDE, spelled_places
from .quantities import Quantity, quantities
from .word_lists import read_pattern

_SIGNS = (
    *("degree", "celsius", "fahrenheit", " bc", " b.c", " b. c", " a.d", " a. d"),
    *(f" {era}{end}" for era in ("ad", "ce") for end in " .,;)"),
)
_OTHER_SIGNS = (*_SIGNS, *"° градус мороз 度 ℃ эры н.э н. 公元 西元".split())
"""Every sentence with a number that `is_contrary` has one of these, which are cheap to search for."""
_MONTHS = tuple("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
_MONTHS_ELSEWHERE = (*_MONTHS, *"янв фев март апрел мая мае июн июл август сент окт нояб декаб 月".split())
_CHANGES = read_pattern("contraries.changes")
"""Words beside a temperature that make it a difference."""
_BELOW = read_pattern("contraries.below")
_ERA_AFTER = read_pattern("contraries.era_after")
_ERA_BEFORE = read_pattern("contraries.era_before")
_MONTH = read_pattern("contraries.month")
_BEFORE_MONTH = read_pattern("contraries.before_month")
_DAY_AFTER = re.compile(r"\.? \d")
_ANY_MONTH = read_pattern("contraries.any_month")
_MONTHS_APART = read_pattern("contraries.months_apart")
_HAN_MONTHS = "一 二 三 四 五 六 七 八 九 十 十一 十二".split()


def may_be_contrary(low: str) -> bool:
    """Return whether a sentence in lower case may have a number that `is_contrary`; False is certain."""
    return any(map(low.__contains__, _SIGNS if low.isascii() else _OTHER_SIGNS))


def may_state_month(text: str) -> bool:
    """Return whether a text may have one of its `stated_months`: False is certain, and cheap."""
    return any(map(text.__contains__, _MONTHS if text.isascii() else _MONTHS_ELSEWHERE))


def is_contrary(said: str, one: Quantity, texts: Iterable[str]) -> bool:
    """Return whether the texts have this number only with the other sign or of the other era.

    Args:
        said: The answer's sentence, from `amounts.flat`.
        one: The number.
        texts: The chunks and the question, likewise.
    """
    for side in (_sign, _era):
        own = side(said, one)
        if own is None:
            continue
        bare = _bare(one.keys)
        there = {side(text, other) for text in texts for other in quantities(text) if bare & _bare(other.keys)}
        value = min(bare)
        if f"number:{value}|century" in one.keys:
            ends = [(text, end) for text in texts for _, end in spelled_places(text, value)]
            there |= {found and found.lastgroup for found in starmap(_ERA_AFTER.match, ends)}
        if there == {_OTHER[own]}:
            return True
    return False


_OTHER = {"+": "-", "-": "+", "ad": "bc", "bc": "ad"}


def _bare(keys: Iterable[str]) -> frozenset[str]:
    return frozenset([key.partition(":")[2].partition("|")[0].lstrip("-") for key in keys])


def _sign(text: str, one: Quantity) -> str | None:
    """Return the sign of a temperature; None: it has none, or is a difference."""
    before, after = text[max(0, one.start - BESIDE) : one.start], text[one.end : one.end + BESIDE]
    if not any(key.endswith(("|°", "|°c", "|°f")) for key in one.keys):
        return None
    if _CHANGES.search(before):
        return None
    written = f"{before[-3:]}{text[one.start : one.end]}{after}"
    if any(key.startswith("number:-") for key in one.keys) or _BELOW.search(written):
        return "-"
    return None if before.endswith(("-", "~", "..", "/")) else "+"


def _era(text: str, one: Quantity) -> str | None:
    """Return the era of a year or century where it is named."""
    if any(key.endswith("|bc") for key in one.keys) or text.startswith("公元前", one.start):
        return "bc"
    found = _ERA_AFTER.match(text, one.end) or _ERA_BEFORE.search(text[max(0, one.start - BESIDE) : one.start])
    return found and found.lastgroup


def has_month(number: int, texts: Iterable[str], dates: Callable[[], Iterable[str]]) -> bool:
    """Return whether texts name a month, or one of their dates is in it, by the keys of `dates`."""
    if any(_number_of(one[0]) == number for text in texts for one in _ANY_MONTH.finditer(text)):
        return True
    wanted = re.compile(rf"date:(?:-|\d{{4}})-{number:02d}\b")
    return any(map(wanted.match, dates()))


def stated_months(text: str) -> list[tuple[str, int]]:
    """Return the months of an answer's sentence, and their numbers; none beside a number of months."""
    found = [(one[0], _number_of(one[0])) for one in _MONTH.finditer(text) if _is_month(text, one)]
    return [] if found and _MONTHS_APART.search(text) else found


def _is_month(text: str, found: re.Match[str]) -> bool:
    """Return whether a match is certainly a month, and not a verb or the name of a person."""
    start, end = found.span()
    return (
        found["english"] is None
        or _BEFORE_MONTH.search(text[max(0, start - BESIDE) : start]) is not None
        or _DAY_AFTER.match(text, end) is not None
    )


def other_month(sentence: str, month: str, said: str) -> str | None:
    """Return a month of a chunk's sentence for which another one stands in the answer's.

    None: it has no month, or the answer names one that lies between two of its months.
    """
    there = [one[0] for one in _ANY_MONTH.finditer(sentence)]
    numbers = [*map(_number_of, there)]
    if not there:
        there = [sentence[start:end] for start, end in date_spans(sentence)]
        numbers = [int(key[10:12]) for one in there for key in sorted(date_keys(one, whole=True))]
    if len(there) > 1 and len(stated_months(said)) == 1 and _lies_between(_number_of(month), numbers):
        return None
    return there[0] if there else None


def _lies_between(month: int, ends: Sequence[int]) -> bool:
    first, last = ends[0], ends[-1]
    return first <= month <= last if first <= last else month >= first or month <= last


def _number_of(written: str) -> int:
    if written.endswith("月"):
        plain = written[:-1]
        return _HAN_MONTHS.index(plain) + 1 if plain in _HAN_MONTHS else int(plain)
    return month_number(written.lower())
