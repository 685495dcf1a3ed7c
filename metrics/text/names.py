"""Looks names up in a text: word by word, with case where it matters, in one pass of C code.

`entities` calls this. A text is encoded as one character per word, and a name as one class of such characters
per word; so a regular expression finds a name of any length in time linear in the text. A word's case,
symbols and position are evaluated once per distinct word. Chinese names are looked up by `han_names` instead.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from .characters import HAN
from .common_words import ASKING, COMMON, NAMES, SUBJECTS
from .russian_names import same_russian_name
from .stems import STOP_WORDS, stem

NameTier = Literal["string", "accents", "stems"]
TIERS: tuple[NameTier, ...] = ("string", "accents", "stems")

_GLUED, _FIRST = "\x01", "\x02"
_LETTER = rf"[^\W\d_{HAN}]"
_UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĢĪĮİĶĹĻĽŁŃŅŇŌŐŒŔŘŚŞŠŤŪŮŰŲŹŻŽА-ЯЁІЇЄҐ"
_WORD = re.compile(
    # The space before a word is included: nothing begins with one, and each attempt costs.
    rf" ?({_FIRST}?(?:"
    # A cheap test for most words: none of the following ones applies.
    r"[A-Za-z][a-z]+(?=[ ,;:!?)\n]|\.(?:[ \n]|\Z))"
    r"|"
    rf"(?:[{_UPPER}]\.){{1,4}}[{_UPPER}](?![\w.'’])"  # U.S
    rf"|(?:[{_UPPER}]\.\s?){{0,4}}[{_UPPER}]\.|(?:{_LETTER}\.){{2,5}}"  # U.S.A., J. K., p.m.
    rf"|{_GLUED}?(?<![\w.…])\.(?={_LETTER})[A-Za-z]+"  # .NET
    rf"|{_GLUED}?{_LETTER}+(?:['’ʼ]{_LETTER}+)*(?:\.[a-z]{{2,}}(?![A-Z]))*(?:\.(?<=[A-Z]\.)[A-Z]{{2,}})*"
    r"(?:\+\+|[+#])?(?!\+|#)"
    r"|(?:(?<!\w)[-+]|[$€£¥₽])?\d+(?:[.,]\d+)*%?"
    rf"|{_GLUED}\d+(?:[.,]\d+)*|&|[{HAN}]))"
)
_GLUE = re.compile(rf"(?<={_LETTER})(?=\d)|(?<=\d)(?={_LETTER})")
_MIXED = re.compile(rf"\d(?:(?={_LETTER})|(?<={_LETTER}\d))")
_BEFORE_WORD = r"[^\w.$€£¥₽+-]*"
_OPENING = re.compile(_BEFORE_WORD)
# Every alternative begins with one of a few characters, to which the search can jump.
_STARTS = re.compile(
    r"[.!?…\n](?:(?<!\n)(?<![\W_][^\W\d_]\.)(?<!\A[^\W\d_]\.)['\"»”’)\]]*\s+"
    rf"|(?<=\n)(?:[ \t]*\n|(?=[ \t]*(?:[-*•#>]|\d{{1,3}}[.)])[ \t]))){_BEFORE_WORD}"
)
_CAPITAL_LINE = re.compile(r"^[^\na-zа-яё]*$", re.MULTILINE)
_CAPITALS = re.compile(rf"[{_UPPER}]{{2,}}")
_INFLECTED_CAPITALS = re.compile(rf"([{_UPPER}]{{2,}})(?:['’]?s|-?[а-я]{{1,2}})\Z")
_POSSESSIVE = re.compile(r"['’ʼ]s?\Z", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.IGNORECASE)
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_FIRST_ID = 0x100
_SURROGATES = 0xD800
_MOST_WORDS = 16
"""Most words of a name to compare individually; a longer "name" is compared as a string."""


def compose(text: str) -> str:
    """Return a cleaned text in NFKC; case and layout are unchanged."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


@lru_cache(maxsize=20_000)
def _without_accents(word: str) -> str:
    if word.isascii() or _CYRILLIC.search(word):  # й is a letter, not an и with an accent
        return word
    decomposed = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


