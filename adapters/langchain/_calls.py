"""The input and replies of a LangChain request's model calls.

Recorded on the request's own path, by reference: the strings in messages, never the messages, which the
application may change, and no copies. Read on the worker, compared and dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragmeter.adapters._parts import with_calls_of
from ragmeter.adapters.reading.calls import MAX_CALLS, UNFINISHED
from ragmeter.adapters.reading.fields import ROLES
from ragmeter.adapters.reading.prompts import Sent, texts_of_content
from ragmeter.adapters.reading.step import Message, Step, Unknown

if TYPE_CHECKING:
    from ._state import LlmNote, OpenRequest, Run


def messages_sent(batches: Any) -> Sent:
    """Return the messages sent to a chat model (``on_chat_model_start``), as roles and texts."""
    noted: list[tuple[str, tuple[str, ...]]] = []
    for batch in batches:
        for message in batch:
            content = getattr(message, "content", None)
            role = getattr(message, "type", "")
            if role == "chat":
                role = getattr(message, "role", role)
            texts = (content,) if type(content) is str else texts_of_content(content)
            noted.append((role, texts))
    return tuple(noted)


def prompts_sent(prompts: Any) -> Sent:
    """Return the texts sent to a completing model (``on_llm_start``), as roles and texts."""
    return tuple(("user", (text,)) for text in prompts if isinstance(text, str))


def tool_arguments(first: object) -> tuple[Mapping[str, Any], ...]:
    """Return the arguments of the tools that a generation calls: structured answers come as such."""
    calls = getattr(getattr(first, "message", None), "tool_calls", None)
    if not isinstance(calls, (list, tuple)):
        return ()
    arguments = [call.get("args") for call in calls if isinstance(call, Mapping)]
    return tuple(dict(given) for given in arguments if isinstance(given, Mapping))


def steps_of(request: OpenRequest) -> tuple[list[Step], list[Step]]:
    """Convert the last model calls to `Step`s; their position in the order of events replaces the time.

    Calls that failed or are open since then are included: they may have been the answering ones.
    """
    notes = sorted(request.llms, key=lambda note: note.run.order)[-MAX_CALLS:]
    steps = [_step(note.run, _words(note), note) for note in notes]
    last = notes[-1].run.order if notes else -1
    late = [run for run in request.unfinished() if run.sent and run.order > last]
    unfinished = [_step(run, UNFINISHED) for run in sorted(late, key=lambda run: run.order)]
    return with_calls_of(request.parts, steps) if request.parts else steps, unfinished


def _step(run: Run, said: str | Unknown | None, note: LlmNote | None = None) -> Step:
    return Step(
        id=str(run.order),
        started_ns=run.order,
        ended_ns=run.order,
        messages=tuple(Message(ROLES.get(role, role), text) for role, texts in run.sent for text in texts),
        said=said,
        refusal=None if note is None else note.refusal,
        response_id=None if note is None else note.response_id,
    )


def _words(note: LlmNote) -> str | None:
    if note.text or not note.arguments:
        return note.text
    return json.dumps(note.arguments, ensure_ascii=False, default=str)
