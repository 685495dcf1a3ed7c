"""One OpenAI-compatible endpoint: send messages, get text, or a `JudgeError` that says why not.

The asking engine calls it through `OpenAIJudge`.  It retries what may pass, gives up at
once what will not, steps down from structured outputs where the endpoint lacks them, reads
at most so many bytes, and keeps the endpoint's own words out of errors and logs: they may
repeat a key or a text.  A call holds one of the loop's slots while it is on the wire, never while
it is built, read, or waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .asking import Completion
from .breaker import CircuitBreaker
from .budget import JudgeBudget, Reservation
from .clients import LoopResources
from .contract import JudgeError, Usage
from .failures import FailedCall, pause_before, refused
from .wire import Reply, Wire

__all__ = ["Endpoint"]

logger = logging.getLogger("ragmeter.judge")

_MODES = ("json_schema", "json_object", "text")


@dataclass(slots=True)
class _Call:
    """One call, all its attempts."""

    messages: list[dict[str, str]]
    schema: dict[str, Any]
    tokens: int
    """Prompt tokens, estimated."""
    mode: int = 0
    temperature: float | None = None
    spent_s: float = 0.0
    """Seconds on the wire and in pauses; waiting for a slot or for the budget is not the call's."""
    admitted: bool = False
    """The breaker let it through and waits for its outcome."""
    reservation: Reservation | None = None


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
        call = _Call(messages, schema, estimate_tokens("".join(m["content"] for m in messages)))
        try:
            outcome = await self._attempts(resources, call)
            call.admitted = False
            if isinstance(outcome, FailedCall):
                self._failed(outcome)
                error = JudgeError(
                    f"asking the judge failed: {outcome.detail}",
                    outcome.error_type,
                    status="timeout" if outcome.error_type == "timeout" else "judge_error",
                    usage=Usage(calls=1),
                )
                finished(call.spent_s, error)
                raise error
            self._breaker.succeeded()
            if self._budget is not None and call.reservation is not None:
                self._budget.settle(call.reservation, outcome.input_tokens, outcome.output_tokens)
            finished(call.spent_s, outcome)
            return outcome
        finally:
            if call.admitted:
                self._breaker.abandoned()

    def _failed(self, failure: FailedCall) -> None:
        if failure.error_type in ("bad_request", "request_too_large"):
            # This request was refused, the next one may pass: the endpoint is alive.
            self._breaker.succeeded()
            return
        self._breaker.failed(failure.error_type, failure.detail, fatal=failure.fatal)

    async def _attempts(self, resources: LoopResources, call: _Call) -> Completion | FailedCall:
        retries = 0
        call.mode, call.temperature = self._mode, self._temperature
        while True:
            outcome = await self._attempt(resources, call)
            if isinstance(outcome, Completion):
                self._remember(call.mode, call.temperature)
                return outcome
            if outcome.unsupported is not None and self._step_down(call, outcome.unsupported):
                continue
            if not outcome.retry or retries >= self._max_retries:
                return outcome
            pause_s = pause_before(retries, outcome.retry_after_s)
            if call.spent_s + pause_s >= self._timeout_s:
                return outcome
            if outcome.retry_after_s is not None:
                self._not_before = max(self._not_before, time.monotonic() + outcome.retry_after_s)
            retries += 1
            await self._pause(call, pause_s)

    async def _attempt(self, resources: LoopResources, call: _Call) -> Completion | FailedCall:
        try:
            reply = await self._exchange(resources, call)
        except FailedCall as failure:
            return failure
        if not 200 <= reply.status < 300:
            return refused(reply.status, reply.headers, reply.body)
        if not reply.complete:
            return _unusable(call, "reply_too_large")
        return _read(reply.body, call)

    async def _exchange(self, resources: LoopResources, call: _Call) -> Reply:
        """Wait for a slot, and for leave to use it; post, and give the slot back with the reply.

        Raises:
            JudgeError: The circuit is open, or the budget used up.
            FailedCall: The timeout has passed, or the connection broke.
        """
        body = self._body(call)
        while True:
            async with resources.slot() as wire:
                if not call.admitted:
                    self._breaker.admit()
                    call.admitted = True
                pause_s = self._not_before - time.monotonic()
                if pause_s <= 0 and await self._takes_room(call):
                    if self._knows_better(call):
                        body = self._body(call)
                    return await self._post(wire, body, call)
            # Whatever there is to wait for, the slot is somebody else's meanwhile.
            if pause_s > 0:
                await self._pause(call, pause_s)
            elif self._budget is not None:
                call.admitted = False
                self._breaker.abandoned()  # until then the circuit may open
                async with resources.waiting_room:
                    await self._budget.until_room(call.tokens)

    async def _takes_room(self, call: _Call) -> bool:
        if self._budget is None or call.reservation is not None:
            return True
        room = await self._budget.obtain(call.tokens)
        if isinstance(room, Reservation):
            call.reservation = room
            return True
        return False

    async def _post(self, wire: Wire, body: dict[str, Any], call: _Call) -> Reply:
        left_s = self._timeout_s - call.spent_s
        started = time.monotonic()
        try:
            return await asyncio.wait_for(wire.post(body, self._max_reply_bytes), left_s)
        except (TimeoutError, asyncio.TimeoutError):
            raise self._too_late() from None
        finally:
            call.spent_s += time.monotonic() - started

    async def _pause(self, call: _Call, pause_s: float) -> None:
        left_s = self._timeout_s - call.spent_s
        pause_s = min(pause_s, left_s)
        await asyncio.sleep(pause_s)
        call.spent_s += pause_s
        if pause_s >= left_s:
            raise self._too_late()

    def _too_late(self) -> FailedCall:
        return FailedCall("timeout", f"it did not answer within {self._timeout_s:g} s")

    def _step_down(self, call: _Call, unsupported: str) -> bool:
        """Leave out what the endpoint may lack; tell whether there was anything left to leave out."""
        if call.temperature is not None and "temperature" in unsupported:
            call.temperature = None
            return True
        if call.mode + 1 < len(_MODES):
            call.mode += 1
            return True
        return False

    def _knows_better(self, call: _Call) -> bool:
        """Take over what other calls found out while this one waited; tell whether it is news."""
        before = call.mode, call.temperature
        call.mode = max(call.mode, self._mode)
        if self._temperature is None:
            call.temperature = None
        return before != (call.mode, call.temperature)

    def _remember(self, mode: int, temperature: float | None) -> None:
        """Keep what the endpoint was found to lack; only an answered call proves it."""
        if mode > self._mode:
            logger.info(
                "the judge %s lacks %s; using %s", self._model, _MODES[self._mode], _MODES[mode]
            )
            self._mode = mode
        if temperature is None:
            self._temperature = None

    def _body(self, call: _Call) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": call.messages}
        if call.temperature is not None:
            body["temperature"] = call.temperature
        if self._max_output_tokens is not None:
            body["max_completion_tokens"] = self._max_output_tokens
        if _MODES[call.mode] == "json_schema":
            wanted = {"name": "verdicts", "strict": True, "schema": call.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif _MODES[call.mode] == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body


def _unusable(call: _Call, error_type: str, received: bytes = b"") -> Completion:
    return Completion("", call.tokens, len(received) // 4, error_type)


def _read(received: bytes, call: _Call) -> Completion:
    """Read a chat completion; whatever is not one is an unusable reply."""
    try:
        reply = json.loads(received)
        choice = reply["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return _unusable(call, "unusable_reply", received)
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
        _count(usage.get("prompt_tokens"), call.tokens),
        _count(usage.get("completion_tokens"), estimate_tokens(text)),
        error_type,
    )


def _count(stated: Any, estimated: int) -> int:
    if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0:
        return stated
    return estimated


def estimate_tokens(text: str) -> int:
    """Estimate tokens where nobody counts them: 4 ASCII characters each, 1.5 others, rounded up."""
    # In C either way: this is asked of every prompt, and one accent is enough to make it not ASCII.
    ascii_letters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_letters // 4) + -(-(len(text) - ascii_letters) * 2 // 3)
