"""Formatting of numbers and times for the reader. An unknown number is never shown as a number."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from markupsafe import Markup

from ragmeter.quality.estimates import Estimate

MOST_DIGITS = 8
"""Most decimals of an amount of money."""
_DAY_MS = 86_400_000
_ZONE: ContextVar[ZoneInfo | None] = ContextVar("zone", default=None)
"""The reader's zone; None: unknown, so the server's."""
_LANGUAGE = ContextVar("language", default="en")
_RUSSIAN = str.maketrans(",.", "\N{NO-BREAK SPACE},")


def number(value: float | None, *, sign: bool = False) -> str:
    """Return a score's value with two decimals, or a dash for None."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return _written(f"{value:,.0f}")
    return _written(f"{value:+.2f}".replace("-", "−") if sign else f"{value:.2f}")


def count(value: float) -> str:
    """Return a whole number with separated thousands."""
    return _written(f"{value:,.0f}")


def percent(share: float) -> str:
    """Return a share of 1 in percent."""
    return f"{share * 100:.0f}" + ("\N{NO-BREAK SPACE}%" if _LANGUAGE.get() == "ru" else "%")


def interval(lower: float, upper: float, *, sign: bool = False) -> str:
    """Return both ends of an interval in brackets."""
    between = "; " if _LANGUAGE.get() == "ru" else ", "
    return f"[{number(lower, sign=sign)}{between}{number(upper, sign=sign)}]"


def money(value: float) -> str:
    """Return an amount of money with at least two significant digits."""
    digits = 2
    while 0.0 < value < 10.0 ** (1 - digits) and digits < MOST_DIGITS:
        digits += 1
    return _written(f"{value:,.{digits}f}")


def _written(digits: str) -> str:
    return digits.translate(_RUSSIAN) if _LANGUAGE.get() == "ru" else digits


def clock(at_ms: float, now_ms: float | None = None) -> str:
    """Return a time in the reader's zone, to the minute, with the parts of its date unlike today's."""
    local = _local(at_ms)
    if now_ms is not None and abs(now_ms - at_ms) < _DAY_MS / 2:
        return f"{local:%H:%M}"
    today = _local(time.time() * 1000 if now_ms is None else now_ms)
    if local.date() == today.date():
        return f"{local:%H:%M}"
    return f"{local:%m-%d %H:%M}" if local.year == today.year else f"{local:%Y-%m-%d %H:%M}"


def timestamp(at_ms: float, now_ms: float | None = None) -> Markup:
    """Return a time as an element: shown in local time, with UTC in its tooltip."""
    utc = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M:%S} UTC", clock(at_ms, now_ms)
    )


def _local(at_ms: float) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).astimezone(_ZONE.get())


@contextmanager
def read_in(zone: str | None, language: str = "en") -> Iterator[None]:
    """Format numbers and times for a reader within the block.

    Args:
        zone: The zone's name, as ``Europe/Moscow``; None, or an unknown one: the server's.
        language: One of `LANGUAGES`.
    """
    try:
        found = ZoneInfo(zone) if zone else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        found = None
    tokens = _ZONE.set(found), _LANGUAGE.set(language)
    try:
        yield
    finally:
        _ZONE.reset(tokens[0])
        _LANGUAGE.reset(tokens[1])


def reader_zone(at_ms: float) -> tuple[str, int]:
    """Return the zone of formatted times: its name, and its minutes behind UTC, as browsers count them."""
    zone, local = _ZONE.get(), _local(at_ms)
    offset = local.utcoffset()
    minutes = 0 if offset is None else -round(offset.total_seconds() / 60)
    return local.tzname() or "UTC" if zone is None else zone.key, minutes


def on_scale(estimate: Estimate, scale: tuple[float | None, float | None]) -> tuple[float | None, float, float]:
    """Return mean, lower and upper end of an estimate on the score's own range."""
    low, high = ends_of(scale)
    size = high - low
    mean = None if estimate.mean is None else low + estimate.mean * size
    return mean, low + estimate.lower * size, low + estimate.upper * size


def ends_of(scale: tuple[float | None, float | None]) -> tuple[float, float]:
    """Return both ends of a score's range; an open one counts as 0, or as 1 more."""
    low = 0.0 if scale[0] is None else scale[0]
    return low, low + 1.0 if scale[1] is None else scale[1]
