"""One OpenAI-compatible endpoint: send messages, get text, or a `JudgeError` that says why not.

The asking engine calls it through `OpenAIJudge`.  It retries what may pass, gives up at
once what will not, steps options down where the endpoint lacks them and looks for them again later,
reads at most so many bytes, and keeps the endpoint's own words out of errors and logs: they may
repeat a key or a text.  A call holds one of the loop's slots while it is on the wire, never while
it is built, read, or waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ._clients import LoopResources
from ._completions import Completion, estimate_tokens, read_completion
from ._cut_prompts import CutPrompts
from ._failures import FailedCall, refused
from ._learning import Learned, Plan
from ._pauses import pause_before
from ._requests import RequestForm
from ._transport import Reply, Wire
from .breaker import CircuitBreaker
from .budget import JudgeBudget, Reservation
from .protocol import JudgeError, Usage

__all__ = ["Endpoint"]

_MOST_STEPS = 6
"""Step-downs of one call."""
_FIRST_OUTPUT = 100
"""Completion tokens expected of a call until some were seen."""
_MEMORY = 0.1
"""Weight of the newest reply in the usual length."""
_ALIVE = frozenset({"bad_request", "request_too_large", "unusable_reply"})
"""Failures of one request: the next one may pass."""


@dataclass(slots=True)
class _Call:
    """One call, all its attempts."""

    messages: list[dict[str, str]]
    schema: dict[str, Any]
    tokens: int
    """Prompt tokens, estimated."""
    plan: Plan
    spent_s: float = 0.0
    """Seconds on the wire and in pauses; waiting for a slot or for the budget is not the call's."""
    admitted: bool = False
    """The breaker let it through and waits for its outcome."""
    reservation: Reservation | None = None
    posts: int = 0
    """Posts so far: what the wire saw."""
    usage: Usage = field(default_factory=Usage)
    """What the posts took."""
    cached_tokens: int = 0
    starved: Completion | None = None
    """The reply that thinking left no room for."""
    refused_with: int | None = None
    """The status with which an option was refused last."""


