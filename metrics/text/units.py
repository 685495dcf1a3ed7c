"""Spellings of units, currencies and powers of ten in English, Russian and Chinese.

Only `quantities` reads them. Entries are casefolded and without a final full stop. A canonical name
represents all languages, so ``5 km`` is ``5 километров`` and ``5公里``; nothing is converted.
"""

import re

from .word_lists import read_entries

_UNITS: dict[str, frozenset[str]] = {}
for _name, _spellings in read_entries("units").items():
    for _spelling in _spellings:
        _spelled = _spelling.replace("_", " ")
        _UNITS[_spelled] = _UNITS.get(_spelled, frozenset()) | {_name}

POWERS = {word: int(power) for power, words in read_entries("scales").items() for word in words}
POWERS |= {"m": 6, "b": 9, "t": 12}  # only after a currency sign
_HAN_LETTER = "\u3400-\u9fff"


def _alternatives(words: "list[str]") -> str:
    # The longest first. A word that ends with a letter other than Han must end at a word boundary.
    ordered = sorted(words, key=lambda word: (-len(word), word))
    bordered = [w for w in ordered if w[-1].isalnum() and not re.match(f"[{_HAN_LETTER}]", w[-1])]
    free = [w for w in ordered if w not in set(bordered)]
    return (
        rf"(?:(?:{'|'.join(map(re.escape, bordered))})(?![^\W{_HAN_LETTER}])"
        rf"|(?:{'|'.join(map(re.escape, free))}))"
    )


UNIT = re.compile(rf"[ -]?({_alternatives(list(_UNITS))})\.?")
"""A unit after a number, in group 1."""

SCALE = re.compile(
    rf"[ -]?({_alternatives([word for word in POWERS if len(word) > 1 or word not in 'mbt'])})"
    rf"\.?|([mbt])(?![^\W{_HAN_LETTER}])"
)
"""A power of ten after a number, in group 1; one that follows only money, in group 2."""

SCALES = frozenset(
    before + word
    for word in POWERS
    for before in ("", " ", "-")
    if not before or len(word) > 1 or word not in "mbt"
)
"""Matches of `SCALE` in ASCII letters, with the space or hyphen before them."""

PREFIX = re.compile(
    r"(?:(?P<sign>-|minus |минус |零下|负)?"
    r"(?P<unit>us\$|u\.s\. ?\$|a\$|au\$|c\$|ca\$|hk\$|nt\$|[$€£¥₽₹₩]|(?:usd|eur|gbp|jpy|cny|rmb|rub) )? ?"
    r"(?P<inner>-)?)\Z"
)
"""Text before a number that belongs to it."""

PREFIX_ENDS = (
    *"-$€£¥₽₹₩",
    *("minus", "минус", "零下", "负"),
    *("usd", "eur", "gbp", "jpy", "cny", "rmb", "rub"),
)
"""Possible ends of `PREFIX`, without spaces."""

UNIT_STARTS = frozenset(re.split("[^a-z]", spelling, maxsplit=1)[0] for spelling in (*_UNITS, *POWERS))
"""The Latin letters with which every `UNIT` and `SCALE` begins, up to the first other character."""

UNIT_WORDS = frozenset(word for spelling in _UNITS for word in spelling.split())
"""Every word of a unit: Celsius is no person."""

_PREFIXED = {"us$": "$", "u.s.$": "$", "a$": "aud", "au$": "aud", "c$": "cad", "ca$": "cad"}


def units_of(spelling: str) -> frozenset[str]:
    """Return the canonical names of a unit's spelling, several for ``pounds`` and ``¥``."""
    word = spelling.strip()
    known = _UNITS.get(word)
    if known is not None:
        return known
    plain = word.replace(" ", "")
    return frozenset((_PREFIXED.get(plain, plain),))
