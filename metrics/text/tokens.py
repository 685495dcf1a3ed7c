"""Split text into the tokens that every lexical and ROUGE metric counts.

The metrics and the entity tiers call this; nothing here depends on a metric. English, Russian and Chinese are
split by one rule, in time linear in the text.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import cast

from .characters import HAN, OTHER_THAN_RUSSIAN, marks
from .cleaning import clean
from .layout import units
from .stems import CONTENT, MARK

__all__ = [
    "LEAST_HAN",
    "MARK",
    "content_of",
    "content_set_of",
    "content_tokens",
    "has_han",
    "is_han",
    "line_tokens",
    "normalise",
    "runs_of_line",
    "runs_of_lines",
    "tokens",
    "tokens_of_lines",
    "tokens_of_runs",
    "words_beginning",
]

# One token is one Han character, or a run of other letters and digits; a decimal stays whole. No alternative
# can match where another failed, so nothing is scanned twice.
_ASCII_LINES = {
    code: letter.lower() if (letter := chr(code)).isalnum() or letter == MARK else " " for code in range(128)
}
_PIECE = 50_000
"""Longest text to split in one call, some 5 ms."""
# Where a text may be divided: after white space or a Han character, unless a mark follows.
_BORDER = re.compile(rf"[\s{HAN}](?=[\s\w])")
_NOTHING = frozenset((None,))
_WIDE_PUNCTUATION = tuple(zip("，：；！？（）", ",:;!?()", strict=True))
_TYPOGRAPHY = "’‘“”–—…•\u00a0"
# A full stop or a comma before a digit: only there can a token contain one. Looking for ".0" in the
# translated text takes a third of a regular expression's time.
_ASCII_SHAPE = {
    code: "0" if (letter := chr(code)).isdigit() else "." if letter in ".," else " " for code in range(128)
}
_ASCII_TOKEN = re.compile(rf"[a-z0-9]+(?:[.,][0-9]+)*|{MARK}")
_RUN = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+(?:[.,]\d+)*|{MARK}")
_HAN = re.compile(f"[{HAN}]")
LEAST_HAN = "\u3005"
_OTHER = "[^\\0-\x7f\xb7\u2013\u2014\u2018-\u201f\u3001\u3002\u3008-\u3011\u3400-\u4dbf\u4e00-\u9fff]"
_OTHER_THAN_HAN = re.compile(f"{_OTHER}{_OTHER}*")
"""Letters of the large block of Han, stops, quotes and brackets that neither decompose nor compose with
others."""
_CAPITAL = re.compile("[A-Z]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
# Accents that NFKC and casefold leave separate: of a spaced accent, and the dot of a Turkish capital I.
_LOOSE = re.compile("[\u0300-\u036f]+")


@lru_cache(maxsize=2)
def _with_marks(*, astral: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a pattern for a combining mark, and `_RUN` for texts that have one."""
    mark = f"[{marks(astral=astral)}]"
    letters = rf"[^\W_{HAN}]"
    return (re.compile(mark), re.compile(rf"[{HAN}]+|{letters}+(?:{mark}+{letters}*)*(?:[.,]\d+)*|{MARK}"))


def normalise(text: str) -> str:
    """Return a cleaned text in NFKC, casefolded, ё as е, without separate accents.

    Accents that belong to a letter stay (é, й), and so do the vowel signs of other scripts.
    """
    if text.isascii():
        return text.lower()
    if not is_han(text) and OTHER_THAN_RUSSIAN.search(text) is None:
        return text.lower().replace("ё", "е")
    if has_han(text):
        # Usually only punctuation is not in NFKC, and the following step costs a hundred times as much.
        for wide, narrow in _WIDE_PUNCTUATION:
            text = text.replace(wide, narrow)
        if _OTHER_THAN_HAN.search(text) is None:
            return text.lower() if _CAPITAL.search(text) else text
        text = _OTHER_THAN_HAN.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    folded = unicodedata.normalize("NFKC", text).casefold().replace("ё", "е")
    return _LOOSE.sub("", folded) if _LOOSE.search(folded) else folded


def _without_typography(text: str) -> str:
    # Often an apostrophe or a dash is the only non-ASCII character; none of these is part of a token.
    if not text.isascii():
        for mark in _TYPOGRAPHY:
            text = text.replace(mark, " ")
    return text


def tokens(text: str) -> list[str]:
    """Split `text` into tokens: words of letters and digits, and single Han characters.

    Case, width and compatibility forms do not matter (NFKC, casefold), nor does ё for е; a decimal
    such as ``3.5`` or ``3,5`` stays one token; combining marks stay with their letters;
    punctuation, spaces and underscores are dropped.  Stop words stay.  Line breaks do not matter:
    a word that one of them hyphenates is whole again where `layout.units` makes it so.
    """
    return line_tokens("\n".join(units(clean(text))))


def line_tokens(text: str) -> list[str]:
    """Split a text without layout, a unit or sentence, into tokens as `tokens` does."""
    if len(text) <= _PIECE:
        return _piece_tokens(text)
    return [word for piece in _pieces(text) for word in _piece_tokens(piece)]


def words_beginning(lines: Sequence[str], beginnings: Collection[str]) -> list[set[str]]:
    """Return for each line the `line_tokens` with these beginnings, which have no Han character.

    Only the text around the matches is split: for long lines, little.
    """
    if not lines:
        return []
    if sum(map(len, lines)) > _PIECE:
        cut = (_words_beginning(list(_pieces(line)), beginnings) for line in lines)
        return [set().union(*pieces) for pieces in cut]
    return _words_beginning(lines, beginnings)


