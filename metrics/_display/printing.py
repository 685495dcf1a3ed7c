"""Makes untrusted names and texts safe to print: no control characters, no new lines.

Senders choose names, and readers of a log or terminal trust each line to be ragmeter's.  So a filter on our
loggers cleans every record; terminals and the console exporter call `visible_text` or `one_line`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

LOGGERS = ("ragmeter", "ragmeter.judge", "ragmeter.redis")
"""All loggers of the package except `ragmeter.explain`, which describes one request on several lines."""
_LONGEST = 2_000


def visible_text(text: str) -> str:
    """Return a text of any number of lines, with a visible substitute for each invisible character."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


def one_line(text: str, limit: int = _LONGEST) -> str:
    """Return a text cut to `limit` characters, with blanks for line breaks and terminal control characters."""
    if len(text) <= limit and text.isprintable():
        return text
    words = "".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split()
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 3] + "..."


class Lines:
    """Lines, such as a traceback, to log as several lines; each is cleaned separately."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._text = "\n".join(map(one_line, lines))

    def __str__(self) -> str:
        return self._text


class _OneLine(logging.Filter):
    """Puts the arguments of a log record on one line; the format string is ragmeter's."""

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
