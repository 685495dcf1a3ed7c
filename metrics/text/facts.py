"""Finds numbers and names in an answer that no chunk has.

`_claims` calls this for the metrics of support. Only facts that a person can check in a second count: a
number with its unit, a date, a name in the middle of a sentence. No conflict are numbers that only enumerate
(`framing`), that the question has, that are written as words on either side, or that round or plainly add up
the chunks' numbers: a false alarm costs more trust than a missed number.
"""

import re
import string
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import chain, permutations
from typing import NamedTuple

from ragmeter.metrics._process.lazy_attribute import lazy_attribute

from .analysis import Analysis
from .dates import date_keys, date_spans
from .numerals import HAN_DIGITS, decimal, roman_value
from .quantities import has_worded_numbers, quantities
from .stems import CONTENT
from .terms import Vocabulary, held_in_line, search_terms, sentence_lines
from .times import may_have_times, same_times
from .tokens import normalise
from .units import UNIT_WORDS
from .word_lists import read_entries, read_pattern

__all__ = ["Fact", "absent_facts", "fenced_code", "nearest_sentence"]

_DASHES = str.maketrans(dict.fromkeys("‑–‐‒−—", "-"))
_SPACES = re.compile(r"\s+")
_DEGREE = re.compile(r"(?<=[0-9])\s?º")
# Texts are cleaned: digits are those from 0 to 9, which are found several times faster than digits of any
# script.
_NUMBER = re.compile("[0-9]+(?:[.,][0-9]+)*")
_POINTS = re.compile("[.,]")
_SPACED = re.compile(r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)")
_HEDGE = read_pattern("facts.hedge")
_WORDS = read_entries("spelled_numbers")
_SPELLED = _WORDS.keys() | {f"{tens}{ones}" for tens in range(2, 10) for ones in range(1, 10)}
"""Numbers whose words are known."""
_ADDED = read_pattern("facts.added")
_SEPARATORS = ".,'’"
"""Separators of digits other than white space."""
_WITHOUT = str.maketrans("", "", _SEPARATORS + string.whitespace)
_WRITTEN = {str(value): f"{value}{written}" for value, written in enumerate(HAN_DIGITS)}
_WRITTEN["1"] += "十"
_HAN_RUN = re.compile(f"[{''.join(HAN_DIGITS)}十百千万萬亿億点0-9.,]+")
_MOST_PAIRED = 12
"""Most numbers of a sentence for sums and percentages."""
_ROUNDING = 0.5
_YEARS = re.compile(r"(?<!\d)(\d{1,3})(?: years?| ?год| ?лет| ?年)")
_SHARE = re.compile(r"(\w+) (?:out of|in every|из(?: каждых)?) (\w+)")
_FRACTION = re.compile(r"(?<![\d/.,])(\d{1,2})/(\d{1,2})(?![\d/.,])")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b|\bперв|\d-[а-я]|第")
_ROMAN = re.compile(r"\b[IVX]{1,6}\b")
_LARGEST_ROMAN = 39
_CENTURY = re.compile(r"centur|век|столет|\bвв?\.|世纪")
_SHORT = 2
_ROUND = 2
"""Least number of digits of a rounded number, unless it has only one."""
_UPPER = "A-ZÀ-ÖØ-ÞА-ЯЁ"
_NAME = re.compile(
    rf"(?<![^\W_])[{_UPPER}][\w.'’-]*(?:(?: (?:of|the|and|de|von|van|der|al|и))*[ ][{_UPPER}][\w.'’-]*)*"
)
_NO_LETTERS = re.compile(r"\W+")
_BEFORE_NAME = re.compile(r"[a-zà-ÿа-яё0-9,]\Z")
_OTHERWISE = 0.5
"""Largest share of a sentence in no chunk for one of its names to count as substituted for another."""
_STEM = 4
"""Length of a common prefix of a name with a word of the chunks: Italian, Italy."""


@cache
def _spelling_pattern(value: str) -> re.Pattern[str]:
    """Return the pattern of the words for one of `_SPELLED`."""
    words = _WORDS.get(value)
    if words is None:  # twenty-three
        tens, ones = _WORDS[f"{value[0]}0"], _WORDS[value[1]]
        words = [f"(?:{'|'.join(tens)})[ -]?(?:{'|'.join(ones)})"]
    return re.compile(rf"(?<![a-zа-я])(?:{'|'.join(words)})(?![a-z])")


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


