"""Extract the numbers and months of a chunk's sentences, to find contradictions between chunks.

A sentence is kept as the hashes of its words without its figures, and its figures in order.  Numbers are
compared by value: ``1,000`` is ``1000``, ``3,50`` is ``3.5``; ``thirty`` and ``三十`` are ``30``.
"""

from __future__ import annotations

import re
import sys
from array import array
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.dates import month_number
from ragmeter.metrics.text.numerals import HAN_NUMERAL, han_value
from ragmeter.metrics.text.tokens import line_tokens
from ragmeter.metrics.text.units import UNIT
from ragmeter.metrics.text.word_lists import read_entries

LEAST_WORDS = 6
"""Least number of words besides the figures for a sentence to be compared."""
_MOST_SENTENCES = 40
_QUOTE_CHARS = 200
_NOTE = re.compile(
    r"\[\d{1,3}\]"
    r"|^(?:\s*(?:(?:Step|Part|Section|Шаг|Часть|Раздел) )?\(?\d{1,3}(?:[.:)](?!\d)|\s(?=[A-ZА-ЯЁ])))+"
)
"""The mark of a footnote and the number of a list item, which are not part of the statement."""
_SPACED = re.compile(r"(?<![\d.,])(\d{1,3})((?:[ \u00a0\u2009\u202f]\d{3})+)(?![\d.,])")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_CARDINALS = tuple((value, re.compile("|".join(forms))) for value, forms in read_entries("cardinals").items())
_BEFORE_NUMERAL = ("百分之", "星期", "礼拜", "周", "第")
_AFTER_NUMERAL = re.compile(f"[月日号號个位名人次倍]|{UNIT.pattern}")
"""Beside these a single Chinese numeral is a number; else it is mostly part of a word."""


class FiguredSentence(NamedTuple):
    """A sentence that states a number or a month."""

    words: array[int]
    """The distinct hashes of its words without figures, sorted."""
    key: int
    """The hash of the words in their order."""
    figures: tuple[str, ...]
    """Its numbers and months, in order."""
    text: str
    """The sentence itself, shortened."""


def figured_sentences(text: str) -> tuple[FiguredSentence, ...]:
    """Return the sentences of a chunk with a number or a month, and `LEAST_WORDS` other words."""
    found: list[FiguredSentence] = []
    for sentence in analyse(text).sentences:
        if len(found) == _MOST_SENTENCES:
            break
        words, figures = _read(sentence)
        if figures and len(words) >= LEAST_WORDS:
            hashes = array("I", sorted(set(map(_hash, words))))
            found.append(FiguredSentence(hashes, _hash(" ".join(words)), figures, sentence[:_QUOTE_CHARS]))
    return tuple(found)


def _read(sentence: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the words of a sentence, and its figures."""
    plain = HAN_NUMERAL.sub(_in_digits, _NOTE.sub(" ", sentence))
    words: list[str] = []
    figures: list[str] = []
    for token in line_tokens(_SPACED.sub(lambda found: re.sub(r"\D", "", found[0]), plain)):
        figure = _FIGURE.match(token)
        if figure is not None:
            figures.append(sys.intern(_value(figure[0])))
            words += filter(None, [token[figure.end() :]])
        elif named := _named_figure(token):
            figures.append(named)
        else:
            words.append(token)
    return words, tuple(figures)


def _in_digits(found: re.Match[str]) -> str:
    text, start, end = found.string, found.start(), found.end()
    is_number = (
        end - start > 1
        or text.endswith(_BEFORE_NUMERAL, 0, start)
        or _AFTER_NUMERAL.match(text, end) is not None
    )
    value = han_value(found[0]) if is_number else None
    return found[0] if value is None else f" {value} "


def _value(figure: str) -> str:
    if _THOUSANDS.fullmatch(figure):
        figure = figure.replace(",", "")
    whole, point, rest = figure.replace(",", ".").partition(".")
    if "." in rest:
        return figure
    return (whole.lstrip("0") or "0") + (f".{rest}".rstrip("0").rstrip(".") if point else "")


@lru_cache(maxsize=4096)
def _named_figure(word: str) -> str:
    """Return the figure for a word, a number or a month; empty: none."""
    if month := month_number(word):
        return f"month {month}"
    return next((value for value, form in _CARDINALS if form.fullmatch(word)), "")


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))
