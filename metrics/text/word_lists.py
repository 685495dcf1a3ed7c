"""The word lists of `words/`: text files of words separated by white space, and comment lines with a #."""

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("words")


def read_lines(name: str) -> list[str]:
    """Return the lines of ``words/<name>.txt``."""
    text = (_FOLDER / f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def read_words(name: str) -> frozenset[str]:
    """Return the words of ``words/<name>.txt``."""
    return frozenset(word for line in read_lines(name) for word in line.split())


@cache
def read_entries(name: str) -> dict[str, list[str]]:
    """Return the words of ``words/<name>.txt`` by the key before the colon; must not be changed."""
    entries = (line.partition(": ") for line in read_lines(name))
    return {key: words.split() for key, _, words in entries}


@cache
def _patterns() -> dict[str, str]:
    return {key: pattern for key, _, pattern in (one.partition(": ") for one in read_lines("patterns"))}


def read_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern with this name in ``words/patterns.txt``."""
    return re.compile(_patterns()[name])
