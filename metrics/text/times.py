"""Find times of day in a text, in English, Russian and Chinese: 3 pm, 15:00, half past three, 下午3点.

`quantities` calls this, with text that is casefolded and has single spaces. The keys of 3:30 pm are
``time:15:30``, those of 3:30, which may be of either half of the day, ``time:03:30`` and ``clock:3:30``.
"""

import re
from collections.abc import Iterator, Sequence

from .numerals import han_value

_PARTS = {
    0: "a morning утра 凌晨 清晨 早上 早晨 上午 午前 早",
    10: "дня 中午",
    12: "p afternoon evening вечера 下午 午後 傍晚",
    17: "night ночи 晚上 夜里 深夜 半夜 晚",
}
_FROM = {part: hour for hour, parts in _PARTS.items() for part in parts.split()}
"""The hour from which twelve hours have a part of the day beside them: 1 часа дня is 13:00, and 11 is 11:00."""
_HAN_PART = f"(?P<part>{'|'.join(part for part in _FROM if ord(part[0]) > 0x3000)})"
_ENGLISH: Sequence[str] = "one two three four five six seven eight nine ten eleven twelve".split()
_RUSSIAN: Sequence[str] = (
    "первого второго третьего четвёртого пятого шестого седьмого восьмого девятого десятого "
    "одиннадцатого двенадцатого"
).split()
_AFTER = (
    r"(?P<after>(?: ?[ap]\.?m(?!\w)\.?| o'clock(?!\w)| (?:час(?:а|ов)? )?(?:утра|вечера)(?!\w)"
    r"| час(?:а|ов)? (?:дня|ночи)(?!\w))?(?: in the (?:morning|afternoon|evening)| at night)?)"
)
_IN_FIGURES = re.compile(
    rf"(?<![\d:.,])(?:{_HAN_PART} ?)?(?P<hour>2[0-4]|[01]?\d)"
    rf"(?:(?P<mark>[:.]|(?<=\d\d)h)(?P<minute>[0-5]\d)(?::[0-5]\d)?(?!\d|:|[.,]\d))?{_AFTER}"
    r"(?P<until>(?= ?(?:-|to|and|until|до) ?(?:1[0-2]|\d)(?::\d\d)?"
    r"(?: ?[ap]\.?m| (?:час(?:а|ов)? )?(?:утра|дня|вечера|ночи))(?!\w)))?"
)
_IN_WORDS = re.compile(
    r"(?<!\w)(?:(?:(?P<how>half(?= past)|quarter) (?P<side>past|to) )?"
    rf"(?P<hour>{'|'.join(_ENGLISH)}|1?\d)(?!\w)"
    rf"|половин[аеуы] (?P<begun>{'|'.join(_RUSSIAN).replace('ё', '[её]')})"
    rf"(?P<part> (?:утра|дня|вечера|ночи)(?!\w))?){_AFTER}"
)
_NAMED = re.compile(r"(?<!\w)(?:(noon|midday|полдень|полудня)|midnight|полночь|полуночи)(?!\w)")
_LASTING = ("间", "間", "长")
_HAN_HOURS = "点點时時"
_HAN_NUMBER = r"(?:\d\d?|[一二两三四五六七八九十]{1,3})"
_HAN_HOUR = re.compile(rf"[\d一二两三四五六七八九十] ?[{_HAN_HOURS}]")
_HAN = re.compile(
    rf"(?:{_HAN_PART} ?)?(?P<hour>{_HAN_NUMBER}) ?[{_HAN_HOURS}]"
    rf"(?P<rest>半|整|钟|([一三])刻|({_HAN_NUMBER})(分)?)?(?:[到至-](?P<last>{_HAN_NUMBER})[{_HAN_HOURS}])?"
)
_MARKED = re.compile(r"[0-9](?: ?[ap]\.?m|h[0-5][0-9])(?!\w)")
"""15h30 is a time; 1h30 may be a duration."""
_SPELLED = re.compile("[a-zа-яё:]")
"""Every time but the Chinese ones has one of these."""
_SIGNS = ("o'clock", "half past ", "quarter past ", "quarter to ", "noon", "midday", "midnight")
_OTHER_SIGNS = (*_SIGNS, *"утра вечера дня ночи половин полдень полудня полноч полуноч".split(), *_HAN_HOURS)
"""Every time but 15:00 and 3 pm has one of these, which are cheap to search for."""


