"""The body of a chat completion request, as one call's plan has it.

The endpoint calls it before each post.  Which levels there are stands in `learning`; what they look
like on the wire, here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._learning import Plan

__all__ = ["RequestForm"]

_FIXED_BY = {
    "response_format": "format",
    "temperature": "temperature",
    "max_completion_tokens": "cap",
    "max_tokens": "cap",
    "reasoning_effort": "effort",
}
"""Fields of the body, and the option that whoever sets them has decided about."""


@dataclass(frozen=True)
class RequestForm:
    """What is the same in every request of one judge."""

    model: str
    """The model's name (Azure: the deployment's)."""
    temperature: float | None
    """Sent unless None."""
    max_output_tokens: int | None
    """Cap on what the judge may write; None: the endpoint's."""
    extra_body: Mapping[str, Any]
    """Merged last."""

    def sends(self, plan: Plan, option: str) -> bool:
        """Return whether a request of `plan` has something of ours that `option` is about."""
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

    def may_lower_effort(self, plan: Plan) -> bool:
        """Return whether the endpoint was not yet asked to think less."""
        return "reasoning_effort" not in self.extra_body and plan.has("effort", "unset")

    def body(
        self, plan: Plan, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
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


def _messages(plan: Plan, messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    if plan.has("system", "system role"):
        return list(messages)
    return [{"role": "user", "content": "\n\n".join(message["content"] for message in messages)}]
