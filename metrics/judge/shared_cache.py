"""A judge's cache that many processes share: in memory first, and in Redis behind it.

Keys are digests; values are the judge's answers with its reasons, and so content of requests: such a Redis
needs a password and TLS, as a broker does. A failing Redis is a cache that misses, for a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from ragmeter.metrics._process.redis import RedisLine, made_again
from ragmeter.metrics.errors import ConfigurationError

from .cache import JudgeCache
from .shared_budget import SHARED_URL

_PREFIX = b"ragmeter:judge-answer:1:"
"""With the version of the stored values: another version uses other keys."""
_CLOSING_S = 2.0


class SharedCache(JudgeCache):
    """Stores answers for all processes that use the same Redis. Thread-safe; judges may share one.

    Processes share answers if they ask the same model at the same endpoint with the same prompt about the
    same texts. Values of other programs are not read.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``. It receives the judge's answers and reasons in plain
            text. If it evicts (``maxmemory-policy allkeys-lru``), use another database than for the
            `SharedBudget`.
        max_bytes: Memory for the answers in this process.
        ttl_s: Lifetime of an answer in Redis, in seconds.

    Raises:
        ConfigurationError: The URL is invalid, or a number is out of range.
        MissingDependencyError: The package ``redis`` is not installed.
    """

    def __init__(self, url: str, max_bytes: int = 64 * 2**20, *, ttl_s: int = 7 * 24 * 3600) -> None:
        super().__init__(max_bytes)
        if ttl_s < 1:
            raise ConfigurationError(f"ttl_s is {ttl_s!r}; pass seconds, 1 or more")
        self._ttl_s = int(ttl_s)
        self._answers = _SharedAnswers(url, self._ttl_s)
        self._file = self._answers

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without the secrets of the URL, which are in the environment."""
        settings = {"max_bytes": self.max_bytes, "ttl_s": self._ttl_s}
        return made_again, (SharedCache, self._answers.line.address, SHARED_URL, settings)

    def __repr__(self) -> str:
        return f"SharedCache({self._answers.line.address!r}, max_bytes={self.max_bytes})"

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of this cache: those that may be pickled, and those that must not be.

        For ragmeter's worker process, which builds the same cache from both.
        """
        settings = {"max_bytes": self.max_bytes, "ttl_s": self._ttl_s}
        return settings, {"url": self._answers.line.url}


class _SharedAnswers:
    """Stores texts by key in Redis, like an `AnswerFile` in a file."""

    def __init__(self, url: str, ttl_s: int) -> None:
        self.line = RedisLine(url, "the judge's shared cache", "answers are kept in memory")
        self._ttl_s = ttl_s

    @property
    def is_readable(self) -> bool:
        """Whether to read it: it has not failed recently."""
        return not self.line.is_away

    def read(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """Return the texts under `keys`; missing and unreadable ones are left out."""
        # Separately, in one round trip: the keys of a cluster are on different nodes.
        found = self.line.ask([("GET", _PREFIX + key) for key in keys])
        texts: dict[bytes, str] = {}
        for key, kept in zip(keys, found or (), strict=False):
            if isinstance(kept, bytes):
                with suppress(UnicodeDecodeError):
                    texts[key] = kept.decode()
        return texts

    def write(self, rows: Iterable[tuple[bytes, str]]) -> None:
        """Store texts by key, if possible."""
        self.line.ask([("SET", _PREFIX + key, text.encode(), "EX", self._ttl_s) for key, text in rows])

    def leave_alone(self) -> None:
        """Do nothing: the connection itself pauses after a timeout."""

    def close(self) -> None:
        """Disconnect; the next use connects again."""
        self.line.close(_CLOSING_S)
