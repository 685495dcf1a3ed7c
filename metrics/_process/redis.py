"""A Redis connection that no process depends on: short timeouts, and a pause of a second after a failure.

Used by the judge's shared budget and cache, and the worker's marks.  Queued commands go out together on a
separate thread, so that no event loop waits, not even for DNS.  It raises nothing at run time: an unanswered
command gives None.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as WaitedTooLongError
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha1
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from . import fork
from .background_thread import BackgroundThread
from .certificates import tls_failure
from .malformed_url import SIGNS, is_torn

if TYPE_CHECKING:
    from redis import Redis

logger = logging.getLogger("ragmeter.redis")

LONGEST_WAIT_S = 0.2
"""Seconds to wait for an answer before Redis counts as unreachable."""
LEFT_ALONE_S = 1.0
"""Seconds of a pause after a failure."""
_SAY_AGAIN_AFTER_S = 60.0
_MOST_WAITING = 10_000
"""Groups of commands that may wait to be sent; with more, Redis counts as unreachable."""
_SCHEMES = ("redis", "rediss", "unix")
_EXAMPLE = "'redis://localhost:6379/0', 'rediss://...' or 'unix:///run/redis.sock'"

T = TypeVar("T")
Answers: TypeAlias = list[Any] | None
"""The answer to each command; None: Redis was not reachable, or a command failed."""


class Script:
    """A Lua script, sent by its digest once the server has it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


Command: TypeAlias = tuple[Any, ...]
"""Name and arguments; or a `Script`, the number of keys among the arguments, and the arguments."""


