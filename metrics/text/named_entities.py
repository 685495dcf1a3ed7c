"""Find the entities of a reference answer by rules: numbers, dates, names.

`LexicalEntityRecall` calls this. English and Russian names are capitalised spans; a single word that opens a
sentence is one only with further evidence. Chinese names: `chinese_names`.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from .analysis import Analysis, analyse
from .characters import HAN
from .chinese_names import chinese_names
from .common_words import COMMON, MATERIAL, NAMES, NOT_NAMES, OPENERS, ORDINALS, TITLES
from .dates import date_spans
from .entities import distinct_entities
from .quantities import number_keys, quantities
from .russian_names import name_stems
from .tokens import has_han
from .word_lists import read_pattern

_MOST_ENTITIES = 200
"""Most entities of one reference; an answer usually has a handful."""
_MOST_WORDS = 8
"""Most words of one name; longer runs of capitalised words are headings."""
_LONGEST_SENTENCE = 4_000
"""Longest sentence in characters; a longer "sentence" is a list or a table, and is read in pieces."""

_UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĢĪĮİĶĹĻĽŁŃŅŇŌŐŒŔŘŚŞŠŤŪŮŰŲŹŻŽА-ЯЁІЇЄҐ"
_LETTER = rf"[^\W\d_{HAN}]"
_WORD = re.compile(
    r"[A-Za-z][a-z]+(?=[ ,])"  # a cheap test for most words: none of the following ones applies
    rf"|(?:[{_UPPER}]\.){{1,4}}[{_UPPER}](?![\w.'’])|(?:[{_UPPER}]\.){{2,5}}(?![{_UPPER}])"
    rf"|(?:[{_UPPER}]\.[ ]?){{0,4}}[{_UPPER}]\.(?=[ ]?[{_UPPER}])|(?<![\w.])\.(?=[A-Z])[A-Za-z]+"
    rf"|{_LETTER}(?:[^\W_{HAN}]|['’-](?=[^\W_{HAN}]))*(?:\.[a-z]{{2,}}(?![A-Z]))*(?:\.(?<=[A-Z]\.)[A-Z]+)?"
    r"(?:\+\+|[+#](?!\w))?"
)
_GAP = re.compile(r" |\. |-| & ")
_JOINT = re.compile(
    rf" (?:of|of the|for|for the|the|de|de la|da|do|dos|del|della|di|la|le|du|van|van der|van den|von|"
    rf"der|den|al|bin|ibn|y|e|auf|an der|am|des|д’|де|фон|ван|да|ибн|аль) (?=[{_UPPER}])"
)
_NUMBERED = read_pattern("named_entities.numbered")
_OTHER_SCRIPT = re.compile(f"[\u0400-\u04ff{HAN}]")
_NUMBER_OF_PRODUCT = re.compile(r" \d{1,3}(?![\d.,%])")
_HEAD = read_pattern("named_entities.head")
_ADJECTIVE = read_pattern("named_entities.adjective")
_NOUN = read_pattern("named_entities.noun")
_COORDINATED = re.compile(rf"(?:,| and| or| и| или| &) (?=[{_UPPER}])")
_ACTED = read_pattern("named_entities.acted")
_TITLE = re.compile(r"《([^《》]{1,60})》")
_QUOTED = re.compile(rf"«([{_UPPER}][^«».!?…]{{1,60}})»")
_POSSESSIVE = re.compile(r"['’]s\Z")
_MOST_QUOTED = 5
_SAID_OF_NAMES = read_pattern("named_entities.said_of_names")
_SURNAME = read_pattern("named_entities.surname")
_ONE_FOR_ONE = str.maketrans(
    {
        **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
        **dict.fromkeys("\u00a0\u2009\u202f\u3000\t", " "),
        "’": "'",
    }
)
_KNOWN_STEMS = frozenset(stem for name in NAMES if not name.isascii() for stem in name_stems(name))


def named_entities(text: str) -> tuple[str, ...]:
    """Return the distinct numbers, dates and names in `text`, as written, in reading order."""
    return analyse(text).memoize(_named_entities)


def _named_entities(known: Analysis) -> tuple[str, ...]:
    # White space inside a sentence is layout; sentences are independent except for names that prove another
    # word to be one.
    sentences = [piece for sentence in known.sentences for piece in _pieces(sentence)]
    inside = _Inside(sentences)
    found: list[str] = []
    for sentence in sentences:
        found += [name for _, name in sorted(_of_sentence(sentence, inside))]
        if len(found) > 2 * _MOST_ENTITIES:
            found = list(distinct_entities(found))
            if len(found) > _MOST_ENTITIES:
                break
    return distinct_entities(found)[:_MOST_ENTITIES]


class _Inside:
    """The capitalised words inside a text's sentences, where they are names."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._sentences = sentences
        self._known: frozenset[str] | None = None

    def __call__(self) -> frozenset[str]:
        """Return the words and their `_forms`; few texts need them."""
        if self._known is None:
            self._known = frozenset(
                form
                for sentence in self._sentences
                for word in _WORD.findall(sentence)[1:]
                if _is_name(word)
                for form in _forms(word)
            )
        return self._known


