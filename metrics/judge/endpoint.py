"""One OpenAI-compatible endpoint: send messages, get text, or a `JudgeError` that says why not.

The asking engine calls it through `OpenAIJudge`.  It retries what may pass, gives up at
once what will not, steps down from structured outputs where the endpoint lacks them, reads
at most so many bytes, and keeps the endpoint's own words out of errors and logs: they may
repeat a key or a text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from .asking import Completion
from .breaker import CircuitBreaker
from .budget import JudgeBudget
from .clients import LoopResources, http_library
from .contract import JudgeError, Usage

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

__all__ = ["Endpoint", "FailedCall"]

logger = logging.getLogger("ragmeter.judge")

_MODES = ("json_schema", "json_object", "text")
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


class Endpoint:
    """Sends chat completions. Safe on several event loops.

    Args:
        model: The model's name (Azure: the deployment's).
        timeout_s: Seconds for one call, all its retries included.
        max_retries: Attempts after the first.
        max_reply_bytes: Longest body that is read.
        temperature: Sent unless None or refused by the endpoint.
        max_output_tokens: Cap on what the judge may write; None: the endpoint's.
        budget: Limits; None: no limits.
        breaker: Keeps calls away from an endpoint that is down.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout_s: float,
        max_retries: int,
        max_reply_bytes: int,
        temperature: float | None,
        max_output_tokens: int | None,
        budget: JudgeBudget | None,
        breaker: CircuitBreaker,
    ) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._max_reply_bytes = max_reply_bytes
        self._temperature = temperature
        self._max_output_tokens = max_output_tokens
        self._budget = budget
        self._breaker = breaker
        self._mode = 0
        self._not_before = 0.0

    @property
    def structured_output(self) -> str:
        """The way replies are asked for now: ``json_schema``, ``json_object`` or ``text``."""
        return _MODES[self._mode]

    async def complete(
        self,
        resources: LoopResources,
        messages: list[dict[str, str]],
        schema: dict[str, Any],
        finished: Callable[[float, Completion | JudgeError], None],
    ) -> Completion:
        """Send `messages` and return the reply; tell `finished` the duration and the outcome.

        Raises:
            JudgeError: No reply: budget, open circuit, timeout, or the last attempt's failure.
        """
        async with resources.client() as client:
            self._breaker.admit()
            settled = False
            try:
                estimate = estimate_tokens("".join(message["content"] for message in messages))
                reservation = (
                    await self._budget.reserve(estimate) if self._budget is not None else None
                )
                started = time.monotonic()
                try:
                    outcome = await asyncio.wait_for(
                        self._attempts(client, messages, schema, started),
                        self._timeout_s,
                    )
                except (TimeoutError, asyncio.TimeoutError):
                    outcome = FailedCall(
                        "timeout", f"it did not answer within {self._timeout_s:g} s"
                    )
                settled = True
                duration_s = time.monotonic() - started
                if isinstance(outcome, FailedCall):
                    self._failed(outcome)
                    error = JudgeError(
                        f"asking the judge failed: {outcome.detail}",
                        outcome.error_type,
                        status="timeout" if outcome.error_type == "timeout" else "judge_error",
                        usage=Usage(calls=1),
                    )
                    finished(duration_s, error)
                    raise error
                self._breaker.succeeded()
                if self._budget is not None and reservation is not None:
                    self._budget.settle(reservation, outcome.input_tokens, outcome.output_tokens)
                finished(duration_s, outcome)
                return outcome
            finally:
                if not settled:
                    self._breaker.abandoned()

    def _failed(self, failure: FailedCall) -> None:
        if failure.error_type in ("bad_request", "request_too_large"):
            # This request was refused, the next one may pass: the endpoint is alive.
            self._breaker.succeeded()
            return
        self._breaker.failed(failure.error_type, failure.detail, fatal=failure.fatal)

    async def _attempts(
        self,
        client: AsyncOpenAI,
        messages: list[dict[str, str]],
        schema: dict[str, Any],
        started: float,
    ) -> Completion | FailedCall:
        retries = 0
        mode, temperature = self._mode, self._temperature
        while True:
            pause_s = self._not_before - time.monotonic()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            try:
                completion = await self._once(
                    client, self._body(messages, schema, mode, temperature)
                )
            except FailedCall as failure:
                if failure.unsupported is not None:
                    if temperature is not None and "temperature" in failure.unsupported:
                        temperature = None
                        continue
                    if mode + 1 < len(_MODES):
                        mode += 1
                        continue
                if not failure.retry or retries >= self._max_retries:
                    return failure
                pause_s = _pause_before(retries, failure.retry_after_s)
                if time.monotonic() - started + pause_s >= self._timeout_s:
                    return failure
                if failure.retry_after_s is not None:
                    self._not_before = max(
                        self._not_before, time.monotonic() + failure.retry_after_s
                    )
                retries += 1
                await asyncio.sleep(pause_s)
            else:
                self._remember(mode, temperature)
                return completion

    def _remember(self, mode: int, temperature: float | None) -> None:
        """Keep what the endpoint was found to lack; only an answered call proves it."""
        if mode > self._mode:
            logger.info(
                "the judge %s lacks %s; using %s", self._model, _MODES[self._mode], _MODES[mode]
            )
            self._mode = mode
        if temperature is None:
            self._temperature = None

    def _body(
        self,
        messages: list[dict[str, str]],
        schema: dict[str, Any],
        mode: int,
        temperature: float | None,
    ) -> dict[str, Any]:
        # Most goes into extra_body, because the client walks typed arguments for a millisecond.
        extra: dict[str, Any] = {"messages": messages}
        body: dict[str, Any] = {"model": self._model, "messages": [], "extra_body": extra}
        if temperature is not None:
            body["temperature"] = temperature
        if self._max_output_tokens is not None:
            body["max_completion_tokens"] = self._max_output_tokens
        if _MODES[mode] == "json_schema":
            wanted = {"name": "verdicts", "strict": True, "schema": schema}
            extra["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif _MODES[mode] == "json_object":
            extra["response_format"] = {"type": "json_object"}
        return body

    async def _once(self, client: AsyncOpenAI, body: dict[str, Any]) -> Completion:
        from openai import APIConnectionError, APIStatusError, OpenAIError  # noqa: PLC0415

        received = bytearray()
        try:
            async with client.chat.completions.with_streaming_response.create(**body) as response:
                async for part in response.iter_bytes():
                    received += part
                    if len(received) > self._max_reply_bytes:
                        return _unusable(body, "reply_too_large")
        except APIStatusError as error:
            raise _refused(error) from None
        except (APIConnectionError, http_library().HTTPError) as error:
            detail = f"no connection, or it broke ({type(error).__name__})"
            raise FailedCall("connection", detail, retry=True) from None
        except OpenAIError as error:
            raise FailedCall("client", f"the client refused ({type(error).__name__})") from None
        return _read(bytes(received), body)


def _pause_before(retries: int, retry_after_s: float | None) -> float:
    """Return the seconds to wait: what the endpoint asked for, else doubling, with jitter."""
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0.0, 0.1)
    longest = min(_FIRST_PAUSE_S * 2.0**retries, _LONGEST_PAUSE_S)
    return random.uniform(longest / 2, longest)


