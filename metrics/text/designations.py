"""Finds designations in an answer that no chunk has: E1002 where the chunks have E1001, GPT-3 for GPT-4.

`facts` calls this. Only one whose letters some chunk has with another number counts: what a chunk does not
name may be common knowledge.
"""

import re
from collections.abc import Iterator

_DESIGNATION = re.compile(
    r"([A-ZА-ЯЁ](?<![A-Za-zА-Яа-яЁё\d-].)[^\W\d_]{0,9})(-?)(\d+(?:\.\d+)*[A-Za-z]?)(?![A-Za-zА-Яа-яЁё\d-])"
)
_LONG = 3
"""Least number of digits after a single letter: H2 and B12 are no designations."""


def absent_designations(text: str, given: str) -> Iterator[str]:
    """Yield the designations of a text that contradict a given text, which is in lower case."""
    for found in _DESIGNATION.finditer(text):
        letters, hyphen, number = found[1].lower(), found[2], found[3].lower().rstrip("s")
        if not (hyphen or len(letters) > 1 or letters == "q" or len(number) >= _LONG):
            continue
        there = _numbers(letters, given)
        if there and not any(one.endswith(number) or number.endswith(one) for one in there):
            yield found[0]


def other_designation(text: str, said: str) -> str | None:
    """Return a designation of a text with the letters of another one."""
    found = _DESIGNATION.match(said)
    found = found and re.search(
        rf"(?<![A-Za-zА-яЁё\d]){re.escape(found[1])}-?\d+(?:\.\d+)*", text, re.IGNORECASE
    )
    return found and found[0]


def _numbers(letters: str, given: str) -> list[str]:
    """Return the numbers that follow these letters; none if only a space is between them."""
    every = re.findall(rf"(?<![a-zа-яё\d]){re.escape(letters)}([ -]?)(\d+(?:\.\d+)*[a-z]?)", given)
    glued = any(between != " " for between, _ in every)
    return [number.rstrip("s") for _, number in every] if glued else []
