"""Which numbers and dates the chunks and the question have, in any notation, or which follow from theirs."""

import re
import string
from collections.abc import Sequence
from itertools import chain, islice, permutations

from ragmeter.metrics._process.lazy_attribute import lazy_attribute

from .amounts import LOOSE, amounts_by_unit, amounts_in, amounts_of, flat, spelled_quantities, value_and_unit
from .analysis import Analysis
from .contraries import has_month
from .conversions import agree, same_amounts
from .dates import date_keys, date_spans
from .derivations import is_sum, rounds
from .number_words import BESIDE, small_value, spelled_values, spells, spells_amount
from .numerals import HAN_DIGITS, decimal, roman_value
from .quantities import ROMAN_CENTURY, has_worded_numbers, quantities
from .times import may_have_times
from .tokens import has_han, normalise
from .word_lists import read_entries, read_pattern

# Texts are cleaned: digits are those from 0 to 9, which are found several times faster than digits of any
# script.  A pattern that begins with a set of characters jumps to them: half the time.
NUMBER = re.compile("[0-9][0-9]*(?:[.,][0-9]+)*")
_POINTS = re.compile("[.,]")
_SPACED = re.compile("([0-9][0-9]{0,2}(?:[ \u00a0\u2009\u202f'’][0-9]{3})+)(?![0-9])(?:[.,]([0-9]+))?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_NO_WHOLE = re.compile(r"\.(?<![\w.,]\.)([0-9]*[1-9])")
"""The fraction of .05."""
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
MOST_NUMBERS = 50
"""Most numbers of a sentence, and places of one, that are looked up: a table of thousands stays linear."""
_MOST_PAIRED = 12
"""Most numbers of a sentence for sums and percentages."""
_LEAST_SUBTRACTED = 20
"""Least number from which another one of its sentence may be subtracted."""
_YEARS = re.compile("([0-9](?<![0-9]{2})[0-9]{0,2})(?: years?| ?год| ?лет| ?年)")
_SHARE = re.compile(r"(\w+) (?:out of|in(?: every)?|из(?: каждых)?) (\w+)")
_OF_LONG = 10
"""Last digits of a telephone number that matter: those before are of its country, or lead out of it."""
_LONG_NUMBER = re.compile(rf"[0-9](?:[ ().-]{{0,2}}[0-9]){{{_OF_LONG - 1},16}}(?![0-9])")
_GROUPING = re.compile(r"[\s().,'’-]+")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b|\bперв|\d-[а-я]|第")
_ROMAN = re.compile(r"(?:\b(\w{1,30})[ -])?\b([IVX]{1,6})\b")
_LARGEST_ROMAN = 39
CENTURY = re.compile(r"centur|век|столет|\bвв?\.|世纪")
_SHORT = 2
_NEAR_NUMBER = frozenset(read_entries("units")) - {"%", "‰", "pp", "year"}
"""Units that stand near a number as a word: "four tablets" are no 4 hours."""
_MONEY = frozenset("$ € £ jpy cny ₽ ₹ ₩ chf".split())
_DEGREES = frozenset(("°", "°c", "°f"))
_BETWEEN_THINGS = re.compile(r",? (?:and|or|и|или) |[,;、和及]+ ?")


def _figures(known: Analysis) -> frozenset[str]:
    """Return the numbers of a chunk or question in figures. For ``known.memoize(_figures)``."""
    found: set[str] = set(NUMBER.findall(known.plain))
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
    places = [found.span() for found in islice(re.finditer(written, text), MOST_NUMBERS)]
    beside = [text[max(0, start - BESIDE) : end + BESIDE] for start, end in places]
    # A number of millions is in figures nowhere.
    pairs = chain.from_iterable(map(amounts_in, beside)) if beside else known.memoize(amounts_of)
    return {unit for own, unit in pairs if own == value}


def _number_pairs(known: Analysis) -> list[tuple[float, float]]:
    """Return all pairs of a sentence's numbers, in both orders. For ``known.memoize(_number_pairs)``."""
    found: list[tuple[float, float]] = []
    for sentence in known.sentences:
        there = [float(one) for one in map(_as_decimal, NUMBER.findall(sentence)) if one]
        found += permutations(there[:_MOST_PAIRED], 2)
        found += [(small_value(one), small_value(other)) for one, other in _SHARE.findall(normalise(sentence))]
    return found


class GivenNumbers:
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

    def has_amount(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Return whether a text has one of these values and units, perhaps in another unit or in words."""
        pairs = [pair for pair in pairs if pair[1]]
        if not pairs:
            return False
        if any(pair in text.memoize(amounts_of) for text in self.texts for pair in pairs):
            return True
        for value, unit in pairs:
            for same, other in same_amounts(value, unit):
                for text in self.texts:
                    if same in text.memoize(_values):
                        beside = _units_beside(same, text)
                        if other in beside or beside <= LOOSE:  # 1500 г. may be a year
                            return True
                if self._spells(same, frozenset((other,))):
                    return True
        if any(agree(pairs, text.memoize(amounts_by_unit)) for text in self.texts):
            return True
        return not self._spelled_amounts.isdisjoint(pairs)

    @lazy_attribute
    def _spelled_amounts(self) -> frozenset[tuple[str, str]]:
        if not self._spelled:
            return frozenset()
        found = chain.from_iterable(map(spelled_quantities, self.flat))
        return frozenset([value_and_unit(key) for one in found for key in one.keys])

    def contradicts(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Return whether the texts have other amounts in all of these units; of money, in any."""
        there = self._spelled_amounts.union(*[text.memoize(amounts_of) for text in self.texts])
        units = {unit for _, unit in there if unit} - _DEGREES
        units |= _MONEY if units & _MONEY else set()
        return all(unit in units for _, unit in pairs)

    def _spells(self, value: str, units: frozenset[str]) -> bool:
        """Return whether a text has it as a word, with one of the units near it where they matter."""
        near = units & _NEAR_NUMBER
        if near and not has_han(self.low):
            return spells_amount(self.low, value, near)
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
        places = [found.span() for found in islice(_LONG_NUMBER.finditer(said), MOST_NUMBERS)]
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
        """Return whether a percentage, a difference or a number of years follows from two of a sentence."""
        shares = "%" in units
        number = float(value)
        rounding = 0.5001 * 0.1 ** len(value.partition(".")[2])
        pairs = chain.from_iterable(text.memoize(_number_pairs) for text in self.texts)
        if not shares:
            least = 999 if value in _YEARS.findall(said) else _LEAST_SUBTRACTED
            return any(one - other == number and other > least for one, other in pairs)
        return any(
            other and abs(number - 100 * some / other) <= rounding
            for one, other in pairs
            for some in (one, abs(one - other))
            if some
        )

    def _follows(self, value: str, said: str, units: frozenset[str], how: str) -> bool:
        if self._spells(value, units):
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
        own = frozenset([float(one) for one in map(_as_decimal, NUMBER.findall(said)) if one])
        century = number < 22 and CENTURY.search(said) is not None
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