class Word(NamedTuple):
    """One word in the form for comparison."""

    surface: str
    """The written form, without possessive ending and full stops of an abbreviation."""
    folded: str
    """Casefolded, ё as е."""
    plain: str
    """`folded` without accents."""
    first: bool
    """Whether it opens a sentence."""
    glued: bool
    """Whether it is part of a longer run of letters and digits: the 16 of F16."""
    initial: bool
    """Whether it consists of initials."""


@lru_cache(maxsize=20_000)
def _word(token: str) -> Word:
    first = token.startswith(_FIRST)
    bare = token.lstrip(_FIRST)
    glued = bare.startswith(_GLUED)
    bare = bare.lstrip(_GLUED)
    initial = False
    if bare == "&":
        bare = "and"
    elif bare[-1:] == "." or ("." in bare and max(map(len, bare.split("."))) < 2):
        initial = bare[-1:] == "."
        bare = "".join(filter(str.isalpha, bare))
    elif bare[:1].isdigit() or bare[-1:].isdigit():
        bare = bare.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", bare) else bare
    else:
        capitals = _INFLECTED_CAPITALS.match(bare)
        bare = capitals[1] if capitals else _POSSESSIVE.sub("", bare) or bare
        bare = bare.replace("’", "'").replace("ʼ", "'")
    folded = bare.casefold().replace("ё", "е")
    return Word(bare, folded, _without_accents(folded), first, glued, initial)


def _tokens(text: str) -> list[str]:
    """Split composed text into words with their positions."""
    if _MIXED.search(text):
        text = _GLUE.sub(_GLUED, text)
    return _WORD.findall(text)


def _by_plain(known: tuple[Word, str]) -> str:
    return known[0].plain


def stable_part(word: Word) -> str:
    """Return the prefix common to all forms of a word, ignoring accents."""
    shortest = 1 if _CYRILLIC.match(word.plain) else 2
    return word.plain[: max(shortest, len(word.plain) - 3)]


class Name(NamedTuple):
    """A name, split for look-ups."""

    text: str
    """The written form, composed."""
    words: tuple[Word, ...]
    person: bool
    """Whether it can be a full name: two or three capitalised words of letters."""
    plain: bool
    """Whether finding its letters is enough, as its case does not matter."""


def name_of(text: str) -> Name:
    """Return the name in composed `text`, without a leading article."""
    words = [_word(token) for token in _tokens(text)]
    if len(words) > 1 and words[0].folded in ("the", "a", "an"):
        rest = words[1:]
        # "The Who" and "The Sun" need their article, "the Taj Mahal" does not.
        if len(rest) > 1 or rest[0].folded not in COMMON or words[0].folded != "the":
            words = rest
    person = 2 <= len(words) <= 3 and all(
        word.surface[:1].isupper()
        and word.surface.replace("-", "").isalpha()
        and (len(word.surface) > 1 or word.initial)
        and not (word.surface.isupper() and not word.initial)
        for word in words
    )
    article = _ARTICLE.match(text)
    if article is not None and words and words[0].folded not in ("the", "a", "an"):
        text = text[article.end() :]
    case_matters = len(words) == 1 and (
        _is_short_capitals(words[0]) or words[0].folded in COMMON or words[0].initial
    )
    return Name(text, tuple(words), person, plain=bool(words) and not case_matters)


def _is_short_capitals(word: Word) -> bool:
    letters = word.surface.lstrip(".").rstrip("+#")
    return letters.isupper() and len(letters) <= 5


def _case_agrees(wanted: Word, found: Word, *, alone: bool, cased: bool, same: bool) -> bool:
    """Return whether the case of `found` allows it to be the name's word `wanted`.

    Args:
        wanted: A word of the name.
        found: A word of the text with the same letters, or another form of it.
        alone: Whether `wanted` is the whole name.
        cased: Whether the text uses capitals.
        same: Whether the letters are the same.
    """
    if not wanted.surface[:1].isalpha() and wanted.surface[:1] != ".":
        return True
    common = wanted.folded in COMMON
    has_capital = found.surface != found.surface.lower()
    if _is_short_capitals(wanted):
        if found.surface.isupper():
            return True
        if not alone and not common:
            return True
        return len(wanted.surface) > 3 and has_capital and not common
    if wanted.surface == wanted.surface.lower():
        if not has_capital or not alone:
            return True
        # An apple is not Apple, and "who" is not WHO.
        shouted = found.surface.isupper() and 1 < len(found.surface) <= 4
        return not ((common or wanted.folded in STOP_WORDS) and (shouted or not found.first))
    if has_capital:
        if found.surface.isupper() and 1 < len(found.surface) <= 3 and not wanted.surface.isupper():
            return not alone
        return not (alone and common and found.first and not same)
    if wanted.folded in NAMES:
        return True
    if not alone:
        return not common
    return not cased and not common