def plain_url(url: str) -> str:
    """Return a Redis URL without possible secrets: user, password, query.

    Raises:
        ConfigurationError: The URL is invalid; neither message nor cause quotes it.
    """
    parts = _parts(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"


def made_again(kind: Callable[..., T], plain: str, variable: str, settings: dict[str, Any]) -> T:
    """Rebuild a pickled `kind`: its URL with the secrets is in an environment variable, if anywhere."""
    url = os.environ.get(variable)
    if url:
        with suppress(ConfigurationError):
            if plain_url(url) == plain:
                return kind(url, **settings)
    return kind(plain, **settings)


def _parts(url: str) -> SplitResult:
    wrong = ConfigurationError(f"a Redis is given as {_EXAMPLE}; the URL given is none of them")
    if is_torn(url):
        raise ConfigurationError(f"the URL of a Redis ends its host before an @; {SIGNS}")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for an invalid number
        fits = parts.scheme in _SCHEMES and bool(parts.path if parts.scheme == "unix" else parts.hostname)
    except ValueError:
        raise wrong from None
    if not fits:
        raise wrong
    return parts


class RedisLine:
    """One Redis, for one purpose. Thread-safe, and usable in a forked child.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``.
        purpose: The purpose, for the log: "the judge's shared budget".
        meanwhile: The behaviour while it is unreachable, for the log.

    Raises:
        ConfigurationError: The URL is invalid.
        MissingDependencyError: The package ``redis`` is not installed.
    """

    def __init__(self, url: str, purpose: str, meanwhile: str) -> None:
        self.url = url
        self.address = plain_url(url)
        self._purpose = purpose
        self._meanwhile = meanwhile
        self._said_at = -math.inf
        self.trouble = ""
        """The reason of the last failure; empty: none so far."""
        try:
            import redis  # noqa: F401, PLC0415 -- optional dependency, needed where a URL is given
        except ImportError:
            raise MissingDependencyError("redis", "redis", purpose) from None
        self._clerk = BackgroundThread("ragmeter-redis")
        self._begin()
        try:
            _ = self._client
        except (ValueError, TypeError) as error:
            # Not its message: it may quote the URL.
            raise ConfigurationError(
                f"the Redis at {self.address} cannot be used as given ({type(error).__name__}): check "
                "the path and the query of its URL"
            ) from None
        fork.forget(self._begin)  # connections are the parent's

    def __repr__(self) -> str:
        return f"RedisLine({self.address!r})"

    def _begin(self) -> None:
        self._waiting: deque[tuple[Sequence[Command], Future[Answers]]] = deque()
        self._away_until = -math.inf
        self._parents = self.__dict__.pop("_client", None)  # kept: else it could close theirs

    @cached_property
    def _client(self) -> Redis:
        from redis import Redis  # noqa: PLC0415 -- optional dependency
        from redis.backoff import NoBackoff  # noqa: PLC0415 -- likewise
        from redis.exceptions import ConnectionError as CutError  # noqa: PLC0415 -- likewise
        from redis.retry import Retry  # noqa: PLC0415 -- likewise

        # redis-py before 6 does not check host names against certificates by default.
        query = urlsplit(self.url).query
        checked = self.address.startswith("rediss:") and not (
            "ssl_check_hostname=" in query or "ssl_cert_reqs=" in query
        )
        return Redis.from_url(
            self.url,
            **({"ssl_check_hostname": True} if checked else {}),
            socket_timeout=LONGEST_WAIT_S,
            socket_connect_timeout=LONGEST_WAIT_S,
            # One immediate retry: an idle connection may have been closed meanwhile.
            retry=Retry(NoBackoff(), 1, supported_errors=(CutError,)),
            protocol=2,
        )

    @property
    def is_away(self) -> bool:
        """Whether it failed less than a second ago, and is not to be used."""
        return time.monotonic() < self._away_until

    def ask(self, commands: Sequence[Command]) -> Answers:
        """Send commands together and return their answers; waits for `LONGEST_WAIT_S` at most."""
        answer = self.send(commands)
        if answer is None:
            return None
        try:
            return answer.result(LONGEST_WAIT_S)
        except (TimeoutError, WaitedTooLongError):
            answer.cancel()  # not sent yet: it never will be
            self._note_failure("TimeoutError")
            return None

    async def asked(
        self, commands: Sequence[Command], unwanted: Callable[[Answers], None] | None = None
    ) -> Answers:
        """Do as `ask`, without blocking the event loop.

        `unwanted` is called on the thread with answers that arrive after the caller gave up.
        """
        answer = self.send(commands)
        if answer is None:
            return None
        came = asyncio.wrap_future(answer)
        is_here = False
        try:
            await asyncio.wait([came], timeout=LONGEST_WAIT_S)
            is_here = answer.done()
        finally:
            if not is_here:
                answer.cancel()  # not sent yet: it never will be
                came.cancel()  # the loop may be closed when it arrives
                if unwanted is not None:
                    answer.add_done_callback(partial(_pass_on, unwanted))
        if not is_here:
            self._note_failure("TimeoutError")
            return None
        return None if answer.cancelled() else answer.result()

    def send(self, commands: Sequence[Command]) -> Future[Answers] | None:
        """Send commands together without waiting; None: Redis is unreachable."""
        if self.is_away or len(self._waiting) >= _MOST_WAITING:
            return None
        answer: Future[Answers] = Future()
        self._waiting.append((commands, answer))
        self._clerk.do(self._work)
        return answer

    def close(self, timeout_s: float = 0.0) -> None:
        """Send queued commands for at most `timeout_s` seconds, then disconnect. The next use reconnects."""
        self._clerk.finish(timeout_s)
        client = self.__dict__.pop("_client", None)
        if client is not None:
            client.close()

    def __del__(self) -> None:
        """End the thread."""
        clerk = getattr(self, "_clerk", None)
        if clerk is not None:
            clerk.finish(0.0)

    def _note_failure(self, kind: str) -> None:
        now = time.monotonic()
        self.trouble = kind
        self._away_until = now + LEFT_ALONE_S
        if now - self._said_at >= _SAY_AGAIN_AFTER_S:
            self._said_at = now
            logger.warning(
                "%s: the Redis at %s cannot be asked (%s); it is asked again every second, and %s",
                self._purpose,
                self.address,
                kind,
                self._meanwhile,
            )

    def _work(self) -> None:
        """Send queued commands, on the thread."""
        groups: list[tuple[Sequence[Command], Future[Answers]]] = []
        with suppress(IndexError):
            while True:
                commands, answer = self._waiting.popleft()
                if answer.set_running_or_notify_cancel():
                    groups.append((commands, answer))
        if not groups:
            return
        sent = None if self.is_away else self._send_commands([c for commands, _ in groups for c in commands])
        left: Iterator[Any] = iter(sent or ())
        for commands, answer in groups:
            mine = list(islice(left, len(commands)))
            failed = sent is None or any(isinstance(one, Exception) for one in mine)
            with suppress(InvalidStateError):
                answer.set_result(None if failed else mine)

    def _send_commands(self, commands: Sequence[Command]) -> Answers:
        from redis.exceptions import NoScriptError, RedisError  # noqa: PLC0415 -- optional dependency

        try:
            answers = self._run_pipeline([_wire_command(command) for command in commands])
            unknown = [n for n, one in enumerate(answers) if isinstance(one, NoScriptError)]
            if unknown:
                again = self._run_pipeline(
                    [_wire_command(commands[number], in_full=True) for number in unknown]
                )
                for number, one in zip(unknown, again, strict=True):
                    answers[number] = one
        except (RedisError, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            # Last of all: an answer that the client does not understand, as from another kind of server.
            own = "?ssl_certfile=FILE&ssl_keyfile=FILE"
            tls = tls_failure(error, "?ssl_ca_certs=FILE", own=own)
            self._note_failure(tls or type(error).__name__)
            return None
        failures = [one for one in answers if isinstance(one, Exception)]
        if failures:  # out of memory, a replica, not allowed: later commands would fail, too
            self._note_failure(type(failures[0]).__name__)
        return answers

    def _run_pipeline(self, commands: Sequence[Command]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]
            return list(pipe.execute(raise_on_error=False))


def _pass_on(unwanted: Callable[[Answers], None], answer: Future[Answers]) -> None:
    if not answer.cancelled():
        unwanted(answer.result())


def _wire_command(command: Command, *, in_full: bool = False) -> Command:
    script, *arguments = command
    if not isinstance(script, Script):
        return command
    return ("EVAL", script.text, *arguments) if in_full else ("EVALSHA", script.digest, *arguments)
