"""Look Chinese names up in a text that has no spaces between words.

`entities` calls this. 京东 is in 北京东部 letter by letter, but the text is about 北京 and 东部. No
dictionary is used, so an occurrence is judged by its neighbours: it does not count if words of
`han_words` that cross the name's border explain the characters around it with fewer words than
the name does, or with equally many if a known place crosses its beginning. Words missing from the
lists are not detected: then the name counts as mentioned.
"""

from .han_words import GIVEN, PLACES, SURNAMES, WORDS
from .tokens import has_han

_HAN_SUFFIXES = ("市", "省", "县", "區", "区", "縣")
_NUMERALS = frozenset("〇零一二两三四五六七八九十百千万亿")
_WINDOW = 4
"""Characters to examine on either side; most words have two."""
_KNOWN = PLACES | WORDS
_LONGEST = max(map(len, _KNOWN))
_SINGLE, _WORD = 3, 2
"""Cost of a single character and of a known word: fewer and longer words explain better."""


def without_suffix(entity: str) -> str:
    """Return a place name without a final 市, 省, 县 or 区, if two characters remain."""
    # 城市 is a separate word, not a city called 城.
    if len(entity) > 2 and entity.endswith(_HAN_SUFFIXES) and has_han(entity):
        return entity[:-1]
    return entity


def stands_in_han(text: str, name: str) -> bool:
    """Return whether `text` mentions `name`, which has a Han character, as a separate name."""
    judged: dict[str, bool] = {}
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        left, right = max(0, start - _WINDOW), end + _WINDOW
        # Equal surroundings are judged once, so that a text full of them costs only one look-up each.
        around = f"{start - left}:{text[left:right]}"
        if around not in judged:
            judged[around] = _is_own(text[left:right], start - left, end - left)
        if judged[around]:
            return True
        start = text.find(name, start + 1)
    return False


def _is_own(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    first, last = text[start], text[end - 1]
    if not has_han(first) and before.isalnum() and not has_han(before):
        return False
    if not has_han(last) and after and (after in "+#" or (after.isalnum() and not has_han(after))):
        return False
    if first in _NUMERALS and (before in _NUMERALS or before.isdigit()):
        return before == ""  # 一百度 has no 百度
    if _goes_on(text, start, end):
        return False
    left, right = start, end
    if has_han(first):
        while left and has_han(text[left - 1]):
            left -= 1
    if has_han(last):
        while right < len(text) and has_han(text[right]):
            right += 1
    if left == start and right == end:
        return True
    run, begin, stop = text[left:right], start - left, end - left
    own = _cost(run[:begin]) + _WORD + _cost(run[stop:])
    free = _cost(run)
    return own < free or (own == free and not _place_crosses(run, begin))


def _goes_on(text: str, start: int, end: int) -> bool:
    """Return whether a person's name has one more character: 王明 in 王明华."""
    if end - start != 2 or text[start] not in SURNAMES or text[start:end] in _KNOWN:
        return False
    after = text[end : end + 1]
    return (
        bool(after)
        and text[start + 1] in GIVEN
        and after in GIVEN
        and after not in "和来有可多长应会文发建成学多才来广"
        and text[end : end + 2] not in WORDS
    )


def _cost(run: str) -> int:
    """Return the lowest cost of cutting a few characters into words."""
    best = [0]
    for end in range(1, len(run) + 1):
        cheapest = best[end - 1] + _SINGLE
        for start in range(max(0, end - _LONGEST), end - 1):
            if run[start:end] in _KNOWN:
                cheapest = min(cheapest, best[start] + _WORD)
        best.append(cheapest)
    return best[-1]


def _place_crosses(run: str, border: int) -> bool:
    return any(
        run[start:end] in PLACES
        for start in range(max(0, border - _LONGEST), border)
        for end in range(border + 1, min(len(run), start + _LONGEST) + 1)
    )