def _level(wanted: Word, found: Word) -> int | None:
    """Return the tier by which two words agree, as an index of `TIERS`, or None."""
    if wanted.folded == found.folded:
        return 0
    if wanted.plain == found.plain:
        return 1
    if _CYRILLIC.match(wanted.folded):
        if wanted.surface.isupper() and len(wanted.surface) > 1:
            return None
        if same_russian_name(wanted.folded, found.folded):
            return 2
        if wanted.surface[:1].isupper():
            return None
        return 2 if stem(wanted.folded) == stem(found.folded) else None
    if not wanted.folded.isascii():
        return None
    if wanted.surface[:1].isupper():
        longer, shorter = (
            (wanted.folded, found.folded)
            if len(wanted.folded) > len(found.folded)
            else (found.folded, wanted.folded)
        )
        if wanted.surface.isupper() or len(shorter) < 4:
            return None
        return 2 if longer in (f"{shorter}s", f"{shorter}es") else None
    return 2 if wanted.folded.isalpha() and stem(wanted.folded) == stem(found.folded) else None


class NameIndex:
    """The words of one text, indexed for looking up names.

    Args:
        text: The text, composed.
    """

    def __init__(self, text: str) -> None:
        self.cased = text != text.lower()
        if self.cased:
            text = _CAPITAL_LINE.sub(_lowered_line, text)
        tokens = _tokens(_with_starts(text))
        distinct = dict.fromkeys(tokens)
        letters = [
            chr(_FIRST_ID + number + (0x800 if number + _FIRST_ID >= _SURROGATES else 0))
            for number in range(min(len(distinct), 1_000_000))
        ]
        known = dict(zip(distinct, letters, strict=False))
        self._line = "".join([known.get(token, " ") for token in tokens])
        words = [(_word(token), letter) for token, letter in known.items()]
        self._known = sorted(words, key=_by_plain)
        self._asking = {letter for word, letter in words if word.folded in ASKING}
        self._subjects = {letter for word, letter in words if word.folded in SUBJECTS}
        self._glued = "".join(letter for word, letter in self._known if word.glued)

    def find(self, name: Name) -> NameTier | None:
        """Return the strictest tier by which the text has `name`, or None."""
        words = name.words[:_MOST_WORDS]
        if not words:
            return None
        alone = len(words) == 1
        candidates = [self._candidates(word, alone=alone, inside=place > 0) for place, word in enumerate(words)]
        if all(candidates):
            for tier in range(len(TIERS)):
                classes = [_letters(found, tier) for found in candidates]
                if all(classes) and self._stands(classes):
                    return TIERS[tier]
        if name.person and self._stands_as_person(words, candidates):
            return "stems"
        return None

    def _candidates(self, wanted: Word, *, alone: bool, inside: bool) -> list[tuple[int, str]]:
        """Return the text's words that can match `wanted`, with their tiers.

        A part of a longer run of letters and digits can match only `inside` a name: F16 is F-16, but there is
        no 16 in it.
        """
        stable = stable_part(wanted)
        found: list[tuple[int, str]] = []
        for position in range(bisect_left(self._known, stable, key=_by_plain), len(self._known)):
            word, letter = self._known[position]
            if not word.plain.startswith(stable):
                break
            if word.glued and not inside:
                continue
            level = _level(wanted, word)
            if level is not None and _case_agrees(wanted, word, alone=alone, cased=self.cased, same=level < 2):
                found.append((level, letter))
        return found

    def _stands(self, classes: Sequence[str]) -> bool:
        pattern = "".join(_class(letters) for letters in classes)
        if self._glued:
            pattern += f"(?!{_class(self._glued)})"
        if len(classes) == 1 and self._asking.intersection(classes[0]):
            return self._stands_unasked(pattern)
        return re.search(pattern, self._line) is not None

    def _stands_unasked(self, pattern: str) -> bool:
        # "May I come in?" has no May in it.
        subjects = "".join(self._subjects)
        asked = "".join(letter for word, letter in self._known if word.first and letter in self._asking)
        if subjects and asked:
            pattern = f"(?!{_class(asked)}{_class(subjects)}){pattern}"
        return re.search(pattern, self._line) is not None

    def _stands_as_person(self, words: Sequence[Word], candidates: Sequence[list[tuple[int, str]]]) -> bool:
        """Return whether the text has the full name in another order, or with initials."""
        whole = [_letters(found, 2) for found in candidates]
        for first, last in ((0, 1), (1, 0)) if len(words) == 2 else ():
            if words[first].initial and len(words[first].folded) == 2 and whole[last]:
                spelled = [self._spelled_out(letter) for letter in words[first].folded]
                both = ([*spelled, whole[last]], [whole[last], *spelled])
                if all(spelled) and any(map(self._stands, both)):
                    return True
        short = [self._initials(word) for word in words]
        for order in _orders(words):
            longest = [whole[place] for place in order]
            if all(longest) and self._stands(longest):
                return True
            # One word, the surname, is complete, first or last; the initials beside it may be one word.
            for place in order:
                if words[place].initial or not whole[place]:
                    continue
                given = [other for other in range(len(words)) if other != place]
                letters = self._merged_initials([words[other] for other in given])
                if len(given) == 1:
                    letters += short[given[0]] + (
                        self._spelled_out(words[given[0]].folded) if words[given[0]].initial else ""
                    )
                if letters and (self._stands([whole[place], letters]) or self._stands([letters, whole[place]])):
                    return True
        return False

    def _initials(self, word: Word) -> str:
        if word.initial:
            return ""
        wanted = word.folded[:1]
        return self._initials_of(wanted)

    def _initials_of(self, wanted: str) -> str:
        return "".join(letter for word, letter in self._known if word.initial and word.folded == wanted)

    def _merged_initials(self, words: Sequence[Word]) -> str:
        wanted = "".join(word.folded if word.initial else word.folded[:1] for word in words)
        return self._initials_of(wanted)

    def _spelled_out(self, initial: str) -> str:
        if len(initial) != 1:
            return ""
        return "".join(
            letter
            for other, letter in self._known
            if not other.initial
            and len(other.folded) > 2
            and other.folded[0] == initial
            and other.surface[:1].isupper()
            and other.surface[1:].islower()
        )