def _refused(error: APIStatusError) -> FailedCall:
    status = error.status_code
    code = error.code if isinstance(error.code, str) and _CODE.fullmatch(error.code) else None
    kind = _STATUS_TYPES.get(status, "server_error" if status >= 500 else "bad_request")
    unsupported = None
    if status in _UNSUPPORTED and code not in ("context_length_exceeded", "content_filter"):
        unsupported = f"{error.param} {error.message}".casefold()
    return FailedCall(
        kind,
        f"it answered with status {status}" + (f" ({code})" if code else ""),
        retry=status in _RETRIED or (status >= 500 and status != 501),
        retry_after_s=_retry_after_s(error.response.headers),
        fatal=status in _FATAL,
        unsupported=unsupported,
    )


def _retry_after_s(headers: Any) -> float | None:
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


def _unusable(body: dict[str, Any], error_type: str, received: bytes = b"") -> Completion:
    sent = "".join(message["content"] for message in body["extra_body"]["messages"])
    return Completion("", estimate_tokens(sent), len(received) // 4, error_type)


def _read(received: bytes, body: dict[str, Any]) -> Completion:
    """Read a chat completion; whatever is not one is an unusable reply."""
    try:
        reply = json.loads(received)
        choice = reply["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return _unusable(body, "unusable_reply", received)
    sent = "".join(message["content"] for message in body["extra_body"]["messages"])
    text = content if isinstance(content, str) else ""
    usage = reply.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    error_type = None
    if refusal or choice.get("finish_reason") == "content_filter":
        error_type = "refusal"
    elif choice.get("finish_reason") == "length":
        error_type = "reply_cut_off"
    elif not text:
        error_type = "unusable_reply"
    return Completion(
        text,
        _count(usage.get("prompt_tokens"), sent),
        _count(usage.get("completion_tokens"), text),
        error_type,
    )


def _count(stated: Any, text: str) -> int:
    if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0:
        return stated
    return estimate_tokens(text)


def estimate_tokens(text: str) -> int:
    """Estimate tokens where nobody counts them: 4 ASCII characters each, 1.5 others, rounded up."""
    # In C either way: this is asked of every prompt, and one accent is enough to make it not ASCII.
    ascii_letters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_letters // 4) + -(-(len(text) - ascii_letters) * 2 // 3)
