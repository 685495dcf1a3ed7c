"""Find the entities of a reference answer by rules: numbers, dates, names.

`LexicalEntityRecall` calls this.  English and Russian names are capitalised spans that do not
open a sentence; Chinese names need jieba's dictionary and are left out where it is missing.
"""

import logging
import os
import re
import threading
import warnings
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from .dates import date_spans
from .entities import distinct_entities
from .text.analysis import Analysis, analyse
from .text.stems import STOP_WORDS
from .text.tokens import has_han

__all__ = ["named_entities"]

_MOST_ENTITIES = 200
"""Entities taken from one reference; an answer has a handful."""

_NUMBER = re.compile(r"(?<![^\W_])\d+(?:[.,]\d+)*(?:[ \u00a0\u202f]\d{3}(?!\d))*(?![^\W_])")
_HAN_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_TITLE = re.compile(r"《([^《》]{1,60})》")
_WORD = re.compile(r"[^\W\d_](?:[^\W_]|['’-](?=[^\W_]))*")
_GAP = re.compile(
    r"[ \u00a0]|\. |-| (?:of|the|of the|de|da|do|del|la|le|du|van|von|der|den|al|y|e) "
)
_NAME_TAGS = frozenset({"nr", "ns", "nt", "nz"})
_NOT_NAMES = STOP_WORDS | frozenset(
    "yes no i'm i've i'll i'd mr mrs ms dr also however because since although while when where why "
    "how what all many several both only even once first second finally thus therefore according "
    "да нет это этот эта эти он она оно они мы вы я ты его её их в на по при но а и если когда затем "
    "после до для как так там тогда однако что кто где почему также из от за под над без через у к с "
    "о об не".split()
)
_loading = threading.Lock()


def _renew_lock() -> None:
    global _loading  # noqa: PLW0603 -- a thread of the parent may have held the old one
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def named_entities(text: str) -> tuple[str, ...]:
    """Return the distinct numbers, dates and names in `text`, as written, in reading order."""
    return analyse(text).kept(_named_entities)


def _named_entities(known: Analysis) -> tuple[str, ...]:
    text = known.text
    found: list[tuple[int, str]] = []
    taken: list[tuple[int, int]] = []
    for start, end in date_spans(text):
        found.append((start, text[start:end]))
        taken.append((start, end))
    han = has_han(text)
    found.extend(
        (number.start(), number.group())
        for number in (_HAN_NUMBER if han else _NUMBER).finditer(text)
        if not any(start <= number.start() < end for start, end in taken)
    )
    found.extend((title.start(), title.group(1)) for title in _TITLE.finditer(text))
    if han:
        found.extend(_chinese_names(text))
    cursor = 0
    for sentence in known.sentences:
        offset = max(text.find(sentence, cursor), 0)
        for start, name in _capitalised(sentence):
            place = offset + start
            if not any(begin <= place < end for begin, end in taken):
                found.append((place, name))
        cursor = offset + len(sentence)
    found.sort()
    return distinct_entities(name for _, name in found)[:_MOST_ENTITIES]


def _capitalised(sentence: str) -> list[tuple[int, str]]:
    """Return the capitalised spans of one sentence, less single words that open it."""
    words = list(_WORD.finditer(sentence))
    spans: list[tuple[int, str]] = []
    index = 0
    while index < len(words):
        if not _is_name(words[index].group()):
            index += 1
            continue
        last = index
        while (
            last + 1 < len(words)
            and _is_name(words[last + 1].group())
            and _GAP.fullmatch(sentence, words[last].end(), words[last + 1].start())
        ):
            last += 1
        first = words[index]
        # A single capitalised word that opens a sentence is mostly no name, unless it is an
        # abbreviation such as UNESCO.
        if index > 0 or last > index or (len(first.group()) > 1 and first.group().isupper()):
            spans.append((first.start(), sentence[first.start() : words[last].end()]))
        index = last + 1
    return spans


def _is_name(word: str) -> bool:
    return word[0].isupper() and len(word) > 1 and word.casefold() not in _NOT_NAMES


@lru_cache(maxsize=1)
def _tagger() -> Any:
    if find_spec("jieba") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba 0.42.1 has invalid escape sequences
        import jieba  # noqa: PLC0415 -- optional, and a second to load
        from jieba import posseg  # noqa: PLC0415 -- likewise
    jieba.setLogLevel(logging.WARNING)  # it would tell the host's stderr about its dictionary
    return posseg.POSTokenizer(jieba.Tokenizer())


def _chinese_names(text: str) -> list[tuple[int, str]]:
    with _loading:
        tagger = _tagger()
    if tagger is None:
        return []
    names: list[tuple[int, str]] = []
    place = 0
    for word, tag in tagger.cut(text):
        if tag in _NAME_TAGS and has_han(word) and len(word) > 1:
            names.append((place, word))
        place += len(word)
    return names
