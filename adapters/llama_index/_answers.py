"""What a LlamaIndex call returned: the answer in it, the stream, the nodes that it names.

The span follower asks at a request's end, on the request's own path.  Responses of LlamaIndex are
read by their class; what an application made up itself (a workflow's result may be anything) is only noted
here, as its strings and its nodes, and understood on the worker (`choose_answer`).  Classes are told by
name and package along their bases, so nothing of LlamaIndex is imported.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ragmeter.adapters._fields import fields_of, items_of
from ragmeter.adapters._output_strings import OutputString, strings_in

from ._payloads import is_a, text_of

__all__ = [
    "Answer",
    "answer_of",
    "event_payload",
    "handed_on",
    "inputs_of",
    "is_stop",
    "nodes_in",
    "payload_of",
    "result_class",
    "source_ids_of",
]

_STOP_FIELDS = ("answer", "response", "result", "output")
"""Fields of a custom stop event that hold the result, as ``result`` does in the plain one."""

_RESULTS = (
    "StopEvent",
    "StreamingResponse",
    "AsyncStreamingResponse",
    "StreamingAgentChatResponse",
    "PydanticResponse",
    "Response",
    "AgentChatResponse",
    "AgentOutput",
    "ChatResponse",
    "ChatMessage",
    "CompletionResponse",
    "NodeWithScore",
    "BaseNode",
    "Event",
)
"""Classes of results that are told apart; a subclass is what its base is."""

MAX_DEPTH = 5
MAX_VISITED = 1_000
"""Levels and objects of a result or an event that are searched for nodes."""

_MAX_CLASSES = 1_000

_results: dict[type, str | None] = {}


def result_class(result: object) -> str | None:
    """Return which of `_RESULTS` an object is, or None; remembered per class."""
    cls = type(result)
    try:
        return _results[cls]
    except KeyError:
        pass
    if len(_results) >= _MAX_CLASSES:
        _results.clear()
    found = _results[cls] = next((name for name in _RESULTS if is_a(cls, name)), None)
    return found


class Answer(NamedTuple):
    """What a request's own call returned."""

    text: str | None = None
    """The answer; None: there is none, or it is still to be streamed or chosen."""
    stream: Literal["query", "chat"] | None = None
    """How the rest of the answer comes, if it is streamed."""
    holder: Any = None
    """The response object that holds the stream; passed on at once, never kept."""
    nodes_only: bool = False
    """The result is a list of nodes: nobody asked for an answer."""
    strings: tuple[OutputString, ...] = ()
    """The strings of a result of unknown shape, one of which may be the answer."""


_NO_ANSWER = Answer()


def payload_of(result: object) -> Any:
    """Return what the caller of a run got: the result of a plain stop event, else the object itself."""
    if type(result).__name__ == "StopEvent" and result_class(result) == "StopEvent":
        return getattr(result, "result", None)
    return result


def answer_of(result: object) -> Answer:
    """Read the answer in what a query, chat, synthesis or workflow run returned.

    ``Response``: its text. ``PydanticResponse`` and an agent's structured response: their JSON. Chat and
    completion responses and messages: their text. A stop event: its result; for a subclass
    with fields of its own, the first of `_STOP_FIELDS` that it has. Streaming responses: see
    `Answer.stream`. Anything else: its strings, for the worker to choose from; never a ``repr``.
    """
    if result is None:
        return _NO_ANSWER
    if isinstance(result, str):
        return Answer(result or None)
    kind = result_class(result)
    if kind == "StopEvent":
        return _answer_of_stop(result)
    if kind in ("StreamingResponse", "AsyncStreamingResponse"):
        text = getattr(result, "response_txt", None)
        return Answer(text) if isinstance(text, str) else Answer(stream="query", holder=result)
    if kind == "StreamingAgentChatResponse":
        return Answer(stream="chat", holder=result)
    if kind == "PydanticResponse":
        return Answer(None if getattr(result, "response", None) is None else str(result))
    if kind in ("Response", "AgentChatResponse", "AgentOutput"):
        structured = getattr(result, "structured_response", None) if kind == "AgentOutput" else None
        if structured is not None:
            return _answer_of_structure(structured)
        return _answer_of_text(getattr(result, "response", None))
    if kind == "ChatResponse":
        return _answer_of_text(getattr(result, "message", None))
    if kind in ("ChatMessage", "CompletionResponse"):
        return _answer_of_text(result)
    if isinstance(result, (list, tuple)) and all(
        result_class(item) in ("NodeWithScore", "BaseNode") for item in result
    ):
        return Answer(nodes_only=True)
    payload = event_payload(result)
    # A stream that is handed out inside something else is still the caller's to read.
    for value in (fields_of(payload) or {}).values():
        if result_class(value) in _STREAMS:
            return answer_of(value)
    return Answer(strings=strings_in(payload))


