"""Detect turns that repeat the question before, by phrases such as "I meant" or "you did not answer".

Of 87 flagged turns of several collections two readers call 79 and 76 right, of 26 about documents 26 and 25
(`benchmarks/asked_again.py`); it is off by default, since the phrases were chosen on these collections.
Single common words are wrong four times of five, so only phrases count. Many people with such a phrase
correct their own question: it is a sign of a misunderstanding, not of a bad retrieval.
"""

from __future__ import annotations

import re
from functools import cache

from ragmeter.metrics.text.word_lists import read_lines

_MOST_CHARS = 2_000
"""Longest part of a question that is examined, in characters."""


@cache
def _phrases() -> re.Pattern[str]:
    # Patterns that begin with a word are tried only at the start of words: otherwise matching takes ten times
    # as long.
    lines = read_lines("asked_again")
    words = [line.removeprefix(r"\b") for line in lines if line.startswith(r"\b")]
    others = [line for line in lines if not line.startswith(r"\b")]
    return re.compile(rf"\b(?:{'|'.join(words)})|{'|'.join(others)}")


def asks_again(question: str) -> bool:
    """Return whether a question has a phrase that repeats or corrects an earlier question."""
    return _phrases().search(question[:_MOST_CHARS].lower()) is not None
