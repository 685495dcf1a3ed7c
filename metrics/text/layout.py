"""Undo the layout of a text: split it into units, within which line breaks have no meaning.

PDF extraction, e-mail and wrapped Markdown break lines inside sentences; lists, tables, addresses and code
break them between items. `sentences` splits the units found here, `tokens` and the comparison of texts read
them, so that no score depends on the width of a page. `_Block` decides about each break; `lines` about the
kind of a line. Linear in the text.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragmeter.metrics._process.lazy_attribute import lazy_attribute

from .abbreviations import HYPHENATED, NEVER_ENDS, NEVER_LAST
from .characters import BREAKS, HAN, OTHER_THAN_RUSSIAN, WIDE
from .cleaning import clean
from .lines import Line, Ordinals, Structure, read_lines

_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028]")
_OTHER_ASCII_SPACES = "\t\x1c\x1d\x1e\x1f"
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_QUOTED = re.compile(r"\s*(?:>\s*)+")
_SPACE_BY_WIDE = re.compile(rf"(?<=[{WIDE}]) | (?=[{WIDE}])")
_WIDE = re.compile(f"[{WIDE}]")
_WIDE_MARK = re.compile("[\u3001-\u3004\u3008-\u301f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]")
_SPACE_INSIDE = re.compile(r"[^\s>] +[^\s>]")
_SPACED_WIDE = re.compile(f"[{HAN}] [a-zA-Z0-9]|[a-zA-Z0-9] [{HAN}]")
_HAN = re.compile(f"[{HAN}]")
_WORD = re.compile(r"[^\W\d_]+")
_SPLIT = re.compile(r"[^\W\d_]+[-‐]\n\s*[^\W\d_]+")
_EMPHASIS = re.compile(r"\*{1,3}|_{1,3}|~~|==")
_STRONG = ("**", "***", "~~")
_DIGIT = re.compile(r"\d")
_SPACED_LETTER = re.compile(rf"[^\W_{HAN}]")
_OPENERS = "\"'“‘„«‹([{「『（【《〈¿¡*_"
_CLOSERS = "\"'”’»›)]}」』）】》〉*_"
_JOINERS = ",;、，(（[«“„/&+\u00ad"
_ENDS = ".!?…。！？؟।"
_STOPS = _ENDS + ";；"
_DASHES = "-–—―"
_SUSPENDED = frozenset("and or und oder и или bis to".split())

_BOTH = 2

_LEAST_WIDTH = 20
"""Least width of wrapped text, in columns: a shorter line with room for the next word was ended on purpose."""

_RAGGED = 0.7
"""Share of a block's width by which a line of prose in a proportional font may fall short."""

_RAGGED_WIDE = 0.85
"""The same for Chinese, where only punctuation makes lines uneven."""


def has_layout(text: str) -> bool:
    """Return whether `text` has a line break of any kind."""
    return any(map(text.__contains__, BREAKS))


def units(text: str) -> list[str]:
    """Split `text` into paragraphs, list items, headings, table rows and lines of code, in order.

    White space inside a unit becomes single spaces; between Han or kana a line break is dropped. Quotation
    marks of e-mail (``>``), fences, rules and marks of emphasis are left out, and so is every unit without a
    letter or digit.
    """
    if not has_layout(text):
        quoted = _QUOTED.match(text) if ">" in text else None
        text = text[quoted.end() :] if quoted else text
        found = [text if _is_spaced_evenly(text) else " ".join(text.split())]
    else:
        text = _BREAK.sub("\n", text).replace("\u2029", "\n\n")
        found = list(_units(text))
    if "*" in text or "_" in text or "~~" in text or "==" in text:
        found = list(map(_without_emphasis, found))
    return [unit for unit in found if unit[:1].isalnum() or _LETTER_OR_DIGIT.search(unit)]


def _without_emphasis(unit: str) -> str:
    """Remove Markdown's marks of emphasis, in pairs; snake_case, products and footnotes are kept."""
    opened: dict[str, int] = {}
    marks: list[tuple[int, int]] = []
    for found in _EMPHASIS.finditer(unit):
        start, end = found.span()
        before, after = unit[start - 1 : start], unit[end : end + 1]
        # Two stars may occur inside a word, but not between numbers.
        inside = _DIGIT if found[0] in _STRONG else _SPACED_LETTER
        if found[0] in opened and not (before.isspace() or inside.match(after)):
            marks += ((opened.pop(found[0]), len(found[0])), (start, len(found[0])))
        elif after.strip() and not inside.match(before) and before != "\\":
            opened[found[0]] = start
    at = 0
    parts: list[str] = []
    for start, size in sorted(marks):
        parts.append(unit[at:start])
        at = start + size
    return "".join([*parts, unit[at:]])