class Endpoint:
    """Sends chat completions. Safe on several event loops.

    Args:
        form: What is the same in every request.
        timeout_s: Seconds for one call, all its retries included.
        max_retries: Attempts after the first.
        max_reply_bytes: Longest body that is read.
        budget: Limits; None: no limits.
        breaker: Keeps calls away from an endpoint that is down.
        learned: What the endpoint was found to lack.
        cut_prompts: Notices prompts that the endpoint cut off.
    """

    def __init__(
        self,
        form: RequestForm,
        *,
        timeout_s: float,
        max_retries: int,
        max_reply_bytes: int,
        budget: JudgeBudget | None,
        breaker: CircuitBreaker,
        learned: Learned,
        cut_prompts: CutPrompts,
    ) -> None:
        self._form = form
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._max_reply_bytes = max_reply_bytes
        self._budget = budget
        self._breaker = breaker
        self._learned = learned
        self._cut_prompts = cut_prompts
        self._usual_output = float(min(form.max_output_tokens or _FIRST_OUTPUT, _FIRST_OUTPUT))
        self._not_before = 0.0
        self._answered = False
        self.tells_usage: bool | None = None
        """Whether the endpoint counts tokens; None: nobody knows yet."""
        self.tells_cached_tokens: bool | None = None
        """Whether it says what it read from its own cache; None: nobody knows yet."""

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
        tokens = estimate_tokens("".join(message["content"] for message in messages))
        call = _Call(messages, schema, tokens, self._learned.plan())
        try:
            outcome: Completion | JudgeError = self._judged(
                await self._attempts(resources, call), call
            )
        except JudgeError as error:  # no room, or no circuit
            outcome = error
        finally:
            if call.admitted:
                self._breaker.abandoned()
            self._learned.end_trial(call.plan, refused=False)
        if isinstance(outcome, JudgeError):
            outcome = outcome.costing(replace(call.usage, calls=call.posts))
        if call.posts:
            finished(call.spent_s, outcome)
        if isinstance(outcome, JudgeError):
            raise outcome
        return outcome

    def _judged(self, outcome: Completion | FailedCall, call: _Call) -> Completion | JudgeError:
        """Tell the breaker; return the reply with what all posts took, or the error to raise."""
        if isinstance(outcome, Completion):
            call.admitted = False
            self._answered = True
            self._breaker.succeeded()
            return replace(
                outcome,
                input_tokens=call.usage.input_tokens,
                output_tokens=call.usage.output_tokens,
                cached_tokens=call.cached_tokens,
                calls=call.posts,
            )
        self._failed(outcome, call)
        return JudgeError(
            f"asking the judge failed: {outcome.detail}",
            outcome.error_type,
            status="timeout" if outcome.error_type == "timeout" else "judge_error",
        )

    def _failed(self, failure: FailedCall, call: _Call) -> None:
        if failure.error_type == "refusal" or failure.held_back:
            return  # that text, or no post at all: it says nothing about the endpoint
        call.admitted = False
        if failure.error_type in _ALIVE:
            self._breaker.succeeded()
        else:
            # Whoever was answered may ask: a 403 after that is about this text, or passes.
            fatal = failure.fatal and not (failure.error_type == "permission" and self._answered)
            self._breaker.failed(failure.error_type, failure.detail, fatal=fatal)

    async def _attempts(self, resources: LoopResources, call: _Call) -> Completion | FailedCall:
        retries = 0
        while True:
            outcome = await self._attempt(resources, call)
            if isinstance(outcome, Completion):
                if self._thinks_less(outcome, call):
                    continue
                self._learn(outcome, call)
                return self._checked(outcome, call)
            if self._steps_down(outcome, call):
                if call.starved is not None and call.plan.has("effort", "omitted"):
                    return call.starved  # the same request would be starved again
                continue
            self._learned.end_trial(call.plan, refused=False)
            if outcome.error_type == "unusable_reply":
                return Completion("", call.tokens, 0, "unusable_reply")
            pause_s = pause_before(retries, outcome.retry_after_s)
            if outcome.retry_after_s is not None and (outcome.retry or outcome.fatal):
                self._not_before = max(self._not_before, time.monotonic() + pause_s)
            too_late = call.spent_s + pause_s >= self._timeout_s
            if not outcome.retry or retries >= self._max_retries or too_late:
                return outcome
            retries += 1
            await self._pause(call, pause_s)

    async def _attempt(self, resources: LoopResources, call: _Call) -> Completion | FailedCall:
        outcome: Completion | FailedCall | None = None  # cancelled: nobody knows what it took
        try:
            outcome = await self._outcome(resources, call)
            return outcome
        finally:
            self._settle(call, outcome)

    async def _outcome(self, resources: LoopResources, call: _Call) -> Completion | FailedCall:
        try:
            return self._read(await self._exchange(resources, call), call)
        except FailedCall as failure:
            return failure

    def _read(self, reply: Reply, call: _Call) -> Completion | FailedCall:
        if not 200 <= reply.status < 300:
            return refused(reply.status, reply.headers, reply.body)
        if not reply.complete:
            return Completion("", call.tokens, 0, "reply_too_large")
        return read_completion(reply.body, reply.headers, call.tokens)

    def _settle(self, call: _Call, outcome: Completion | FailedCall | None) -> None:
        """Book what a post took: nothing if it was refused, what was expected if nobody knows."""
        took, cached = (0, 0), 0
        if isinstance(outcome, Completion):
            took, cached = (outcome.input_tokens, outcome.output_tokens), outcome.cached_tokens
            self._usual_output += _MEMORY * (outcome.output_tokens - self._usual_output)
        call.usage += Usage(0, *took)
        call.cached_tokens += cached
        reservation, call.reservation = call.reservation, None
        if self._budget is None or reservation is None:
            return
        if outcome is None or (isinstance(outcome, FailedCall) and outcome.error_type == "timeout"):
            took = (call.tokens, 0)
        self._budget.settle(reservation, *took, cached)

    async def _exchange(self, resources: LoopResources, call: _Call) -> Reply:
        """Wait for a slot, and for leave to use it; post, and give the slot back with the reply.

        Raises:
            JudgeError: The circuit is open, or the budget used up.
            FailedCall: The timeout has passed, or the connection broke.
        """
        body = self._form.body(call.plan, call.messages, call.schema)
        while True:
            async with resources.slot() as wire:
                if not call.admitted:
                    self._breaker.admit()
                    call.admitted = True
                pause_s = self._not_before - time.monotonic()
                if pause_s <= 0 and await self._takes_room(call):
                    if not call.posts:
                        self._learned.begin(call.plan)
                    if self._learned.refresh(call.plan):
                        body = self._form.body(call.plan, call.messages, call.schema)
                    return await self._post(wire, body, call)
            # Whatever there is to wait for, the slot is somebody else's meanwhile.
            if pause_s > self._timeout_s - call.spent_s:
                raise FailedCall(
                    "rate_limited", "it asked for a longer pause than the timeout", held_back=True
                )
            if pause_s > 0:
                await self._pause(call, pause_s)
            elif self._budget is not None:
                call.admitted = False
                self._breaker.abandoned()  # until then the circuit may open
                async with resources.waiting_room:
                    await self._budget.until_room(call.tokens, int(self._usual_output))

    async def _takes_room(self, call: _Call) -> bool:
        if self._budget is None or call.reservation is not None:
            return True
        room = await self._budget.obtain(call.tokens, int(self._usual_output))
        if isinstance(room, Reservation):
            call.reservation = room
            return True
        return False

    async def _post(self, wire: Wire, body: Mapping[str, Any], call: _Call) -> Reply:
        left_s = self._timeout_s - call.spent_s
        started = time.monotonic()
        call.posts += 1
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

    def _steps_down(self, failure: FailedCall, call: _Call) -> bool:
        """Leave out what the endpoint may lack; return whether there was anything to leave out."""
        refusal, plan, learned = failure.refusal, call.plan, self._learned
        if refusal is None or plan.steps >= _MOST_STEPS or call.spent_s >= self._timeout_s:
            return False
        call.refused_with = failure.status
        for options, certain in ((refusal.named, True), (refusal.mentioned, False)):
            for option in options:
                if self._form.sends(plan, option):
                    return learned.step_down(plan, option, failure.status, certain=certain)
        if plan.trial is not None:
            learned.end_trial(plan, refused=True)
            return True
        # Nothing of ours is named. What was changed just now comes first, then what is rarest.
        for option in ("effort", "format") if call.starved is not None else ("format",):
            if self._form.sends(plan, option):
                return learned.step_down(plan, option, failure.status, certain=False)
        return False

    def _thinks_less(self, outcome: Completion, call: _Call) -> bool:
        """Ask for less thinking where that left no room for the reply; return whether that is new."""
        starved = outcome.error_type == "reply_cut_off" and not outcome.text.strip()
        if not starved or not self._form.may_lower_effort(call.plan):
            return False
        if call.plan.steps >= _MOST_STEPS or call.spent_s >= self._timeout_s:
            return False
        call.starved = outcome
        call.plan.levels["effort"] += 1
        call.plan.steps += 1
        return True

    def _learn(self, outcome: Completion, call: _Call) -> None:
        plan = call.plan
        if plan.trial is not None and outcome.error_type is not None:
            self._learned.end_trial(plan, refused=False)
            return
        if call.starved is not None and outcome.error_type is None:
            self._learned.keep(plan, "effort")
        self._learned.answered(plan, call.refused_with)
        self.tells_usage = outcome.stated_input is not None
        self.tells_cached_tokens = outcome.tells_cached
        cap = self._form.max_output_tokens
        named = self._form.sends(plan, "cap") and plan.has("cap", "max_completion_tokens")
        if cap is not None and named and outcome.output_tokens > cap:
            # The name is unknown there, and ignored: no cap at all.
            self._learned.step_down(plan, "cap", None, certain=True)

    def _checked(self, outcome: Completion, call: _Call) -> Completion:
        cut = self._cut_prompts.notice(call.tokens, outcome.stated_input)
        if cut and outcome.error_type is None:
            return replace(outcome, error_type="prompt_cut")
        return outcome