def _value_and_unit(key: str) -> tuple[str, str]:
    kind, _, rest = key.partition(":")
    if kind != "number":
        return key, ""
    value, _, unit = rest.partition("|")
    return value.lstrip("-"), unit


def _figures(known: Analysis) -> frozenset[str]:
    """Return the numbers of a chunk or question in figures. For ``known.memoize(_figures)``."""
    found: set[str] = set(_NUMBER.findall(known.plain))
    for number in [one for one in found if not one.isdecimal()]:
        continental = decimal(number.replace(".", "").replace(",", "."))  # 1.250,00
        found.update((number.replace(",", ""), number.replace(",", "."), continental))
        found.update(_POINTS.split(number))
    found.update("".join(filter(str.isdecimal, one)) for one in _SPACED.findall(known.plain))
    return frozenset(found)


def _values(known: Analysis) -> frozenset[str]:
    """Return the numbers in any notation. For ``known.memoize(_values)``."""
    found = known.memoize(_figures)
    if not (has_worded_numbers(known.plain) or may_have_times(known.plain.lower())):
        return found
    read = quantities(flat(known.plain))
    return found.union(_value_and_unit(key)[0] for one in read for key in one.keys)


def _units_beside(value: str, text: str) -> set[str]:
    """Return the units of a number's occurrences in a text, "" for none."""
    found: set[str] = set()
    at = text.find(value)
    while at >= 0:
        beside = flat(text[max(0, at - _BESIDE) : at + len(value) + _BESIDE])
        for one in quantities(beside):
            found.update(unit for key in one.keys for own, unit in [_value_and_unit(key)] if own == value)
        at = text.find(value, at + len(value))
    return found


def _number_pairs(known: Analysis) -> list[tuple[float, float]]:
    """Return all pairs of numbers of a sentence, in both orders.

    To be used as ``known.memoize(_number_pairs)``.
    """
    found: list[tuple[float, float]] = []
    for sentence in known.sentences:
        there = [float(one) for one in map(_as_decimal, _NUMBER.findall(sentence)) if one]
        found += permutations(there[:_MOST_PAIRED], 2)
        found += [
            (_spelled_value(one), _spelled_value(other)) for one, other in _SHARE.findall(normalise(sentence))
        ]
    return found


def fenced_code(known: Analysis) -> str:
    """Return the lines of code in an answer: their numbers and names are there to be typed.

    None in an answer that is fenced as a whole, and in prose (```markdown). For ``known.memoize(fenced_code)``.
    """
    if "```" not in known.text and "~~~" not in known.text:
        return ""
    if not _FENCED.sub("", known.text).strip():
        return ""
    fenced = [found[2].partition("\n") for found in _FENCED.finditer(known.text)]
    blocks = [lines for name, _, lines in fenced if name.strip().lower() not in _PROSE]
    return "\n".join([" ".join(line.split()) for line in "\n".join(blocks).split("\n")])


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
    few = [_OTHERWISE * len(terms) for terms in claiming]
    for at, (text, terms) in enumerate(zip(texts, lacking, strict=True)):
        has_number = _NUMBER.search(text) is not None
        if (not terms and not has_number) or (code and text in code):
            continue
        if has_number:
            given = given or _Sources(contexts, question)
            low = given.low
            if any(map(_has_digit, terms)) or [one for one in _with_units(text.lower()) if one not in low]:
                found += _absent_numbers(at, text, given)
        if terms and len(terms) <= few[at] and not text[1:].islower():
            given = given or _Sources(contexts, question)
            found += _absent_names(at, text, frozenset(terms), given)
    return found


def _with_units(text: str) -> Iterator[str]:
    """Return the numbers of a text in lower case with their units, and with their part of the day."""
    for found in _UNIT_AFTER.finditer(text):
        start, end = found.span()
        yield text[start - 2 if text[max(0, start - 2) : start] in _PARTS_OF_DAY else start : end]


def _has_digit(term: str) -> bool:
    return any(map(str.isdigit, term))