def _answer_of_text(value: object) -> Answer:
    text = text_of(value)
    if text is None and value is not None:
        return Answer(strings=strings_in(value))
    return Answer(text or None)


def _answer_of_structure(structured: object) -> Answer:
    """Return the JSON of what an agent was asked to fill in: all of it is what the user got."""
    try:
        return Answer(json.dumps(structured, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return Answer(strings=strings_in(structured))


def _answer_of_stop(event: object) -> Answer:
    result = getattr(event, "result", None)
    if result is not None and result is not event:
        return answer_of(result)
    if type(event).__name__ == "StopEvent":
        return _NO_ANSWER
    fields = event_payload(event)
    for name in _STOP_FIELDS if isinstance(fields, Mapping) else ():
        value = fields.get(name)
        if value is not None and value is not event:
            return answer_of(value)
    return Answer(strings=strings_in(fields))


def event_payload(value: object) -> Any:
    """Return the fields of a workflow's event, with those that it keeps as extra data."""
    if result_class(value) not in _EVENTS:
        return value
    extra = getattr(value, "_data", None)
    return {**(fields_of(value) or {}), **(extra if type(extra) is dict else {})}


def nodes_in(value: object) -> list[Any]:
    """Return the nodes in a result or event, a few levels deep, in order; bounded.

    Nodes that a response names as its sources are among them. Nothing of the application runs.
    """
    found: list[Any] = []
    waiting: deque[tuple[Any, int]] = deque([(value, 0)])
    visited = 0
    while waiting and visited < MAX_VISITED:
        item, depth = waiting.popleft()
        visited += 1
        if result_class(item) in ("NodeWithScore", "BaseNode"):
            found.append(item)
            continue
        if depth >= MAX_DEPTH:
            continue
        item = event_payload(item)
        inner: Sequence[Any] | None = items_of(item)
        if inner is None:
            inner = list((fields_of(item) or {}).values())
        waiting.extend((part, depth + 1) for part in inner if type(part) not in _PLAIN)
    return found


def inputs_of(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a request was given: its arguments, without a workflow's own state."""
    return tuple(event_payload(value) for name, value in arguments.items() if name not in _OWN)


_OWN = frozenset({"self", "init_state", "ctx", "tags", "run_id"})


def handed_on(values: Sequence[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Return the nodes and the texts in the events among a step's arguments or in its result."""
    events = [
        event
        for value in values
        for event in (items_of(value) or (value,))
        if result_class(event) in _EVENTS
    ]
    if not events:
        return [], ()
    texts = [item.text for event in events for item in strings_in(event_payload(event))]
    return nodes_in(events), tuple(texts)


def is_stop(result: object) -> bool:
    """Return whether a step's result ends its workflow."""
    return result_class(result) == "StopEvent"


_STREAMS = frozenset({"StreamingResponse", "AsyncStreamingResponse", "StreamingAgentChatResponse"})
_EVENTS = frozenset({"Event", "StopEvent", "AgentOutput"})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


def source_ids_of(result: object) -> tuple[str, ...]:
    """Return the ids of the nodes that the response names as its sources, in its order."""
    nodes = getattr(payload_of(result), "source_nodes", None)
    if not isinstance(nodes, (list, tuple)):
        return ()
    return tuple(dict.fromkeys(str(getattr(item, "node_id", "")) for item in nodes))
