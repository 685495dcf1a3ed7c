"""The numbers of a text with their units, in any notation."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .analysis import Analysis
from .conversions import by_unit, compounds_of
from .number_words import spelled_amounts
from .quantities import Quantity, quantities
from .tokens import normalise

_DASHES = str.maketrans(dict.fromkeys("‑–‐‒−—", "-"))
_SPACES = re.compile(r"\s\s*")
_DEGREE = re.compile(r"(?<=[0-9])\s?º")
_JOINING = len(" and ")
LOOSE = frozenset(("", "ordinal", "decade", "century", "year", "bc"))
"""Units that add nothing to the number itself."""


def flat(text: str) -> str:
    """Return a text in the form that `quantities` and `dates` read."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.lower()
    if "º" in text:
        text = _DEGREE.sub("°", text)
    return _SPACES.sub(" ", normalise(text).translate(_DASHES))


def value_and_unit(key: str) -> tuple[str, str]:
    """Return the value, without its sign, and the unit of a quantity's key."""
    kind, _, rest = key.partition(":")
    if kind != "number":
        return key, ""
    value, _, unit = rest.partition("|")
    return value.lstrip("-"), unit


def amounts_of(known: Analysis) -> Sequence[tuple[str, str]]:
    """Return all numbers, each with its unit. For ``known.memoize(amounts_of)``."""
    return amounts_in(known.plain)


def amounts_by_unit(known: Analysis) -> dict[str, list[float]]:
    """Return the same, values by unit. For ``known.memoize(amounts_by_unit)``."""
    return by_unit(known.memoize(amounts_of))


def amounts_in(text: str) -> Sequence[tuple[str, str]]:
    """Return all numbers of a text, each with its unit, and amounts in two units also as one."""
    read = quantities(flat(text))
    every = [value_and_unit(key) for one in read for key in one.keys]
    return every + [pair for _, _, pairs in compounds(read) for pair in pairs]


def compounds(read: Sequence[Quantity]) -> Iterator[tuple[int, int, list[tuple[str, str]]]]:
    """Yield start, end, and values with units of amounts in two units: 2 hours and 40 minutes."""
    for one, other in pairwise(read):
        if 0 <= other.start - one.end <= _JOINING:
            pairs = compounds_of(map(value_and_unit, one.keys), map(value_and_unit, other.keys))
            if pairs:
                yield one.start, other.end, pairs


def spelled_quantities(said: str) -> list[Quantity]:
    """Return the amounts of a sentence whose numbers are English or Russian words."""
    return [
        Quantity(start, unit_end, quantities(f"{value}{said[end:unit_end]}")[0].keys, unit_end)
        for start, end, unit_end, value in spelled_amounts(said.replace("ё", "е"))
    ]


def is_range(keys: frozenset[str]) -> bool:
    """Return whether these are the keys of a range of two numbers."""
    return any(key.startswith("range:") for key in keys)