_BETWEEN_THINGS = re.compile(r",? (?:and|or|и|или) |[,;、和及]+ ?")
_MALFORMED = re.compile(r"\d,\d{3},\d{1,2}(?!\d)")
"""No number in any notation: its value cannot be compared."""
_CONVERTED = re.compile(r"\d[^().;]{0,24}\([~≈]?\s?\Z")
_FENCED = re.compile(r"^[ \t]*(```+|~~~+)(.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_PROSE = frozenset("text txt plain plaintext markdown md".split())
_OF_LIFE = re.compile(
    r"\b(?:my|your|his|her|our|their|one's) (?:(?:early|mid|late)[ -])?(?:\d0'?s(?:,? (?:or|and|to) |-))*\Z"
)
"""Before a decade of a life: in your 20s or 30s."""
_SIZES = (
    {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86_400.0, "week": 604_800.0},
    {"month": 1.0, "year": 12.0},
    {"mg": 1.0, "g": 1e3, "kg": 1e6, "t": 1e9},
    {"mm": 1.0, "cm": 10.0, "m": 1e3, "km": 1e6},
    {"ml": 1.0, "l": 1e3},
)
"""Units of one kind."""
_DEGREES = frozenset(("°", "°c", "°f"))
_BESIDE = 24
"""Characters around a number that may contain its unit."""
_UNIT_AFTER = read_pattern("facts.unit_after")
_PARTS_OF_DAY = frozenset(("上午", "下午", "中午", "早上", "晚上", "凌晨"))


class _Sources:
    """The numbers and dates of chunks and question, read on first use."""

    def __init__(self, contexts: Sequence[Analysis], question: Analysis) -> None:
        self.texts = [*contexts, question]

    @lazy_attribute
    def low(self) -> str:
        """All texts, in lower case."""
        return "\n".join([text.plain for text in self.texts]).lower().replace("ё", "е")

    @lazy_attribute
    def _bare(self) -> str:
        """The same without any separator of digits."""
        if self.low.isascii():
            return self.low.translate(_WITHOUT)  # far slower for other text
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

    def has(self, values: Sequence[str], units: frozenset[str], said: str, *, hedged: bool) -> bool:
        """Return whether the chunks have one of `values` with a unit that does not contradict `units`.

        Or a number that plainly follows from theirs; `said` is the answer's sentence.
        """
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
                        beside = _units_beside(value, text.plain) if units else set()
                        if "" in beside or beside & units or not beside - _LOOSE:
                            return True
                        seen = True
        if seen:
            return False
        return any(self._follows(value, said, units, hedged=hedged) for value in values)

    def has_in_other_units(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Return whether a chunk has one of these values and units in another unit of the same kind."""
        for value, unit in pairs:
            for sizes in _SIZES:
                if unit not in sizes or not value.replace(".", "", 1).isdecimal():
                    continue
                for other, size in sizes.items():
                    same = f"{float(value) * sizes[unit] / size:.10g}"
                    for text in self.texts if other != unit else ():
                        if same in text.memoize(_values):
                            beside = _units_beside(same, text.plain)
                            if other in beside or beside <= _LOOSE:  # 1500 г. may be a year
                                return True
                    if other != unit and self._spells(same):
                        return True
        return False

    def _spells(self, value: str) -> bool:
        """Return whether a text has it as a word."""
        return value in _SPELLED and _spelling_pattern(value).search(self.low) is not None

    def has_date(self, said: str, at: int) -> bool:
        """Return whether a chunk has the date at an index of a sentence, in any notation."""
        for start, end in date_spans(said):
            if start <= at < end:
                return not self._dates.isdisjoint(date_keys(said[start:end], whole=True))
        return False

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
        pairs = chain.from_iterable(text.memoize(_number_pairs) for text in self.texts)
        if not shares:
            return any(one - other == number and other > 999 for one, other in pairs)
        return any(
            other and abs(number - 100 * some / other) <= _ROUNDING
            for one, other in pairs
            for some in (one, abs(one - other))
            if some
        )

    def _follows(self, value: str, said: str, units: frozenset[str], *, hedged: bool) -> bool:
        if self._spells(value):
            return True
        try:
            number = float(value)
        except ValueError:
            return False
        if number == _count_of_list(said) or self._is_computed(value, said, units):
            return True
        if number <= _LARGEST_ROMAN and _ORDINAL.search(said):  # Louis XIV
            numerals = chain.from_iterable([_ROMAN.findall(text.plain) for text in self.texts])
            if number in [roman_value(numeral.lower()) for numeral in numerals]:
                return True
        adds = _ADDED.search(said) is not None
        own = frozenset([float(one) for one in map(_as_decimal, _NUMBER.findall(said)) if one])
        century = number < 22 and _CENTURY.search(said) is not None
        if not (adds or hedged or century or value.endswith("0") or _is_sum(number, own)):
            return False
        plain = self.plain
        if _is_sum(number, plain if adds else own & plain):
            return True
        years = [other for other in plain if 999 < other < 2100]
        if value.endswith("0") and [year for year in years if number <= year < number + 10]:
            return True  # the 1990s
        if century and number in [year // 100 + 1 for year in years]:
            return True  # the 19th century
        if 999 < number < 2100 and not number % 100 and number // 100 + 1 in plain:
            return True  # the 1800s
        return hedged and any(_rounds(other, number) for other in plain)

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
        return frozenset([float(one) for one in plain if len(one) < 16])


def _is_sum(number: float, known: Collection[float]) -> bool:
    """Return whether a number is the sum or difference of two of these."""
    return any(round(number - one, 6) in known or number + one in known for one in known)


def _as_decimal(number: str) -> str:
    plain = number.replace(",", "")
    return plain if plain.replace(".", "", 1).isdecimal() else ""


def _spelled_value(word: str) -> float:
    """Return the number from 1 to 20 in a word or figures, or 0."""
    if word.isdecimal():
        return float(word)
    return next((n for n in range(1, 21) if word in _WORDS[str(n)]), 0)


def _count_of_list(said: str) -> int:
    """Return the number of items that a sentence lists after its colon: 3 members: Ann, Bob and Carl."""
    _, colon, things = said.partition(": ")
    return len(_BETWEEN_THINGS.findall(things)) + 1 if colon else 0


def _rounds(exact: float, said: float) -> bool:
    """Return whether a number stated as approximate is the other one, truncated or rounded to its digits."""
    digits = f"{said:.10g}".replace(".", "").strip("0")
    return bool(exact) and abs(exact - said) <= abs(exact) * (0.5 if len(digits) < _ROUND else 0.1)


_LOOSE = frozenset(("", "ordinal", "decade", "century", "year", "bc"))
"""Units that add nothing to the number itself."""


def _absent_numbers(at: int, text: str, given: _Sources) -> list[Fact]:
    said = flat(text)
    found: list[Fact] = []
    last = found_end = -1
    for one in sorted(quantities(said), key=lambda one: (one.start, one.start - one.end)):
        written = said[one.start : one.end]
        if one.start < last or not _has_digit(written) or _is_range(one.keys):
            continue
        if _MALFORMED.search(said[one.start : one.end + 4]):
            continue
        pairs = list(map(_value_and_unit, one.keys))
        units = frozenset(unit for _, unit in pairs) - _LOOSE
        values = [value for value, _ in pairs]
        if written.isdecimal() and written not in values:
            values.append(written)  # in "in 2019 to 3 billion" the power of ten applies to both
        share = _FRACTION.search(said, max(0, one.start - 2), one.end + 3)
        if share is not None and int(share[1]) < int(share[2]):
            values, units = [str(round(100 * int(share[1]) / int(share[2])))], frozenset("%")
        if values[0].startswith(("time:", "clock:")):
            values += [*same_times(values), *given.bare_hours(values, written)]
        hedged = _HEDGE.search(said[max(0, one.start - 16) : one.start]) is not None
        if any(unit == "decade" for _, unit in pairs) and len(values[0]) == _SHORT:
            if _OF_LIFE.search(said[: one.start]):
                continue
            values += [f"{century}{values[0]}" for century in (18, 19, 20)]
        if given.has(values, units, said, hedged=hedged) or given.has_in_other_units(pairs):
            if found and one.start - found_end < _BESIDE and _CONVERTED.search(said[: one.start]):
                found.pop()  # 984 feet (300 m)
            continue
        last = one.end
        if given.has_date(said, one.start):
            continue
        if _CONVERTED.search(said[: one.start]):
            continue  # 350 °F (175 °C)
        if found and said[found_end : one.start].strip() in ("-", "/", "x", "×"):
            continue  # a telephone number is one fact
        found_end = one.end
        found.append(Fact(at, _as_said(written, text), units, is_number=True))
    return found


def _as_said(written: str, text: str) -> str:
    """Return the original spelling of a part of a text that `flat` changed."""
    small = text.lower()
    place = small.find(written)
    if place < 0 or len(small) != len(text):
        found = re.search(re.escape(written), text, re.IGNORECASE)
        return found[0] if found else written
    return text[place : place + len(written)]


def _is_range(keys: frozenset[str]) -> bool:
    return any(key.startswith("range:") for key in keys)


def _absent_names(at: int, text: str, lacking: frozenset[str], given: _Sources) -> list[Fact]:
    words = text.split()
    if "**" in text or sum([word[:1].isupper() for word in words]) * 2 > len(words):
        return []  # a heading
    found: list[Fact] = []
    for name in _NAME.finditer(text):
        if not _BEFORE_NAME.search(text[: name.start()].rstrip('( «“"')):
            continue  # the first word of a sentence may be any word
        parts = [normalise(part) for part in _NO_LETTERS.split(name[0]) if part[:1].isupper()]
        if max(map(len, parts)) < _STEM or UNIT_WORDS.issuperset(parts):
            continue
        if _is_acronym(name[0], given.low):
            continue
        last = parts[-1]  # Queen Beatrix instead of Queen Margrethe
        if CONTENT[last] in lacking and last.removesuffix("s")[:_STEM] not in given.low:
            found.append(Fact(at, name[0].rstrip(".’'-"), frozenset(), is_number=False))
    return found


def _is_acronym(name: str, low: str) -> bool:
    if not name.isupper():
        return False
    return re.search(r"\W+".join(rf"{letter}\w*" for letter in re.escape(name.lower())), low) is not None


def nearest_sentence(
    fact: Fact, terms: Sequence[str], contexts: Sequence[Analysis], each: Sequence[Vocabulary]
) -> tuple[int, str, str] | None:
    """Return the chunk's index, its sentence and its differing fact; None: no sentence differs.

    It is the sentence that shares most words with the fact's sentence, at least half of them, and has a
    number of the same unit or, for a name, most of the words and another name.

    Args:
        fact: The fact.
        terms: The terms of its sentence.
        contexts: The chunks.
        each: The terms of the answer that each chunk has.
    """
    beside = frozenset(terms).difference([CONTENT[word] for word in normalise(fact.text).split()])
    least = max(1, 0.5 * len(beside)) if fact.is_number else max(3, 0.75 * len(beside))
    best: tuple[int, int, str, str] | None = None
    for place, (context, held) in enumerate(zip(contexts, each, strict=True)):
        here = beside & held.words
        if len(here) < least:
            continue
        if context.has_han:
            looked_for = search_terms(here)
            lines = context.memoize(sentence_lines)
            counts = [len(held_in_line(line, looked_for)) for line in lines]
        else:
            counts = [*map(len, map(here.__and__, context.sentence_sets))]
        for sentence, shared in zip(context.sentences, counts, strict=True):
            if shared < least or (best is not None and shared <= best[0]):
                continue
            other = _other_number(sentence, fact.units) if fact.is_number else _other_name(sentence, terms)
            if other is not None:
                best = (shared, place, sentence, other)
    return None if best is None else best[1:]


def _other_number(sentence: str, units: frozenset[str]) -> str | None:
    said = flat(sentence)
    for one in quantities(said):
        own = frozenset(unit for _, unit in map(_value_and_unit, one.keys)) - _LOOSE
        if (own & units or own == units) and not _is_range(one.keys):
            return said[one.start : one.end]
    return None


def _other_name(sentence: str, terms: Sequence[str]) -> str | None:
    for name in _NAME.finditer(sentence):
        last = normalise(_NO_LETTERS.split(name[0].rstrip(".’'-"))[-1])
        if _BEFORE_NAME.search(sentence[: name.start()].rstrip('( «“"')) and CONTENT[last] not in terms:
            return name[0]
    return None
