"""Numbers not written in digits only: Chinese and Roman numerals, shifted decimals.

`quantities` and `dates` call this.  Values are strings of decimal digits, never floats, so that
nothing is rounded and numbers of any length are read.
"""

import re

HAN_DIGITS = ("零〇", "一", "二两兩", *"三四五六七八九")
"""By value, the characters that may represent a digit."""
_HAN_DIGITS = {digit: value for value, written in enumerate(HAN_DIGITS) for digit in written}
_SMALL = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_LONGEST_HAN = 32

HAN_NUMERALS = "〇零一二两兩三四五六七八九十百千万萬亿億"
"""The characters of Chinese numerals."""
HAN_NUMERAL = re.compile(f"[{HAN_NUMERALS}][{HAN_NUMERALS}]*(?:点[〇零一二三四五六七八九]+)?")
"""A run of characters that may be one Chinese numeral."""

_ROMAN = re.compile(r"m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})\Z")
_ROMAN_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}


def decimal(number: str) -> str:
    """Return a decimal without redundant zeros: ``007.50`` is ``7.5``."""
    whole, _, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    # lstrip rather than int(): Python refuses to read numbers of thousands of digits.
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def shift(number: str, power: int) -> str:
    """Return `number` (as `decimal` returns it) times ten to the `power` from 0 up."""
    whole, _, fraction = number.partition(".")
    fraction = fraction.ljust(power, "0")
    return decimal(f"{whole}{fraction[:power]}.{fraction[power:]}")


def han_value(numeral: str) -> str | None:
    """Return the value of a Chinese numeral such as 一百二十三, 二〇〇八 or 三点五, else None."""
    if len(numeral) > _LONGEST_HAN:
        return None
    whole, _, fraction = numeral.partition("点")
    value = _han_integer(whole)
    if value is None:
        return None
    return decimal(f"{value}.{''.join(str(_HAN_DIGITS[digit]) for digit in fraction)}")


def _han_integer(numeral: str) -> int | None:
    if all(map(_HAN_DIGITS.__contains__, numeral)):
        return int("".join(str(_HAN_DIGITS[digit]) for digit in numeral)) if numeral else None
    total = section = digit = 0
    known = False  # whether a digit waits for its unit
    last = 10**9
    for letter in numeral:
        if letter in _HAN_DIGITS:
            if known and digit:
                return None
            digit, known = _HAN_DIGITS[letter], True
        elif letter in _SMALL:
            if not known and (letter != "十" or section):
                return None  # 百 and 千 alone are words
            if _SMALL[letter] >= last:
                return None
            last = _SMALL[letter]
            section += (digit if known else 1) * last
            digit, known = 0, False
        else:
            if not (section or known):
                return None
            total = (
                (total + section + digit) * _LARGE[letter]
                if _LARGE[letter] > 10**4
                else (total + (section + digit) * _LARGE[letter])
            )
            section = digit = 0
            known, last = False, 10**9
    return total + section + digit


def roman_value(numeral: str) -> int | None:
    """Return the value of a casefolded Roman numeral, else None."""
    if not numeral or not _ROMAN.match(numeral):
        return None
    digits = [_ROMAN_DIGITS[letter] for letter in numeral]
    following = [*digits[1:], 0]
    return sum(-one if one < other else one for one, other in zip(digits, following, strict=True))
