"""What an endpoint was found to take and to tell, in words.

`OpenAIJudge.learned` and ``ragmeter doctor`` show it.
"""

from __future__ import annotations

from ._learning import Learned
from ._requests import RequestForm
from .endpoint import Endpoint

__all__ = ["facts"]

_UNKNOWN = "not tried"


def facts(learned: Learned, form: RequestForm, endpoint: Endpoint) -> dict[str, str]:
    """Return what is known by now."""
    found: dict[str, str] = {}
    ladder = ("json_schema", "json_object", "text")
    now = ladder.index(learned.level("format"))
    for place, level in enumerate(ladder[:2]):
        found[level] = (
            _no(learned, "format") if place < now else _yes(learned.passed("format", level))
        )
    if form.temperature is None:
        found["temperature"] = "not sent"
    elif learned.level("temperature") == "omitted":
        found["temperature"] = _no(learned, "temperature")
    else:
        found["temperature"] = _yes(learned.passed("temperature", "sent"))
    cap = learned.level("cap")
    if form.max_output_tokens is None:
        found["cap"] = "not sent"
    elif cap == "omitted":
        found["cap"] = _no(learned, "cap")
    else:
        found["cap"] = f"as {cap}" if learned.passed("cap", cap) else _UNKNOWN
    effort = learned.level("effort")
    found["effort"] = {"unset": "not sent", "omitted": _no(learned, "effort")}.get(effort, effort)
    if learned.level("system") == "system role":
        found["system role"] = _yes(learned.passed("system", "system role"))
    else:
        found["system role"] = _no(learned, "system")
    for name, told in (
        ("usage", endpoint.tells_usage),
        ("cached_tokens", endpoint.tells_cached_tokens),
    ):
        found[name] = _UNKNOWN if told is None else "yes" if told else "no"
    return found


def _yes(passed: bool) -> str:
    return "yes" if passed else _UNKNOWN


def _no(learned: Learned, option: str) -> str:
    status = learned.status_of(option)
    return "no" if status is None else f"no ({status})"
