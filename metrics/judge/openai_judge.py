"""`OpenAIJudge`: any OpenAI-compatible endpoint as a judge.

Users build it and hand it to a meter or to ``evaluate``; metrics see the `Judge`
contract only.  It wires the endpoint, cache, budget and breaker together and keeps what
belongs to an event loop apart per loop.  It never shows its key.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from .asking import Asker, Completion, Flights
from .breaker import CircuitBreaker
from .budget import JudgeBudget
from .cache import JudgeCache
from .clients import LoopResources
from .contract import Ask, JudgeCall, JudgeError, JudgeObserver, Reply
from .endpoint import Endpoint
from .tally import JudgeStats, Tally
from .wire import Caller, Wire

__all__ = ["OpenAIJudge"]

_MAX_REPLY_BYTES = 4 * 2**20

_judges: weakref.WeakSet[OpenAIJudge] = weakref.WeakSet()


class OpenAIJudge:
    """A judge behind any OpenAI-compatible endpoint: OpenAI, Azure OpenAI, vLLM, Ollama, a gateway.

    Replies are asked for as strict JSON (structured outputs); an endpoint that lacks them is asked
    for JSON mode, then for plain text, and remembered. Calls that may pass are retried with backoff
    and jitter, honouring ``Retry-After``; status 401, 403 and 404 and repeated failures stop the
    judge until a probe succeeds. Safe on several event loops and threads; a fork starts with fresh
    connections.

    Args:
        model: The model's name; for Azure the deployment's.
        base_url: The endpoint, e.g. ``http://localhost:11434/v1``; None: ``OPENAI_BASE_URL``, else
            OpenAI's own.
        api_key: The key; None: ``OPENAI_API_KEY``. Endpoints with a `base_url` may do without.
            Never shown, logged or pickled (a pickled judge takes it from the environment again).
        api_version: Set for Azure's dated API; `base_url` is then the resource's address. Azure's
            ``/openai/v1/`` address needs none.
        timeout_s: Seconds for one call, retries included; then the score's status is ``timeout``.
        max_retries: Attempts after the first.
        concurrency: Calls on the wire at once, per event loop: what the endpoint sees at most.
            Building prompts, reading replies, pauses between attempts and waiting for the budget
            take none of these places.
        budget: Limits on calls and tokens per minute; None: no limits.
        cache: True: remember answers in memory; False: not at all; a path: in that SQLite file
            too; or a `JudgeCache`, which judges may share.
        temperature: Sent with every call, unless None or the model refuses it.
        max_output_tokens: Cap on the length of a reply; None: the endpoint's own. A reply that is
            cut off is of no use.
        headers: Sent with every call, e.g. for a gateway.

    Raises:
        MissingDependencyError: The package ``openai``, or one it needs, is not installed.
        ConfigurationError: A number is out of range, there is neither key nor `base_url`, or no
            client can be made with them.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        api_version: str | None = None,
        timeout_s: float = 30.0,
        max_retries: int = 3,
        concurrency: int = 16,
        budget: JudgeBudget | None = None,
        cache: JudgeCache | str | os.PathLike[str] | bool = True,
        temperature: float | None = 0.0,
        max_output_tokens: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        _require_openai()
        _check(model, timeout_s, max_retries, concurrency, max_output_tokens)
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise ConfigurationError(
                "the judge has no key: pass api_key=, set OPENAI_API_KEY, or pass the base_url= of "
                "an endpoint that needs none"
            )
        if base_url is not None and urlsplit(base_url).scheme not in ("http", "https"):
            raise ConfigurationError("base_url is no address; pass e.g. 'http://localhost:8000/v1'")
        if api_version is not None and base_url is None:
            raise ConfigurationError(
                "api_version is for Azure: pass the resource's address as base_url="
            )
        self._arguments: dict[str, Any] = {
            "model": model,
            "base_url": base_url,
            "api_version": api_version,
            "timeout_s": timeout_s,
            "max_retries": max_retries,
            "concurrency": concurrency,
            "budget": budget,
            "cache": cache if isinstance(cache, (bool, JudgeCache)) else os.fspath(cache),
            "temperature": temperature,
            "max_output_tokens": max_output_tokens,
        }
        self._model = model
        self._base_url = base_url
        self._concurrency = concurrency
        self._caller = Caller(base_url, key, api_version, dict(headers or {}))
        _check_client(self._caller)
        self.budget = budget
        self.cache = cache if isinstance(cache, JudgeCache) else _cache_from(cache)
        self._breaker = CircuitBreaker(f"{model} at {self.host}")
        self._endpoint = Endpoint(
            model,
            timeout_s=timeout_s,
            max_retries=max_retries,
            max_reply_bytes=_MAX_REPLY_BYTES,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            budget=budget,
            breaker=self._breaker,
        )
        self._tally = Tally()
        self._asker = Asker(
            f"{model}\n{base_url or ''}",
            self._complete,
            self.cache,
            secrets.token_bytes(16),
            self._tally.answered,
        )
        self._observers: list[JudgeObserver] = []
        self._lock = threading.Lock()
        self._resources: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopResources] = (
            weakref.WeakKeyDictionary()
        )
        self._flights: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Flights] = (
            weakref.WeakKeyDictionary()
        )
        _watch_forks(self)

    def __repr__(self) -> str:
        return f"OpenAIJudge(model={self._model!r}, host={self.host!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without the key, the headers, and what was learned."""
        return _rebuild, (self._arguments,)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._model

    @property
    def host(self) -> str:
        """Host of the endpoint; nothing else of its address, which may hold a secret."""
        return urlsplit(self._base_url).hostname or "?" if self._base_url else "api.openai.com"

    @property
    def structured_output(self) -> str:
        """How replies are asked for: ``json_schema``, ``json_object`` or ``text``."""
        return self._endpoint.structured_output

    @property
    def stats(self) -> JudgeStats:
        """Calls, tokens, cache hits, errors and cost so far."""
        return self._tally.stats(self.budget.cost if self.budget is not None else 0.0)

    def subscribe(self, observer: JudgeObserver) -> None:
        """Tell `observer` about every call from now on, on the event loop that made it."""
        self._observers.append(observer)

    def report(self, call: JudgeCall) -> None:
        """Count a call and tell the observers; a worker process that asks for us has it done here."""
        if not call.cached:
            self._tally.called(call)
        for observer in tuple(self._observers):
            observer(call)

    def report_items(self, hits: int, misses: int) -> None:
        """Count items that a worker process answered without asking, and those it asked about."""
        self._tally.answered(hits, misses)

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of this judge: those that may be pickled, and those that must not.

        For a worker process of our own, which makes the same judge of both.
        """
        settings = {name: value for name, value in self._arguments.items() if name != "base_url"}
        headers = {str(name): str(value) for name, value in self._caller.headers.items()}
        # An address may hold a password.
        secret = {"base_url": self._base_url, "api_key": self._caller.key, "headers": headers}
        return settings, secret

    async def ask(self, ask: Ask) -> Reply:
        """Answer every item of `ask`: from the cache, with another ask's call, or with one call.

        Raises:
            JudgeError: The endpoint failed (``error_type`` says how), or no reply could be used.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            flights = self._flights.setdefault(loop, {})
        reply = await self._asker.ask(ask, flights)
        if reply.usage.calls == 0 and reply.answers:
            self.report(JudgeCall(ask.metric, self._model, 0.0, 0, 0, cached=True))
        return reply

    async def aclose(self) -> None:
        """Close this event loop's connections and the cache's file. The judge can be used again."""
        with self._lock:
            resources = self._resources.pop(asyncio.get_running_loop(), None)
        if resources is not None:
            await resources.close()
        if self.cache is not None:
            self.cache.close()

    async def _complete(
        self, metric: str, messages: list[dict[str, str]], schema: dict[str, Any]
    ) -> Completion:
        def finished(duration_s: float, outcome: Completion | JudgeError) -> None:
            call = JudgeCall(
                metric,
                self._model,
                duration_s,
                0 if isinstance(outcome, JudgeError) else outcome.input_tokens,
                0 if isinstance(outcome, JudgeError) else outcome.output_tokens,
                outcome.error_type,
            )
            self.report(call)

        return await self._endpoint.complete(self._on_this_loop(), messages, schema, finished)

    def _on_this_loop(self) -> LoopResources:
        loop = asyncio.get_running_loop()
        with self._lock:
            resources = self._resources.get(loop)
            if resources is None:
                resources = LoopResources(self._concurrency, lambda: Wire(self._caller.client()))
                self._resources[loop] = resources
        return resources

    def _renew_after_fork(self) -> None:
        """Start afresh in a forked child: threads of the parent held locks, its loops sockets."""
        self._lock = threading.Lock()
        self._tally.renew_lock()
        self._resources = weakref.WeakKeyDictionary()
        self._flights = weakref.WeakKeyDictionary()
        self._breaker.renew_lock()
        for shared in (self.budget, self.cache):
            if shared is not None:
                shared.renew_lock()


