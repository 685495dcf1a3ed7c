"""The display of a request to a rater, on a terminal of any width or through a pipe, and the pressed keys.

Texts are data: characters that could control the terminal are replaced. The judge's verdict is not shown.
"""

from __future__ import annotations

import sys
import unicodedata

from rich.text import Text
from typer import getchar

from ragmeter.cli._console import Console
from ragmeter.metrics import RagSample
from ragmeter.quality.labels import LabelScale

from ._draw import NEEDED, NEEDED_OF_ANY
from ._wording import Wording

LONGEST = {"contexts": 700, "answer": 4_000, "question": 2_000}
"""Characters of a text to show before the rater asks for more."""
_STEERING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_YES = frozenset("yYдД是1")
_NO = frozenset("nNнН否0")


def grade_of(key: str, scale: LabelScale) -> float | None:
    """Return the grade of a key, 0 to 1, or None if it is not a grade."""
    if scale == "yes-no":
        return 1.0 if key in _YES else 0.0 if key in _NO else None
    if len(key) == 1 and key in "12345":
        return (int(key) - 1) / 4
    return None


class Screen:
    """Shows requests and reads keys."""

    def __init__(self, console: Console, wording: Wording, score: str, scale: LabelScale) -> None:
        self._console = console
        self._wording = wording
        self._score = score
        self._scale = scale

    def show(self, sample: RagSample, place: str, *, whole: bool) -> None:
        """Show a request and its question; `whole`: long texts completely."""
        words = self._wording
        self._console.print()
        self._console.print(Text(place, style="dim"))
        if sample.question is not None:
            self._text(words.question, sample.question, LONGEST["question"], whole=whole)
        if "contexts" in NEEDED.get(self._score, ("contexts",)) and sample.contexts is not None:
            self._console.print(Text(words.contexts, style="bold"))
            for number, context in enumerate(sample.contexts, 1):
                name = f"[{number}]" if context.id is None else f"[{number}] {_safe(context.id)}"
                self._text(name, context.text, LONGEST["contexts"], whole=whole, style="cyan")
            if not sample.contexts:
                self._console.print_indented(words.nothing)
        if "answer" in NEEDED.get(self._score, NEEDED_OF_ANY) and sample.answer is not None:
            self._text(words.answer, sample.answer, LONGEST["answer"], whole=whole)
        asked = words.asked.get(self._score) or words.asked_of_any.format(score=self._score)
        self._console.print()
        self._console.print(Text(asked, style="bold"))
        self._console.print(Text(self._choices()))
        self._console.print(Text(words.keys, style="dim"))

    def say(self, line: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(_safe(line), style=style))

    def key(self) -> str | None:
        """Return the next key, or in a pipe the next line's word; None at the end of input."""
        if sys.stdin.isatty():
            return getchar()
        while line := sys.stdin.readline():
            if word := line.strip():
                return word
        return None

    def _choices(self) -> str:
        words = self._wording
        if self._scale == "yes-no":
            return f"y {words.yes} · n {words.no}"
        lowest, highest = words.grades.get(self._score, words.grades_of_any)
        return f"1 {lowest} · 2 · 3 · 4 · 5 {highest}"

    def _text(self, title: str, text: str, longest: int, *, whole: bool, style: str = "bold") -> None:
        self._console.print(Text(title, style=style))
        shown = text if whole or len(text) <= longest else text[:longest]
        self._console.print_indented(_safe(shown) or self._wording.nothing)
        if len(shown) < len(text):
            self._console.print_indented(self._wording.more.format(hidden=len(text) - len(shown)), "dim")


def _safe(text: str) -> str:
    """Return `text` without characters that move the cursor, colour the terminal or reverse the line."""
    return "".join(
        "\ufffd"
        if char in _STEERING or (unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t")
        else char
        for char in text.replace("\r\n", "\n")
    )