def _words_beginning(lines: Sequence[str], beginnings: Collection[str]) -> list[set[str]]:
    begins = methodcaller("startswith", tuple(beginnings))
    normal = normalise(_without_typography(f" {MARK} ".join(lines))).replace("\n", " ")
    spans: dict[int, int] = {}
    for beginning in (*beginnings, MARK):
        at = normal.find(beginning)
        while at >= 0:
            end = at + 1
            before = normal[at - 1 : at]
            if before >= LEAST_HAN or not before.isalpha():  # else it is inside a token
                start, end = normal.rfind(" ", 0, at) + 1, normal.find(" ", at)
                end = spans[start] = len(normal) if end < 0 else end
            at = normal.find(beginning, end)
    found: list[set[str]] = [set()]
    for word in _cut(" ".join([normal[start:end] for start, end in sorted(spans.items())])):
        if word == MARK:
            found.append(set())
        elif begins(word):
            found[-1].add(word)
    return found


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces short enough not to hold the interpreter lock for long."""
    start = 0
    while start < len(text):
        border = _BORDER.search(text, start + _PIECE)
        end = border.end() if border else len(text)
        yield text[start:end]
        start = end


def _has_ascii_decimal(text: str) -> bool:
    return ".0" in text.translate(_ASCII_SHAPE)


def _piece_tokens(text: str) -> list[str]:
    text = _without_typography(text)
    if text.isascii() and not _has_ascii_decimal(text):
        return text.translate(_ASCII_LINES).split()
    normal = normalise(text)
    runs = _cut(normal)
    return tokens_of_runs(runs) if has_han(normal) else runs


def _cut(normal: str) -> list[str]:
    """Return the runs of a normalised text."""
    return _ASCII_TOKEN.findall(normal) if normal.isascii() else _runs(normal)


def _runs(normal: str) -> list[str]:
    if _OTHER_THAN_HAN.search(normal) is None:
        return _RUN.findall(normal)
    mark, run = _with_marks(astral=_ASTRAL.search(normal) is not None)
    return (_RUN if mark.search(normal) is None else run).findall(normal)


def is_han(run: str) -> bool:
    """Return whether a word begins with a Han character; then all of it is Han."""
    # Nearly all of them occur in one place, where nothing else of a word does.
    return "\u3400" <= run < "\ua000" or (run >= LEAST_HAN and _HAN.match(run) is not None)


def tokens_of_runs(runs: Iterable[str]) -> list[str]:
    """Return tokens from the result of `runs_of_lines`, splitting its runs of Han characters."""
    found: list[str] = []
    for run in runs:
        if is_han(run):
            found += run
        else:
            found.append(run)
    return found


def runs_of_lines(lines: Sequence[str]) -> list[str]:
    """Return the result of `tokens_of_lines`, but each run of Han characters in one piece."""
    if sum(map(len, lines)) > _PIECE:
        return [run for line in lines for run in (*runs_of_line(line), MARK)]
    return [*_runs(normalise(MARK.join(lines))), MARK] if lines else []


def runs_of_line(line: str) -> list[str]:
    """Return the result of `line_tokens`, but each run of Han characters in one piece."""
    return [run for piece in _pieces(line) for run in _runs(normalise(piece))]


def tokens_of_lines(lines: Sequence[str]) -> list[str]:
    """Split many texts at once: the `line_tokens` of each, with `MARK` after each.

    One flat list is cheaper to create, store and free than a list of lists.
    """
    if not lines:
        return []
    if sum(map(len, lines)) > _PIECE:
        middle = len(lines) // 2
        if not middle:
            return _one_by_one(lines)
        return tokens_of_lines(lines[:middle]) + tokens_of_lines(lines[middle:])
    text = _without_typography(f" {MARK} ".join(lines))
    if not text.isascii():
        runs = runs_of_lines(lines)
        return tokens_of_runs(runs) if has_han("".join(runs)) else runs
    if _has_ascii_decimal(text):
        return _ASCII_TOKEN.findall(text.lower() + MARK)
    found = text.translate(_ASCII_LINES).split()
    found.append(MARK)
    return found


def _one_by_one(lines: Iterable[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        found += line_tokens(line)
        found.append(MARK)
    return found


def content_of(words: Iterable[str]) -> list[str]:
    """Remove English stop words from `words` (as `tokens` returns them) and stem the others."""
    content = CONTENT
    return [stemmed for word in words if (stemmed := content[word]) is not None]


def content_set_of(words: Iterable[str]) -> frozenset[str]:
    """Return the distinct tokens of ``content_of(words)``, at less than half of its cost."""
    found: frozenset[str | None] = frozenset(map(CONTENT.__getitem__, words))
    return cast("frozenset[str]", found - _NOTHING if None in found else found)


def content_tokens(text: str) -> list[str]:
    """Split `text` into content tokens: `tokens`, without 79 English function words, stemmed.

    Snowball's Russian stemmer takes words with a Cyrillic letter, its English stemmer pure ASCII
    words; all others stay as they are.  Repeats are kept.
    """
    return content_of(tokens(text))


def has_han(text: str) -> bool:
    """Return whether `text` has a Han character."""
    if text.isascii():
        return False
    if is_han(text):
        return True
    return OTHER_THAN_RUSSIAN.search(text) is not None and _HAN.search(text) is not None