def _is_spaced_evenly(text: str) -> bool:
    """Return whether a text without line breaks certainly has only single spaces; False proves nothing."""
    return (
        "  " not in text
        and text.strip(" ") == text
        and not any(map(text.__contains__, _OTHER_ASCII_SPACES))
        and (text.isascii() or OTHER_THAN_RUSSIAN.search(text) is None)
    )


def exact_key(text: str) -> str:
    """Return a key that is equal for two texts if and only if they differ at most in layout.

    Spaces beside Han and kana do not count either: wrapping adds and removes them.
    """
    text = clean(text)
    return key_of(units(text), text)


def key_of(parts: Sequence[str], text: str) -> str:
    """Return the `exact_key` of a text with known units."""
    key = " ".join(parts) or " ".join(text.split())
    return key if key.isascii() else _SPACE_BY_WIDE.sub("", key)


def _units(text: str) -> Iterator[str]:
    habits = _Habits(text)
    block: list[Line] = []
    lines = read_lines(text)
    margin = min((line.indent for line in lines if line.text), default=0)
    for line in lines:
        if block and (line.structure is not Structure.PROSE or line.depth != block[-1].depth):
            yield from _Block(block, margin, habits).units()
            block = []
        if line.structure is Structure.PROSE:
            block.append(line)
        elif line.structure is Structure.WHOLE:
            yield " ".join(line.text.split())
    if block:
        yield from _Block(block, margin, habits).units()


class _Habits:
    """The spellings elsewhere in the text of words that line breaks split; looked up on first use."""

    def __init__(self, text: str) -> None:
        self._text = text

    def is_split(self, head: str, tail: str) -> bool:
        """Return whether a hyphen splits a word: it occurs unsplit elsewhere, or neither part is a word."""
        whole, *parts = (part.casefold() for part in (head + tail, head, tail))
        return whole in self._words or (
            head != tail and HYPHENATED.isdisjoint(parts) and self._words.isdisjoint(parts)
        )

    @lazy_attribute
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(_SPLIT.sub(" ", self._text.casefold())))

    @lazy_attribute
    def knows_no_space(self) -> bool:
        """Whether it has Han characters, and no space inside a line."""
        return _HAN.search(self._text) is not None and not _SPACE_INSIDE.search(self._text)

    @lazy_attribute
    def by_wide(self) -> str:
        """The text between Han and Latin letters: a space, if the text has one there within a line."""
        return " " if _SPACED_WIDE.search(self._text) else ""