def may_have_times(text: str) -> bool:
    """Return whether a casefolded text may have a time of day: False is certain, and cheap."""
    return ":" in text or _MARKED.search(text) is not None or _has_sign(text)


def _has_sign(text: str) -> bool:
    return any(map(text.__contains__, _SIGNS if text.isascii() else _OTHER_SIGNS))


def times(text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Return start, end and readings of every time of day, such as ``time:15:00``."""
    is_spelled = _SPELLED.search(text) is not None
    for found in _IN_FIGURES.finditer(text) if is_spelled else ():
        first = _FROM.get(found["part"]) or _first_hour(found["after"])
        if found["mark"] in (":", "h") or found["after"] or found["until"] is not None:  # 3.45 is a decimal
            yield *found.span(), _readings(found["hour"], int(found["minute"] or 0), first)
    if not _has_sign(text):
        return
    for found in _IN_WORDS.finditer(text) if is_spelled else ():
        first = _first_hour(found["part"] or found["after"])
        if found["begun"]:
            hour = _RUSSIAN.index(found["begun"].replace("четве", "четвё")) or 12
            yield *found.span(), _readings(str(hour), 30, first)
        elif found["how"] or found["after"]:
            hour = _ENGLISH.index(found["hour"]) + 1 if found["hour"] in _ENGLISH else int(found["hour"])
            minute = {"half": 30, "quarter": 15}.get(found["how"], 0)
            if found["side"] == "to":
                hour, minute = hour - 1 or 12, 60 - minute
            yield *found.span(), _readings(str(hour), minute, first)
    for found in _NAMED.finditer(text) if is_spelled else ():
        yield *found.span(), frozenset(("time:12:00" if found[1] else "time:00:00",))
    for found in _HAN.finditer(text) if _HAN_HOUR.search(text) else ():
        rest, quarters, minutes, ends = found.group("rest", 4, 5, 6)
        after = text[found.end() - 1 : found.end() + 1]
        late = after[0] in "时時" and after[1:] not in _LASTING and 12 < _value(found["hour"]) < 25
        # 3点 is also three points, 八点五 8.5
        if found["part"] or late or (rest and (minutes is None or ends)):
            minute = 30 if rest == "半" else 15 * _value(quarters) + _value(minutes)
            first = _FROM.get(found["part"])
            last = found["last"]
            end = found.start("last") - 1 if last else found.end()
            yield found.start(), end, _readings(str(_value(found["hour"])), minute, first)
            if last:
                yield end + 1, found.end(), _readings(str(_value(last)), 0, None)


def same_times(keys: Sequence[str]) -> list[str]:
    """Return the other keys of a time by which a text may mean the same: 15:30 where it has 3:30."""
    found: list[str] = []
    for key in keys:
        kind, hour, minute = key.split(":")
        if kind == "clock":
            found.append(f"time:{(int(hour) + 12) % 24:02d}:{minute}")
        else:
            found.append(f"clock:{int(hour) % 12 or 12}:{minute}")
    return found


def _first_hour(beside: str) -> int | None:
    word = beside.rsplit(maxsplit=1)[-1] if beside else "-"
    return _FROM.get(word, _FROM.get(word[0]))


def _value(numeral: str | None) -> int:
    return int(han_value(numeral) or numeral) if numeral else 0


def _readings(written: str, minute: int, first: int | None) -> frozenset[str]:
    hour = int(written)
    if first is not None and hour < 13:
        hour = first + (hour - first) % 12
    keys = [f"time:{hour % 24:02d}:{minute:02d}"]
    if first is None and hour < 13 and written[0] != "0":
        keys.append(f"clock:{hour}:{minute:02d}")
    return frozenset(keys)
