"""Reads the elements of one large JSON array, a few at a time: a file may be larger than memory.

A file with one object instead is one row, an API response with its rows under ``data``, or a table by columns,
as pandas and data sets write it.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

from .json_lines import constant

CHUNK = 1 << 16
LONGEST = 256 * 1024 * 1024
"""Most characters of one element: a longer one is not a row."""
_SPACE = " \t\n\r"


class BrokenArrayError(ValueError):
    """The file is broken from here on."""


def read_array(file: IO[bytes]) -> Iterator[Any]:
    """Yield the elements in order.

    Raises:
        BrokenArrayError: Neither the next element nor any further one can be read.
    """
    text = _Text(file)
    first = text.peek()
    if first == "":
        return
    if first != "[":
        found = text.value()
        if text.peek():
            raise BrokenArrayError("more than one JSON value; name the file .jsonl if each line is one")
        inner = found.get("data") if isinstance(found, dict) else None
        yield from inner if isinstance(inner, list) else _rows_of(found)
        return
    text.take()
    while (sign := text.peek()) != "]":
        if sign == "":
            raise BrokenArrayError("the array does not end")
        yield text.value()
        if text.peek() == ",":
            text.take()
        elif text.peek() != "]":
            raise BrokenArrayError("no comma between two elements")
    text.take()
    if text.peek():
        raise BrokenArrayError("something follows the end of the array")


def _rows_of(found: Any) -> list[Any]:
    """Return the rows of a table by columns, each a list or an object by the row's name; else one row."""
    columns = list(found.values()) if isinstance(found, dict) else []
    if len(columns) > 1:
        if all(isinstance(one, dict) and one.keys() == columns[0].keys() for one in columns):
            return [{name: column[key] for name, column in found.items()} for key in columns[0]]
        if all(isinstance(one, list) and len(one) == len(columns[0]) for one in columns):
            return [dict(zip(found, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return [found]


class _Text:
    """The unread part of a file's text."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(parse_constant=constant)
        self._held = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """Return the next character other than white space; empty at the end."""
        while True:
            while self._at < len(self._held) and self._held[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._more(CHUNK):
                return ""

    def take(self) -> None:
        """Skip the character that `peek` returned."""
        self._at += 1

    def value(self) -> Any:
        """Return the JSON value that begins here, and skip it."""
        step = CHUNK
        while True:
            try:
                found, end = self._json.raw_decode(self._held, self._at)
            except (json.JSONDecodeError, RecursionError) as error:
                if isinstance(error, RecursionError) or not self._more(step):
                    raise BrokenArrayError(getattr(error, "msg", "nested too deeply")) from None
                step *= 2  # each attempt parses from the beginning, so few are made
                continue
            except ValueError as error:
                raise BrokenArrayError(str(error)) from None
            if end == len(self._held) and self._more(step):
                continue  # a number may continue
            self._at = end
            return found

    def _more(self, count: int) -> bool:
        """Read on, and drop the text already parsed; return whether there was more."""
        if self._ended:
            return False
        if len(self._held) - self._at > LONGEST:
            raise BrokenArrayError(f"an element of more than {LONGEST} characters")
        data = self._file.read(count)
        self._ended = not data
        try:
            read = self._decode.decode(data, final=self._ended)
        except UnicodeDecodeError:
            raise BrokenArrayError("not UTF-8; save the file as UTF-8") from None
        self._held = self._held[self._at :] + read
        self._at = 0
        return not self._ended or bool(read)
