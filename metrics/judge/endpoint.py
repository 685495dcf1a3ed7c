"""One OpenAI-compatible endpoint: send messages, get text, or a `JudgeError` with the reason.

`Batching` calls it. It retries temporary failures, gives up at once on others, steps down options that the
endpoint lacks and tries them again later, and keeps the endpoint's messages out of errors and logs: they may
repeat a key or a text. A call holds one of the loop's slots while it is on the wire, never while it is built,
read, or waits.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

from ragmeter.metrics._connection.failures import FailedCall, failed_reply
from ragmeter.metrics._connection.sent_text import estimate_tokens
from ragmeter.metrics._connection.wires import EndpointReply
from ragmeter.metrics._process.retry import pause_before

from ._capabilities import Capabilities, RequestForm, RequestPlan
from ._completions import Completion, read_completion
from ._cut_prompts import CutPrompts
from ._loop_resources import LoopResources
from .breaker import CircuitBreaker
from .budget import JudgeBudget, Reservation
from .counting import JudgeRecord
from .protocol import JudgeCall, JudgeError, Usage

_MOST_REPLY_BYTES = 4 * 2**20
_LONGEST_PAUSE_S = 20.0
"""Longest pause between two attempts, unless the endpoint asks for more."""
_MOST_STEPS = 6
_FIRST_OUTPUT = 100
"""Expected completion tokens of a call before any were observed."""
_MEMORY = 0.1
"""Weight of the newest reply in the usual length."""
_ALIVE = frozenset({"bad_request", "request_too_large", "unusable_reply"})
"""Failures specific to one request: the next one may pass."""


@dataclass(slots=True)
class _EndpointCall:
    """One call with all its attempts."""

    messages: list[dict[str, str]]
    schema: dict[str, Any]
    tokens: int
    """Prompt tokens, estimated."""
    plan: RequestPlan
    spent_s: float = 0.0
    """Seconds on the wire and in pauses; waiting for a slot or for the budget does not count."""
    admitted: bool = False
    """Whether the breaker admitted it and waits for its outcome."""
    reservation: Reservation | None = None
    posts: int = 0
    retries: int = 0
    """Attempts that failed and were followed by a pause, without step-downs."""
    usage: Usage = field(default_factory=Usage)
    cached_tokens: int = 0
    starved: Completion | None = None
    """The reply that had no room because of thinking."""
    refused_with: int | None = None
    """The status of the last refused option."""


class ChatEndpoint:
    """Sends chat completions. Safe on several event loops.

    Its name in the log is the judge's model and host; `OpenAIJudge` describes the other arguments.
    """

    def __init__(
        self,
        form: RequestForm,
        name: str,
        *,
        timeout_s: float,
        max_retries: int,
        budget: JudgeBudget | None,
        record: JudgeRecord,
    ) -> None:
        self._form = form
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._budget = budget
        self.breaker = CircuitBreaker(name)
        """Refuses calls to an endpoint that is down."""
        self.learned = Capabilities(name)
        """The known capabilities of the endpoint."""
        self._cut_prompts = CutPrompts(name)
        self._record = record
        self._usual_output = float(min(form.max_output_tokens or _FIRST_OUTPUT, _FIRST_OUTPUT))
        self._not_before = 0.0
        self._answered = False
        self.last_words = ""
        """Message of the last failed call, see `FailedCall.words`."""

    async def complete(
        self, here: LoopResources, metric: str, messages: list[dict[str, str]], schema: dict[str, Any]
    ) -> Completion:
        """Send `messages` and return the reply; retry and step options down as necessary.

        Raises:
            JudgeError: No reply: budget, open circuit, timeout, or the last attempt's failure.
        """
        tokens = estimate_tokens("".join(message["content"] for message in messages))
        call = _EndpointCall(messages, schema, tokens, self.learned.plan())
        outcome: Completion | JudgeError
        try:
            while True:
                attempted = await self._attempt(here, call)
                following = self._next_step(attempted, call)
                if isinstance(following, (Completion, FailedCall)):
                    break
                if following:
                    await asyncio.sleep(following)
                    call.spent_s += following
            outcome = self._conclude(following, call)
        except JudgeError as error:  # no room, or open circuit
            outcome = error
        finally:
            if call.admitted:
                self.breaker.record_abandonment()
            self.learned.end_trial(call.plan, refused=False)
        if isinstance(outcome, JudgeError):
            outcome = outcome.costing(replace(call.usage, calls=call.posts))
        if call.posts:
            self._report(metric, call, outcome)
        if isinstance(outcome, JudgeError):
            raise outcome
        return outcome

    async def _attempt(self, here: LoopResources, call: _EndpointCall) -> Completion | FailedCall:
        """Acquire a slot and permission, post, release the slot, and read the reply.

        Raises:
            JudgeError: The circuit is open, or the budget exhausted.
        """
        outcome: Completion | FailedCall | None = None  # cancelled: its use is unknown
        body = self._form.body(call.plan, call.messages, call.schema)
        try:
            while True:
                async with here.slot() as wire:
                    if not call.admitted:
                        self.breaker.admit()
                        call.admitted = True
                    pause_s = self._not_before - time.monotonic()
                    if pause_s <= 0 and await self._takes_room(call):
                        if not call.posts:
                            self.learned.begin(call.plan)
                        if self.learned.refresh(call.plan):
                            body = self._form.body(call.plan, call.messages, call.schema)
                        call.posts += 1
                        started, left_s = time.monotonic(), self._timeout_s - call.spent_s
                        try:
                            reply = await asyncio.wait_for(wire.post(body, _MOST_REPLY_BYTES), left_s)
                        except (TimeoutError, asyncio.TimeoutError):
                            raise self._too_late() from None
                        finally:
                            call.spent_s += time.monotonic() - started
                        break
                await self._wait(here, call, pause_s)  # without a slot: others use it meanwhile
            outcome = self._read(reply, call)
        except FailedCall as failure:
            outcome = failure
            return failure
        else:
            return outcome
        finally:
            self._settle(call, outcome)

    async def _takes_room(self, call: _EndpointCall) -> bool:
        if self._budget is None or call.reservation is not None:
            return True
        room = await self._budget.obtain(call.tokens, int(self._usual_output))
        if isinstance(room, Reservation):
            call.reservation = room
            return True
        return False

    async def _wait(self, here: LoopResources, call: _EndpointCall, pause_s: float) -> None:
        """Wait for the pause that the endpoint requested of all calls, or until the budget seems to have room.

        Raises:
            FailedCall: The timeout would pass, or has passed.
        """
        left_s = self._timeout_s - call.spent_s
        if pause_s > left_s:
            raise FailedCall("rate_limited", "it asked for a longer pause than the timeout", held_back=True)
        if pause_s > 0:
            await asyncio.sleep(pause_s)
            call.spent_s += pause_s
            if pause_s >= left_s:
                raise self._too_late()
        elif self._budget is not None:
            call.admitted = False
            self.breaker.record_abandonment()  # the circuit may open meanwhile
            async with here.waiting_room:
                await self._budget.until_room(call.tokens, int(self._usual_output))

    def _too_late(self) -> FailedCall:
        return FailedCall("timeout", f"it did not answer within {self._timeout_s:g} s")

    def _read(self, reply: EndpointReply, call: _EndpointCall) -> Completion | FailedCall:
        if not 200 <= reply.status < 300:
            return failed_reply(reply.status, reply.headers, reply.body)
        if not reply.complete:
            return Completion("", call.tokens, 0, "reply_too_large")
        return read_completion(reply.body, reply.headers, call.tokens)

    def _settle(self, call: _EndpointCall, outcome: Completion | FailedCall | None) -> None:
        """Book a post's use: none if it was refused, the estimate if it is unknown."""
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

    def _next_step(
        self, outcome: Completion | FailedCall, call: _EndpointCall
    ) -> Completion | FailedCall | float:
        """Return the seconds until the next attempt, or the final result of the call."""
        if isinstance(outcome, Completion):
            if self._thinks_less(outcome, call):
                return 0.0
            self._learn(outcome, call)
            cut = self._cut_prompts.notice(call.tokens, outcome.stated_input)
            if cut and outcome.error_type is None:
                return replace(outcome, error_type="prompt_cut")
            return outcome
        if self._steps_down(outcome, call):
            if call.starved is not None and call.plan.has("effort", "omitted"):
                return call.starved  # the same request would leave no room again
            return 0.0
        self.learned.end_trial(call.plan, refused=False)
        if outcome.error_type == "unusable_reply":
            return Completion("", call.tokens, 0, "unusable_reply")
        pause_s = pause_before(call.retries, outcome.retry_after_s, longest_s=_LONGEST_PAUSE_S)
        if outcome.retry_after_s is not None and (outcome.retry or outcome.fatal):
            self._not_before = max(self._not_before, time.monotonic() + pause_s)
        too_late = call.spent_s + pause_s >= self._timeout_s
        if not outcome.retry or call.retries >= self._max_retries or too_late:
            return outcome
        call.retries += 1
        return pause_s

    def _conclude(self, outcome: Completion | FailedCall, call: _EndpointCall) -> Completion | JudgeError:
        """Report to the breaker; return the reply with the use of all posts, or the error to raise."""
        if isinstance(outcome, Completion):
            call.admitted = False
            self._answered = True
            self.breaker.record_success()
            return replace(
                outcome,
                input_tokens=call.usage.input_tokens,
                output_tokens=call.usage.output_tokens,
                cached_tokens=call.cached_tokens,
                calls=call.posts,
            )
        self.last_words = outcome.words
        # A refusal concerns only that text, and without a post nothing is known of the endpoint.
        if outcome.error_type != "refusal" and not outcome.held_back:
            call.admitted = False
            if outcome.error_type in _ALIVE:
                self.breaker.record_success()
            else:
                # If calls were answered, the key is valid: a 403 concerns this text, or is temporary.
                passes = outcome.error_type == "permission" and self._answered
                self.breaker.record_failure(
                    outcome.error_type, outcome.detail, fatal=outcome.fatal and not passes
                )
        return JudgeError(
            f"asking the judge failed: {outcome.detail}",
            outcome.error_type,
            status="timeout" if outcome.error_type == "timeout" else "judge_error",
        )

    def _report(self, metric: str, call: _EndpointCall, outcome: Completion | JudgeError) -> None:
        took = outcome.usage if isinstance(outcome, JudgeError) else outcome
        self._record.report(
            JudgeCall(
                metric,
                self._form.model,
                call.spent_s,
                took.input_tokens,
                took.output_tokens,
                outcome.error_type,
                calls=took.calls,
                cached_tokens=0 if isinstance(outcome, JudgeError) else outcome.cached_tokens,
            )
        )

    def _steps_down(self, failure: FailedCall, call: _EndpointCall) -> bool:
        """Step down options that the endpoint may lack; return whether there were any."""
        refusal, plan, learned = failure.refusal, call.plan, self.learned
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
        # No option is named. Try the one changed last first, then the rarest.
        for option in ("effort", "format") if call.starved is not None else ("format",):
            if self._form.sends(plan, option):
                return learned.step_down(plan, option, failure.status, certain=False)
        return False

    def _thinks_less(self, outcome: Completion, call: _EndpointCall) -> bool:
        """Lower the reasoning effort if it left no room for the reply; return whether that changed it."""
        starved = outcome.error_type == "reply_cut_off" and not outcome.text.strip()
        if not starved or not self._form.may_lower_effort(call.plan):
            return False
        if call.plan.steps >= _MOST_STEPS or call.spent_s >= self._timeout_s:
            return False
        call.starved = outcome
        call.plan.levels["effort"] += 1
        call.plan.steps += 1
        return True

    def _learn(self, outcome: Completion, call: _EndpointCall) -> None:
        plan = call.plan
        if plan.trial is not None and outcome.error_type is not None:
            self.learned.end_trial(plan, refused=False)
            return
        if call.starved is not None and outcome.error_type is None:
            self.learned.keep(plan, "effort")
        self.learned.answered(plan, call.refused_with)
        self.learned.states_usage = outcome.stated_input is not None
        self.learned.states_cached_tokens = outcome.states_cached
        cap = self._form.max_output_tokens
        named = self._form.sends(plan, "cap") and plan.has("cap", "max_completion_tokens")
        if cap is not None and named and outcome.output_tokens > cap:
            # The name is unknown there, and ignored: without effect.
            self.learned.step_down(plan, "cap", None, certain=True)
