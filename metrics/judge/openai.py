"""`OpenAIJudge`: any OpenAI-compatible endpoint as a judge.

Users build it and pass it to a meter or to ``evaluate``; metrics use only the `Judge` protocol. It checks its
arguments, connects cache, batching, endpoint, budget and breaker, and has separate resources for each event
loop. It never shows its key.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

from ragmeter.metrics._connection.arguments import connect, extra_fields, made_again
from ragmeter.metrics._connection.loops import PerLoop
from ragmeter.metrics.errors import ConfigurationError

from ._capabilities import RequestForm
from ._loop_resources import LoopResources
from .batching import Batching
from .budget import JudgeBudget
from .cache import JudgeCache
from .counting import CountingJudge
from .endpoint import ChatEndpoint
from .protocol import Ask, JudgeCall, Reply

_AZURE = (".azure.com", ".azure.us", ".azure.cn")
_LOCAL = (".local", ".localhost", ".internal", ".lan")


class OpenAIJudge(CountingJudge):
    """A judge behind any OpenAI-compatible endpoint: OpenAI, Azure OpenAI, vLLM, Ollama, a gateway.

    Replies are asked for as strict JSON (structured outputs); an endpoint that lacks them is asked for JSON
    mode, then for plain text; other options are stepped down likewise, each separately (see `learned`).
    Temporary failures are retried with backoff and jitter, honouring ``Retry-After``; a wrong key, an unknown
    model, an empty account and repeated failures stop the judge until a probe succeeds; a text that the
    endpoint refuses to judge stops nothing. No redirect is followed. Safe on several event loops and threads;
    a fork starts with fresh connections.

    Args:
        model: The model's name; for Azure the deployment's.
        base_url: The endpoint, e.g. ``http://localhost:11434/v1``; None: ``OPENAI_BASE_URL``, else
            OpenAI's own. User and password before the host are sent as basic authentication, a
            query with every request; neither is shown, logged or pickled.
        api_key: The key; None: ``OPENAI_API_KEY``. Optional for endpoints with a `base_url`. Never shown,
            logged or pickled (a pickled judge takes it from the environment again).
        api_version: Set for Azure's dated API; `base_url` is then the resource's address. Azure's
            ``/openai/v1/`` address needs none.
        timeout_s: Seconds for one call, including retries; then the score's status is ``timeout``.
        max_retries: Attempts after the first.
        concurrency: Most concurrent calls on the wire, per event loop. Building prompts, reading replies,
            pauses between attempts and waiting for the budget do not count.
        budget: Limits on calls and tokens per minute; None: no limits.
        cache: True: remember answers in memory; False: not at all; a path: in that SQLite file
            too; or a `JudgeCache`, which judges may share.
        temperature: Sent with every call, unless None or the model refuses it.
        max_output_tokens: Cap on the length of a reply; None: the endpoint's own. The items of a cut-off
            reply are asked again in two halves.
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
        self._caller = caller = connect("judge", base_url, api_key, headers, api_version)
        if not model:
            raise ConfigurationError("model is empty; pass the judge's model, e.g. 'gpt-4o-mini'")
        if not timeout_s > 0:
            raise ConfigurationError(f"timeout_s is {timeout_s!r}; pass seconds above 0")
        if max_retries < 0:
            raise ConfigurationError(f"max_retries is {max_retries!r}; pass 0 or more")
        if concurrency < 1:
            raise ConfigurationError(f"concurrency is {concurrency!r}; pass 1 or more")
        if max_output_tokens is not None and max_output_tokens < 1:
            raise ConfigurationError(f"max_output_tokens is {max_output_tokens!r}; pass 1 or more, or None")
        extra = extra_fields(extra_body)
        self._settings: dict[str, Any] = {
            "model": model,
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
        self.endpoint_kind = _endpoint_kind(caller.host, dated=api_version is not None)
        if isinstance(cache, bool):
            self.cache = JudgeCache() if cache else None
        else:
            self.cache = cache if isinstance(cache, JudgeCache) else JudgeCache(path=cache)
        self._form = RequestForm(model, temperature, max_output_tokens, extra)
        self._endpoint = ChatEndpoint(
            self._form,
            f"{model} at {caller.host}",
            timeout_s=timeout_s,
            max_retries=max_retries,
            budget=budget,
            record=self._record,
        )
        # Identifies judges that may answer differently, for the cache's keys.
        identity = f"{model}\n{caller.stored_url or ''}"
        if extra:
            identity += f"\n{json.dumps(extra, sort_keys=True)}"
        self._batching = Batching(identity, self._endpoint, self.cache, secrets.token_bytes(16))
        self._loops = PerLoop(partial(LoopResources, caller, concurrency))

    def __repr__(self) -> str:
        return f"OpenAIJudge(model={self.model!r}, host={self.host!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without key, headers, secrets in the address, and learned facts."""
        settings = {**self._settings, "base_url": self._caller.stored_url}
        return made_again, (OpenAIJudge, settings)

    @property
    def host(self) -> str:
        """Host of the endpoint; nothing else of its address, which may contain a secret."""
        return self._caller.host

    @property
    def address(self) -> str:
        """Address of the endpoint, without possible secrets."""
        return self._caller.stored_url or "https://api.openai.com/v1"

    @property
    def last_words(self) -> str:
        """Message of the last failed call, from endpoint or system; may contain the prompt and the key."""
        return self._endpoint.last_words

    @property
    def structured_output(self) -> str:
        """Current format of replies: ``json_schema``, ``json_object`` or ``text``."""
        return self._endpoint.learned.level("format")

    @property
    def learned(self) -> dict[str, str]:
        """The learned facts about the endpoint: the options it supports, and the facts it reports.

        The keys are ``json_schema``, ``json_object``, ``temperature``, ``cap``, ``effort``, ``system role``,
        ``usage`` and ``cached_tokens``; ``not tried`` if that is not known yet.
        """
        return self._endpoint.learned.facts(self._form)

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of this judge: those that may be pickled, and those that must not be.

        For ragmeter's worker process, which builds the same judge from both.
        """
        return self._settings, self._caller.secrets

    async def ask(self, ask: Ask) -> Reply:
        """Answer every item of `ask`: from the cache, with another ask's call, or with one call.

        Raises:
            JudgeError: The endpoint failed (``error_type`` has the class), or no reply could be used.
        """
        reply = await self._batching.ask(ask, self._loops.here())
        hits = reply.usage.cache_hits
        self.report_items(hits, len(reply.answers) - hits)
        if reply.usage.calls == 0 and reply.answers:
            self.report(JudgeCall(ask.metric, self.model, 0.0, 0, 0, cached=True))
        return reply

    async def aclose(self) -> None:
        """Close this event loop's connections and the cache's file. The judge can be used again."""
        resources = self._loops.take()
        if resources is not None:
            await resources.close()
        if self.cache is not None:
            await self.cache.aclose()


def _endpoint_kind(host: str, *, dated: bool) -> str:
    """Return the kind of a host's endpoint, which reveals no address."""
    if host == "api.openai.com":
        return "openai"
    if dated or host.endswith(_AZURE):
        return "azure"
    name = host.strip("[]")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        # Without a dot it is a name in this machine's own network.
        return "local" if "." not in name or name.endswith(_LOCAL) else "compatible"
    return "local" if address.is_private or address.is_loopback else "compatible"
