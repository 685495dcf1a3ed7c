"""`OpenAIJudge`: any OpenAI-compatible endpoint as a judge.

Users build it and hand it to a meter or to ``evaluate``; metrics see the `Judge`
contract only.  It wires the endpoint, cache, budget and breaker together and keeps what
belongs to an event loop apart per loop.  It never shows its key.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import weakref
from collections.abc import Mapping
from typing import Any

from ragmeter.metrics import _fork as fork
from ragmeter.metrics.errors import ConfigurationError

from ._clients import LoopResources
from ._completions import Completion
from ._construction import (
    address_of,
    cache_from,
    check_client,
    check_numbers,
    checked_body,
    identity,
    require_openai,
)
from ._cut_prompts import CutPrompts
from ._facts import facts
from ._learning import Learned
from ._requests import RequestForm
from ._transport import Caller, Wire
from .batching import Asker, Flights
from .breaker import CircuitBreaker
from .budget import JudgeBudget
from .cache import JudgeCache
from .endpoint import Endpoint
from .protocol import Ask, JudgeCall, JudgeError, JudgeObserver, Reply
from .stats import JudgeStats, Tally

__all__ = ["OpenAIJudge"]

_MAX_REPLY_BYTES = 4 * 2**20


class OpenAIJudge:
    """A judge behind any OpenAI-compatible endpoint: OpenAI, Azure OpenAI, vLLM, Ollama, a gateway.

    Replies are asked for as strict JSON (structured outputs); an endpoint that lacks them is asked
    for JSON mode, then for plain text; other options step down likewise, each on its own (see
    `learned`). Calls that may pass are retried with backoff and jitter, honouring ``Retry-After``;
    a wrong key, an unknown model, an empty account and repeated failures stop the judge until a
    probe succeeds; a text that the endpoint refuses to judge stops nothing. No redirect is
    followed. Safe on several event loops and threads; a fork starts with fresh connections.

    Args:
        model: The model's name; for Azure the deployment's.
        base_url: The endpoint, e.g. ``http://localhost:11434/v1``; None: ``OPENAI_BASE_URL``, else
            OpenAI's own. User and password before the host are sent as basic authentication, a
            query with every request; neither is shown, logged or pickled.
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
        max_output_tokens: Cap on the length of a reply; None: the endpoint's own. What a reply that
            is cut off was to answer is asked in two halves.
        headers: Sent with every call, e.g. for a gateway.
        extra_body: Fields added to the body of every request, last: what an endpoint wants beyond
            the API, e.g. ``{"enable_thinking": False}``, or instead of what we send, which then
            is not stepped down. Pickled, and part of the cache's keys: no place for secrets.

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
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        require_openai()
        check_numbers(model, timeout_s, max_retries, concurrency, max_output_tokens)
        extra = checked_body(extra_body)
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise ConfigurationError(
                "the judge has no key: pass api_key=, set OPENAI_API_KEY, or pass the base_url= of "
                "an endpoint that needs none"
            )
        address = None if base_url is None else address_of(base_url)
        if api_version is not None and base_url is None:
            raise ConfigurationError(
                "api_version is for Azure: pass the resource's address as base_url="
            )
        self._arguments: dict[str, Any] = {
            "model": model,
            "base_url": None if address is None else address.without_secrets,
            "api_version": api_version,
            "timeout_s": timeout_s,
            "max_retries": max_retries,
            "concurrency": concurrency,
            "budget": budget,
            "cache": cache if isinstance(cache, (bool, JudgeCache)) else os.fspath(cache),
            "temperature": temperature,
            "max_output_tokens": max_output_tokens,
            "extra_body": extra or None,
        }
        self._model = model
        self._concurrency = concurrency
        self._caller = Caller(address, key, api_version, dict(headers or {}))
        check_client(self._caller)
        self.budget = budget
        self.cache = cache if isinstance(cache, JudgeCache) else cache_from(cache)
        name = f"{model} at {self.host}"
        self._breaker = CircuitBreaker(name)
        self._learned = Learned(name)
        self._form = RequestForm(model, temperature, max_output_tokens, extra)
        self._endpoint = Endpoint(
            self._form,
            timeout_s=timeout_s,
            max_retries=max_retries,
            max_reply_bytes=_MAX_REPLY_BYTES,
            budget=budget,
            breaker=self._breaker,
            learned=self._learned,
            cut_prompts=CutPrompts(name),
        )
        self._tally = Tally()
        self._asker = Asker(
            identity(model, address, extra),
            self._complete,
            self.cache,
            secrets.token_bytes(16),
            self._tally.answered,
        )
        self._observers: list[JudgeObserver] = []
        self._lock = fork.lock()
        self._open()
        fork.forget(self._open)  # the parent's loops and their sockets stay the parent's

    def _open(self) -> None:
        self._resources: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopResources] = (
            weakref.WeakKeyDictionary()
        )
        self._flights: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Flights] = (
            weakref.WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"OpenAIJudge(model={self._model!r}, host={self.host!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without key, headers, secrets in the address, and what was learned."""
        return _rebuild, (self._arguments,)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._model

    @property
    def host(self) -> str:
        """Host of the endpoint; nothing else of its address, which may hold a secret."""
        address = self._caller.address
        return "api.openai.com" if address is None else address.host

    @property
    def structured_output(self) -> str:
        """How replies are asked for: ``json_schema``, ``json_object`` or ``text``."""
        return self._learned.level("format")

    @property
    def learned(self) -> dict[str, str]:
        """What is known of the endpoint by now: what it takes, and what it tells.

        The keys are ``json_schema``, ``json_object``, ``temperature``, ``cap``, ``effort``,
        ``system role``, ``usage`` and ``cached_tokens``; ``not tried`` where nobody knows yet.
        """
        return facts(self._learned, self._form, self._endpoint)

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
        address = self._caller.address
        whole = None if address is None else address.whole
        secret = {"base_url": whole, "api_key": self._caller.key, "headers": headers}
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
            await self.cache.aclose()

    async def _complete(
        self, metric: str, messages: list[dict[str, str]], schema: dict[str, Any]
    ) -> Completion:
        def finished(duration_s: float, outcome: Completion | JudgeError) -> None:
            took = outcome.usage if isinstance(outcome, JudgeError) else outcome
            call = JudgeCall(
                metric,
                self._model,
                duration_s,
                took.input_tokens,
                took.output_tokens,
                outcome.error_type,
                calls=took.calls,
                cached_tokens=0 if isinstance(outcome, JudgeError) else outcome.cached_tokens,
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


def _rebuild(arguments: dict[str, Any]) -> OpenAIJudge:
    """Make a pickled judge again; the secrets of its address are the environment's, if it is there."""
    told = os.environ.get("OPENAI_BASE_URL")
    if told and address_of(told).without_secrets == arguments["base_url"]:
        arguments = {**arguments, "base_url": told}
    return OpenAIJudge(**arguments)
