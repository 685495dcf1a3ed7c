"""The pause before another attempt: as the server requests, or by exponential backoff.

The judge's endpoint and the exporters that post over HTTP use it. It never sleeps: the caller waits, on an
event loop or on a thread that may be woken. The scoring process has separate pauses, based on the lifetime of
workers, not on attempts.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

FIRST_PAUSE_S = 0.5
"""Longest first pause; each further one is at most twice as long."""
_MOST_DOUBLINGS = 16

_HEADERS = (("retry-after-ms", 0.001), ("retry-after", 1.0), ("llm_provider-retry-after", 1.0))
"""Headers, and their unit in seconds; LiteLLM renames those that it forwards."""
_RATE_LIMITS = ("requests", "tokens")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


def asked_pause_s(
    status: int, headers: Mapping[str, str], body_delay: str | None = None, *, longest_s: float
) -> float | None:
    """Return the pause that a server requests, in seconds, at most `longest_s`; None: it requests none.

    `body_delay` is the pause in the text of the reply's body, e.g. ``3s``.
    """
    waits = [_seconds(headers.get(name), unit_s) for name, unit_s in _HEADERS]
    waits.append(_seconds(body_delay, 1.0))
    if status == 429:
        resets = [
            _seconds(headers.get(f"x-ratelimit-reset-{limit}"), 1.0)
            for limit in _RATE_LIMITS
            if (headers.get(f"x-ratelimit-remaining-{limit}") or "").strip() == "0"
        ]
        waits.append(max((wait for wait in resets if wait is not None), default=None))
    asked_s = next((wait for wait in waits if wait is not None), None)
    return None if asked_s is None else min(asked_s, longest_s)


def _seconds(value: str | None, unit_s: float) -> float | None:
    """Read a number, a duration such as ``1m30s``, or an HTTP date."""
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
            except (TypeError, ValueError, OverflowError, OSError):
                return None
            seconds = max(0.0, seconds)  # a date that has just passed: now
    return seconds if 0 <= seconds < math.inf else None


def pause_before(retry: int, asked_s: float | None, *, longest_s: float) -> float:
    """Return the seconds to wait: as the server requests, or exponential backoff with full jitter.

    Full jitter draws from the whole of a range that doubles, so that clients that failed together do not
    retry together (M. Brooker, "Exponential Backoff And Jitter", AWS, 2015). The range doubles up to
    `longest_s`; the pause that the server requested, `asked_s`, is not cut. `retry` counts the attempts after
    the first.
    """
    if asked_s is not None:
        return asked_s + random.uniform(0.0, 0.1)
    return random.uniform(0.0, min(FIRST_PAUSE_S * 2.0 ** min(retry, _MOST_DOUBLINGS), longest_s))
