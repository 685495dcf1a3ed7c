"""Finds numbers and names in an answer that no chunk has.

`_claims` calls this for the metrics of support. Only facts that a person can check in a second count: a
number with its unit, a date, a name in the middle of a sentence. No conflict are numbers that only enumerate
(`framing`), that the question has, that are words unless the chunks have another amount in the same unit, or
that round or plainly add up the chunks' numbers: a false alarm costs more trust than a missed number.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from .amounts import LOOSE, compounds, flat, is_range, spelled_quantities, value_and_unit
from .analysis import Analysis
from .contraries import is_contrary, may_be_contrary, may_state_month, stated_months
from .conversions import agree, by_unit
from .designations import absent_designations
from .given_numbers import CENTURY, MOST_NUMBERS, NUMBER, GivenNumbers
from .number_words import BESIDE, number_stems
from .numerals import HAN_NUMERALS
from .quantities import Quantity, quantities
from .stems import CONTENT
from .terms import terms_of_line
from .times import same_times
from .tokens import has_han, normalise
from .units import UNIT_WORDS
from .word_lists import read_pattern

_HEDGE = read_pattern("facts.hedge")
_FRACTION = re.compile(r"(?<![\d/.,])(\d{1,2})/(\d{1,2})(?![\d/.,])")
_IS_ROMAN = re.compile("[ivx]+")
_UPPER = "A-ZÀ-ÖØ-ÞА-ЯЁ"
_NAME = re.compile(
    rf"[{_UPPER}](?<![^\W_].)[\w.'’-]*(?:(?: (?:of|the|and|de|von|van|der|al|и))*[ ][{_UPPER}][\w.'’-]*)*"
)
_NO_LETTERS = re.compile(r"\W+")
_BEFORE_NAME = re.compile(r"[a-zà-ÿа-яё0-9,]\Z")
_OTHERWISE = 0.5
"""Largest share of a sentence in no chunk for one of its names to count as substituted for another."""
_HAN_AMOUNTS = frozenset(HAN_NUMERALS) - frozenset("一十千万")
"""Chinese numerals that begin few other words."""
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


def absent_facts(
    texts: Sequence[str],
    claiming: Sequence[Sequence[str]],
    lacking: Sequence[Sequence[str]],
    contexts: Sequence[Analysis],
    question: Analysis,
    code: str,
) -> tuple[list[Fact], list[list[str]]]:
    """Return the numbers and names of an answer that neither a chunk nor the question has.

    And for each sentence the terms of amounts that they have in other words: 25 megabytes for 25 MB.

    Args:
        texts: The sentences of the answer, from `framing.claim_texts`.
        claiming: The terms of each sentence.
        lacking: The terms of each sentence that no chunk has.
        contexts: The chunks.
        question: The question.
        code: The answer's `fenced_code`.
    """
    found: list[Fact] = []
    restated: list[list[str]] = [[] for _ in texts]
    given = GivenNumbers(contexts, question)
    whole = "\n".join(texts)
    has_months, reversible = may_state_month(whole), may_be_contrary(whole.lower())
    few = [_OTHERWISE * len(terms) for terms in claiming]
    for at, (text, terms) in enumerate(zip(texts, lacking, strict=True)):
        is_roman = any(map(_IS_ROMAN.fullmatch, terms))
        has_number = NUMBER.search(text) is not None or (
            (is_roman or reversible) and CENTURY.search(text) is not None
        )
        dated = has_months and may_state_month(text)
        if not (terms or has_number or dated) or (code and text in code):
            continue
        in_words = any(map(_may_be_amount, terms))
        if has_number or in_words:
            low = given.low
            with_units = _with_units(text.lower())
            if (
                in_words
                or is_roman
                or any(map(_has_digit, terms))
                or any(one not in low for one in with_units)
                or reversible
            ):
                absent, same = _absent_numbers(at, text, given, reversible=reversible)
                found += absent
                restated[at] = same
                found += [Fact(at, one, CODE, is_number=True) for one in absent_designations(text, low)]
        months: list[Fact] = []
        if dated:
            months = [
                Fact(at, month, MONTH, is_number=False)
                for month, number in stated_months(text)
                if not given.has_month(month, number)
            ]
            found += months
        if terms and not months and len(terms) <= few[at] and not text[1:].islower():
            found += _absent_names(at, text, frozenset(terms), given)
    return found, restated


def _may_be_amount(term: str) -> bool:
    """Return whether a term may be of a number in words, or of a unit."""
    if has_han(term):
        return term[0] in _HAN_AMOUNTS or (term[0] in HAN_NUMERALS and term[-1] in HAN_NUMERALS)
    return term in _amount_stems()


@cache
def _amount_stems() -> frozenset[str | None]:
    return number_stems().union(map(CONTENT.__getitem__, UNIT_WORDS))


def _with_units(text: str) -> Iterator[str]:
    """Return the numbers of a text in lower case with their units, signs of currency and parts of the day."""
    for found in _UNIT_AFTER.finditer(text):
        start, end = found.span()
        before = text[max(0, start - 2) : start]
        yield text[start - (2 if before in _PARTS_OF_DAY else before[-1:] in _CURRENCIES) : end]


def _has_digit(term: str) -> bool:
    return any(map(str.isdigit, term))


_MALFORMED = re.compile(r"\d,\d{3},\d{1,2}(?!\d)")
"""No number in any notation: its value cannot be compared."""
_TWO_BEFORE = re.compile(r"\d[^.;(]{0,12}[^\d.,]\d[\d.,]*[^().;\d]{0,24}\([~≈]?\s?\Z")
_CONVERTED = re.compile(r"\d[^().;]{0,24}\([~≈]?\s?\Z")
_OF_LIFE = re.compile(
    r"\b(?:my|your|his|her|our|their|one's) (?:(?:early|mid|late)[ -])?(?:\d0'?s(?:,? (?:or|and|to) |-))*\Z"
)
"""Before a decade of a life: in your 20s or 30s."""
_NEAR = 80
"""Characters before a number that may say what it is."""
_HEDGING = 16
"""Characters before a number that may say how exact it is."""
_UNIT_AFTER = read_pattern("facts.unit_after")
_PARTS_OF_DAY = frozenset(("上午", "下午", "午前", "午後", "中午", "早上", "晚上", "凌晨"))
_CURRENCIES = frozenset("$€£¥₽₹")
CODE, MONTH = frozenset(("designation",)), frozenset(("month of a year",))
"""The units of a designation and of a month's name."""


