"""Reads a chat completion: the reply's text, or why there is none, and its token use.

The endpoint calls it with the body of a successful status, which may still contain a gateway's error.
`replies` reads the text itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragmeter.metrics._connection.failures import FailedCall, failed_reply
from ragmeter.metrics._connection.sent_text import estimate_tokens

from ._stated_failures import has_failed, is_failure
from .replies import after_thinking

_REFUSED_FINISHES = frozenset({
    "content_filter", "content_filtered", "sensitive", "blacklist", "safety", "refusal",
    "prohibited_content", "blocklist", "recitation", "spii", "guardrail_intervened",
})  # fmt: skip
_CUT_FINISHES = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_NOT_FINISHED = frozenset({"tool_calls", "function_call", "tool_use"})
_FINISHED = _NOT_FINISHED | {
    "", "stop", "stopped", "stop_sequence", "stop_sequences", "stop_token", "stop_word", "stop_string",
    "eos", "eos_token", "eos_found", "eot", "end", "end_turn", "end_of_turn", "end_of_text", "endoftext",
    "complete", "completed", "finish", "finished", "done", "success", "normal",
}  # fmt: skip
"""Reasons of a reply's end that are known to mean a complete reply."""
_TEXT_PARTS = frozenset({"text", "output_text", None})
_MOST_TOKENS = 100_000_000
"""No reply has more tokens: a larger number is invalid."""
_UNSTATED_STATUS = 502


@dataclass(frozen=True, slots=True)
class Completion:
    """The reply of an endpoint."""

    text: str
    """The text of the reply; empty without one, even if there are thoughts."""
    input_tokens: int
    """Prompt tokens, of all posts."""
    output_tokens: int
    """Completion tokens, of all posts."""
    error_type: str | None = None
    """Why the reply is no answer although the call succeeded, e.g. ``refusal``."""
    cached_tokens: int = 0
    """Prompt tokens that the endpoint read from its own cache."""
    calls: int = 1
    """Number of posts made for it."""
    stated_input: int | None = None
    """Prompt tokens by the endpoint's count; None: not reported."""
    states_cached: bool = False
    """Whether the endpoint reports tokens read from its cache."""


def read_completion(
    received: bytes, headers: Mapping[str, str], estimated_input: int
) -> Completion | FailedCall:
    """Return the completion in a body; anything else is an unusable reply, or the error in it.

    The estimated prompt tokens count if the endpoint reports none.
    """
    unusable = Completion("", estimated_input, len(received) // 4, "unusable_reply")
    try:
        reply = json.loads(received)
    except (ValueError, RecursionError):
        return unusable
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = _object(choices[0] if isinstance(choices, list) and choices else None)
    message = _object(choice.get("message"))
    said, declined = _content(message.get("content"))
    finish = choice.get("finish_reason")
    finish = finish.casefold() if isinstance(finish, str) else ""
    if _is_error(reply):
        return _inner_error(reply, headers)
    if is_failure(choice) or is_failure(message) or has_failed(finish):
        failed = message if is_failure(message) and not is_failure(choice) else choice
        return _inner_error(failed, headers)
    if not message:
        return unusable
    error_type = None
    if finish in _REFUSED_FINISHES or declined or message.get("refusal"):
        error_type = "refusal"
    elif finish in _CUT_FINISHES:
        error_type = "reply_cut_off"
        said = after_thinking(said) and said
    elif finish not in _FINISHED:
        said, error_type = "", "unusable_reply"
    elif not said.strip():
        said = "" if finish in _NOT_FINISHED else _misplaced_reply(message)
        error_type = None if said else "unusable_reply"
    return _with_usage(_object(reply.get("usage")), said, error_type, estimated_input)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _content(content: Any) -> tuple[str, bool]:
    """Return the text of a message's content, and whether a part of it is a refusal."""
    parts = content if isinstance(content, list) else [content] if isinstance(content, str) else []
    objects = [{"text": part} if isinstance(part, str) else _object(part) for part in parts]
    texts = [part.get("text") for part in objects if part.get("type") in _TEXT_PARTS]
    said = "".join(text for text in texts if isinstance(text, str))
    return said, any(part.get("type") == "refusal" for part in objects)


def _misplaced_reply(message: Mapping[str, Any]) -> str:
    """Return a reply in the field for thoughts, where some servers put it if a grammar forbids thoughts.

    It is one object and nothing else; thoughts may begin with a draft of one.
    """
    fields = [message.get(name) for name in ("reasoning_content", "reasoning")]
    thoughts = {field.strip() for field in fields if isinstance(field, str)} - {""}
    try:
        [only] = thoughts
        return only if isinstance(json.loads(only), dict) else ""
    except (ValueError, RecursionError):
        return ""


def _is_error(reply: Any) -> bool:
    if isinstance(reply, list):
        return bool(reply) and _is_error(reply[0])
    return isinstance(reply, dict) and is_failure(reply)


def _inner_error(said: Any, headers: Mapping[str, str]) -> FailedCall:
    if isinstance(said, dict):
        said = said.get("error") or said.get("errors") or said
    status = _status_in(said)
    body = json.dumps({"error": said}).encode("utf-8", "replace")
    return failed_reply(status or _UNSTATED_STATUS, headers, body, stated=status is not None)


def _status_in(said: Any) -> int | None:
    """Return the status that an error states about itself."""
    if isinstance(said, list):
        return _status_in(said[0]) if said else None
    if not isinstance(said, dict):
        return None
    for name in ("code", "status", "status_code"):
        value = said.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
            return value
    return _status_in(said.get("error"))


def _with_usage(usage: dict[str, Any], text: str, error_type: str | None, estimated_input: int) -> Completion:
    stated = _count(usage.get("prompt_tokens"))
    given = estimated_input if stated is None else stated
    written = _count(usage.get("completion_tokens"))
    if written is None:
        written = estimate_tokens(text)
    thought = _count(_object(usage.get("completion_tokens_details")).get("reasoning_tokens")) or 0
    if thought and _count(usage.get("total_tokens")) == given + written + thought:
        written += thought  # they are beside the others, not among them
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return Completion(
        text,
        given,
        written,
        error_type,
        cached_tokens=min(cached or 0, given),
        stated_input=stated,
        states_cached=cached is not None,
    )


def _count(stated: Any) -> int | None:
    if isinstance(stated, float) and stated.is_integer():
        stated = int(stated)
    if isinstance(stated, int) and not isinstance(stated, bool) and 0 <= stated <= _MOST_TOKENS:
        return stated
    return None
