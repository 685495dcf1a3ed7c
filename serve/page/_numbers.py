"""How the page writes numbers and times. A number that is not known is never written as one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from markupsafe import Markup

from ragmeter.quality.estimates import Estimate

__all__ = ["clock", "count", "money", "number", "on_scale", "read_in", "timestamp", "zone_name"]

MOST_DIGITS = 8
"""Of an amount of money after the point."""
_DAY_MS = 86_400_000
_ZONE: ContextVar[ZoneInfo | None] = ContextVar("zone", default=None)
"""The reader's; None: not known, the server's own then."""


def number(value: float | None) -> str:
    """Return a score's value with two decimals; a dash where there is none."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def count(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,.0f}"


def money(value: float) -> str:
    """Return an amount of money with at least two digits that say something."""
    digits = 2
    while 0.0 < value < 10.0 ** (1 - digits) and digits < MOST_DIGITS:
        digits += 1
    return f"{value:,.{digits}f}"


def clock(at_ms: float, now_ms: float | None = None) -> str:
    """Return a moment in the reader's zone, to the minute, with its day where that is not today's."""
    local = _local(at_ms)
    if now_ms is not None and abs(now_ms - at_ms) < _DAY_MS / 2:
        return f"{local:%H:%M}"
    today = _local(time.time() * 1000 if now_ms is None else now_ms)
    return f"{local:%H:%M}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M}"


def timestamp(at_ms: float, now_ms: float | None = None) -> Markup:
    """Return a moment as an element: local time to read, UTC to point at."""
    utc = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M:%S} UTC", clock(at_ms, now_ms)
    )


def _local(at_ms: float) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).astimezone(_ZONE.get())


@contextmanager
def read_in(zone: str | None) -> Iterator[None]:
    """Write moments in a reader's zone within the block.

    Args:
        zone: Its name, as ``Europe/Moscow``; None, or one that is not known here: the server's own.
    """
    try:
        found = ZoneInfo(zone) if zone else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        found = None
    token = _ZONE.set(found)
    try:
        yield
    finally:
        _ZONE.reset(token)


def zone_name(at_ms: float) -> str:
    """Return the name of the zone in which moments are written."""
    zone = _ZONE.get()
    return _local(at_ms).tzname() or "UTC" if zone is None else zone.key


def on_scale(
    estimate: Estimate, scale: tuple[float | None, float | None]
) -> tuple[float | None, float, float]:
    """Return mean, lower and upper end of an estimate on the score's own range."""
    low = 0.0 if scale[0] is None else scale[0]
    high = low + 1.0 if scale[1] is None else scale[1]
    size = high - low
    mean = None if estimate.mean is None else low + estimate.mean * size
    return mean, low + estimate.lower * size, low + estimate.upper * size
