"""Read one line of a text: its indentation, its quotation, and the structure shown by its first characters.

`layout` calls this and decides between lines; nothing here compares the words of two lines.
"""

import re
from collections.abc import Iterable, Sequence
from enum import Enum

from .characters import WIDE

_QUOTE = re.compile(r" {0,3}((?:> ?)+)")
_COMPARISON = re.compile(r"> ?\d")
_FENCE = re.compile(r"(```+|~~~+)")
_HEADING = re.compile(r"#{1,6}(?:\s|\Z)")
_RULE = re.compile(r"(?:-{2,}|={2,}|(?:[-=~*_#^+|:—–·•\u2500-\u257f] ?){3,})\Z")
_TABULATED = re.compile(r"\S\t+\S")
_COLUMN = re.compile(r"(?<=\s)\|(?=\s)")
_WIDE = re.compile(f"[{WIDE}]")
_CODE = re.compile(r"[{}=;\\$<>]|\w\(|^(?:import|from|def|class|return|if|for|while|else)\b.*:?\Z")
_ENTRY = re.compile(r"[^\W\d_][^.!?:：。,，\n]{0,40}[:：](?:\s|\Z)|[^\W\d_][^.!?:：。,，\n]{0,15}：")
_BULLET_SIGNS = "•·‣◦▪▫■□●○◆►➢✓\uf06c\uf06e\uf076\uf0a7\uf0b7\uf0d8\uf0fc"
"""Also those of symbol fonts, which PDF extraction leaves."""
_BULLET = re.compile(rf"([-*+–—―])\s+(?=\S)|([{_BULLET_SIGNS}])")
_NUMBER = re.compile(r"[(（]?(\d{1,3})(?:[.)）]\s+|[）、．]\s*)(?=\S)")
_OUTLINE = re.compile(r"((?:\d{1,3}\.)+)(\d{1,3})[.)]?\s+(?=\S)")
# A capital letter and a full stop are an initial ("A. Smith") as often as a number.
_LETTER = re.compile(r"\(?([a-zа-я](?=[.)])|[A-ZА-Я](?=\)))[.)]\s+(?=\S)")
_ROMAN = re.compile(r"\(?([ivx]{1,5}(?=[.)])|[IVX]{2,5}(?=[.)])|[IVX](?=\)))[.)]\s+(?=\S)")
_HAN_NUMBER = re.compile(r"[(（]?([一二三四五六七八九十]{1,3})[)）、．.]")
_MAY_COUNT = re.compile(r"[(（\d一二三四五六七八九十]|\w{1,5}[.)]")
_BULLETS = frozenset(f"-*+–—―{_BULLET_SIGNS}")
_ROMANS: Sequence[str] = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv".split()
_HAN_DIGITS = "一二三四五六七八九"
_TAB = 4


class Structure(Enum):
    """The kind of a single line."""

    PROSE = "prose"
    """A part of a paragraph or of a list item."""
    WHOLE = "whole"
    """A heading, a table row or a line of fenced code: a separate unit."""
    NOTHING = "nothing"
    """Blank, a fence or a rule: it ends a unit and is not one."""


class Line:
    """One line, without its quotation marks and the white space around it."""

    __slots__ = ("bullet", "columns", "depth", "indent", "ordinals", "structure", "text", "width")

    def __init__(self, raw: str, depth: int) -> None:
        self.text = text = raw.strip()
        """Its text."""
        self.depth = depth
        """Its level of quotation."""
        self.indent = 0
        """Columns before the text."""
        if raw[:1] != text[:1]:
            lead = raw[: len(raw) - len(raw.lstrip())]
            self.indent = len(lead) + lead.count("\t") * (_TAB - 1)
        self.width = self.indent + len(self.text)
        """Number of characters up to its end."""
        self.columns = self.width
        """The same, with wide characters counted twice."""
        if not self.text.isascii():
            self.columns += len(_WIDE.findall(self.text))
        self.structure = Structure.PROSE if self.text else Structure.NOTHING
        """Its kind."""
        self.bullet = ""
        """Its list mark, or ""."""
        self.ordinals: dict[str, int] = {}
        """Its list numbers, by kind."""
        if text[:1] in _BULLETS:
            bullet = _BULLET.match(text)
            self.bullet = (bullet.group(1) or bullet.group(2)) if bullet else ""
        elif _MAY_COUNT.match(text):
            self.ordinals = _ordinals(text)

    @property
    def may_begin_list(self) -> bool:
        """Whether its number is one that starts lists."""
        return not {0, 1}.isdisjoint(self.ordinals.values())

    @property
    def is_entry(self) -> bool:
        """Whether it has the form ``Key: value``."""
        found = _ENTRY.match(self.text)
        return found is not None and not found.group()[0].islower() and found.group().count(" ") < 4

    @property
    def looks_like_code(self) -> bool:
        """Whether it has characters that do not occur in prose."""
        return _CODE.search(self.text) is not None


