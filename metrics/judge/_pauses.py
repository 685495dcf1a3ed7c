"""How long to wait before another attempt: what the endpoint asks for, however it says so.

`failures` reads it out of a reply; the endpoint waits.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

__all__ = ["asked_pause_s", "pause_before"]

_LONGEST_ASKED_S = 3600.0
"""Whoever asks for more is asked again after that."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 20.0

_PLAIN = (("retry-after-ms", 0.001), ("retry-after", 1.0), ("llm_provider-retry-after", 1.0))
"""Headers, and their unit in seconds; LiteLLM renames what it passes on."""
_WINDOWS = ("requests", "tokens")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


def asked_pause_s(status: int, headers: Mapping[str, str], delay: str | None) -> float | None:
    """Return the seconds the endpoint asks to wait, at most an hour; None: it does not say.

    Args:
        status: The status of the reply.
        headers: Its headers, whatever their case.
        delay: The wait as its body words it, e.g. ``3s``.
    """
    for name, unit_s in _PLAIN:
        seconds = _seconds(headers.get(name), unit_s)
        if seconds is not None:
            return seconds
    seconds = _seconds(delay, 1.0)
    if seconds is None and status == 429:
        waits = [
            _seconds(headers.get(f"x-ratelimit-reset-{window}"), 1.0)
            for window in _WINDOWS
            if (headers.get(f"x-ratelimit-remaining-{window}") or "").strip() == "0"
        ]
        seconds = max((wait for wait in waits if wait is not None), default=None)
    return seconds


def _seconds(value: str | None, unit_s: float) -> float | None:
    """Read a number, a duration such as ``1m30s``, or a date."""
    if not value:
        return None
    value = value.strip()
    if _DURATION.fullmatch(value):
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(value))
    else:
        try:
            seconds = float(value) * unit_s
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, OverflowError, OSError):
                return None
            seconds = max(0.0, seconds)  # a date that has just passed: now
    return min(seconds, _LONGEST_ASKED_S) if 0 <= seconds < math.inf else None


def pause_before(retries: int, asked_s: float | None) -> float:
    """Return the seconds to wait: what the endpoint asked for, else doubling, with jitter."""
    if asked_s is not None:
        return asked_s + random.uniform(0.0, 0.1)
    longest = min(_FIRST_PAUSE_S * 2.0**retries, _LONGEST_PAUSE_S)
    return random.uniform(longest / 2, longest)
