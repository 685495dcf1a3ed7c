"""Find Chinese names by rules, without a dictionary: places, organisations, persons, works.

`named_entities` calls this. Precision before recall: a person's name needs a listed surname, listed name
characters and a border on both sides; an organisation needs its suffix and a word that marks its beginning;
phonetic foreign names are recognised by their characters.
"""

import re
from collections.abc import Iterator

from .characters import HAN
from .han_names import stands_in_han
from .han_words import COMPOUND_SURNAMES, GIVEN, PLACES, SURNAMES, WORDS
from .word_lists import read_pattern, read_words

_PLACE = re.compile("|".join(sorted(PLACES, key=lambda place: (-len(place), place))))
_DOTTED = re.compile(rf"[{HAN}]{{1,8}}(?:[·・•‧][{HAN}]{{1,8}})+")
_RUN = re.compile(f"[{HAN}]+")
_QUOTED = re.compile(r"[「『“]([^「」『』“”。！？，、；]{2,20})[」』”]")

_ORGANISATIONS = read_words("han_organisations")
_PLACES = "省 市 县 区 州 镇 乡 村 岛 山 河 江 湖 海 桥 塔 寺 宫 庙 港 湾 峡 路 街 站 陵 峰 门 园 楼 城".split()
_LONG_SUFFIX = re.compile(f"(?:{'|'.join(sorted(_ORGANISATIONS, key=lambda one: (-len(one), one)))})+")
_SHORT_SUFFIX = re.compile(f"[{''.join(_PLACES)}]")
_BORDER = read_pattern("chinese_names.border")
_GENERIC = read_words("han_generic")
_BY_SOUND = frozenset("".join(read_words("han_by_sound")))
_SOUNDS_ONLY = frozenset("克塞伽奥撒茨埃尔弗夫姆斯兹特廷蒂迪菲莎娜琳玛勒诺涅珀契瑟逊茅奥萨洛伦曼顿")
_BEFORE_PERSON = read_pattern("chinese_names.before_person")
_AFTER_PERSON = read_pattern("chinese_names.after_person")


def chinese_names(text: str) -> Iterator[tuple[int, str]]:
    """Return the names in a sentence with their positions; they may overlap."""
    taken = set[int]()

    def take(start: int, name: str) -> Iterator[tuple[int, str]]:
        if taken.isdisjoint((start, start + len(name) - 1)):
            taken.update(range(start, start + len(name)))
            yield start, name

    for quoted in _QUOTED.finditer(text):
        # Speech and emphasis are quoted, too; a title is short and has no verb's particle.
        if len(quoted[1]) <= 8 and not re.search("[了着过吗呢吧我你他她们]", quoted[1]):
            yield from take(quoted.start(1), quoted[1])
    for dotted in _DOTTED.finditer(text):
        yield from take(*_without_lead(dotted.start(), dotted[0]))
    for run in _RUN.finditer(text):
        for start, name in _organisations(run[0]):
            yield from take(run.start() + start, name)
    for place in _PLACE.finditer(text):
        if stands_in_han(text[max(0, place.start() - 4) : place.end() + 4], place[0]):
            yield from take(place.start(), place[0])
    for run in _RUN.finditer(text):
        for start, name in _by_sound(run[0]):
            yield from take(run.start() + start, name)
    for start, name in _persons(text):
        yield from take(start, name)


def _without_lead(start: int, name: str) -> tuple[int, str]:
    """Cut off the words around a name with dots inside: 画家列奥纳多·达·芬奇创作了."""
    head, *_, tail = re.split("[·・•‧]", name)
    for border in _BORDER.finditer(head):
        if len(border[0]) > 1:
            start, name, head = start + border.end(), name[border.end() :], head[border.end() :]
            break
    known = next((at for at, letter in enumerate(tail) if letter not in _BY_SOUND), len(tail))
    name = name[: len(name) - len(tail) + max(known, 1)]
    cut = len(head)
    while cut and head[cut - 1] in _BY_SOUND:
        cut -= 1
    return (start + cut, name[cut:]) if cut < len(head) else (start, name)


