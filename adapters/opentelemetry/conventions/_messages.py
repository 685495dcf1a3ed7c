"""Input and replies of models in attributes, span events and log records, in old and new forms.

Log records of a span are added to its events (`with_logs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragmeter.adapters.opentelemetry.record import UNREAD, LogNote, SpanNote, SpanRecord
from ragmeter.adapters.reading.messages import last_of, messages_in
from ragmeter.adapters.reading.request_texts import answer_in
from ragmeter.adapters.reading.values import opened

from ._reader import rows_under

_SENT, _SAID = "gen_ai.input.messages", "gen_ai.output.messages"
_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_OLDER: Mapping[str, tuple[str, ...]] = {
    "prompt": ("gen_ai.prompt", "gen_ai.content.prompt", "llm.prompt"),
    "completion": ("gen_ai.completion", "gen_ai.content.completion", "llm.completion"),
}
_LISTS = ("events", "all_messages_events")
_PREFIX = re.compile(r"(system|user|assistant|human|tool): ")
_PRINTED = re.compile(r"(?:\A\[?|, )(System|User|Ai|ToolExecutionResult)Message ?\{")
_PRINTED_END = re.compile(r"\",? (?:thinking|toolExecutionRequests|attributes|isError) = ")
_PRINTED_ROLES = {"System": "system", "User": "user", "Ai": "assistant"}


def holds_content(name: str) -> bool:
    """Return whether an event of this name may contain messages of a model's call, or a document."""
    return name.startswith("gen_ai.") or name.endswith("query.result")


def holds_messages(note: LogNote) -> bool:
    """Return whether a log record contains a model's input or reply."""
    return holds_content(_event_of(note)) or not {_SENT, _SAID}.isdisjoint(_given_in(note))


def _given_in(note: LogNote) -> Mapping[str, Any]:
    body = note.body if isinstance(note.body, dict) else {"content": note.body}
    return {**note.attributes, **{key: item for key, item in body.items() if item is not None}}


def _event_of(note: LogNote) -> str:
    return note.event or str(note.attributes.get("event.name", ""))


def with_logs(spans: Iterable[SpanRecord], logs: Iterable[LogNote]) -> Iterable[SpanRecord]:
    """Return the spans with their log records among their events."""
    notes: dict[str, list[SpanNote]] = {}
    for note in logs:
        if holds_messages(note):
            notes.setdefault(note.span_id, []).append(SpanNote(_event_of(note), _given_in(note)))
    if not notes:
        return spans
    return [
        replace(span, events=(*span.events, *notes[span.span_id]), rows=UNREAD)
        if span.span_id in notes
        else span
        for span in spans
    ]


def sent_in(span: SpanRecord) -> list[tuple[str, str]]:
    """Return role and text of each message sent to a model, by any version of the GenAI conventions."""
    for home in _homes(span):
        found = messages_in(home.get(_SENT))
        if found:
            return [*(("system", text) for text in _instructions(home)), *found]
    found = [message for role, given in _message_events(span) for message in _message(role, given)]
    if found and found[-1][0] == "assistant":
        del found[-1]  # the model's own reply
    return found or _numbered_messages(span, "prompt") or _older(span, "prompt", "user")


def said_in(span: SpanRecord) -> str | None:
    """Return a model's reply, likewise; None if unknown, or if it called tools."""
    for home in _homes(span):
        if _SAID in home:
            said = last_of(messages_in(_first_of_choices(home[_SAID])), "assistant")
            return None if said is None else answer_in(opened(said)) or said
    choices = [
        message
        for name, given in _events(span)
        if name == "gen_ai.choice"
        for message in _message("assistant", given)
    ]
    if not choices:
        *_, (role, given) = [("", {}), *_message_events(span)]
        choices = _message(role, given) if role == "assistant" else []
    found = choices or _numbered_messages(span, "completion") or _older(span, "completion", "assistant")
    return last_of(choices[:1] or found, "assistant")


def _first_of_choices(value: Any) -> Any:
    """Return the output of a call; of alternative completions, the first, which applications read."""
    choices = opened(value)
    are_choices = isinstance(choices, list) and all(
        isinstance(one, dict) and one.get("finish_reason") == "stop" for one in choices
    )
    return choices[:1] if are_choices else choices


def _homes(span: SpanRecord) -> Iterator[Mapping[str, Any]]:
    yield span.attributes
    for event in span.events:
        yield event.attributes


def _events(span: SpanRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for event in span.events:
        yield event.name, event.attributes
    for key in _LISTS:
        messages = opened(span.attributes.get(key))
        for one in messages if isinstance(messages, list) else ():
            if isinstance(one, dict):
                yield str(one.get("event.name", "")), one


def _message_events(span: SpanRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, given in _events(span):
        if (role := _EVENT.fullmatch(name)) is not None:
            yield role[1], given


def _message(role: str, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the message in an event: its content may be in fields, in one JSON value, or within it."""
    inner = opened(given.get("gen_ai.event.content", given))
    for _ in range(2):
        if isinstance(inner, dict) and "message" in inner:
            inner = opened(inner["message"])
    if isinstance(inner, dict) and ("content" in inner or "parts" in inner):
        content = opened(inner.get("content", inner.get("parts")))
    elif isinstance(inner, (str, list)):
        content = inner
    else:
        return []
    found = messages_in([{"role": role, "content": content}])
    return found or [(role, "")]


def _instructions(home: Mapping[str, Any]) -> list[str]:
    system = opened(home.get("gen_ai.system_instructions"))
    return [text for _, text in messages_in([{"role": "system", "content": system}])] if system else []


def _numbered_messages(span: SpanRecord, side: str) -> list[tuple[str, str]]:
    usual = "user" if side == "prompt" else "assistant"
    rows = rows_under(span.attributes, f"gen_ai.{side}.") or rows_under(span.attributes, f"llm.{side}s.")
    return messages_in(
        [
            {"role": row.get("role") or usual, "content": opened(row.get("content"))}
            for row in rows.values()
            if "role" in row or "content" in row
        ]
    )


def _older(span: SpanRecord, side: str, role: str) -> list[tuple[str, str]]:
    """Return the messages of one attribute: JSON of messages, texts, or one text."""
    for home in _homes(span):
        for key in _OLDER[side]:
            value = opened(home.get(key))
            if not value:
                continue
            found = messages_in(value) or _printed_messages(value)
            if found:
                return found
            texts: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
            plain = [text for text in texts if isinstance(text, str) and text.strip()]
            if plain:
                # Some emitters begin a text with its role.
                return [
                    (match[1].replace("human", "user"), text[match.end() :])
                    if (match := _PREFIX.match(text)) is not None
                    else (role, text)
                    for text in plain
                ]
            said = answer_in(value) if side == "completion" else None
            if said is not None:
                return [(role, said)]
    return []


def _printed_messages(value: Any) -> list[tuple[str, str]]:
    """Return messages in Java's notation, one or a list, as LangChain4j's listeners write them."""
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        value = f"[{', '.join(value)}]"
    if not isinstance(value, str) or _PRINTED.match(value) is None:
        return []
    _, *parts = _PRINTED.split(value)
    found: list[tuple[str, str]] = []
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        text = body.partition(' text = "')[2]
        fields = _PRINTED_END.search(text)
        end = text.rfind('" }') if fields is None else fields.start()
        if end > 0:
            found.append((_PRINTED_ROLES.get(name, "tool"), text[:end]))
    return found