def _pieces(sentence: str) -> Iterator[str]:
    """Return a sentence with single spaces; an excessively long one in several pieces."""
    flat = " ".join(sentence.split())
    start = 0
    while len(flat) - start > _LONGEST_SENTENCE:
        space = flat.rfind(" ", start, start + _LONGEST_SENTENCE)
        end = space if space > start else start + _LONGEST_SENTENCE
        yield flat[start:end]
        start = end + (space > start)
    yield flat[start:]


def _of_sentence(sentence: str, inside: _Inside) -> Iterator[tuple[int, str]]:
    flat = _flat(sentence)
    dates = date_spans(flat)
    busy = set[int]()

    def is_free(start: int, text: str) -> bool:
        return busy.isdisjoint((start, start + len(text) - 1))

    def take(start: int, text: str) -> tuple[int, str]:
        busy.update(range(start, start + len(text)))
        return start, text

    for start, end in dates:
        yield take(start, sentence[start:end])
    names = list(_capitalised_spans(sentence, inside))
    for start, name in names:
        if name[-1].isdecimal() and is_free(start, name):  # Apollo 11
            yield take(start, name)
    for start, end in _numbers(flat, dates):
        if is_free(start, sentence[start:end]):
            yield take(start, sentence[start:end])
    for title in (*_TITLE.finditer(sentence), *_QUOTED.finditer(sentence)):
        if title[0][0] == "《" or title[1].count(" ") < _MOST_QUOTED:
            yield take(title.start(1), title[1])
    if has_han(sentence):
        names += chinese_names(sentence)
    for start, name in names:
        if is_free(start, name):
            yield start, name


def _flat(sentence: str) -> str:
    """Return the sentence in the form for dates and numbers, with unchanged indexes."""
    if sentence.isascii():
        return sentence.replace("\t", " ").lower()
    flat = sentence.translate(_ONE_FOR_ONE)
    small = flat.lower()
    if len(small) == len(flat):
        return small
    return "".join(one if len(one.lower()) > 1 else one.lower() for one in flat)


