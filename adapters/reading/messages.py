"""The messages in a value, by their shape, and whether the last one is a refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragmeter.requests.refusals import is_refusal_reason, refusal_of, refusal_part

from .fields import FIELD_NAMES, ROLES
from .values import MAX_DEPTH, constructor_arguments, opened

_REPEATED = frozenset(
    """tool tool_call tool-call tool_call_response tool-result tool_result thinking reasoning""".split()
)
_CONVERSATIONS = FIELD_NAMES["conversation"]
_INSTRUCTIONS = ("system", "instructions", "system_instruction", "systemInstruction", "system_prompt")
_ASKED_BESIDE = ("input", "prompt", "query", "question")
_RESULTS = ("toolResult", "tool_call_result", "function_response", "functionResponse")


def messages_in(value: Any, depth: int = 0) -> list[tuple[str, str]]:
    """Return role (``user``, ``assistant``, ``system``, ``tool``) and text of each message in a value."""
    found = opened(value)
    if depth > MAX_DEPTH:
        return []
    if isinstance(found, dict):
        message = message_in(found)
        if message is not None:
            return [message]
        sent = next(
            (inner for key in _CONVERSATIONS if key in found and (inner := messages_in(found[key], depth + 1))),
            [],
        )
        instructions = _instructions_in(found)
        if instructions and (not sent or sent[-1][0] != "user"):
            asked = (found.get(key) for key in _ASKED_BESIDE)
            sent += [("user", text) for text in asked if isinstance(text, str) and text][:1]
        return [one for one in instructions if one not in sent] + sent if sent else []
    if isinstance(found, (list, tuple)):
        if len(found) == 2 and all(isinstance(item, str) for item in found) and found[0] in ROLES:
            return [(ROLES[found[0]], found[1])]
        return [message for item in found for message in messages_in(item, depth + 1)]
    return []


def _instructions_in(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the system message that a call has beside its messages, as Anthropic's and Google's calls do."""
    config = fields.get("config")
    values = [home.get(key) for home in (fields, config) if isinstance(home, dict) for key in _INSTRUCTIONS]
    parts = (
        {"role": "system", "content": one} if not isinstance(one, dict) else {**one, "role": "system"}
        for one in values
        if one
    )
    return [found for part in parts if (found := message_in(part)) is not None and found[1]][:1]


