"""Learns which options an endpoint lacks, builds requests without them, and retries them later.

Each option of a request has a ladder of levels, from the preferred one to one that every endpoint supports.
The endpoint gets a plan before a call, writes the body accordingly, steps it down when it is refused, and
reports the outcome. An option that the server names counts as missing at once; an option refused without its
name counts as missing once two calls in a row failed above and passed below, so that a temporary failure has
no effect. Nothing is permanent, because servers are upgraded under running processes: after ten minutes, then
after twice as long each time, one call is sent one level higher. Nothing is sent here.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragmeter.metrics._process import fork

logger = logging.getLogger("ragmeter.judge")

_LADDERS: Mapping[str, tuple[str, ...]] = {
    "format": ("json_schema", "json_object", "text"),
    "temperature": ("sent", "omitted"),
    "cap": ("max_completion_tokens", "max_tokens", "omitted"),
    "effort": ("unset", "none", "low", "omitted"),
    "system": ("system role", "within the user message"),
}
"""The levels of each option, best first."""

_FIRST_WAIT_S = 600.0
_LONGEST_WAIT_S = 6 * 3600.0
_LOWEST_TO_RETURN_TO = {"effort": 1}
"""Effort is lowered because thinking left no tokens for the reply: omitting the effort is no fallback."""
_ENOUGH = 2
"""Consecutive calls that failed above and passed below, before a silent refusal counts."""

_FIXED_BY = {
    "response_format": "format",
    "temperature": "temperature",
    "max_completion_tokens": "cap",
    "max_tokens": "cap",
    "reasoning_effort": "effort",
}
"""Fields of the body, and the option that is fixed by setting them in ``extra_body``."""
_UNKNOWN = "not tried"


@dataclass(slots=True)
class RequestPlan:
    """The options of one call, and the reasons for them."""

    levels: dict[str, int]
    """Level by option."""
    begun: float
    """Time of the first attempt; monotonic seconds."""
    trial: str | None = None
    """The option that is tried one level above the learned one."""
    guessed: set[str] = field(default_factory=set)
    """Options stepped down by a guess."""
    steps: int = 0
    """Step-downs so far."""

    def has(self, option: str, level: str) -> bool:
        """Return whether `option` is at `level`."""
        return _LADDERS[option][self.levels[option]] == level


@dataclass(frozen=True)
class RequestForm:
    """The constant parts of every request of one judge."""

    model: str
    """The model's name (Azure: the deployment's)."""
    temperature: float | None
    """Sent unless None."""
    max_output_tokens: int | None
    """Cap on the reply's tokens; None: the endpoint's."""
    extra_body: Mapping[str, Any]
    """Merged last."""

    def sends(self, plan: RequestPlan, option: str) -> bool:
        """Return whether a request of `plan` sends a field controlled by `option`."""
        if any(_FIXED_BY.get(name) == option for name in self.extra_body):
            return False
        if option == "temperature":
            return self.temperature is not None and plan.has(option, "sent")
        if option == "cap":
            return self.max_output_tokens is not None and not plan.has(option, "omitted")
        if option == "effort":
            return plan.has(option, "none") or plan.has(option, "low")
        if option == "system":
            return plan.has(option, "system role")
        return not plan.has("format", "text")

    def may_lower_effort(self, plan: RequestPlan) -> bool:
        """Return whether the reasoning effort can still be lowered."""
        return "reasoning_effort" not in self.extra_body and plan.has("effort", "unset")

    def body(
        self, plan: RequestPlan, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the body of the request."""
        if not plan.has("system", "system role"):
            messages = [{"role": "user", "content": "\n\n".join(one["content"] for one in messages)}]
        body: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if self.sends(plan, "temperature"):
            body["temperature"] = self.temperature
        if self.sends(plan, "cap"):
            name = "max_tokens" if plan.has("cap", "max_tokens") else "max_completion_tokens"
            body[name] = self.max_output_tokens
        if self.sends(plan, "effort"):
            body["reasoning_effort"] = "none" if plan.has("effort", "none") else "low"
        if plan.has("format", "json_schema"):
            wanted = {"name": "verdicts", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif plan.has("format", "json_object"):
            body["response_format"] = {"type": "json_object"}
        body.update(self.extra_body)
        return body


@dataclass(slots=True)
class _OptionState:
    """What is known of one option."""

    level: int = 0
    status: int | None = None
    """Of the refusal of a better level."""
    due: float = math.inf
    """When to try a better level; monotonic seconds."""
    wait_s: float = _FIRST_WAIT_S
    failures: int = 0
    """Consecutive calls that failed above and passed below."""
    failed_at: float = 0.0
    """End of the last one that counted."""
    passed: set[int] = field(default_factory=set)
    """Levels with which a call was answered."""


class Capabilities:
    """Levels of one endpoint, shared by all its calls; `name` is for the log. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._clock = time.monotonic
        self._lock = fork.reentrant_lock()
        self._learned = {option: _OptionState() for option in _LADDERS}
        self._on_trial = False
        self.states_usage: bool | None = None
        """Whether the endpoint reports token counts; None: unknown."""
        self.states_cached_tokens: bool | None = None
        """Whether it reports tokens read from its cache; None: unknown."""
        fork.forget(self._end_trial)

    def level(self, option: str) -> str:
        """Return the current level of `option`."""
        return _LADDERS[option][self._learned[option].level]

    def facts(self, form: RequestForm) -> dict[str, str]:
        """Return the learned facts about the endpoint in words; see `OpenAIJudge.learned`."""
        cap, effort = self.level("cap"), self.level("effort")
        named = min(self._learned["cap"].level, 1)
        stated = {None: _UNKNOWN, True: "yes", False: "no"}
        return {
            **{_LADDERS["format"][level]: self._fact("format", level) for level in (0, 1)},
            "temperature": "not sent" if form.temperature is None else self._fact("temperature"),
            "cap": "not sent" if form.max_output_tokens is None else self._fact("cap", named, f"as {cap}"),
            "effort": {"unset": "not sent", "omitted": self._fact("effort")}.get(effort, effort),
            "system role": self._fact("system"),
            "usage": stated[self.states_usage],
            "cached_tokens": stated[self.states_cached_tokens],
        }

    def _fact(self, option: str, level: int = 0, word: str = "yes") -> str:
        known = self._learned[option]
        if level < known.level:
            return "no" if known.status is None else f"no ({known.status})"
        return word if level in known.passed else _UNKNOWN

    def plan(self) -> RequestPlan:
        """Return the parameters of the next call: known ones, or a trial one level higher."""
        now = self._clock()
        with self._lock:
            plan = RequestPlan({option: known.level for option, known in self._learned.items()}, now)
            due = [option for option, known in self._learned.items() if known.due <= now]
            if due and not self._on_trial:
                self._on_trial = True
                plan.trial = due[0]
                plan.levels[due[0]] -= 1
        return plan

    def begin(self, plan: RequestPlan) -> None:
        """Record that `plan` is sent for the first time now: it may have waited for a slot."""
        plan.begun = self._clock()

    def refresh(self, plan: RequestPlan) -> bool:
        """Apply what other calls learned while this one waited; return whether anything changed."""
        before = dict(plan.levels)
        with self._lock:
            for option, known in self._learned.items():
                if option != plan.trial:
                    plan.levels[option] = max(plan.levels[option], known.level)
        return before != plan.levels

    def step_down(self, plan: RequestPlan, option: str, status: int | None, *, certain: bool) -> bool:
        """Send `option`, refused with `status`, one level lower; return whether there was one.

        It is stored if it is `certain` that the endpoint lacks it, as it named it.
        """
        level = plan.levels[option]
        if level + 1 >= len(_LADDERS[option]):
            return False
        if plan.trial == option:
            self.end_trial(plan, refused=True)
            return True
        plan.levels[option] = level + 1
        plan.steps += 1
        if certain:
            self._lower(option, level + 1, status)
        else:
            plan.guessed.add(option)
        return True

    def answered(self, plan: RequestPlan, status: int | None = None) -> None:
        """Learn from a call that was answered according to `plan`; its guesses were refused with `status`."""
        now = self._clock()
        with self._lock:
            for option, level in plan.levels.items():
                known = self._learned[option]
                known.passed.add(level)
                if option in plan.guessed:
                    if not known.failures or plan.begun >= known.failed_at:
                        known.failures += 1
                        known.failed_at = now
                        if known.failures >= _ENOUGH:
                            self._lower(option, level, status)
                elif level <= known.level:
                    known.failures = 0
                    if _LOWEST_TO_RETURN_TO.get(option, 0) <= level < known.level:
                        self._move(option, level, known.status)
                        logger.info("the judge %s takes %s %r again", self._name, option, self.level(option))
            if plan.trial is not None:
                self._on_trial = False
                plan.trial = None

    def keep(self, plan: RequestPlan, option: str) -> None:
        """Store the level of `option` in `plan`, lowered on our own initiative."""
        self._lower(option, plan.levels[option], None)

    def end_trial(self, plan: RequestPlan, *, refused: bool) -> None:
        """Return to the learned level; a `refused` level is tried again after twice the time."""
        if plan.trial is None:
            return
        with self._lock:
            known = self._learned[plan.trial]
            plan.levels[plan.trial] = known.level
            plan.trial = None
            self._on_trial = False
            if known.due < math.inf:
                if refused:
                    known.wait_s = min(known.wait_s * 2, _LONGEST_WAIT_S)
                known.due = self._clock() + known.wait_s

    def _end_trial(self) -> None:
        # In a forked child: a trial in progress belongs to the parent.
        self._on_trial = False

    def _lower(self, option: str, level: int, status: int | None) -> None:
        with self._lock:
            better = self.level(option)
            if level <= self._learned[option].level:
                return
            self._move(option, level, status)
        now = _LADDERS[option][level]
        logger.info("the judge %s does not take %s %r; using %r", self._name, option, better, now)
        if (option, now) == ("cap", "omitted"):
            logger.warning(
                "the judge %s takes no limit on the length of its replies: max_output_tokens is not "
                "sent, and a reply may be as long as the model likes",
                self._name,
            )

    def _move(self, option: str, level: int, status: int | None) -> None:
        known = self._learned[option]
        known.level, known.status, known.failures, known.wait_s = level, status, 0, _FIRST_WAIT_S
        is_lowered = level > _LOWEST_TO_RETURN_TO.get(option, 0)
        known.due = self._clock() + _FIRST_WAIT_S if is_lowered else math.inf
