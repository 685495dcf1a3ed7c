"""Input and replies of model calls: recorded by reference, compared on the worker.

A call's prompt and text are references to the framework's own strings; they show which retrieved texts
reached the model and which string of an output is the answer, and are then dropped: never scored, stored or
exported. Imports nothing of LlamaIndex.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragmeter.adapters._parts import InnerRequest, with_calls_of
from ragmeter.adapters.reading.calls import UNHEARD
from ragmeter.adapters.reading.fields import ROLES, strings_in
from ragmeter.adapters.reading.prompts import Sent, texts_of_content
from ragmeter.adapters.reading.step import Message, Step
from ragmeter.requests.refusals import refusal_of

from ._payloads import result_class

if TYPE_CHECKING:
    from ._state import CallNote


def messages_of(arguments: Mapping[str, Any]) -> Sent:
    """Return the messages of a model call, from its arguments; empty if it is made of templates.

    LlamaIndex's own decorator of ``complete`` hides their names: it takes ``*args`` and ``**kwargs``.
    """
    places, named = arguments.get("args"), arguments.get("kwargs")
    first = places[0] if isinstance(places, tuple) and places else None
    by_name: Mapping[str, Any] = named if isinstance(named, Mapping) else {}
    prompt = arguments.get("prompt", by_name.get("prompt", first))
    if isinstance(prompt, str):
        return (("user", (prompt,)),)
    messages = arguments.get("messages", by_name.get("messages"))
    if not isinstance(messages, (list, tuple)):
        return ()
    return tuple([_message(item) for item in messages])


def _message(message: Any) -> tuple[str, tuple[str, ...]]:
    role = getattr(message, "role", None)
    blocks = getattr(message, "blocks", None)
    content = getattr(message, "content", None) if blocks is None else blocks
    return str(getattr(role, "value", role)), texts_of_content(content)


def is_flattened(prompt: Sent, messages: Sent) -> bool:
    """Return whether a prompt is a conversation written as one text, which has less information."""
    if len(prompt) != 1 or len(messages) < 2:
        return False
    return _characters(prompt) >= _characters(messages)


def _characters(messages: Sent) -> int:
    return sum([len(text) for _, texts in messages for text in texts])


def refusal_in(response: object) -> str | None:
    """Return the refusal in a chat response or completion, possibly empty; None if it does not refuse."""
    kind = result_class(response)  # by class: reading an absent pydantic attribute is slow
    if kind not in ("ChatResponse", "CompletionResponse"):
        return None
    message = getattr(response, "message", None) if kind == "ChatResponse" else None
    more = getattr(message, "additional_kwargs", None), getattr(response, "additional_kwargs", None)
    raw, own = getattr(response, "raw", None), None
    if raw is not None:
        choices = raw.get("choices") if isinstance(raw, Mapping) else getattr(raw, "choices", None)
        first: Any = choices[0] if isinstance(choices, (list, tuple)) and choices else None
        if isinstance(first, Mapping):
            own = first.get("message") or first.get("delta")
        else:
            own = getattr(first, "message", None) or getattr(first, "delta", None)
    beside = tuple(filter(None, (raw, *more)))  # asked of each streamed piece: most hold only words
    words = refusal_of(own) if own else None
    return words or (refusal_of(message, *beside) if beside or message is not None else None)


def said_in(result: object) -> tuple[str, ...]:
    """Return a model's reply: its text, or the strings of the object it filled in."""
    kind = result_class(result)
    if kind == "CompletionResponse":
        text = getattr(result, "text", None)
    elif kind == "ChatResponse":
        text = getattr(getattr(result, "message", None), "content", None)
    elif result is None or hasattr(result, "__next__") or hasattr(result, "__anext__"):
        return ()
    else:
        return tuple([item.text for item in strings_in(result)])
    return (text,) if isinstance(text, str) and text else ()


def response_id_in(result: object) -> str | None:
    """Return the provider's id of a reply, from the raw reply that LlamaIndex stores."""
    raw = getattr(result, "raw", None)
    found = raw.get("id") if isinstance(raw, Mapping) else getattr(raw, "id", None)
    return found if isinstance(found, str) and found else None


def steps_of(calls: Sequence[CallNote], parts: Sequence[InnerRequest] = ()) -> list[Step]:
    """Convert model calls to `Step`s; their position in the order of events replaces the time."""
    own = [
        Step(
            id=str(call.started),
            started_ns=call.started,
            ended_ns=call.started,
            messages=tuple(
                Message(ROLES.get(role, role), text) for role, texts in call.messages for text in texts
            ),
            said=UNHEARD if call.is_stream else _words_of(call),
            group="" if call.synthesis is None else str(id(call.synthesis)),
            answers=call.answers,
            refusal=call.refusal,
            response_id=call.response_id,
        )
        for call in calls
    ]
    return with_calls_of(parts, own) if parts else own


def _words_of(call: CallNote) -> str | None:
    """Return the reply of a call; several strings as one text."""
    said = call.said
    return said[0] if len(said) == 1 else json.dumps(said, ensure_ascii=False) if said else None
