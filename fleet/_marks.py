"""Mark scored and exported requests in Redis, to deduplicate redelivered messages.

A worker checks the marks before it scores a message, and adds them after the export. They only save work:
without Redis, a request is exported twice under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmeter.metrics._process.redis import RedisLine

_PREFIX = "ragmeter:done:1:"
"""Includes the version of the marks, which have no content."""
_KEPT_S = 3600
"""Lifetime of a mark in seconds: longer than a redelivery may take."""


class DoneMarks:
    """Marks of finished requests. Raises nothing at run time; waits at most 0.2 s, once a second.

    Its URL is refused as by `RedisLine`.
    """

    def __init__(self, url: str) -> None:
        self._line = RedisLine(
            url, "the worker's marks", "redelivered requests are scored twice, under the same ids"
        )

    def __repr__(self) -> str:
        return f"DoneMarks({self._line.address!r})"

    def seen(self, ids: Iterable[str]) -> set[str]:
        """Return the marked ids among `ids`. One round trip."""
        asked = list(dict.fromkeys(ids))
        found = self._line.ask([("EXISTS", _PREFIX + one) for one in asked]) if asked else None
        if found is None:
            return set()
        return {one for one, there in zip(asked, found, strict=True) if there}

    def add(self, ids: Iterable[str]) -> None:
        """Mark `ids`. One round trip."""
        marks: Sequence[str] = list(dict.fromkeys(ids))
        if marks:
            self._line.ask([("SET", _PREFIX + one, b"", "EX", _KEPT_S) for one in marks])

    def close(self) -> None:
        """Disconnect; the next use reconnects."""
        self._line.close()
