"""Split English, Russian and Chinese text into sentences, by rules and in linear time.

Every metric that counts sentences splits them here, so that a denominator never moves. One regular expression
finds the runs of end marks; the text before and after a run decides whether a sentence ends there. The word
lists for these decisions are in `abbreviations`.
"""

import re
from collections.abc import Iterable

from .abbreviations import ENDS_IF_CAPITAL, NEVER_ENDS, NUMBER_WORDS, STARTERS
from .characters import HAN
from .cleaning import clean
from .layout import units

_CLOSERS = "\"'”’»›)\\]}」』）】》〉＂＇"
# Danda, Ethiopic, Khmer, Burmese and the other marks that never occur inside a word.
_WIDE = "。！？；｡।॥։።፧፨។៕။᠃"
_MARKS = f".!?…{_WIDE}．‼⁇⁈⁉؟۔"
# One run: an end mark, and the end marks, closing quotes, brackets and notes ([1]) that follow it.  A single
# character class after the first mark, so that a run is never scanned twice.
_NOTE = r"\[[^\[\]\n]{1,20}\]"
_RUN = re.compile(rf"[{_MARKS}][{_MARKS}{_CLOSERS}]*(?:(?:{_NOTE}){{1,9}}(?=\s|\Z))?")
_OTHER_MARK = re.compile(f"[{_MARKS.replace('.', '')}]")
_WORD_BEFORE = re.compile(r"\S*\Z")
_NEXT_WORD = re.compile(r"""\s*([\s"'“„«‹(\[{「『（【《〈¿¡–—-]*)(\w*)""")
_HAN_CHARACTER = re.compile(f"[{HAN}]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_OPENERS = "\"'“„«‹([{「『（【《〈*–—-"
_WIDE_MARKS = frozenset(_WIDE)
_DOUBTFUL = re.compile(f"[{''.join(sorted({*_MARKS} - _WIDE_MARKS))}]")
"""The marks that end a sentence only in some places."""
_UP_TO_WIDE = re.compile(f"[^{_WIDE}]*[{_WIDE}][{_WIDE}{_CLOSERS}]*|[^{_WIDE}]+")
_LONGEST_ABBREVIATION = 24
_GLUED = re.compile(r"([^\W\d_a-z][^\W\d_A-Z]*)(?:['’][^\W\d_]+)?,? ")
_WHOLE_WORD = re.compile(r"(?:(?<!\S)(?:[^\W\d_]{3,}|\d+)|\]) *\Z")
"""Words around a full stop without a space that ends a sentence: they are not in file names or addresses."""
_ROMAN = re.compile(r"[IVXLC]+\Z")
_COMPOUNDS = {"д": "т.д", "п": "т.п", "э": "н.э", "е": "т.е"}
_SPECIAL = NEVER_ENDS | ENDS_IF_CAPITAL | NUMBER_WORDS
_LETTERS_WITH_DOTS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]\Z")

RULES = "4"
"""Version of the splitting rules; part of the definition of scores that count sentences."""


def sentences(text: str) -> list[str]:
    """Split `text` into sentences, stripped, in order; empty for blank text.

    A sentence ends after ``. ! ? …`` before white space, after ``。！？；`` and the marks of other
    scripts, and where a paragraph, list item, heading, table row or line of code ends
    (`layout.units`); a line break inside prose is a space.  Closing quotes, brackets and notes (``.[1]``)
    stay with their sentence.  None ends inside a decimal or a URL, after an initial, a list number or an
    abbreviation (``Dr.``, ``e.g.``, ``г.``, ``т. е.``).  What has no letter or digit is none.
    """
    return sentences_of(units(clean(text)))


def sentences_of(parts: Iterable[str]) -> list[str]:
    """Return the sentences of a text's units."""
    found: list[str] = []
    for part in parts:
        found += _split(part)
    return found


def _split(text: str) -> list[str]:
    """Split one unit without line breaks."""
    if not text.isascii() and _DOUBTFUL.search(text) is None:
        cut = map(str.strip, _UP_TO_WIDE.findall(text))
        return [one for one in cut if one[:1].isalnum() or _LETTER_OR_DIGIT.search(one)]
    found: list[str] = []
    start = at = 0
    other_marks = not text.isascii() or "!" in text or "?" in text
    pieces = text.split(". ")
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        # Most sentences end at once: a whole word, a full stop, a space, a capital letter.
        mark = at + len(piece)
        word = piece[piece.rfind(" ") + 1 :]
        if (
            following[:1].isupper()
            and word.isalpha()
            and "." not in piece
            and word.casefold() not in _SPECIAL
            and len(word) > 1
            and not (other_marks and _OTHER_MARK.search(piece))
        ):
            # Usually a sentence ended right before, and the piece is all of this one.
            whole = start == at - 1
            found.append(f"{piece.lstrip()}." if whole else text[start : mark + 1].strip())
            start = mark + 1
        else:
            for run in _RUN.finditer(text, at, mark + 1):
                end = run.end()
                if _ends_sentence(text, start, run.start(), end):
                    sentence = text[start:end].strip()
                    if sentence[:1].isalnum() or _LETTER_OR_DIGIT.search(sentence):
                        found.append(sentence)
                    start = end
        at = mark + 2
    rest = text[start:].strip()
    if rest[:1].isalnum() or _LETTER_OR_DIGIT.search(rest):
        found.append(rest)
    return found