def _numbers(flat: str, dates: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the start and end of numbers, with sign, currency and unit."""
    # A piece must have the same meaning separately: of "5-10 km" the range does, the 5 does not.
    last = 0
    for one in sorted(quantities(flat, dates), key=lambda one: (one.start, one.end)):
        piece = flat[one.start : one.end]
        if one.start < last or not _means(piece, one.keys):
            continue
        if len(piece) < 3 and has_han(piece) and not any(map(str.isdecimal, piece)):
            continue  # 一天, 第一
        last = one.end
        yield one.start, one.end


def _means(piece: str, keys: frozenset[str]) -> bool:
    if piece.isdecimal():
        return not all("|" in key for key in keys)
    return not keys.isdisjoint(number_keys(piece, whole=True))


def _forms(word: str) -> set[str]:
    folded = _POSSESSIVE.sub("", word).casefold().replace("ё", "е")
    return {folded} | {f"{declension} {stem}" for declension, stem in name_stems(folded)}


def _capitalised_spans(sentence: str, inside: _Inside) -> Iterator[tuple[int, str]]:
    """Return the capitalised spans of one sentence, without words that merely open it."""
    words = list(_WORD.finditer(sentence))
    lower = sum(word[0][0].islower() for word in words)
    if len(words) > _MOST_WORDS and not lower:
        return  # a heading in capitals
    fragment = not lower and len(words) <= 4
    index = 0
    while index < len(words):
        if not _is_name(words[index][0]):
            index += 1
            continue
        last = index
        while (following := _next_name_word(sentence, words, last)) is not None:
            last = following
        span = _cut(sentence, words[index : last + 1], inside, opens=index == 0, whole=fragment)
        index = last + 1
        if span is not None:
            yield span


def _next_name_word(sentence: str, words: list[re.Match[str]], last: int) -> int | None:
    """Return the word that continues a name after `last`: Bank (of) England."""
    end = words[last].end()
    joint = _JOINT.match(sentence, end)
    for place in range(last + 1, min(last + 4, len(words))):
        word = words[place]
        if not _is_name(word[0]) and word[0].casefold() not in ORDINALS:
            continue
        if word.start() == (joint.end() if joint else -1):
            return place
        return place if _GAP.fullmatch(sentence, end, word.start()) else None
    return None


def _cut(
    sentence: str, words: list[re.Match[str]], inside: _Inside, *, opens: bool, whole: bool
) -> tuple[int, str] | None:
    """Return a span without a title or opening word at its beginning, or None if nothing is left."""
    while len(words) > 1 and (
        words[0][0].casefold() in TITLES or (opens and not whole and not _can_begin_name(words[0][0], inside))
    ):
        words, opens = words[1:], False
    if len(words) > _MOST_WORDS:
        return None
    first, text = words[0], sentence[words[0].start() : words[-1].end()]
    if len(words) == 1 and sum(map(str.isalpha, first[0])) == 1 and first[0][-1] not in "+#":
        return None
    end = words[-1].end()
    head = _HEAD.match(sentence, end) if _ADJECTIVE.match(words[-1][0]) else None
    if head is not None:  # Эйфелева башня
        return first.start(), sentence[first.start() : head.end()]
    number = _NUMBERED.match(sentence, end)
    if number is None and not sentence.isascii() and _OTHER_SCRIPT.search(sentence):
        number = _NUMBER_OF_PRODUCT.match(sentence, end)
    if number is not None and words[-1][0].isascii():  # Apollo 11
        return first.start(), sentence[first.start() : number.end()]
    if len(words) == 1 and opens and not whole and not _is_proven(sentence, first, inside):
        return None
    return first.start(), _POSSESSIVE.sub("", text)


def _can_begin_name(word: str, inside: _Inside) -> bool:
    """Return whether a word that opens a sentence can be the first word of the name after it."""
    folded = word.casefold().replace("ё", "е")
    if folded in NAMES:
        return True
    if folded in OPENERS or folded.endswith("ly") or _NOUN.match(word):
        return folded in inside()
    return True


def _is_proven(sentence: str, word: re.Match[str], inside: _Inside) -> bool:
    """Return whether there is evidence that the word which opens a sentence is a name."""
    text = _POSSESSIVE.sub("", word[0])
    folded = text.casefold().replace("ё", "е")
    if any(letter.isupper() for letter in text[1:]) or not text.isalpha():
        return True
    if folded in NAMES or folded in inside():
        return True
    if not folded.isascii():
        stems = name_stems(folded)
        if not stems.isdisjoint(_KNOWN_STEMS) or not _forms(text).isdisjoint(inside()):
            return folded not in COMMON
        if _SURNAME.match(text) and not text.endswith(("ский", "цкий")):
            return folded not in COMMON
    if folded in OPENERS or folded in MATERIAL or folded in TITLES or _NOUN.match(text):
        return False
    if folded.endswith(("ing", "ed", "ly", "s")):
        return False
    rest = _COORDINATED.match(sentence, word.end())
    if rest is not None and _is_name(_first_word(sentence, rest.end())):
        return True
    if folded in COMMON:
        return False
    return any(said.match(sentence, word.end()) for said in (_SAID_OF_NAMES, _ACTED))


def _first_word(sentence: str, start: int) -> str:
    word = _WORD.match(sentence, start)
    return word[0] if word else "-"


@lru_cache(maxsize=10_000)  # called for every word of a reference, often repeatedly
def _is_name(word: str) -> bool:
    if len(word) == 1:
        return False
    if word[0].isupper() or (word[0] == "." and word[1].isupper()):
        return word.casefold() not in NOT_NAMES or (word.isupper() and len(word) > 1)
    # iPhone, eBay
    return len(word) > 3 and word[0].islower() and word[1].isupper() and word.isascii()