def _orders(words: Sequence[Word]) -> Iterator[tuple[int, ...]]:
    """Return the possible orders of a full name; only Russian has others than the given one."""
    count = len(words)
    own = tuple(range(count))
    yield own
    if all(_CYRILLIC.match(word.folded) for word in words):
        if count == 2:
            yield (1, 0)
        else:
            yield (2, 0, 1)
            yield (1, 2, 0)


def _letters(found: Iterable[tuple[int, str]], tier: int) -> str:
    return "".join(letter for level, letter in found if level <= tier)


def _class(letters: str) -> str:
    return letters if len(letters) == 1 else f"[{letters}]"


def _with_starts(text: str) -> str:
    """Return `text` with `_FIRST` before every word that opens a sentence."""
    opening = _OPENING.match(text)
    end = opening.end() if opening else 0
    return f"{text[:end]}{_FIRST}{_STARTS.sub(_marked_start, text[end:])}"


def _marked_start(match: re.Match[str]) -> str:
    return f"{match[0]}{_FIRST}"


def _lowered_line(match: re.Match[str]) -> str:
    # In a line of capitals they prove nothing: "WHO IS NEXT" is a question, not about the WHO.
    line = match[0]
    if len(_CAPITALS.findall(line)) < 3:
        return line
    return " ".join(word.capitalize() for word in line.split(" "))