class _Block:
    """Consecutive lines without structure; decides which breaks between them count.

    A line break ends a unit

    - before a list item; - before a line ``Key: ...`` when the unit began with one; - before a line that
    begins a paragraph by its indentation; - before a line that begins with a capital, a digit or a letter
    without case, if its first word would have fitted on the line before: the line was not broken for lack of
    room.

    None does where each line is one word, and one of them a word that only prose has.

    All other breaks are spaces: before a small letter, after a comma, a hyphen, an article or a
    preposition, after a full line.  "Full" is measured against the longest line of the block, and
    generously where some line begins with a small letter, as only prose does.
    """

    def __init__(self, lines: Sequence[Line], margin: int, habits: _Habits) -> None:
        self._lines = lines
        self._margin = margin
        self._habits = habits
        several = [line for line in lines if " " in line.text or _WIDE.search(line.text)] or lines
        self._width = max(_LEAST_WIDTH, *(line.width for line in several))
        self._columns = max(_LEAST_WIDTH, *(line.columns for line in several))
        self._ragged = any(_begins_small(line.text) for line in lines[1:])
        # One word a line: prose if one of them is a word that does not occur in lists.
        self._is_column = (
            len(lines) > _BOTH
            and not any(" " in line.text for line in lines)
            and any(line.text.casefold() in NEVER_LAST for line in lines)
        )

    def units(self) -> Iterator[str]:
        """Yield the units, their lines joined."""
        if self._is_column:
            parts = [self._lines[0].text]
            for before, line in pairwise(self._lines):
                self._join(parts, before, line)
            yield " ".join("".join(parts).split())
            return
        if self._is_code():
            for line in self._lines:
                yield " ".join(line.text.split())
            return
        ordinals = Ordinals()
        first = before = self._lines[0]
        ordinals.note(first)
        parts = [first.text]
        for line in self._lines[1:]:
            if self._ends_unit(first, before, line, ordinals):
                yield " ".join("".join(parts).split())
                first, parts = line, [line.text]
                ordinals.note(line)
            else:
                self._join(parts, before, line)
            before = line
        yield " ".join("".join(parts).split())

    def _is_code(self) -> bool:
        """Return whether the block is code by its indentation, and does not look like prose."""
        lines = self._lines
        if len(lines) == 1 or min(line.indent for line in lines) < self._margin + 4:
            return False
        if sum(line.looks_like_code for line in lines) * 2 >= len(lines):
            return True
        if lines[-1].text.rstrip(_CLOSERS)[-1:] in _ENDS:
            return False
        pairs = list(pairwise(lines))
        return len(pairs) == 1 or not all(self._is_full(*pair, exactly=True) for pair in pairs)

    def _ends_unit(self, first: Line, before: Line, line: Line, ordinals: Ordinals) -> bool:
        ended = before.text.rstrip(_CLOSERS)[-1:]
        full = None
        if line.bullet or line.ordinals:
            full = self._is_full(before, line, exactly=True)
            if self._begins_item(first, line, ordinals, full, ended):
                return True
        elif first.is_entry and line.is_entry:
            return True
        # A full stop, a comma, a dash or a closing bracket belongs to the text before it.
        if _begins_small(line.text) or not line.text.lstrip(_OPENERS + "$€£#@§№+-~")[:1].isalnum():
            return False
        if (first.bullet or first.ordinals) and line.indent > first.indent:
            return False
        if line.indent > before.indent + 1 and before is not first:
            return True
        if ended in _JOINERS or _never_last(before.text):
            return False
        if self._is_full(before, line, exactly=True) if full is None else full:
            return False
        return not (self._ragged and self._is_full(before, line, exactly=False))

    def _begins_item(self, first: Line, line: Line, ordinals: Ordinals, full: bool, ended: str) -> bool:
        dashed = bool(line.bullet) and line.bullet in _DASHES
        announced = ended in ":：" or (ended in _STOPS and (bool(first.bullet) or not dashed))
        if line.ordinals:
            return ordinals.continued_by(line) or (line.may_begin_list and (announced or not full))
        # A dash at the start of a line after a full line is a dash; other marks hardly ever are.
        again = first.bullet == line.bullet and (line.bullet == "-" or not dashed)
        return announced or not full or again

    def _is_full(self, before: Line, line: Line, *, exactly: bool) -> bool:
        """Return whether the first word of `line` would not have fitted on the line before."""
        if _WIDE.match(line.text) and _WIDE.match(before.text[-1:]):
            return (
                before.width + 1 > _RAGGED_WIDE * self._width
                or before.columns + 2 > _RAGGED_WIDE * self._columns
            )
        word = line.text.split(None, 1)[0]
        has_case = word.lower() != word.upper() or word[:1].isdigit() or not word[:1].isalnum()
        if not (exactly and has_case):
            return before.width + 1 + len(word) > max(_LEAST_WIDTH, _RAGGED * self._width)
        return before.width + 1 + len(word) > self._width

    def _join(self, parts: list[str], before: Line, line: Line) -> None:
        """Append to `parts` the replacement of a meaningless break, and `line`."""
        last, following = before.text[-1:], line.text[:1]
        wide = (_WIDE.match(last) is not None) + (_WIDE.match(following) is not None)
        between = " "
        if wide:
            mark = _WIDE_MARK.match(last) or _WIDE_MARK.match(following)
            between = "" if wide == _BOTH or mark else self._habits.by_wide
        elif last in "\u00ad¬":
            parts[-1] = parts[-1][:-1]
            between = ""
        elif last in "-‐" and before.text[-2:-1].isalnum() and following.isalnum():
            between = self._hyphen_join(parts, line)
        elif last == "-" and before.text[-2:-1] == "-" and before.text[-3:-2].isalnum():
            between = ""  # "word--word"
        elif self._habits.knows_no_space:
            between = ""  # Chinese is broken anywhere, even inside a year
        elif last.isdigit() and following.isdigit() and _HAN.search(before.text):
            between = "" if before.width == self._width else " "
        parts.append(between + line.text)

    def _hyphen_join(self, parts: list[str], line: Line) -> str:
        """Return the joiner of a word at its hyphen, which is dropped if it only splits the word."""
        head = _WORD.findall(parts[-1][-64:-1])
        tail = _WORD.match(line.text)
        if line.text.split(None, 1)[0] in _SUSPENDED:
            return " "  # "pre- and post-war"
        if head and tail and tail[0][0].islower() and self._habits.is_split(head[-1], tail[0]):
            parts[-1] = parts[-1][:-1]
        return ""


def _begins_small(text: str) -> bool:
    return text.lstrip(_OPENERS)[:1].islower()


def _never_last(text: str) -> bool:
    word = text[text.rfind(" ") + 1 :].lstrip(_OPENERS)
    if word.endswith("."):
        word = word[:-1]
        return word.casefold() in NEVER_ENDS or (len(word) == 1 and word.isupper())
    return word.casefold() in NEVER_LAST
