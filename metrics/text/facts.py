"""Finds numbers and names in an answer that no chunk has.

`_claims` calls this for the metrics of support. Only facts that a person can check in a second count: a
number with its unit, a date, a name in the middle of a sentence. No conflict are numbers that only enumerate
(`framing`), that the question has, that are written as words on either side, or that round or plainly add up
the chunks' numbers: a false alarm costs more trust than a missed number.
"""

import re
import string
from collections.abc import Iterator, Sequence
from itertools import chain, islice, permutations
from typing import NamedTuple

from ragmeter.metrics._process.lazy_attribute import lazy_attribute

from .analysis import Analysis
from .contraries import has_month, is_contrary, may_be_contrary, may_state_month, stated_months
from .conversions import agree, by_unit, same_amounts
from .dates import date_keys, date_spans
from .derivations import is_sum, rounds
from .designations import absent_designations
from .number_words import small_value, spelled_values, spells
from .numerals import HAN_DIGITS, decimal, roman_value
from .quantities import ROMAN_CENTURY, has_worded_numbers, quantities
from .stems import CONTENT
from .times import may_have_times, same_times
from .tokens import normalise
from .units import UNIT_WORDS
from .word_lists import read_pattern

_DASHES = str.maketrans(dict.fromkeys("‑–‐‒−—", "-"))
_SPACES = re.compile(r"\s\s*")
_DEGREE = re.compile(r"(?<=[0-9])\s?º")
# Texts are cleaned: digits are those from 0 to 9, which are found several times faster than digits of any
# script.  A pattern that begins with a set of characters jumps to them: half the time.
_NUMBER = re.compile("[0-9][0-9]*(?:[.,][0-9]+)*")
_POINTS = re.compile("[.,]")
_SPACED = re.compile("([0-9][0-9]{0,2}(?:[ \u00a0\u2009\u202f'’][0-9]{3})+)(?![0-9])(?:[.,]([0-9]+))?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_NO_WHOLE = re.compile(r"\.(?<![\w.,]\.)([0-9]*[1-9])")
"""The fraction of .05."""
_HEDGE = read_pattern("facts.hedge")
_ADDED = read_pattern("facts.added")
_SEPARATORS = ".,'’"
"""Separators of digits other than white space."""
_WITHOUT = (_SEPARATORS + string.whitespace).encode()
_SEPARATOR = rf"[{_SEPARATORS}\s]?"
_WRITTEN = {str(value): f"{value}{written}" for value, written in enumerate(HAN_DIGITS)}
_WRITTEN["1"] += "十"
_HAN_RUN = re.compile("[{0}][{0}]*".format(f"{''.join(HAN_DIGITS)}十百千万萬亿億点0-9.,"))
_LONGEST = 16
"""Longest number that is compared by its value, in characters."""
_MOST_NUMBERS = 50
"""Most numbers of a sentence, and places of one, that are looked up: a table of thousands stays linear."""
_MOST_PAIRED = 12
"""Most numbers of a sentence for sums and percentages."""
_YEARS = re.compile("([0-9](?<![0-9]{2})[0-9]{0,2})(?: years?| ?год| ?лет| ?年)")
_SHARE = re.compile(r"(\w+) (?:out of|in(?: every)?|из(?: каждых)?) (\w+)")
_OF_LONG = 10
"""Last digits of a telephone number that matter: those before are of its country, or lead out of it."""
_LONG_NUMBER = re.compile(rf"[0-9](?:[ ().-]{{0,2}}[0-9]){{{_OF_LONG - 1},16}}(?![0-9])")
_GROUPING = re.compile(r"[\s().,'’-]+")
_FRACTION = re.compile(r"(?<![\d/.,])(\d{1,2})/(\d{1,2})(?![\d/.,])")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b|\bперв|\d-[а-я]|第")
_ROMAN = re.compile(r"(?:\b(\w{1,30})[ -])?\b([IVX]{1,6})\b")
_IS_ROMAN = re.compile("[ivx]+")
_LARGEST_ROMAN = 39
_CENTURY = re.compile(r"centur|век|столет|\bвв?\.|世纪")
_SHORT = 2
_UPPER = "A-ZÀ-ÖØ-ÞА-ЯЁ"
_NAME = re.compile(
    rf"[{_UPPER}](?<![^\W_].)[\w.'’-]*(?:(?: (?:of|the|and|de|von|van|der|al|и))*[ ][{_UPPER}][\w.'’-]*)*"
)
_NO_LETTERS = re.compile(r"\W+")
_BEFORE_NAME = re.compile(r"[a-zà-ÿа-яё0-9,]\Z")
_OTHERWISE = 0.5
"""Largest share of a sentence in no chunk for one of its names to count as substituted for another."""
_STEM = 4
"""Length of a common prefix of a name with a word of the chunks: Italian, Italy."""


class Fact(NamedTuple):
    """A checkable fact that no chunk has."""

    sentence: int
    """Index of its sentence, from 0."""
    text: str
    """Its text in the answer."""
    units: frozenset[str]
    """Its unit, as `units` names it; empty for a name."""
    is_number: bool


def flat(text: str) -> str:
    """Return a text in the form that `quantities` and `dates` read."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.lower()
    if "º" in text:
        text = _DEGREE.sub("°", text)
    return _SPACES.sub(" ", normalise(text).translate(_DASHES))


def value_and_unit(key: str) -> tuple[str, str]:
    """Return the value, without its sign, and the unit of a quantity's key."""
    kind, _, rest = key.partition(":")
    if kind != "number":
        return key, ""
    value, _, unit = rest.partition("|")
    return value.lstrip("-"), unit


def _figures(known: Analysis) -> frozenset[str]:
    """Return the numbers of a chunk or question in figures. For ``known.memoize(_figures)``."""
    found: set[str] = set(_NUMBER.findall(known.plain))
    for number in [one for one in found if not one.isdecimal()]:
        found.update((number.replace(",", ""), number.replace(",", ".")))
        if not _GROUPED.fullmatch(number):
            found.add(decimal(number.replace(".", "").replace(",", ".")))  # 1.250,00
            found.add(decimal(number.replace(",", ".")))
        found.update(_POINTS.split(number))
    for whole, fraction in _SPACED.findall(known.plain):
        found.add(decimal(f"{''.join(filter(str.isdecimal, whole))}.{fraction}"))
    found.update(f"0.{fraction}" for fraction in _NO_WHOLE.findall(known.plain))
    return frozenset(found)


def _amounts(known: Analysis) -> Sequence[tuple[str, str]]:
    """Return all numbers, each with its unit. For ``known.memoize(_amounts)``."""
    return _amounts_in(known.plain)


def _amounts_by_unit(known: Analysis) -> dict[str, list[float]]:
    """Return the same by unit. For ``known.memoize(_amounts_by_unit)``."""
    return by_unit(known.memoize(_amounts))


def _amounts_in(text: str) -> Sequence[tuple[str, str]]:
    return [value_and_unit(key) for one in quantities(flat(text)) for key in one.keys]


def _values(known: Analysis) -> frozenset[str]:
    """Return the numbers in any notation. For ``known.memoize(_values)``."""
    found = known.memoize(_figures)
    low = known.plain.lower()
    if not (has_worded_numbers(low) or may_have_times(low) or ROMAN_CENTURY.search(low)):
        return found
    read = quantities(flat(known.plain))
    return found.union(value_and_unit(key)[0] for one in read for key in one.keys)


def _units_beside(value: str, known: Analysis) -> set[str]:
    """Return the units of a number's occurrences in a text, "" for none."""
    text = known.plain
    if not value.replace(".", "", 1).isdecimal() or len(value) > _LONGEST:
        return set()
    whole, _, fraction = value.partition(".")
    written = rf"{f'{int(whole):,}'.replace(',', _SEPARATOR)}{f'[.,]{fraction}' if fraction else ''}"
    places = [found.span() for found in islice(re.finditer(written, text), _MOST_NUMBERS)]
    beside = [text[max(0, start - _BESIDE) : end + _BESIDE] for start, end in places]
    # A number of millions is in figures nowhere.
    pairs = chain.from_iterable(map(_amounts_in, beside)) if beside else known.memoize(_amounts)
    return {unit for own, unit in pairs if own == value}


def _number_pairs(known: Analysis) -> list[tuple[float, float]]:
    """Return all pairs of a sentence's numbers, in both orders. For ``known.memoize(_number_pairs)``."""
    found: list[tuple[float, float]] = []
    for sentence in known.sentences:
        there = [float(one) for one in map(_as_decimal, _NUMBER.findall(sentence)) if one]
        found += permutations(there[:_MOST_PAIRED], 2)
        found += [(small_value(one), small_value(other)) for one, other in _SHARE.findall(normalise(sentence))]
    return found


def absent_facts(
    texts: Sequence[str],
    claiming: Sequence[Sequence[str]],
    lacking: Sequence[Sequence[str]],
    contexts: Sequence[Analysis],
    question: Analysis,
    code: str,
) -> list[Fact]:
    """Return the numbers and names of an answer that neither a chunk nor the question has.

    Args:
        texts: The sentences of the answer, from `framing.claim_texts`.
        claiming: The terms of each sentence.
        lacking: The terms of each sentence that no chunk has.
        contexts: The chunks.
        question: The question.
        code: The answer's `fenced_code`.
    """
    found: list[Fact] = []
    given: _Sources | None = None
    whole = "\n".join(texts)
    has_months, reversible = may_state_month(whole), may_be_contrary(whole.lower())
    few = [_OTHERWISE * len(terms) for terms in claiming]
    for at, (text, terms) in enumerate(zip(texts, lacking, strict=True)):
        is_roman = any(map(_IS_ROMAN.fullmatch, terms))
        has_number = _NUMBER.search(text) is not None or (
            (is_roman or reversible) and _CENTURY.search(text) is not None
        )
        dated = has_months and may_state_month(text)
        if not (terms or has_number or dated) or (code and text in code):
            continue
        if has_number:
            given = given or _Sources(contexts, question)
            low = given.low
            with_units = _with_units(text.lower())
            if (
                is_roman
                or any(map(_has_digit, terms))
                or any(one not in low for one in with_units)
                or reversible
            ):
                found += _absent_numbers(at, text, given, reversible=reversible)
                found += [Fact(at, one, CODE, is_number=True) for one in absent_designations(text, low)]
        months: list[Fact] = []
        if dated:
            given = given or _Sources(contexts, question)
            months = [
                Fact(at, month, MONTH, is_number=False)
                for month, number in stated_months(text)
                if not given.has_month(month, number)
            ]
            found += months
        if terms and not months and len(terms) <= few[at] and not text[1:].islower():
            given = given or _Sources(contexts, question)
            found += _absent_names(at, text, frozenset(terms), given)
    return found


def _with_units(text: str) -> Iterator[str]:
    """Return the numbers of a text in lower case with their units, signs of currency and parts of the day."""
    for found in _UNIT_AFTER.finditer(text):
        start, end = found.span()
        before = text[max(0, start - 2) : start]
        yield text[start - (2 if before in _PARTS_OF_DAY else before[-1:] in _CURRENCIES) : end]


def _has_digit(term: str) -> bool:
    return any(map(str.isdigit, term))


_BETWEEN_THINGS = re.compile(r",? (?:and|or|и|или) |[,;、和及]+ ?")
_MALFORMED = re.compile(r"\d,\d{3},\d{1,2}(?!\d)")
"""No number in any notation: its value cannot be compared."""
_TWO_BEFORE = re.compile(r"\d[^.;(]{0,12}[^\d.,]\d[\d.,]*[^().;\d]{0,24}\([~≈]?\s?\Z")
_CONVERTED = re.compile(r"\d[^().;]{0,24}\([~≈]?\s?\Z")
_OF_LIFE = re.compile(
    r"\b(?:my|your|his|her|our|their|one's) (?:(?:early|mid|late)[ -])?(?:\d0'?s(?:,? (?:or|and|to) |-))*\Z"
)
"""Before a decade of a life: in your 20s or 30s."""
_DEGREES = frozenset(("°", "°c", "°f"))
_BESIDE = 24
"""Characters around a number that may contain its unit."""
_NEAR = 80
"""Characters before a number that may say what it is."""
_UNIT_AFTER = read_pattern("facts.unit_after")
_PARTS_OF_DAY = frozenset(("上午", "下午", "午前", "午後", "中午", "早上", "晚上", "凌晨"))
_CURRENCIES = frozenset("$€£¥₽₹")


class _Sources:
    """The numbers and dates of chunks and question, read on first use."""

    def __init__(self, contexts: Sequence[Analysis], question: Analysis) -> None:
        self.texts = [*contexts, question]

    @lazy_attribute
    def low(self) -> str:
        """All texts, in lower case."""
        return "\n".join([text.plain for text in self.texts]).lower().replace("ё", "е")

    @lazy_attribute
    def flat(self) -> list[str]:
        """All texts in the form that `quantities` reads."""
        return [flat(text.plain) for text in self.texts]

    def has_month(self, written: str, number: int) -> bool:
        """Return whether a text has a month, in any form."""
        plain = [text.plain for text in self.texts]
        return any(written in text for text in plain) or has_month(number, plain, lambda: self._dates)

    @lazy_attribute
    def _bare(self) -> str:
        """The same without any separator of digits."""
        if self.low.isascii():
            return self.low.encode().translate(None, _WITHOUT).decode()
        bare = "".join(self.low.split())
        for separator in _SEPARATORS:
            bare = bare.replace(separator, "")
        return bare

    @lazy_attribute
    def _numerals(self) -> frozenset[frozenset[str]]:
        """The set of characters of each run with Chinese numerals."""
        found = () if self.low.isascii() else _HAN_RUN.findall(self.low)
        return frozenset([frozenset(run) for run in found if not run.isascii()])

    @lazy_attribute
    def _dates(self) -> frozenset[str]:
        return frozenset().union(*[date_keys(flat(text.plain)) for text in self.texts])

    def has(self, values: Sequence[str], units: frozenset[str], said: str, how: str) -> bool:
        """Return whether the chunks have one of `values` with a unit that does not contradict `units`.

        Or a number that plainly follows from theirs; `said` is the answer's sentence.
        """
        kinds, units = units, units - LOOSE
        if not units.isdisjoint(_DEGREES):  # without a scale they may have any
            units |= _DEGREES if "°" in units else {"°"}
        seen = False
        if not self._surely_lacks(values):
            # Nearly all numbers are in figures, and reading number words takes a hundred times as long.
            for numbers in (_figures, _values):
                for text in self.texts:
                    there = text.memoize(numbers)
                    for value in values:
                        if value not in there:
                            continue
                        beside = _units_beside(value, text) if units else set()
                        if "" in beside or beside & units or not beside - LOOSE:
                            return True
                        seen = True
        if seen:
            return False
        return any(self._follows(value, said, kinds, how) for value in values)

    def has_in_other_units(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Return whether a chunk has one of these values and units in another unit of the same kind."""
        if not any(unit for _, unit in pairs):
            return False
        for value, unit in pairs:
            for same, other in same_amounts(value, unit):
                for text in self.texts:
                    if same in text.memoize(_values):
                        beside = _units_beside(same, text)
                        if other in beside or beside <= LOOSE:  # 1500 г. may be a year
                            return True
                if self._spells(same):
                    return True
        return any(agree(pairs, text.memoize(_amounts_by_unit)) for text in self.texts)

    def _spells(self, value: str) -> bool:
        """Return whether a text has it as a word."""
        return spells(self.low, value) or value in self._spelled

    @lazy_attribute
    def _spelled(self) -> frozenset[str]:
        words = [one.marked_runs if one.has_han else one.marked_tokens for one in self.texts]
        return spelled_values(self.low, chain.from_iterable(words))

    def has_date(self, said: str, at: int) -> bool:
        """Return whether a chunk has the date at an index of a sentence, in any notation."""
        for start, end in date_spans(said):
            if start <= at < end:
                return not self._dates.isdisjoint(date_keys(said[start:end], whole=True))
        return False

    def long_numbers(self, said: str) -> list[tuple[int, int]]:
        """Return the places of telephone numbers, ISBNs and the like that a text has in any grouping."""
        places = [found.span() for found in islice(_LONG_NUMBER.finditer(said), _MOST_NUMBERS)]
        if not places:
            return []
        there = _GROUPING.sub("", self._bare)
        return [(at, end) for at, end in places if _GROUPING.sub("", said[at:end])[-_OF_LONG:] in there]

    def _surely_lacks(self, values: Sequence[str]) -> bool:
        """Return whether certainly no text has one of `values`: cheap, but False proves nothing."""
        for value in values:
            digits = value.replace(".", "").strip("0")
            # A short number may be a century in Roman numerals; 1.5 million is 15 and zeros.
            if len(digits) <= _SHORT or not digits.isdecimal() or digits in self._bare:
                return False
            wanted = [_WRITTEN[one] for one in {*digits} - {"0"}]
            if any(not any(map(run.isdisjoint, wanted)) for run in self._numerals):
                return False
        return True

    def _is_computed(self, value: str, said: str, units: frozenset[str]) -> bool:
        """Return whether a percentage or a number of years follows from two numbers of one sentence."""
        shares = "%" in units
        if not shares and value not in _YEARS.findall(said):
            return False
        number = float(value)
        rounding = 0.5001 * 0.1 ** len(value.partition(".")[2])
        pairs = chain.from_iterable(text.memoize(_number_pairs) for text in self.texts)
        if not shares:
            return any(one - other == number and other > 999 for one, other in pairs)
        return any(
            other and abs(number - 100 * some / other) <= rounding
            for one, other in pairs
            for some in (one, abs(one - other))
            if some
        )

    def _follows(self, value: str, said: str, units: frozenset[str], how: str) -> bool:
        if self._spells(value):
            return True
        if len(value) > _LONGEST or not value.replace(".", "", 1).isdecimal():
            return False
        number = float(value)
        decade = "decade" in units
        if number == _count_of_list(said) or self._is_computed(value, said, units):
            return True
        if number <= _LARGEST_ROMAN:  # Louis XIV the 14th, World War 2
            before = {*re.findall(rf"\b(\w{{1,30}})[ -]{re.escape(value)}(?!\w)", said)}
            ordinal = _ORDINAL.search(said) is not None
            numerals = chain.from_iterable([_ROMAN.findall(text.plain) for text in self.texts])
            for word, numeral in numerals:
                if (ordinal or word.lower() in before) and number == roman_value(numeral.lower()):
                    return True
        adds = _ADDED.search(said) is not None
        own = frozenset([float(one) for one in map(_as_decimal, _NUMBER.findall(said)) if one])
        century = number < 22 and _CENTURY.search(said) is not None
        if not (
            adds or how != "exactly" or century or value.endswith("0") or is_sum(number, own, doubled=False)
        ):
            return False
        plain = self.plain
        if is_sum(number, plain if adds else own & plain, doubled=adds):
            return True
        years = [other for other in plain if 99 < other < 2100]
        if decade and (
            [year for year in years if number <= year < number + 10]
            or {number % 100, number // 100 + 1} <= plain  # the 90s of the 20th century
        ):
            return True  # the 1990s
        if century and [year for year in years if number - 1 <= year / 100 <= number]:
            return True  # the 19th century
        if 999 < number < 2100 and not number % 100 and number // 100 + 1 in plain:
            return True  # the 1800s
        return any(rounds(other, number, how) for other in plain)

    @lazy_attribute
    def _times(self) -> frozenset[str]:
        every = frozenset().union(*[text.memoize(_values) for text in self.texts])
        return frozenset([value for value in every if value.startswith("time:")])

    def bare_hours(self, readings: Sequence[str], written: str) -> list[str]:
        """Return a full hour as a number: the texts may be open "9 to 5", unless they have that time."""
        if ":" in written and self._times:
            return []
        taken = {int(one[5:7]) % 12 for one in self._times}
        hours = [int(one[5:7]) for one in readings if one[:5] == "time:" and one.endswith(":00")]
        free = [hour for hour in hours if hour % 12 not in taken]
        return [str(one) for hour in free for one in (hour, hour % 12 or 12)]

    @lazy_attribute
    def plain(self) -> frozenset[float]:
        """All numbers by value."""
        every = frozenset().union(*[text.memoize(_values) for text in self.texts])
        plain = [one for one in every if one.replace(".", "", 1).isdecimal()]
        return frozenset([float(one) for one in plain if len(one) <= _LONGEST])


def _as_decimal(number: str) -> str:
    plain = number.replace(",", "")
    return plain if plain.replace(".", "", 1).isdecimal() else ""


def _count_of_list(said: str) -> int:
    """Return the number of items that a sentence lists after its colon: 3 members: Ann, Bob and Carl."""
    _, colon, things = said.partition(": ")
    return len(_BETWEEN_THINGS.findall(things)) + 1 if colon else 0


CODE, MONTH = frozenset(("designation",)), frozenset(("month of a year",))
"""The units of a designation and of a month's name."""
LOOSE = frozenset(("", "ordinal", "decade", "century", "year", "bc"))
"""Units that add nothing to the number itself."""


def _absent_numbers(at: int, text: str, given: _Sources, *, reversible: bool) -> list[Fact]:
    said = flat(text)
    found: list[Fact] = []
    last = found_end = -1
    before: Sequence[tuple[str, str]] = ()
    every = sorted(quantities(said), key=lambda one: (one.start, one.start - one.end))
    long = given.long_numbers(said)
    for one in every[:_MOST_NUMBERS]:
        written = said[one.start : one.end]
        pairs = list(map(value_and_unit, one.keys))
        kinds = frozenset(unit for _, unit in pairs)
        if one.start < last or not (_has_digit(written) or "century" in kinds) or is_range(one.keys):
            continue
        if _MALFORMED.search(said[one.start : one.end + 4]):
            continue
        values = [value for value, _ in pairs]
        if written.isdecimal() and written not in values:
            values.append(written)  # in "in 2019 to 3 billion" the power of ten applies to both
        share = _FRACTION.search(said, max(0, one.start - 2), one.end + 3)
        if share is not None and int(share[1]) < int(share[2]):
            values, kinds = [str(round(100 * int(share[1]) / int(share[2])))], frozenset("%")
        if values[0].startswith(("time:", "clock:")):
            values += [*same_times(values), *given.bare_hours(values, written)]
        hedge = _HEDGE.search(said[max(0, one.start - 16) : one.start])
        whole = values[0].partition(".")[0]
        scaled = whole.isdecimal() and sum(map(str.isdigit, written)) < len(whole)  # 8.34 million
        how = (hedge and hedge.lastgroup) or ("scaled" if scaled else "exactly")
        if "decade" in kinds and len(values[0]) == _SHORT:
            if _OF_LIFE.search(said[max(0, one.start - _NEAR) : one.start]):
                continue
            values += [f"{century}{values[0]}" for century in (18, 19, 20)]
        converted = _CONVERTED.search(said[max(0, one.start - _NEAR) : one.start]) is not None
        wrong = (
            converted
            and said[one.end : one.end + 1] == ")"
            and _TWO_BEFORE.search(said[max(0, one.start - _NEAR) : one.start]) is None
            and agree(before, by_unit(pairs)) is False  # alone in its brackets: 25 miles (40 km)
        )
        before = pairs
        if given.has(values, kinds, said, how) or given.has_in_other_units(pairs):
            if reversible and is_contrary(said, one, given.flat):
                found.append(Fact(at, _as_said(written, text), kinds - LOOSE, is_number=True))
                continue
            if found and one.start - found_end < _BESIDE and converted and not wrong:
                found.pop()  # 984 feet (300 m)
            continue
        last = one.end
        if given.has_date(said, one.start):
            continue
        if converted and not wrong:
            continue  # 350 °F (175 °C)
        if any(start <= one.start < end for start, end in long):
            continue
        if found and said[found_end : one.start].strip() in ("-", "/", "x", "×"):
            continue  # a telephone number is one fact
        found_end = one.end
        found.append(Fact(at, _as_said(written, text), kinds - LOOSE, is_number=True))
    return found


def _as_said(written: str, text: str) -> str:
    """Return the original spelling of a part of a text that `flat` changed."""
    small = text.lower()
    place = small.find(written)
    if place < 0 or len(small) != len(text):
        found = re.search(re.escape(written), text, re.IGNORECASE)
        return found[0] if found else written
    return text[place : place + len(written)]


def is_range(keys: frozenset[str]) -> bool:
    """Return whether these are the keys of a range of two numbers."""
    return any(key.startswith("range:") for key in keys)


def _absent_names(at: int, text: str, lacking: frozenset[str], given: _Sources) -> list[Fact]:
    words = text.split()
    if "**" in text or sum([word[:1].isupper() for word in words]) * 2 > len(words):
        return []  # a heading
    found: list[Fact] = []
    for name, last in inner_names(text):
        parts = [normalise(part) for part in _NO_LETTERS.split(name) if part[:1].isupper()]
        if max(map(len, parts)) < _STEM or UNIT_WORDS.issuperset(parts):
            continue
        if _is_acronym(name, given.low):
            continue
        # Queen Beatrix instead of Queen Margrethe
        if CONTENT[last] in lacking and last.removesuffix("s")[:_STEM] not in given.low:
            found.append(Fact(at, name, frozenset(), is_number=False))
    return found


def inner_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a sentence, each with its last word: not its first word, which may be any."""
    for found in _NAME.finditer(text):
        if _BEFORE_NAME.search(text[: found.start()].rstrip('( «“"')):
            name = found[0].rstrip(".’'-")
            yield name, [normalise(part) for part in _NO_LETTERS.split(name) if part[:1].isupper()][-1]


def _is_acronym(name: str, low: str) -> bool:
    if not name.isupper():
        return False
    return re.search(r"\W+".join(rf"{letter}\w*" for letter in re.escape(name.lower())), low) is not None