def _ends_sentence(text: str, start: int, mark: int, end: int) -> bool:
    """Return whether the run ``text[mark:end]`` ends the sentence begun at `start`."""
    if end == len(text):
        return True
    if end == mark + 1 and text[mark] == "." and text[end] == " " and text[end + 1 : end + 2].isupper():
        # The plain case again, beside other marks.
        word = text[text.rfind(" ", start, mark) + 1 : mark]
        if len(word) > 1 and word.isalpha() and word.casefold() not in _SPECIAL:
            return True
    run = text[mark:end]
    following = text[end]
    if run[0] == "．":
        return not following.isdigit()  # the decimal point of wide digits, too
    if not _WIDE_MARKS.isdisjoint(run):
        return True
    if not following.isspace():
        # Chinese typed with half-width marks has no space after them.
        if _HAN_CHARACTER.match(following):
            return run[0] in "!?؟" or _HAN_CHARACTER.match(text[mark - 1 : mark]) is not None
        glued = _GLUED.match(text, end, end + 64)
        before = _WHOLE_WORD.search(text, max(start, mark - _LONGEST_ABBREVIATION), mark)
        if glued is None or before is None:
            return False
        return before[0][0].islower() or before[0][0] == "]" or glued[1] in STARTERS
    # The next word is searched in a bounded range, which keeps everything linear.
    upcoming = _NEXT_WORD.match(text, end, end + 64)
    next_word = upcoming.group(2) if upcoming else ""
    if run[0] != ".":
        if run[0] == "…" or run[-1] not in "!?؟":
            return not next_word[:1].islower()
        return True
    if len(run) > 1:
        # "..." and a closing quote or bracket: the sentence continues in small letters.
        if next_word[:1].islower():
            return False
        if not run[1:].strip(".…!?"):
            return True
    return _word_can_end(_word_before(text, start, mark), text, start, mark, next_word)


def _word_before(text: str, start: int, mark: int) -> str:
    stretch = text[max(start, mark - _LONGEST_ABBREVIATION) : mark]
    found = _WORD_BEFORE.search(stretch)
    return found.group().lstrip(_OPENERS) if found else ""


def _word_can_end(word: str, text: str, start: int, mark: int, next_word: str) -> bool:
    """Return whether a full stop after `word` ends the sentence rather than an abbreviation."""
    if not word:
        # A separate full stop belongs to the text before it.
        return not next_word[:1].islower()
    small = _COMPOUNDS.get(word, word).casefold()
    if small != word and small in _COMPOUNDS.values():
        before = text[max(start, mark - 6) : mark - len(word)].rstrip()
        if not before.endswith(small[:2]):
            small = word
    capital = next_word[:1].isupper()
    if word.isdigit() and mark - start < 16 and text[start:mark].strip().lstrip(_OPENERS) == word:
        return False  # "1. First item"
    if small in NUMBER_WORDS and _follows_number(word, text, start, mark):
        return capital and (next_word in STARTERS or not _only_dates(text, start, mark))
    if small in NEVER_ENDS:
        return False
    if small in ENDS_IF_CAPITAL:
        return capital
    if len(word) == 1 and word.isalpha():
        # An initial, unless the next word is one that mostly opens sentences ("Plan B. The …").
        return word == "я" or next_word in STARTERS
    if _LETTERS_WITH_DOTS.search(word):  # U.S, А.С, J.R.R, a.m
        return capital and next_word in STARTERS
    return True


def _follows_number(word: str, text: str, start: int, mark: int) -> bool:
    # "в 1889 г. Она" and "XIX в. Она" end a sentence, "г. Москва" does not.
    before = text[max(start, mark - 40) : mark - len(word)].split()
    return bool(before) and (before[-1][-1].isdigit() or _ROMAN.match(before[-1]) is not None)


def _only_dates(text: str, start: int, mark: int) -> bool:
    # "В XIX в. Россия росла": the sentence has only stated the time.
    if mark - start > 40:
        return False
    words = text[start:mark].split()
    return len(words) <= 4 and words[0] in {"В", "К", "С", "До", "После", "На"}
