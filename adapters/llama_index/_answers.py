"""The answer of a LlamaIndex request: its place in the result, and the calls that produced it.

Responses of LlamaIndex are read by their class, at the request's end and on its own path; of an application's
own results (a workflow's may be anything) only strings and nodes are recorded, from which the worker chooses
(`choose_answer`). The application's own settings for question, contexts and answer have precedence
(`Readers`): keys or functions, called under a guard; one that raises counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ragmeter._runtime.guard import Guard
from ragmeter.adapters.reading.fields import OutputString, Reader, check_readers, fields_of, strings_in

from ._payloads import (
    Kind,
    Nodes,
    TextMode,
    event_payload,
    given_to_run,
    nodes_in,
    payload_of,
    result_class,
    snapshot_nodes,
    text_of,
)


class Answer(NamedTuple):
    """The result of a request's own call."""

    text: str | None = None
    """The answer; None if there is none, or it is yet to be streamed or chosen."""
    stream: Literal["query", "chat"] | None = None
    """The kind of stream with the rest of the answer, if it is streamed."""
    holder: Any = None
    """The response object that holds the stream; passed on at once, never stored."""
    nodes_only: bool = False
    """Whether the result is a list of nodes: no answer was requested."""
    strings: tuple[OutputString, ...] = ()
    """The strings of a result of unknown shape, one of which may be the answer."""


_NO_ANSWER = Answer()


_STREAMS = frozenset({"StreamingResponse", "AsyncStreamingResponse", "StreamingAgentChatResponse"})


def answer_of(result: object) -> Answer:
    """Return the answer in the result of a query, chat, synthesis or workflow run.

    ``Response``: its text. ``PydanticResponse`` and an agent's structured response: their JSON. Chat and
    completion responses and messages: their text. A stop event: its result. Streaming responses: see
    `Answer.stream`. Anything else: its strings, for the worker to choose from; never a ``repr``.
    """
    if result is None:
        return _NO_ANSWER
    if isinstance(result, str):
        return Answer(result or None)
    kind = result_class(result)
    if kind == "StopEvent" and (inner := getattr(result, "result", None)) is not None and inner is not result:
        return answer_of(inner)
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
    # A stream inside another object is for the caller to read.
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
    """Return the JSON of an agent's structured output, all of which the user received."""
    try:
        return Answer(json.dumps(structured, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return Answer(strings=strings_in(structured))


def source_ids_of(result: object) -> tuple[str, ...]:
    """Return the ids of the nodes that the response names as its sources, in its order."""
    nodes = getattr(payload_of(result), "source_nodes", None)
    if not isinstance(nodes, (list, tuple)):
        return ()
    return tuple(dict.fromkeys([str(getattr(item, "node_id", "")) for item in nodes]))


@dataclass(frozen=True, slots=True)
class LlamaIndexRequest:
    """A request that begins, as passed to the ``filter`` and ``question`` hooks. Not stored."""

    kind: Literal["query", "chat", "run", "call", "retrieve", "synthesize"]
    """The kind of callee: a query engine, chat engine, workflow or agent, a model with tools
    (``predict_and_call``), retriever, synthesizer."""
    instance: Any
    """The callee."""
    question: str | None
    """The question by the built-in rule; None if not found."""
    arguments: Mapping[str, Any]
    """The call's arguments by name; a workflow's start event is ``start_event`` or in ``kwargs``."""
    tags: Mapping[str, Any]
    """The instrument tags in force."""


class Readers:
    """The application's own functions of one handler, as described there; `guard` contains their exceptions.

    Raises:
        ConfigurationError: One is neither a key nor a function.
    """

    def __init__(
        self,
        filter: Callable[[LlamaIndexRequest], bool] | None,  # noqa: A002 -- as the handler's
        question: str | Callable[[LlamaIndexRequest], Any] | None,
        contexts: Reader | None,
        answer: Reader | None,
        guard: Guard,
    ) -> None:
        check_readers(question=question, contexts=contexts, answer=answer)
        self._filter = filter
        self._question = question
        self._contexts = contexts
        self._answer = answer
        self._guard = guard
        self.reads_output = contexts is not None or answer is not None

    def begin(
        self,
        kind: Kind,
        instance: Any,
        question: str | None,
        arguments: Mapping[str, Any],
        tags: Mapping[str, Any],
    ) -> tuple[bool, str | None]:
        """Return whether to capture a request that begins, and its question; `question` is the usual one."""
        keeps, reader = self._filter, self._question
        if keeps is None and reader is None:
            return True, question
        request = LlamaIndexRequest(kind, instance, question, arguments, tags)  # type: ignore[arg-type]
        if keeps is not None:
            with self._guard:
                if not keeps(request):
                    return False, None
        with self._guard:
            if reader is not None:
                if isinstance(reader, str):
                    places = [arguments, *given_to_run(arguments)]
                    value = next((value for one in places if (value := one.get(reader)) is not None), None)
                else:
                    value = reader(request)
                read = text_of(value)
                question = question if read is None else read
        return True, question

    def contexts(self, result: object, mode: TextMode) -> Nodes | None:
        """Return the contexts found by the application's reader, or None."""
        if self._contexts is None:
            return None
        with self._guard:
            value = _read(self._contexts, result)
            if value is None:
                return None
            found = nodes_in(value)
            if not found:
                found = list(value) if isinstance(value, (list, tuple)) else [value]
            return snapshot_nodes(found, mode)
        return None

    def answer(self, result: object, usual: Answer) -> Answer:
        """Return the answer found by the application's reader; by the usual rules if it raises."""
        if self._answer is None:
            return usual
        with self._guard:
            value = _read(self._answer, result)
            # The rest of a stream cannot be read yet.
            return usual if value is None and usual.stream is not None else answer_of(value)
        return usual


def _read(reader: Reader, result: object) -> Any:
    payload = payload_of(result)
    if isinstance(reader, str):
        return (fields_of(event_payload(payload)) or {}).get(reader)
    return reader(payload)


def inputs_of(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the inputs of a request: its arguments, without a workflow's own state."""
    return tuple(event_payload(value) for name, value in arguments.items() if name not in _OWN)


_OWN = frozenset({"self", "init_state", "ctx", "tags", "run_id"})