def _require_openai() -> None:
    try:
        import openai  # noqa: F401, PLC0415 -- optional dependency, looked for when it is needed
    except ImportError as error:
        raise MissingDependencyError(error.name or "openai", "judge", "OpenAIJudge") from error


def _check_client(caller: Caller) -> None:
    """Make a client once: what is missing shows now, not on every score.

    Raises:
        MissingDependencyError: A module that the client needs is missing.
        ConfigurationError: The address, the key, a header or a proxy in the environment is unusable.
    """
    try:
        caller.client()
    except ImportError as error:
        if error.name is None:
            # Such as "Using SOCKS proxy, but the 'socksio' package is not installed": theirs says it.
            raise ConfigurationError(f"the judge's client cannot be made: {error}") from error
        raise MissingDependencyError(error.name, "judge", "OpenAIJudge") from error
    except ValueError as error:
        # Not its message, nor itself as the cause: it may quote the key.
        raise ConfigurationError(
            f"the judge's client cannot be made ({type(error).__name__}): check base_url, api_key, "
            "headers, and the proxy variables of the environment"
        ) from None


def _check(
    model: str, timeout_s: float, max_retries: int, concurrency: int, max_output_tokens: int | None
) -> None:
    if not model:
        raise ConfigurationError("model is empty; pass the judge's model, e.g. 'gpt-4o-mini'")
    if not timeout_s > 0:
        raise ConfigurationError(f"timeout_s is {timeout_s!r}; pass seconds above 0")
    if max_retries < 0:
        raise ConfigurationError(f"max_retries is {max_retries!r}; pass 0 or more")
    if concurrency < 1:
        raise ConfigurationError(f"concurrency is {concurrency!r}; pass 1 or more")
    if max_output_tokens is not None and max_output_tokens < 1:
        raise ConfigurationError(
            f"max_output_tokens is {max_output_tokens!r}; pass 1 or more, or None"
        )


def _cache_from(cache: str | os.PathLike[str] | bool) -> JudgeCache | None:
    if isinstance(cache, bool):
        return JudgeCache() if cache else None
    return JudgeCache(path=cache)


def _rebuild(arguments: dict[str, Any]) -> OpenAIJudge:
    return OpenAIJudge(**arguments)


def _renew_judges() -> None:
    for judge in tuple(_judges):
        judge._renew_after_fork()  # noqa: SLF001 -- its own module


def _watch_forks(judge: OpenAIJudge) -> None:
    global _watching  # noqa: PLW0603 -- registered once per process, on the first judge
    _judges.add(judge)
    if not _watching and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_renew_judges)
        _watching = True


_watching = False
