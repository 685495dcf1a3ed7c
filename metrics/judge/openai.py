"""`OpenAIJudge`: any OpenAI-compatible endpoint as a judge.

Users build it and hand it to a meter or to ``evaluate``; metrics see the `Judge` contract only.  It
checks its arguments, wires cache, batching, endpoint, budget and breaker together, and keeps what
belongs to an event loop apart per loop.  It never shows its key.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import weakref
from collections.abc import Mapping
from typing import Any

from ragmeter.metrics import _fork as fork
from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from ._cut_prompts import CutPrompts
from ._learning import Learned, RequestForm
from ._transport import Address, Caller, LoopResources, Wire
from .batching import Batching
from .breaker import CircuitBreaker
from .budget import JudgeBudget
from .cache import JudgeCache
from .counting import CountingJudge
from .endpoint import Endpoint
from .protocol import Ask, JudgeCall, Reply

__all__ = ["OpenAIJudge"]


class OpenAIJudge(CountingJudge):
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
        require_openai("OpenAIJudge")
        _check_numbers(model, timeout_s, max_retries, concurrency, max_output_tokens)
        extra = checked_body(extra_body)
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise ConfigurationError(
                "the judge has no key: pass api_key=, set OPENAI_API_KEY, or pass the base_url= of "
                "an endpoint that needs none"
            )
        address = None if base_url is None else Address.of(base_url)
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
        self.model = model
        self.budget = budget
        if isinstance(cache, bool):
            self.cache = JudgeCache() if cache else None
        else:
            self.cache = cache if isinstance(cache, JudgeCache) else JudgeCache(path=cache)
        self._concurrency = concurrency
        self._caller = Caller(address, key, api_version, dict(headers or {}))
        check_client(self._caller, "judge")
        name = f"{model} at {self.host}"
        self._breaker = CircuitBreaker(name)
        self._learned = Learned(name)
        self._form = RequestForm(model, temperature, max_output_tokens, extra)
        self._endpoint = Endpoint(
            self._form,
            timeout_s=timeout_s,
            max_retries=max_retries,
            budget=budget,
            breaker=self._breaker,
            learned=self._learned,
            cut_prompts=CutPrompts(name),
            record=self._record,
        )
        # What tells apart judges that may answer differently, for the cache's keys.
        identity = f"{model}\n{'' if address is None else address.without_secrets}"
        if extra:
            identity += f"\n{json.dumps(extra, sort_keys=True)}"
        self._batching = Batching(identity, self._endpoint, self.cache, secrets.token_bytes(16))
        self._lock = fork.lock()
        self._open()
        fork.forget(self._open)  # the parent's loops and their sockets stay the parent's

    def _open(self) -> None:
        self._resources: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopResources] = (
            weakref.WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"OpenAIJudge(model={self.model!r}, host={self.host!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without key, headers, secrets in the address, and what was learned."""
        return _rebuild, (self._arguments,)

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
        """What is known of the endpoint by now: what it takes, and what it says.

        The keys are ``json_schema``, ``json_object``, ``temperature``, ``cap``, ``effort``,
        ``system role``, ``usage`` and ``cached_tokens``; ``not tried`` where that is not known yet.
        """
        return self._learned.facts(self._form)

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
        reply = await self._batching.ask(ask, self._on_this_loop())
        hits = reply.usage.cache_hits
        self.report_items(hits, len(reply.answers) - hits)
        if reply.usage.calls == 0 and reply.answers:
            self.report(JudgeCall(ask.metric, self.model, 0.0, 0, 0, cached=True))
        return reply

    async def aclose(self) -> None:
        """Close this event loop's connections and the cache's file. The judge can be used again."""
        with self._lock:
            resources = self._resources.pop(asyncio.get_running_loop(), None)
        if resources is not None:
            await resources.close()
        if self.cache is not None:
            await self.cache.aclose()

    def _on_this_loop(self) -> LoopResources:
        loop = asyncio.get_running_loop()
        with self._lock:
            resources = self._resources.get(loop)
            if resources is None:
                resources = LoopResources(self._concurrency, lambda: Wire(self._caller.client()))
                self._resources[loop] = resources
        return resources


def require_openai(purpose: str) -> None:
    """Raise unless the package ``openai`` is there."""
    try:
        import openai  # noqa: F401, PLC0415 -- optional dependency, looked for when it is needed
    except ImportError as error:
        raise MissingDependencyError(error.name or "openai", "judge", purpose) from error


def check_client(caller: Caller, whose: str) -> None:
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
            raise ConfigurationError(f"the {whose}'s client cannot be made: {error}") from error
        raise MissingDependencyError(error.name, "judge", f"OpenAI{whose.title()}") from error
    except ValueError as error:
        # Not its message, nor itself as the cause: it may quote the key.
        raise ConfigurationError(
            f"the {whose}'s client cannot be made ({type(error).__name__}): check base_url, api_key, "
            "headers, and the proxy variables of the environment"
        ) from None


def _check_numbers(
    model: str, timeout_s: float, max_retries: int, concurrency: int, max_output_tokens: int | None
) -> None:
    """Raise `ConfigurationError` for a number out of range, or a model without a name."""
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


_NOT_EXTRA = {
    "model": "pass it as model=",
    "messages": "metrics write them",
    "stream": "replies are read whole",
}


def checked_body(extra_body: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of `extra_body`, which the caller cannot change later."""
    if not extra_body:
        return {}
    for name, reason in _NOT_EXTRA.items():
        if name in extra_body:
            raise ConfigurationError(f"extra_body must not have {name!r}: {reason}")
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(extra_body), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "extra_body is not a mapping of what JSON can say; pass e.g. {'enable_thinking': False}"
        ) from error
    return copy


def _rebuild(arguments: dict[str, Any]) -> OpenAIJudge:
    """Make a pickled judge again; the secrets of its address are the environment's, if it is there."""
    base_url = os.environ.get("OPENAI_BASE_URL")
    if base_url and Address.of(base_url).without_secrets == arguments["base_url"]:
        arguments = {**arguments, "base_url": base_url}
    return OpenAIJudge(**arguments)
