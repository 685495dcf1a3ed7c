"""Removes artefacts of encoding and markup from a text, so that analyses read what a person sees.

`analysis.Analysis` and the functions that take a text call `clean`, so every reader (tokens, sentences, names,
quantities, refusals, citations, questions) gets the same characters.  It removes differences without meaning:
how an accent is encoded, invisible characters, the width of Latin letters, the script of digits, HTML,
the addresses of links.  Linear in the text; a plain ASCII text costs a few look-ups.
"""

import re
import unicodedata
from html import unescape
from html.entities import html5

from .characters import BREAKS, HAN, OTHER_THAN_RUSSIAN
from .word_lists import read_entries

_ELEMENTS = read_entries("elements")
_BLOCKS, _INLINE, _CELLS = _ELEMENTS["blocks"], _ELEMENTS["inline"], _ELEMENTS["cells"]
_NAME = "|".join(sorted((*_BLOCKS, *_INLINE, *_CELLS, "br"), key=len, reverse=True))
# Between backticks a tag is only mentioned. No class here contains "<", which keeps it linear.
_TAG = re.compile(
    rf"<(?P<hidden>script|style|r[tp])\b[^<>]{{0,1000}}>[^<]*</(?P=hidden)\s*>"
    rf"|(?<!`)</?(?P<name>{_NAME})(?:[\s/][^<>]{{0,1000}})?>(?!`)",
    re.IGNORECASE,
)
_COMMENT = re.compile("(?<!`)<!--[^<>]*-->")
_BREAKING = re.compile(
    r"(?<=[\w.!?,;:)。！？，；：）])<br\s*/?>|<br\s*/?>(?=\s*(?:\n|\Z))|(?<=\w)<wbr\s*/?>(?=\w)", re.IGNORECASE
)
# Escaped once or repeatedly.
_ENTITY = re.compile(r"&(?:amp;|#0*38;|#[xX]0*26;)*(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_ESCAPED = re.compile(r"(?:\\u(?!00[0-7])[0-9a-fA-F]{4})+")
_ESCAPED_IN_JSON = re.compile(r'\\(?:[nrt]|(["/\\]))')
_COMMAND = re.compile(r"\\(?:text(?:bf|it|rm|tt|sf)?|emph|math(?:bf|it|rm)|boxed|underline)\{([^{}]{0,300})\}")
_SIGN = re.compile(r"\\([$%&#_*])")
"""Commands of LaTeX that only change the looks, and signs escaped there or in Markdown."""

_LINK = re.compile(
    r"!?\[([^\[\]\n]{0,300})\]\((?=[^\s()]{0,99}[./#])[^\s()]{1,999}(?:\([^\s()]{0,99}\)[^\s()]{0,99})?"
    r"(?: \"[^\"\n]{0,200}\")?\)"
)
"""Links of Markdown: their words are read, their addresses are not. The number of a citation keeps its
brackets."""
_CONTROLS = "\0-\x08\x0e-\x1b\x7f"
_CONTROL = re.compile(rf"\x1b\[[0-9;]*[A-Za-z]|[{_CONTROLS}]+")
"""Also the colours of a terminal."""
_HIDDEN = (
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc"
)
_ACCENTS = "\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
"""Combining marks left by NFC: Russian stress, and others without a precomposed letter."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Scripts in which only a zero-width space separates words: Thai, Lao, Burmese, Khmer."""
_UNSEEN = re.compile(
    # A line's last soft hyphen joins it to the next: `layout` uses it.
    rf"\u00ad+(?![^\S{BREAKS}]*[{BREAKS}])|\u200b+(?![{_UNSPACED}])|(?<![{_UNSPACED}])\u200b+"
    rf"|[{_HIDDEN}\U000e0001-\U000e007f\U000e0100-\U000e01ef]+"
)
_ZEROS = (
    "660 6f0 7c0 966 9e6 a66 ae6 b66 be6 c66 ce6 d66 de6 e50 ed0 f20 1040 1090 17e0 1810 1946 19d0 "
    "1a80 1a90 1b50 1bb0 1c40 1c50 a620 a8d0 a900 a9d0 a9f0 aa50 abf0 ff10"
)
"""First code points of the ten digits of each script (Unicode 15.1, category Nd)."""
_DIGITS = "".join(f"{chr(int(zero, 16))}-{chr(int(zero, 16) + 9)}" for zero in _ZEROS.split())
_LIGATURES = "\u0132\u0133\ufb00-\ufb06\ufb13-\ufb17\u24b6-\u24e9\u2f00-\u2fd5"
"""Also letters in circles, and the radicals that PDF writes for Han characters."""
_COUNTED = "\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
"""Numbers in circles and in brackets. They mark items of a list, and so do keycaps."""
_DOTS = "\u2022\u2027\u30fb\uff65"
"""Variants of the dot inside a foreign name in Chinese."""
_NOTE = re.compile(f'(?:(?<=[^\\W\\d_{HAN}]{{4}})|(?<=[.!?,;:)\\]"”»。！？，；）]))[¹²³⁰⁴-⁹]{{1,3}}(?![\\w⁄])')
"""The number of a note, after a word or a stop; that of a unit (m², 10³) is none."""
_RAISED_TAG = re.compile(r"<sup>\s*([-−]?\d{1,3})\s*</sup>", re.IGNORECASE)
_RAISED_DIGITS = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
_RAISED = re.compile("[´ʹ′¹²³⁰⁴-⁹¼-¾⅐-⅞№]")
_POWER = re.compile("(?<=[0-9])(?=⁻?[¹²³⁰⁴-⁹])")
_UNSPACED_SIGN = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])|(?<=№)(?=[0-9])")
"""Where 1½ and №5 have a space in other texts."""
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[`´ʹ′](?=[^\W\d_])")
_SPACED_OUT = re.compile(f"(?<![{HAN}])[{HAN}](?:[ \u3000][{HAN}](?![{HAN}])){{3}}")
"""Han characters with a space between any two, as in PDF extraction."""
_SPACE_INSIDE = re.compile(f"(?<=[{HAN}，。、：；！？])[ \u3000](?=[{HAN}，。、：；！？])")
_LETTERS_OF_WIDTH = "\uff21-\uff3a\uff41-\uff5a"
_SIGNS_OF_WIDTH = "\uff02-\uff07\uff0a\uff0b\uff0d\uff0f\uff1c-\uff1e\uff20\uff3c\uff3e-\uff40\uff5c\uff5e"
_SIGNS_OF_WIDTH += "\uffe0\uffe1\uffe5\uffe6"
_SIGNS = {"\u066a": "%", "\u066b": ".", "\u066c": ",", "\u02bc": "’"}
"""Separators of Arabic numbers, and the letter sometimes used as an apostrophe."""
_FOLDED = (
    rf"[0-9]\u20e3\s?|[{_COUNTED}]\s?|[{_ACCENTS}]+|[{_LETTERS_OF_WIDTH}{_DIGITS}{_LIGATURES}{''.join(_SIGNS)}{_SIGNS_OF_WIDTH}"
    "\U0001d400-\U0001d7ff\U0001fbf0-\U0001fbf9]"
)
_FOLD = re.compile(rf"{_FOLDED}|[．，：](?<=\d.)(?=\d)|[{_DOTS}](?<=[{HAN}].)(?=[{HAN}])")
# Without any Han character wide punctuation belongs to a Latin text, and so does the wide space.
_FOLD_ALL = re.compile(rf"{_FOLDED}|[\uff01-\uff5e\u3000]")
_WIDE_WRITING = re.compile(f"[{HAN}\u3041-\u30ff]")
_ODD = re.compile(
    f"[\u00ad\u200b{_HIDDEN}{_ACCENTS}{_LETTERS_OF_WIDTH}{_DIGITS}{_LIGATURES}"
    f"{''.join(_SIGNS)}{_SIGNS_OF_WIDTH}{_DOTS}{_COUNTED}\U00010000-\U0010ffff]"
)
_RARE = re.compile(
    "[^\\0-\x7f\xa0-\xac\xae-\u0131\u0134-\u017f\u0401\u0410-\u044f\u0451\u2010-\u201f\u2026\u3000-\u3011\u4e00-\u9fa5\uff01\uff08\uff09\uff0c\uff0e\uff1a\uff1b\uff1f]"
)
"""Characters that are neither odd nor letters that NFC could join: one search shows that most texts have no
others."""
_WIDE_PUNCTUATION = re.compile("[\uff01-\uff5e\u3000]")
_LOOSE = re.compile(f"[{_ACCENTS}]+")
_IN_NUMBER = re.compile(r"[．，：](?<=\d.)(?=\d)")


def _is_markup(text: str) -> bool:
    """Return whether an element is opened and closed in a text; otherwise the text only mentions tags."""
    if "<" not in text:
        return False
    opened: set[str] = set()
    for found in _TAG.finditer(text):
        name = (found["name"] or "").lower()
        if found[0][1] != "/":
            opened.add(name)
        elif name in opened:
            return True
    return _BREAKING.search(text) is not None


def _without_tag(found: "re.Match[str]") -> str:
    name = (found["name"] or "").lower()
    if name in _CELLS:
        return " "
    if name == "br":
        return "\n"
    return "\n\n" if name in _BLOCKS else ""


def _entity(found: "re.Match[str]") -> str:
    # html.unescape would also read the beginning of an unknown name.
    if found[1][0] != "#" and f"{found[1]};" not in html5:
        return found[0]
    return unescape(f"&{found[1]};")


def _without_escapes(text: str) -> str:
    """Return a text without the escapes of JSON, Markdown and LaTeX."""
    text = _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("\\u", "")).decode("utf-16-be", "replace"), text
    )
    if text.lstrip()[:1] in ("{", "[", '"') and text.rstrip()[-1:] in ("}", "]", '"'):
        text = _ESCAPED_IN_JSON.sub(lambda found: found[1] or "\n", text)
    return _COMMAND.sub(r"\1", _SIGN.sub(r"\1", text))


def _fold_match(found: "re.Match[str]") -> str:
    text = found[0].rstrip() or found[0]
    if text[-1] == "\u20e3":
        return f"{text[0]}) "
    if unicodedata.category(text[0]) == "No":
        return f"{unicodedata.numeric(text[0]):.0f}) "
    if text in _SIGNS:
        return _SIGNS[text]
    if text in _DOTS:
        return "·"
    if text.isdecimal():
        return str(unicodedata.decimal(text))
    return _LOOSE.sub("", unicodedata.normalize("NFKC", text))


def _is_plain(text: str) -> bool:
    """Return whether only the markup step could change a text that is neither ASCII nor Russian."""
    if _RARE.search(text) and (_ODD.search(text) or not unicodedata.is_normalized("NFC", text)):
        return False
    if _WIDE_PUNCTUATION.search(text) is None:
        return True
    return _WIDE_WRITING.search(text) is not None and _IN_NUMBER.search(text) is None


def clean(text: str) -> str:
    """Return the cleaned text.

    - escapes of JSON, Markdown and LaTeX's fonts are what they stand for;
    - HTML entities become their characters; tags are layout if the text has an element that is opened and
      closed, or a ``<br>`` at the end of a phrase; comments are gone; between backticks neither is one;
    - invisible characters are gone: soft hyphens but a line's last, zero-width characters, marks of direction,
      variation selectors, a byte-order mark, control characters, colours of a terminal;
    - a link of Markdown is its words; the raised number of a note is gone, that of a power is 10^3; spaces
      between all characters of Chinese are gone;
    - NFC; an accent that no letter takes, as Russian stress, is gone;
    - Latin letters, digits and signs of full width or of mathematical fonts, ligatures and the digits of all
      scripts are the plain ones, circled numbers and keycaps those of a list: 1); wide punctuation stays where
      the text has Han or kana.
    """
    if "&" in text and ";" in text:
        text = _ENTITY.sub(_entity, text)
    if "\\" in text:
        text = _without_escapes(text)
    if "<!--" in text:
        text = _COMMENT.sub("", text)
    if "<sup>" in text:
        text = _RAISED_TAG.sub(lambda found: found[1].translate(_RAISED_DIGITS), text)
    if _is_markup(text):
        text = _TAG.sub(_without_tag, text)
    if "](" in text:
        text = _LINK.sub(lambda found: f"[{found[1]}]" if found[1].isdecimal() else found[1], text)
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    is_usual = text.isascii() or OTHER_THAN_RUSSIAN.search(text) is None
    if "`" in text or (not is_usual and _RAISED.search(text)):
        text = _NOTE.sub("", _APOSTROPHE.sub("’", text))
        text = _UNSPACED_SIGN.sub(" ", _POWER.sub("^", text))
    if is_usual:
        return text
    if " " in text and _WIDE_WRITING.search(text) and _SPACED_OUT.search(text):
        text = _SPACE_INSIDE.sub("", text)
    if _is_plain(text):
        return text
    text = unicodedata.normalize("NFC", _UNSEEN.sub("", text))
    return (_FOLD if _WIDE_WRITING.search(text) else _FOLD_ALL).sub(_fold_match, text)