def _organisations(run: str) -> Iterator[tuple[int, str]]:
    """Return names with a suffix that begin after a word that cannot be part of them."""
    ends = [0]
    for suffix in _LONG_SUFFIX.finditer(run):
        start = _start_of_name(run, max(ends[-1], suffix.start() - 10), suffix.start(), ends[-1])
        name = run[start : suffix.end()]
        if suffix.start() - start >= 2 and name not in _GENERIC and name not in WORDS:
            ends.append(suffix.end())
            yield start, name
    for suffix in _SHORT_SUFFIX.finditer(run):
        end = suffix.end()
        # 市长, 海外, 路线, 站点: the suffix is part of the next word.
        if run[end - 1 : end + 1] in WORDS:
            continue
        floor = max(place for place in ends if place <= suffix.start())
        lowest = max(floor, suffix.start() - 4)
        for place in _PLACE.finditer(run, floor, suffix.start()):
            lowest = max(lowest, place.end() if place.end() < suffix.start() else place.start())
            floor = lowest
        start = _start_of_name(run, lowest, suffix.start(), floor)
        name = run[start:end]
        known = (name, name[:-1], name[-2:])
        if len(name) < 3 or not _GENERIC.isdisjoint(known) or not WORDS.isdisjoint(known):
            continue
        ends.append(end)
        ends.sort()
        yield start, name


def _start_of_name(run: str, lowest: int, suffix: int, floor: int) -> int:
    """Return the beginning of a name that ends with a suffix; `suffix` if it is unknown."""
    start = lowest
    for border in _BORDER.finditer(run, lowest, suffix):
        # A place name may contain such a character: 三亚, 长江三峡.
        if not _inside_place(run, border.start()):
            start = border.end()
    return start if start > lowest or lowest == floor else suffix


def _inside_place(run: str, position: int) -> bool:
    window = run[max(0, position - 6) : position + 6]
    at = position - max(0, position - 6)
    return any(place.start() <= at < place.end() for place in _PLACE.finditer(window))


def _by_sound(run: str) -> Iterator[tuple[int, str]]:
    start = 0
    for end in range(len(run) + 1):
        if end < len(run) and run[end] in _BY_SOUND:
            continue
        name = run[start:end]
        first = start
        start = end + 1
        while name and (name[0] in "于和由向与以及" or run[max(0, first - 1) : first + 1] in WORDS):
            first, name = first + 1, name[1:]
        name = name.rstrip("于因和明由向与以及")
        if len(name) < 3 or _SOUNDS_ONLY.isdisjoint(name) or _is_words(name):
            continue
        stop = first + len(name)
        ship = run[stop : stop + 1] == "号" and run[stop : stop + 2] != "号线"
        yield first, f"{name}号" if ship else name


def _persons(text: str) -> Iterator[tuple[int, str]]:
    position = 0
    while position < len(text):
        length = _person_length(text, position)
        if length:
            yield position, text[position : position + length]
        position += length or 1


def _person_length(text: str, start: int) -> int:
    surname = 2 if text[start : start + 2] in COMPOUND_SURNAMES else 1
    if surname == 1 and text[start] not in SURNAMES:
        return 0
    if not _BEFORE_PERSON.search(text[max(0, start - 3) : start]):
        return 0
    for given in (2, 1):
        end = start + surname + given
        name = text[start:end]
        if (
            len(name) == surname + given
            and all(letter in GIVEN for letter in name[surname:])
            and not _is_words(name)
            and _AFTER_PERSON.match(text, end)
            and not any(text[at : at + 2] in WORDS for at in (end - 1,))
        ):
            return len(name)
    return 0


def _is_words(name: str) -> bool:
    return any(name[at : at + 2] in WORDS or name[at : at + 2] in PLACES for at in range(len(name) - 1))
