"""How long to wait before another attempt: as long as the server asks, or with exponential backoff.

The judge's endpoint and the exporters that post over HTTP use it.  It never sleeps: the caller
waits in its own way, on an event loop or on a thread that may be woken.  The scoring process has
its own pauses: it is paced by how long workers live, not by attempts.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

FIRST_PAUSE_S = 0.5
"""The first pause is at most this long, each following one at most twice as long."""
_MOST_DOUBLINGS = 16

_HEADERS = (("retry-after-ms", 0.001), ("retry-after", 1.0), ("llm_provider-retry-after", 1.0))
"""Headers, and their unit in seconds; LiteLLM renames what it passes on."""
_RATE_LIMITS = ("requests", "tokens")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


def asked_pause_s(
    status: int, headers: Mapping[str, str], body_delay: str | None = None, *, longest_s: float
) -> float | None:
    """Return the seconds a server asks to wait; None: it does not say.

    Args:
        status: The status of the reply.
        headers: Its headers; their case does not matter.
        body_delay: The wait as the reply's body words it, e.g. ``3s``.
        longest_s: A server that asks for more is asked again after this many seconds.
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
    """Return the seconds to wait: as the server asks, or exponential backoff with full jitter.

    Full jitter draws from the whole of a range that doubles, so that clients that failed together do
    not come back together (M. Brooker, "Exponential Backoff And Jitter", AWS, 2015).

    Args:
        retry: How many attempts after the first were made already.
        asked_s: What the server asked for, or None.
        longest_s: The range doubles up to this; what the server asked for is not cut.
    """
    if asked_s is not None:
        return asked_s + random.uniform(0.0, 0.1)
    return random.uniform(0.0, min(FIRST_PAUSE_S * 2.0 ** min(retry, _MOST_DOUBLINGS), longest_s))
