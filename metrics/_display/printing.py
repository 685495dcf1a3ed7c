"""Names and texts of others on one line: what cannot be seen moves no cursor and begins no line.

A sender chooses names, and who reads a log or terminal takes each line for one of ours.  So whatever is logged
passes here, by a filter on our loggers; terminals and the console exporter call `visible_text` or `one_line`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

__all__ = ["LOGGERS", "Lines", "one_line", "visible_text"]

LOGGERS = ("ragmeter", "ragmeter.judge", "ragmeter.redis")
"""All that the package logs to, but for `ragmeter.explain`, which tells of one request on several lines."""
_LONGEST = 2_000


def visible_text(text: str) -> str:
    """Return a text of any number of lines, with a sign in place of each character that cannot be seen."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


def one_line(text: str, limit: int = _LONGEST) -> str:
    """Return a text cut to `limit` characters, with blanks in place of what would end or colour the line."""
    if len(text) <= limit and text.isprintable():
        return text
    words = "".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split()
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 3] + "..."


class Lines:
    """Several lines of ours, such as a traceback, to be logged as lines: what stands in one begins no other.

    Args:
        lines: They, without their ends.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._text = "\n".join(map(one_line, lines))

    def __str__(self) -> str:
        return self._text


class _OneLine(logging.Filter):
    """Puts what a record tells of others on one line; the words around it are ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        given = record.args
        if isinstance(given, Mapping):
            record.args = {name: _of(value) for name, value in given.items()}
        elif given:
            record.args = tuple(map(_of, given))
        return True


def _of(value: object) -> object:
    if isinstance(value, (int, float, Lines)):
        return value
    text = str(value)
    line = one_line(text)
    return value if line == text else line


for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_OneLine())
