"""Detects JSON objects that state a failure, whatever else they contain.

`_completions` checks a body, its choice and its message, `replies` the judge's text: gateways and models put
verdicts beside errors, and verdicts of a failed call do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NO_ERROR = frozenset({"", "0", "none", "null", "no", "false", "ok", "success", "200"})
_FAILED = re.compile(
    r"abort|cancel|fail|error|time[ _-]?d?[ _-]?out|deadline|expire|interrupt|incomplete|unfinished|partial"
    r"|reject|denied|terminat|kill|evict|preempt|disconnect|overload|unavailable|exception|invalid",
    re.IGNORECASE,
)
_FIRST_ERROR, _LAST_ERROR = 400, 599
"""Of HTTP's statuses."""


def has_failed(word: Any) -> bool:
    """Return whether `word`, a status or a finish reason, states a failure."""
    if isinstance(word, str) and word.isascii() and word.isdigit():
        word = int(word[:9])
    if isinstance(word, int) and not isinstance(word, bool):
        return _FIRST_ERROR <= word <= _LAST_ERROR
    return isinstance(word, str) and _FAILED.search(word) is not None


def is_failure(reply: Mapping[str, Any]) -> bool:
    """Return whether `reply` contains an error, no success, or a status of failure."""
    for name, value in reply.items():
        word = name.casefold()
        if word.startswith("error") or word == "exception":
            if value and str(value).strip().casefold() not in _NO_ERROR:
                return True
        elif word in {"success", "ok", "succeeded"}:
            if value is not None and str(value).strip().casefold() in {"false", "0", "no"}:
                return True
        elif word in {"status", "state", "code", "status_code", "statuscode"} and has_failed(value):
            return True
    return reply.get("object") == "error" or reply.get("type") == "error"