class Ordinals:
    """The numbers of a list's items so far."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def note(self, line: Line) -> None:
        """Store the number of an item."""
        self._last.update(line.ordinals)

    def continued_by(self, line: Line) -> bool:
        """Return whether the line's number follows an earlier one."""
        return any(self._last.get(kind) == value - 1 for kind, value in line.ordinals.items())


def _ordinals(text: str) -> dict[str, int]:
    """Return the list number of a line, by each kind that it may have."""
    found: dict[str, int] = {}
    head = text[:24]
    if match := _NUMBER.match(head):
        found["number"] = int(match.group(1))
    if match := _OUTLINE.match(head):
        found[f"outline {match.group(1)}"] = int(match.group(2))
    if match := _ROMAN.match(head):
        letters = match.group(1)
        if letters.lower() in _ROMANS and letters in (letters.lower(), letters.upper()):
            found[f"roman {letters.isupper()}"] = _ROMANS.index(letters.lower()) + 1
    if match := _LETTER.match(head):
        letter = match.group(1)
        first = _alphabet(letter)
        found[f"letter {first}"] = ord(letter) - ord(first) + 1
    if match := _HAN_NUMBER.match(head):
        found["han"] = _han_value(match.group(1))
    return found


def _alphabet(letter: str) -> str:
    if letter.isascii():
        return "a" if letter.islower() else "A"
    return "а" if letter.islower() else "А"


def _han_value(digits: str) -> int:
    tens, ten, ones = digits.rpartition("十")
    value = _HAN_DIGITS.find(ones) + 1
    if ten:
        value += 10 * (_HAN_DIGITS.find(tens) + 1 if tens else 1)
    return value


def read_lines(text: str) -> list[Line]:
    """Read the lines of a text whose breaks are all newlines."""
    raws = text.split("\n")
    lines = list(_without_quote_marks(raws)) if ">" in text else [Line(raw, 0) for raw in raws]
    _mark_structures(lines, fenced="```" in text or "~~~" in text)
    return lines


def _without_quote_marks(raws: list[str]) -> Iterable[Line]:
    marks = [_QUOTE.match(raw) for raw in raws]
    for number, (raw, mark) in enumerate(zip(raws, marks, strict=True)):
        # A line of prose may begin with "> 5 mm": a single such line is no quotation.
        alone = (
            number > 0
            and _COMPARISON.match(raw) is not None
            and raws[number - 1].rstrip()[-1:] not in ("", ":")
            and not marks[number - 1]
            and not any(marks[number + 1 : number + 2])
        )
        if mark is None or alone:
            yield Line(raw, 0)
        else:
            yield Line(raw[mark.end() :], mark.group(1).count(">"))


def _mark_structures(lines: list[Line], *, fenced: bool) -> None:
    fence = ""
    columns = 0
    for number, line in enumerate(lines):
        text = line.text
        if fenced and (found := _FENCE.match(text)) and (not fence or text.startswith(fence)):
            fence = "" if fence else found.group(1)
            line.structure = Structure.NOTHING
        elif fence:
            line.structure = Structure.WHOLE if text else Structure.NOTHING
        elif not text:
            continue
        elif _RULE.match(text):
            line.structure = Structure.NOTHING
        elif text[0] == "|" or _HEADING.match(text) or _TABULATED.search(text):
            line.structure = Structure.WHOLE
        if "|" in text and line.structure is Structure.PROSE:
            # Without a bar at its beginning a line is a table row only beside another one, or beside a rule.
            if len(_COLUMN.findall(text)) == columns or _is_table_rule(lines, number + 1):
                line.structure = Structure.WHOLE
                if columns:
                    lines[number - 1].structure = Structure.WHOLE
            columns = len(_COLUMN.findall(text))
        else:
            columns = 0


def _is_table_rule(lines: list[Line], number: int) -> bool:
    if number >= len(lines):
        return False
    text = lines[number].text
    return "|" in text and _RULE.match(text) is not None
