"""What went wrong with one attempt: its class, our words for it, and whether another may pass.

The endpoint raises and reads these; they never leave the judge.  The endpoint's own words stay in
here, for looking only: they may repeat a key or a text.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

__all__ = ["FailedCall", "pause_before", "refused"]

_STATUS_TYPES = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    408: "timeout",
    413: "request_too_large",
    429: "rate_limited",
}
_FATAL = frozenset({401, 403, 404})
_RETRIED = frozenset({408, 409, 425, 429})
_UNSUPPORTED = frozenset({400, 415, 422, 501})
_CODE = re.compile(r"[a-z0-9_.-]{1,40}")
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 20.0
_MOST_WORDS_BYTES = 65_536
"""How much of an error's body is looked at."""


class FailedCall(Exception):  # noqa: N818 -- never leaves the judge
    """One attempt failed.

    Attributes:
        error_type: Low-cardinality class.
        detail: Our words for it.
        retry: Whether another attempt may pass.
        retry_after_s: How long the endpoint asked us to wait.
        fatal: The endpoint will refuse every call.
        unsupported: The endpoint may lack an option we sent; its words about it, for looking only.
    """

    def __init__(
        self,
        error_type: str,
        detail: str,
        *,
        retry: bool = False,
        retry_after_s: float | None = None,
        fatal: bool = False,
        unsupported: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.error_type = error_type
        self.detail = detail
        self.retry = retry
        self.retry_after_s = retry_after_s
        self.fatal = fatal
        self.unsupported = unsupported


def refused(status: int, headers: Mapping[str, str], body: bytes) -> FailedCall:
    """Return what a reply with an error status means.

    Args:
        status: The HTTP status, outside 200 to 299.
        headers: The reply's headers, whatever their case.
        body: What was read of its body.
    """
    words = body[:_MOST_WORDS_BYTES].decode("utf-8", "replace")
    code = _code_in(words)
    kind = _STATUS_TYPES.get(status, "server_error" if status >= 500 else "bad_request")
    unsupported = None
    if status in _UNSUPPORTED and code not in ("context_length_exceeded", "content_filter"):
        unsupported = words.casefold()
    return FailedCall(
        kind,
        f"it answered with status {status}" + (f" ({code})" if code else ""),
        retry=status in _RETRIED or (status >= 500 and status != 501),
        retry_after_s=_retry_after_s(headers),
        fatal=status in _FATAL,
        unsupported=unsupported,
    )


def _code_in(words: str) -> str | None:
    """Return the error's code as OpenAI's API words it, ``{"error": {"code": ...}}``, if it is one."""
    try:
        said = json.loads(words)
    except (ValueError, RecursionError):
        return None
    error = said.get("error", said) if isinstance(said, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read ``retry-after-ms`` (Azure) or ``Retry-After``, seconds or a date."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit_s
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except ValueError:
                continue
        if 0 <= seconds < 3600:
            return seconds
    return None


def pause_before(retries: int, retry_after_s: float | None) -> float:
    """Return the seconds to wait: what the endpoint asked for, else doubling, with jitter."""
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0.0, 0.1)
    longest = min(_FIRST_PAUSE_S * 2.0**retries, _LONGEST_PAUSE_S)
    return random.uniform(longest / 2, longest)