def _absent_numbers(
    at: int, text: str, given: GivenNumbers, *, reversible: bool
) -> tuple[list[Fact], list[str]]:
    said = flat(text)
    found: list[Fact] = []
    restated: list[str] = []
    last = found_end = -1
    before: Sequence[tuple[str, str]] = ()
    read = [*quantities(said), *spelled_quantities(said)]
    every = sorted(read, key=lambda one: (one.start, one.start - one.end))
    passed = given.long_numbers(said)
    passed += [(start, end) for start, end, pairs in compounds(every) if given.has_amount(pairs)]
    for one in every[:MOST_NUMBERS]:
        if one.start < last or is_range(one.keys) or _MALFORMED.search(said[one.start : one.end + 4]):
            continue
        leading = said[max(0, one.start - _NEAR) : one.start]
        if any(key.endswith("|decade") for key in one.keys) and _OF_LIFE.search(leading):
            continue
        written = said[one.start : one.end]
        pairs = list(map(value_and_unit, one.keys))
        values, kinds = _readings(one, said, pairs, given)
        in_words = not (_has_digit(written) or "century" in kinds)
        hedge = _HEDGE.search(leading[-_HEDGING:])
        whole = values[0].partition(".")[0]
        scaled = whole.isdecimal() and sum(map(str.isdigit, written)) < len(whole)  # 8.34 million
        how = (hedge and hedge.lastgroup) or ("scaled" if scaled else "exactly")
        converted = _CONVERTED.search(leading) is not None
        wrong = (
            converted
            and said[one.end : one.end + 1] == ")"
            and _TWO_BEFORE.search(leading) is None
            and agree(before, by_unit(pairs)) is False  # alone in its brackets: 25 miles (40 km)
        )
        before = pairs
        fact = Fact(at, _as_said(written, text), kinds - LOOSE, is_number=True)
        if given.has(values, kinds, said, how) or given.has_amount(pairs):
            restated += terms_of_line(written)
            if reversible and not in_words and is_contrary(said, one, given.flat):
                found.append(fact)
            elif found and one.start - found_end < BESIDE and converted and not wrong:
                found.pop()  # 984 feet (300 m)
            continue
        if in_words and (hedge or not given.contradicts(pairs)):
            continue
        last = one.end
        if (
            given.has_date(said, one.start)
            or (converted and not wrong)  # 350 °F (175 °C)
            or any(start <= one.start < end for start, end in passed)
            or (found and said[found_end : one.start].strip() in ("-", "/", "x", "×"))  # one telephone number
        ):
            continue
        found_end = one.end
        found.append(fact)
    return found, restated


def _readings(
    one: Quantity, said: str, pairs: Sequence[tuple[str, str]], given: GivenNumbers
) -> tuple[list[str], frozenset[str]]:
    """Return the values that a number of a sentence may have, and its units."""
    values = [value for value, _ in pairs]
    kinds = frozenset(unit for _, unit in pairs)
    written = said[one.start : one.end]
    if written.isdecimal() and written not in values:
        values.append(written)  # in "in 2019 to 3 billion" the power of ten applies to both
    share = _FRACTION.search(said, max(0, one.start - 2), one.end + 3)
    if share is not None and int(share[1]) < int(share[2]):
        values, kinds = [str(round(100 * int(share[1]) / int(share[2])))], frozenset("%")
    if values[0].startswith(("time:", "clock:")):
        values += [*same_times(values), *given.bare_hours(values, written)]
    if "decade" in kinds and len(values[0]) == 2:
        values += [f"{century}{values[0]}" for century in (18, 19, 20)]
    return values, kinds


def _as_said(written: str, text: str) -> str:
    """Return the original spelling of a part of a text that `flat` changed."""
    small = text.lower()
    place = small.find(written)
    if place < 0 or len(small) != len(text):
        found = re.search(re.escape(written), text, re.IGNORECASE)
        return found[0] if found else written
    return text[place : place + len(written)]


def _absent_names(at: int, text: str, lacking: frozenset[str], given: GivenNumbers) -> list[Fact]:
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
