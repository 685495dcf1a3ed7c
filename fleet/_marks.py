"""Which requests were scored and exported already: marks in Redis, for a while.

A worker looks before it scores a message that may have come twice, and marks after it has exported.
Marks save work and nothing hangs on them: where Redis is away nothing was seen, and a request is
exported twice under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmeter.metrics._process.redis import RedisLine

__all__ = ["DoneMarks"]

_PREFIX = "ragmeter:done:1:"
"""With the version of what is kept: nothing but that it is there."""


class DoneMarks:
    """Marks of what is done. Raises nothing at run time; waits for 0.2 s, once a second, at most.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``.
        keep_s: Seconds for which a mark stands: longer than a message may be on its way again.

    Raises:
        ConfigurationError: The URL is none.
        MissingDependencyError: The package ``redis`` is not installed.
    """

    def __init__(self, url: str, *, keep_s: int = 3600) -> None:
        self._keep_s = keep_s
        self._line = RedisLine(
            url, "the worker's marks", "what comes twice is scored twice, under the same ids"
        )

    def __repr__(self) -> str:
        return f"DoneMarks({self._line.address!r})"

    def seen(self, ids: Iterable[str]) -> set[str]:
        """Return those of `ids` that are marked. One round trip."""
        asked = list(dict.fromkeys(ids))
        found = self._line.ask([("EXISTS", _PREFIX + one) for one in asked]) if asked else None
        if found is None:
            return set()
        return {one for one, there in zip(asked, found, strict=True) if there}

    def add(self, ids: Iterable[str]) -> None:
        """Mark `ids`. One round trip."""
        marks: Sequence[str] = list(dict.fromkeys(ids))
        if marks:
            self._line.ask([("SET", _PREFIX + one, b"", "EX", self._keep_s) for one in marks])

    def close(self) -> None:
        """Disconnect; the next use connects again."""
        self._line.close()