def message_in(value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return role and text of a mapping that is one message; None of any other."""
    inner = constructor_arguments(value)
    named = inner.get("role")
    if named is None and value is not inner and isinstance(value.get("id"), list):
        named = str(value["id"][-1]) if value["id"] else None
    if named is None:
        named = inner.get("type")
        if isinstance(inner.get("data"), dict):
            inner = inner["data"]
    if not isinstance(named, str) or (named not in ROLES and "role" not in inner):
        return None
    if not any(key in inner for key in ("content", "parts", "text", "blocks", "tool_calls")):
        return None
    content = next((inner[key] for key in ("content", "parts", "blocks", "text") if inner.get(key)), None)
    if ROLES.get(named) == "tool" and _are_records(content):
        return "tool", json.dumps(content, ensure_ascii=False, default=str)
    text = text_of(content) or refusal_of(inner)
    results = "" if text else "\n\n".join(_results_in(content))
    return ("tool", results) if results else (ROLES.get(named, named), text or "")


def _results_in(content: Any) -> Iterator[str]:
    """Yield the results of tools among the parts of a message."""
    for part in content if isinstance(content, (list, tuple)) else [content]:
        if not isinstance(part, dict):
            continue
        if part.get("type") in _REPEATED:
            names: Sequence[str] = ("response", "result", "output", "content")
            value = next((part[name] for name in names if part.get(name) is not None), None)
        else:
            inner: Mapping[str, Any] = next(
                (part[name] for name in _RESULTS if isinstance(part.get(name), dict)), {}
            )
            value = next((inner[name] for name in ("response", "result", "content") if name in inner), None)
        if isinstance(value, dict) and set(value) == {"type", "value"}:
            value = value["value"]
        is_apart = part.get("type") in _REPEATED and _are_records(value)
        text = value if isinstance(value, str) else "" if is_apart else text_of(value)
        if text or value:
            yield text or json.dumps(value, ensure_ascii=False, default=str)


def _are_records(value: Any) -> bool:
    """Return whether a result is a list of records: several, or with more than a text, and no content parts."""
    return isinstance(value, list) and any(
        isinstance(part, dict) and not {"type", "json"} & part.keys() and len(part) + len(value) > 2
        for part in value
    )


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or the text among its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, (list, tuple)):
        return ""
    texts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and (shown := _shown_document(part)) is not None:
            texts.append(shown)
        elif isinstance(part, dict) and part.get("type") not in (*_REPEATED, "blob"):
            text = part.get("text", part.get("content", part.get("value", refusal_part(part))))
            if text is None and "json" in part:
                text = json.dumps(part["json"], ensure_ascii=False, default=str)
            if isinstance(text, dict):
                text = text.get("value", text.get("text"))
            if isinstance(text, str):
                texts.append(text)
    return "\n".join(texts)


_DOCUMENT_PARTS = ("document", "search_result", "searchResult")


def _shown_document(part: Mapping[str, Any]) -> str | None:
    """Return a document among the parts of a message, as an element with its name; None for other parts."""
    kind = next((name for name in _DOCUMENT_PARTS if name in (*part, part.get("type"))), None)
    fields = part if kind is None else part.get(kind, part)
    if kind is None or not isinstance(fields, dict):
        return None
    source = fields.get("source")
    inner = source if isinstance(source, dict) else fields
    text = next((found for key in ("data", "text", "content") if (found := text_of(inner.get(key)))), "")
    name = next((fields[key] for key in ("title", "name") if fields.get(key)), source)
    return f'<document source="{name if isinstance(name, str) else ""}">{text}</document>' if text else None


_REASON = re.compile(r"(?:.*[._])?(?:finish|stop)_?reasons?", re.IGNORECASE)
_REFUSING = ("refus", "filter", "safety", "prohibited", "blocklist", "guardrail", "spii", "toxic")
_REPLIES = ("messages", "choices", "generations", "replies", "message", "output", "data")


def refuses(attributes: Mapping[str, Any], key: str) -> bool:
    """Return whether a span reports that the model refused, or that its reply was filtered.

    Of a conversation under `key`, the last message counts.
    """
    for name, value in attributes.items():
        if name.endswith("message_content.type"):
            if value == "refusal":
                return True
        elif name.endswith(".refusal"):
            if isinstance(value, str) and value:
                return True
        elif name.lower().endswith(("reason", "reasons")) and _REASON.fullmatch(name):
            reasons = opened(value)
            if any(map(is_refusal_reason, reasons if isinstance(reasons, (list, tuple)) else [reasons])):
                return True
    return any(
        isinstance(value := attributes.get(name), str)
        # A search for one word after the other is many times faster than one pattern of them all.
        and any(map(value.lower().__contains__, _REFUSING))
        and _holds_refusal(opened(value), 0)
        for name in {key, "gen_ai.output.messages"}
    )


def _holds_refusal(value: Any, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, (list, tuple)):
        return bool(value) and _holds_refusal(value[-1], depth + 1)
    if not isinstance(value, dict):
        return False
    fields = constructor_arguments(value)
    parts = {"content": fields.get("parts")}
    if refusal_of(fields) is not None or refusal_of(parts) is not None:
        return True
    if message_in(value) is not None:
        return False
    return any(_holds_refusal(opened(fields.get(name)), depth + 1) for name in _REPLIES)


def last_of(messages: Sequence[tuple[str, str]], role: str) -> str | None:
    """Return the text of the last non-empty message of a role."""
    return next((text for named, text in reversed(messages) if named == role and text.strip()), None)
