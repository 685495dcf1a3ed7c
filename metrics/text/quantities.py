"""Find the numbers of a text with their sign, power of ten, unit and currency.

`dates` and the entity modules call this, with text in NFKC that is casefolded and has single spaces. A key is
the value of a number, independent of language and spelling: ``number:1000``, ``number:-5``,
``number:5000000|$``, ``number:5|km``. Ambiguous spellings have every reading. Numbers of different keys are
different: -5, 5, 5 % and $5, and 5 km and 5 alone.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from .numerals import HAN_NUMERAL, HAN_NUMERALS, decimal, han_value, roman_value, shift
from .times import may_have_times, times
from .units import POWERS, PREFIX, PREFIX_ENDS, SCALE, SCALES, UNIT, UNIT_STARTS, units_of


class Quantity(NamedTuple):
    """A number, or a range of two, in a text."""

    start: int
    """Start, including sign and currency."""
    end: int
    """End, including the unit, but not a following word for "year"."""
    keys: frozenset[str]
    """Keys of its readings."""
    reach: int
    """End of a following word for "year"; else `end`."""


_GROUPS = r"(?:(?:[,']\d{3})+(?:\.\d+)?|(?:[\u00a0\u2009\u202f ]\d{3})+(?:[.,]\d+(?![.,]?\d))?)"
_GROUPED = re.compile(rf"\d{{1,3}}{_GROUPS}")
_INDIAN = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_POINTED = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}(?:\.\d{3})+,\d+")
# The grouped form may not begin after a digit, a full stop or a comma. Both forms begin with the same digit,
# so that the search jumps from digit to digit.
_NUMBER = re.compile(rf"\d(?:(?<![\d.,]\d)\d{{0,2}}{_GROUPS}(?!\d)|\d*(?:[.,]\d+)*)")
_POINTS = re.compile("[.,]")
_SEPARATORS = re.compile("[,']")
_SPACES = re.compile("[ \u00a0\u2009\u202f]")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_HAN_LETTER = re.compile("[\u3005\u3007\u3041-\u30ff\u3400-\u9fff]")
"""Kana, too."""

_ORDINAL_END = r"(?:st|nd|rd|th|-?(?:ый|ой|ий|ого|его|ому|ему|ым|ом|ая|ую|ое|ые|ых|й|я|е|го|му|м|х|ю))"
_ORDINAL = re.compile(rf"{_ORDINAL_END}(?![^\W])")
_CENTURY = re.compile(
    rf"{_ORDINAL_END}?[ -](?:century|centuries|век[а-я]{{0,3}}|столети[а-я]{{1,2}}|вв?\.)(?!\w)|世纪|世紀"
)
_DECADE = re.compile(r"(?:'?s|-?(?:е|х|ые|ых)(?: (?:годы|годов|годах|гг?\.?))?)(?!\w)|年代")
_YEAR = re.compile(rf"{_ORDINAL_END}? ?(?:год[а-я]{{0,2}}|гг?\.?)(?!\w)|-(?:го|м|й)(?!\w)| ?年(?!代|级)")
_ERA = re.compile(r" ?(?:bce?(?!\w)|b\. ?c\.(?: ?e\.)?|до н\. ?э\.?|до нашей эры)")
ROMAN_CENTURY = re.compile(
    r"([ivx](?<!\w[ivx])[ivx]{0,5})(?:-[а-я]{1,3})? (?:век[а-я]{0,3}|столети[а-я]{1,2}|вв?\.|century)"
)
_COMPOUND = re.compile(r"[亿億](?P<of_4>\d{1,4}|\d千)[万萬]|[万萬](?P<of_1>\d)千")  # 3亿5000万, 3万5千
_MINUS_AFTER = " ([{~≈,;:/=«\"'"
_SCALED = re.compile(rf"\d(?!\d)(?:{SCALE.pattern})")
"""A number multiplied by a word or letter; begins with a digit, so that the search jumps to them."""
_ASCII_SCALED = re.compile(r"[0-9]([ -]?[a-z]+)(?!\w)")
"""The same for a text without other letters, if it contains one of `SCALES`: a tenth of the time."""
_HAN_POWER = re.compile("[百千万萬亿億]")
_OTHER_DIGIT = re.compile(rf"[\d{HAN_NUMERALS}](?<![0-9])")
_BETWEEN = re.compile(r" ?(?:-|~|\.\.\.?) ?| (?:to|and|до|по|и) |至|到|和")
_BEFORE_WHOLE = re.compile(r"(?:the )?(?:year )?[~≈№#+ ]*\Z")
_BELONGING_BEFORE = (*PREFIX_ENDS, "百分之", "公元前", "第")
_PLAIN_AFTER = re.compile(r" (?:\d|([a-z]+))|[.,;:)\]](?: |\Z)|\Z")
_BELONGING_WORDS = UNIT_STARTS | {"century", "centuries", "b", "bc", "bce"}
_BEFORE_YEAR = ("mid-", "pre-", "post-", "early-", "late-")
_COUNTED = re.compile(r"(?<=\w)(?: people| persons| человека?|人|名|个|位)\Z")
"""Counting words after bare numbers that do not change the value."""
_EDGE = 14
"""Longest text before a number that can belong to it, in characters, generously."""


def _readings(number: str, *, comma: bool) -> frozenset[str]:
    """Return the possible values of the digits and separators of `number`.

    Args:
        number: Digits with points, commas or spaces inside.
        comma: Whether a comma may be a decimal comma even before three digits.
    """
    if number.isdecimal():
        return frozenset((decimal(number),))
    if _GROUPED.fullmatch(number) or _INDIAN.fullmatch(number):
        if _SPACES.search(number):
            return frozenset((decimal(_SPACES.sub("", number).replace(",", ".")),))
        values = {decimal(_SEPARATORS.sub("", number))}
        if comma and number.count(",") == 1 and "." not in number:
            values.add(decimal(number.replace(",", ".")))
        return frozenset(values)
    if _POINTED.fullmatch(number):  # 1.234.567,8 as on the European continent
        return frozenset((decimal(number.replace(".", "").replace(",", ".")),))
    if number.count(",") == 1 and "." not in number:
        return frozenset((decimal(number.replace(",", ".")),))
    if number.count(".") <= 1 and "," not in number:
        return frozenset((decimal(number),))
    return frozenset((number,))


def _is_word(letter: str) -> bool:
    """Return whether digits beside it are part of a word: not in scripts that join particles to a number."""
    return letter.isalnum() and (letter < "\u0530" or "\u1dff" < letter < "\u2000")


class _Number(NamedTuple):
    """One number before ranges are joined."""

    start: int
    end: int
    reach: int
    values: frozenset[str]
    units: frozenset[str]
    sign: str
    scale: int

    def keys(self, units: frozenset[str] | None = None, scale: int | None = None) -> set[str]:
        power = self.scale if scale is None else scale
        if units is None and self.units is _NO_UNIT and not (power or self.sign):
            return {f"number:{value}" for value in self.values}
        names = self.units if units is None else units
        return {
            f"number:{_amount(self.sign, value, power)}{f'|{name}' if name else ''}"
            for value in self.values
            for name in names
        }


_NO_UNIT = frozenset(("",))


def _amount(sign: str, value: str, power: int) -> str:
    if power and value.count(".") <= 1 and "," not in value:
        value = shift(value, power)
    return value if value == "0" else f"{sign}{value}"


def _whole_unit(
    text: str, end: int, *, year: bool, ten: bool, before_christ: bool
) -> tuple[int, str, int] | None:
    """Return the end, the unit and the reach of a word that makes a number a year, a decade and so on."""
    found = _CENTURY.match(text, end)
    if found:
        return found.end(), "century", found.end()
    if ten and (found := _DECADE.match(text, end)):
        return found.end(), "decade", found.end()
    word = _YEAR.match(text, end)
    era = _ERA.match(text, word.end() if word else end)
    if era:
        return era.end(), "bc", era.end()
    if before_christ:
        stop = word.end() if word else end
        return stop, "bc", stop
    if year and word:
        return end, "", word.end()
    found = _ORDINAL.match(text, end)
    if found:
        return found.end(), "ordinal", found.end()
    return None


def _is_bare(before: str, text: str, end: int) -> bool:
    """Return whether nothing around a number belongs to it; False proves nothing."""
    if before.rstrip(" ").endswith(_BELONGING_BEFORE):
        return False
    after = _PLAIN_AFTER.match(text, end)
    return after is not None and after[1] not in _BELONGING_WORDS


def _complete(text: str, start: int, end: int, values: frozenset[str], *, han: bool) -> _Number | None:
    """Add sign, power of ten and unit to the digits between `start` and `end`."""
    before = text[max(0, start - _EDGE) : start]
    if not han and _is_bare(before, text, end):
        return _Number(start, end, end, values, _NO_UNIT, "", 0)
    if before.endswith("百分之"):
        return _Number(start - 3, end, end, values, frozenset("%"), "", 0)
    prefix = PREFIX.search(before) if before.rstrip(" ").endswith(PREFIX_ENDS) else None
    sign, units, begin = "", _NO_UNIT, start
    if prefix is not None and prefix[0]:
        begin = start - len(prefix[0])
        left = text[begin - 1] if begin else " "
        marked = prefix["sign"] or prefix["inner"]
        if prefix["unit"] and not (prefix["unit"][0].isalpha() and _is_word(left)):
            units = units_of(prefix["unit"])
        else:
            begin = start - len(marked or "")
        left = text[begin - 1] if begin else " "
        after_dots = text.endswith("..", 0, begin)
        if marked == "-" and not (left in _MINUS_AFTER or after_dots or _HAN_LETTER.match(left)):
            begin += 1  # a hyphen, or the dash of a range
        elif marked:
            sign = "-"
    plain = next(iter(values))
    last = text[start:end][-1:]
    if last.isdecimal() or han:
        special = _whole_unit(
            text,
            end,
            year=plain.isdecimal() and 2 < len(plain) < 5,
            ten=plain.isdecimal() and plain.endswith("0") and 1 < len(plain) < 5,
            before_christ=before.endswith("公元前"),
        )
        if special is not None and units is _NO_UNIT:
            stop, unit, reach = special
            begin -= 3 if before.endswith("公元前") else 0
            return _Number(begin, stop, reach, values, frozenset((unit,)), sign, 0)
    if before.endswith("第") and not (units - _NO_UNIT):
        return _Number(start - 1, end, end, values, frozenset(("ordinal",)), "", 0)
    scale, stop = 0, end
    compound = _COMPOUND.match(text, end)
    if compound is not None and plain.isdecimal():
        added = compound["of_1"] or compound["of_4"].replace("千", "000").zfill(4)
        values = frozenset((shift(f"{plain}{added}", 3 if compound["of_1"] else 4),))
        stop = compound.end()
    power = SCALE.match(text, stop)
    while power is not None and (power[1] or units is not _NO_UNIT) and scale < 24:
        scale += POWERS[power[1] or power[2]]
        stop = power.end()
        power = SCALE.match(text, stop)
    if units is _NO_UNIT:
        unit_word = UNIT.match(text, stop)
        if unit_word is not None:
            units, stop = units_of(unit_word[1]), unit_word.end(1)
    if stop < len(text) and _is_word(text[stop]) and text[stop - 1].isdecimal():
        return None  # the digits are part of a word: 5g, 3d
    return _Number(begin, stop, stop, values, units, sign, scale)


def _digits(text: str, cyrillic: bool) -> Iterable[_Number]:
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if start and _is_word(text[start - 1]) and not text[start - 1].isdigit():
            continue  # F16
        left = text[start - 2 : start - 1]
        hyphened = start > 1 and text[start - 1] == "-" and left.isalpha() and _is_word(left)
        if hyphened and not text.endswith(_BEFORE_YEAR, 0, start):
            continue  # COVID-19
        values = _readings(match[0], comma=cyrillic)
        joined = start > 1 and (text[start - 1] in "亿億" or _COMPOUND.match(text, start - 1))
        if joined and text[start - 2].isdecimal():
            continue  # interpreted with the text before it
        found = _complete(text, start, end, values, han=False)
        if found is not None:
            yield found


def _han_numerals(text: str) -> Iterable[_Number]:
    for match in HAN_NUMERAL.finditer(text):
        start, end = match.span()
        if start and text[start - 1].isdecimal():
            continue  # 500万: a power of ten
        numeral = match[0]
        value = han_value(numeral)
        if value is None:
            continue
        found = _complete(text, start, end, frozenset((value,)), han=True)
        if found is not None and (
            len(numeral) > 1 or found.units != _NO_UNIT or found.start < start or found.reach > end
        ):
            yield found


def _roman_centuries(text: str) -> Iterable[Quantity]:
    for match in ROMAN_CENTURY.finditer(text):
        value = roman_value(match[1])
        if value is not None:
            key = frozenset((f"number:{value}|century",))
            yield Quantity(match.start(), match.end(), key, match.end())


def quantities(text: str, taken: Collection[tuple[int, int]] = ()) -> list[Quantity]:
    """Return the numbers of `text` in reading order, and after them ranges of two neighbours.

    Args:
        text: NFKC, casefolded, dashes as hyphens.
        taken: Ranges of indexes in which no number may begin: dates.
    """
    busy = set[int]()
    for start, end in taken:
        busy.update(range(start, end))
    done: list[Quantity] = []
    found = sorted(times(text), key=lambda one: (one[0], -one[1])) if may_have_times(text) else ()
    for start, end, readings in found:
        if start not in busy:
            done.append(Quantity(start, end, readings, end))
            busy.update(range(start, end))
    ascii_only = text.isascii()
    numbers = list(_digits(text, not ascii_only and _CYRILLIC.search(text) is not None))
    if not ascii_only and _HAN_LETTER.search(text):
        numbers += _han_numerals(text)
        numbers.sort()
    if not ascii_only or "century" in text:
        done += _roman_centuries(text)
    if busy:
        numbers = [one for one in numbers if busy.isdisjoint((one.start, one.end - 1))]
    done += _join_ranges(text, numbers)
    return sorted(done)


def _join_ranges(text: str, numbers: list[_Number]) -> list[Quantity]:
    done: list[Quantity] = []
    for position, number in enumerate(numbers):
        keys = number.keys()
        following = numbers[position + 1] if position + 1 < len(numbers) else None
        if following is not None and following.start - number.reach < 6:
            between = _BETWEEN.fullmatch(text, number.reach, following.start)
            if between is not None:
                joined = between[0].strip() not in ("and", "и", "和")
                if joined or text[max(0, number.start - 8) : number.start].endswith("between "):
                    # In "5-10 million km" power of ten and unit apply to both numbers.
                    own = number.units != _NO_UNIT
                    units = number.units if own else following.units
                    scale = number.scale if own or number.scale else following.scale
                    low, high = number.keys(units, scale), following.keys()
                    if not own or number.units == following.units:
                        keys = low
                        span = frozenset(
                            f"range:{one.partition(':')[2]}:{other.partition(':')[2]}"
                            for one in low
                            for other in high
                        )
                        done.append(Quantity(number.start, following.end, span, following.reach))
        done.append(Quantity(number.start, number.end, frozenset(keys), number.reach))
    return done


def number_keys(text: str, *, whole: bool = False) -> frozenset[str]:
    """Return the keys of the numbers in `text`; with `whole`, only if it is one number."""
    if whole:
        text = _COUNTED.sub("", text)
    found = quantities(text)
    if whole:
        for one in found:
            if one.reach >= len(text.rstrip(". ")) and _BEFORE_WHOLE.match(text[: one.start]):
                return one.keys
        return frozenset()
    return frozenset().union(*[one.keys for one in found])


def may_hold(text: str, keys: Iterable[str]) -> bool:
    """Return whether `text` may have one of `keys`, unless it `has_worded_numbers`.

    False is certain, and cheap: whatever the separators, the last three digits of a number are adjacent in
    the text, and so are those of its fraction and of a date's year.
    """
    for key in keys:
        kind, _, rest = key.partition(":")
        amount, _, unit = rest.partition("|")
        if kind == "number" and unit != "century":
            if all(part[-3:] in text for part in _POINTS.split(amount.lstrip("-"))):
                return True
        elif kind == "date" and rest[0] != "-":
            # A year may have digits of any script.
            if rest[:4] in text or not text.isascii():
                return True
        else:
            return True
    return False


def has_worded_numbers(text: str) -> bool:
    """Return whether numbers of `text` may contain words or other digits than 0 to 9."""
    if text.isascii():
        return not SCALES.isdisjoint(_ASCII_SCALED.findall(text))
    return (
        _SCALED.search(text) is not None
        or _HAN_POWER.search(text) is not None
        or _OTHER_DIGIT.search(text) is not None
    )
