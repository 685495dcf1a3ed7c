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
import time
from collections.abc import Callable, Mapping, Sequence
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
    guessed: dict[str, int] = field(default_factory=dict)
    """Options stepped down by a guess, with the level that failed first."""
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
        body: dict[str, Any] = {"model": self.model, "messages": _messages(plan, messages)}
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


def _messages(plan: RequestPlan, messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    if plan.has("system", "system role"):
        return list(messages)
    return [{"role": "user", "content": "\n\n".join(message["content"] for message in messages)}]


@dataclass(slots=True)
class _Lack:
    """The state of one option that is below its best level."""

    status: int | None
    due: float
    """When to try it again; monotonic seconds."""
    wait_s: float = _FIRST_WAIT_S


@dataclass(slots=True)
class _Suspicion:
    count: int
    since: float
    """End of the last call that counted."""


class Capabilities:
    """Levels of one endpoint, shared by all its calls. Thread-safe.

    Args:
        name: The judge's model and host, for the log.
        clock: Monotonic seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._lock = fork.lock()
        self._levels = dict.fromkeys(_LADDERS, 0)
        self._lacks: dict[str, _Lack] = {}
        self._suspicions: dict[str, _Suspicion] = {}
        self._on_trial = False
        self._passed: set[tuple[str, int]] = set()
        self.states_usage: bool | None = None
        """Whether the endpoint reports token counts; None: unknown."""
        self.states_cached_tokens: bool | None = None
        """Whether it reports tokens read from its cache; None: unknown."""
        fork.forget(self._end_trial)

    def level(self, option: str) -> str:
        """Return the current level of `option`."""
        return _LADDERS[option][self._levels[option]]

    def facts(self, form: RequestForm) -> dict[str, str]:
        """Return the learned facts about the endpoint in words; see `OpenAIJudge.learned`."""
        found: dict[str, str] = {}
        now = self._levels["format"]
        for place, level in enumerate(_LADDERS["format"][:2]):
            found[level] = self._no("format") if place < now else self._yes("format", level)
        if form.temperature is None:
            found["temperature"] = "not sent"
        elif self.level("temperature") == "omitted":
            found["temperature"] = self._no("temperature")
        else:
            found["temperature"] = self._yes("temperature", "sent")
        cap = self.level("cap")
        if form.max_output_tokens is None:
            found["cap"] = "not sent"
        elif cap == "omitted":
            found["cap"] = self._no("cap")
        else:
            found["cap"] = self._yes("cap", cap, f"as {cap}")
        effort = self.level("effort")
        found["effort"] = {"unset": "not sent", "omitted": self._no("effort")}.get(effort, effort)
        system = self.level("system")
        taken = system == "system role"
        found["system role"] = self._yes("system", system) if taken else self._no("system")
        for name, stated in (("usage", self.states_usage), ("cached_tokens", self.states_cached_tokens)):
            found[name] = _UNKNOWN if stated is None else "yes" if stated else "no"
        return found

    def _yes(self, option: str, level: str, word: str = "yes") -> str:
        return word if (option, _LADDERS[option].index(level)) in self._passed else _UNKNOWN

    def _no(self, option: str) -> str:
        lack = self._lacks.get(option)
        return "no" if lack is None or lack.status is None else f"no ({lack.status})"

    def plan(self) -> RequestPlan:
        """Return the parameters of the next call: known ones, or a trial one level higher."""
        now = self._clock()
        with self._lock:
            plan = RequestPlan(dict(self._levels), now)
            if not self._on_trial:
                for option, lack in self._lacks.items():
                    if lack.due <= now:
                        self._on_trial = True
                        plan.trial = option
                        plan.levels[option] -= 1
                        break
        return plan

    def begin(self, plan: RequestPlan) -> None:
        """Record that `plan` is sent for the first time now: it may have waited for a slot."""
        plan.begun = self._clock()

    def refresh(self, plan: RequestPlan) -> bool:
        """Apply what other calls learned while this one waited; return whether anything changed."""
        before = dict(plan.levels)
        with self._lock:
            for option, level in self._levels.items():
                if option != plan.trial:
                    plan.levels[option] = max(plan.levels[option], level)
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
            plan.guessed.setdefault(option, level)
        return True

    def answered(self, plan: RequestPlan, status: int | None = None) -> None:
        """Learn from a call that was answered according to `plan`; its guesses were refused with `status`."""
        now = self._clock()
        lowered: list[tuple[str, int]] = []
        with self._lock:
            for option, level in plan.levels.items():
                self._passed.add((option, level))
                if option in plan.guessed:
                    suspicion = self._suspicions.get(option)
                    if suspicion is None:
                        self._suspicions[option] = _Suspicion(1, now)
                    elif plan.begun >= suspicion.since:
                        suspicion.count += 1
                        suspicion.since = now
                        if suspicion.count >= _ENOUGH:
                            lowered.append((option, level))
                elif level <= self._levels[option]:
                    self._suspicions.pop(option, None)
                lowest = _LOWEST_TO_RETURN_TO.get(option, 0)
                if lowest <= level < self._levels[option] and option not in plan.guessed:
                    self._raise(option, level)
            if plan.trial is not None:
                self._on_trial = False
                plan.trial = None
        for option, level in lowered:
            self._lower(option, level, status)

    def keep(self, plan: RequestPlan, option: str) -> None:
        """Store the level of `option` in `plan`, lowered on our own initiative."""
        self._lower(option, plan.levels[option], None)

    def end_trial(self, plan: RequestPlan, *, refused: bool) -> None:
        """Return to the learned level; a `refused` level is tried again after twice the time."""
        option = plan.trial
        if option is None:
            return
        with self._lock:
            plan.trial = None
            self._on_trial = False
            plan.levels[option] = self._levels[option]
            lack = self._lacks.get(option)
            if lack is not None:
                if refused:
                    lack.wait_s = min(lack.wait_s * 2, _LONGEST_WAIT_S)
                lack.due = self._clock() + lack.wait_s

    def _end_trial(self) -> None:
        # In a forked child: a trial in progress belongs to the parent.
        self._on_trial = False

    def _lower(self, option: str, level: int, status: int | None) -> None:
        with self._lock:
            if level <= self._levels[option]:
                return
            better = _LADDERS[option][self._levels[option]]
            self._levels[option] = level
            self._suspicions.pop(option, None)
            if level > _LOWEST_TO_RETURN_TO.get(option, 0):
                self._lacks[option] = _Lack(status, self._clock() + _FIRST_WAIT_S)
        logger.info(
            "the judge %s does not take %s %r; using %r", self._name, option, better,
            _LADDERS[option][level],
        )  # fmt: skip
        if (option, _LADDERS[option][level]) == ("cap", "omitted"):
            logger.warning(
                "the judge %s takes no limit on the length of its replies: max_output_tokens is not "
                "sent, and a reply may be as long as the model likes",
                self._name,
            )

    def _raise(self, option: str, level: int) -> None:
        self._levels[option] = level
        lack = self._lacks.pop(option, None)
        if level > _LOWEST_TO_RETURN_TO.get(option, 0):
            status = lack.status if lack is not None else None
            self._lacks[option] = _Lack(status, self._clock() + _FIRST_WAIT_S)
        logger.info("the judge %s takes %s %r again", self._name, option, _LADDERS[option][level])
