"""Texts as their letters and digits, free of the changes that templates make.

Whitespace, signs and capitals are left out; escapes of JSON, Python, HTML and XML are read first, however
often they were escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_WORDS = re.compile(r"[^\W_]+")
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts without spaces between words: each character is one word."""
_TOKENS = re.compile(f"[^\\W_{_ALONE}]+|(?=[^\\W_])[{_ALONE}]")
IDEOGRAPHS = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_LINE_BREAKS = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ESCAPES = re.compile(
    r"(?<!\\)\\+(?:u([dD][89abAB][0-9a-fA-F]{2})\\+u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|[nrtbfv])"
)
_ENTITIES = re.compile(r"&(?:amp;)*(#?\w{1,31};)")
_SMALL = bytes(range(256)).lower()
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_MOST_SIGNS = 32
"""Maximum number of non-ASCII signs that are removed from a text one by one."""

_SLICE = 50_000
"""Characters that are read at once."""


def collapsed(text: str) -> str:
    """Return a text with all its signs, without escapes and with single spaces."""
    return " ".join(_unescaped(text).split())


def words_of(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case."""
    return [word for part in _parts(text) for word in _WORDS.findall(_unescaped(part).casefold())]


def tokens_in(text: str) -> list[str]:
    """Return the words of a text, in lower case; in scripts without spaces, each character."""
    return [token for part in _parts(text) for token in _TOKENS.findall(_unescaped(part).casefold())]


def places_of_words(text: str) -> tuple[str, list[tuple[int, int]], list[int]]:
    """Return a text without escapes, the begin and end of each word, and the words' numbers of letters."""
    plain = _unescaped(text)
    spans = [token.span() for token in _TOKENS.finditer(plain)]
    return plain, spans, [len(_letters(plain[start:end])) for start, end in spans]


def letters_of(text: str) -> str:
    """Return the letters and digits of a text in lower case: its words without separators."""
    if len(text) > _SLICE:
        return "".join([_letters(_unescaped(part)) for part in _parts(text)])
    return _letters(_unescaped(text) if "\\" in text or "&" in text or "<" in text else text)


def _letters(text: str) -> str:
    # By tables in C: a regular expression takes fifty times as long, and this is most of what looking costs.
    if text.isascii():
        return text.encode("ascii").translate(_SMALL, _SIGNS).decode("ascii")
    folded = text.casefold().encode("utf-8", "surrogatepass").translate(None, _SIGNS)
    left = folded.decode("utf-8", "surrogatepass")
    signs = [sign for sign in set(left) if not sign.isalnum()]
    if len(signs) > _MOST_SIGNS:
        return "".join(_WORDS.findall(left))
    for sign in signs:
        left = left.replace(sign, "")
    return left


def _parts(text: str) -> Iterator[str]:
    """Yield a text in parts: a call into C holds the interpreter, and so the application, until it returns."""
    if len(text) <= _SLICE:
        yield text
        return
    start = 0
    while start < len(text):
        end = text.find(" ", start + _SLICE, start + 2 * _SLICE)
        if end < 0:
            end = min(start + 2 * _SLICE, len(text))
            if end < len(text):  # not within an escape
                mark = max(text.rfind("\\", end - 12, end), text.rfind("&", end - 12, end))
                end = mark if mark > 0 else end
        yield text[start:end]
        start = end


def _unescaped(text: str) -> str:
    if "\\" in text:
        text = _ESCAPES.sub(_character, text)
    if "&" in text:
        text = _ENTITIES.sub(lambda entity: html.unescape("&" + entity[1]), text)
    return _LINE_BREAKS.sub(" ", text) if "<" in text else text


def _character(escape: re.Match[str]) -> str:
    high, low, *codes = escape.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    code = next((code for code in codes if code is not None), None)
    if code is None:
        return " "
    number = int(code, 16)
    return chr(number) if number < 0x110000 else " "


def weight_of(letters: str) -> int:
    """Return the length of a text in letters; a Chinese or Japanese character counts as three."""
    return len(letters) + (0 if letters.isascii() else 2 * len(IDEOGRAPHS.findall(letters)))
