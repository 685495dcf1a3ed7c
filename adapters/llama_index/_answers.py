"""The answer of a LlamaIndex request: where it stands in what a call returned, and which calls gave it.

Responses of LlamaIndex are read by their class, at the request's end and on its own path; what an
application made up itself (a workflow's result may be anything) is only noted, as its strings and its
nodes, and understood on the worker (`choose_answer`).  Where the application itself says where question,
contexts and answer stand, that decides (`Readers`): keys or functions, called under a guard; one that
raises counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ragmeter._runtime.guard import Guard
from ragmeter.adapters.reading.answer import LONG_CHARACTERS, is_long, texts_that_said
from ragmeter.adapters.reading.fields import (
    OutputString,
    Reader,
    check_readers,
    fields_of,
    strings_in,
)
from ragmeter.adapters.reading.prompts import Prompt, prompt_of

from ._payloads import (
    NodeSnapshot,
    TextMode,
    event_payload,
    nodes_in,
    payload_of,
    result_class,
    snapshot_nodes,
    text_of,
)
from ._state import CallNote

__all__ = [
    "Answer",
    "Readers",
    "answer_of",
    "answering_calls",
    "inputs_of",
    "prompts_of",
    "refusal_before",
    "response_id_of",
    "source_ids_of",
    "with_sources",
]


_STOP_FIELDS = ("answer", "response", "result", "output")
"""Fields of a custom stop event that hold the result, as ``result`` does in the plain one."""


class Answer(NamedTuple):
    """What a request's own call returned."""

    text: str | None = None
    """The answer; None: there is none, or it is still to be streamed or chosen."""
    stream: Literal["query", "chat"] | None = None
    """How the rest of the answer comes, if it is streamed."""
    holder: Any = None
    """The response object that holds the stream; passed on at once, never kept."""
    nodes_only: bool = False
    """The result is a list of nodes: no answer was asked for."""
    strings: tuple[OutputString, ...] = ()
    """The strings of a result of unknown shape, one of which may be the answer."""


_NO_ANSWER = Answer()


_STREAMS = frozenset({"StreamingResponse", "AsyncStreamingResponse", "StreamingAgentChatResponse"})


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


def source_ids_of(result: object) -> tuple[str, ...]:
    """Return the ids of the nodes that the response names as its sources, in its order."""
    nodes = getattr(payload_of(result), "source_nodes", None)
    if not isinstance(nodes, (list, tuple)):
        return ()
    return tuple(dict.fromkeys(str(getattr(item, "node_id", "")) for item in nodes))


class Readers:
    """The readers of one handler.

    Args:
        question: See `RagMeterHandler`; likewise `contexts` and `answer`.
        guard: Contains what they raise.

    Raises:
        ConfigurationError: One is neither a key nor a function.
    """

    def __init__(
        self, question: Reader | None, contexts: Reader | None, answer: Reader | None, guard: Guard
    ) -> None:
        check_readers(question=question, contexts=contexts, answer=answer)
        self._question = question
        self._contexts = contexts
        self._answer = answer
        self._guard = guard
        self.reads_question = question is not None
        self.reads_output = contexts is not None or answer is not None

    def question(self, request: Any, arguments: Mapping[str, Any]) -> str | None:
        """Return the question that the application's reader finds, or None."""
        reader = self._question
        with self._guard:
            if isinstance(reader, str):
                return text_of(_input_field(arguments, reader))
            if reader is not None:
                return text_of(reader(request))
        return None

    def contexts(self, result: object, mode: TextMode) -> tuple[NodeSnapshot, ...] | None:
        """Return the contexts that the application chose itself, or None."""
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
        """Return the answer that the application's reader finds; by the usual rules if it raises."""
        if self._answer is None:
            return usual
        with self._guard:
            value = _read(self._answer, result)
            # What is still to be streamed cannot be read yet.
            return usual if value is None and usual.stream is not None else answer_of(value)
        return usual


def _read(reader: Reader, result: object) -> Any:
    payload = payload_of(result)
    if isinstance(reader, str):
        return (fields_of(event_payload(payload)) or {}).get(reader)
    return reader(payload)


def _input_field(arguments: Mapping[str, Any], name: str) -> Any:
    """Return what a call was given under a name: as an argument, or in its start event."""
    if name in arguments:
        return arguments[name]
    for source in (arguments.get("start_event"), arguments.get("kwargs")):
        if isinstance(source, Mapping) and "start_event" in source:
            return _input_field(source, name)
        value = (fields_of(event_payload(source)) or {}).get(name)
        if value is not None:
            return value
    return None


def inputs_of(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a request was given: its arguments, without a workflow's own state."""
    return tuple(event_payload(value) for name, value in arguments.items() if name not in _OWN)


_OWN = frozenset({"self", "init_state", "ctx", "tags", "run_id"})


def prompts_of(calls: Iterable[CallNote]) -> list[Prompt]:
    """Return the prompts of calls, in their order."""
    return [prompt_of(call.messages) for call in calls if call.messages]


def answering_calls(calls: Sequence[CallNote], answer: str | None) -> list[CallNote]:
    """Return the calls from which the answer stems, in order.

    Those whose stream the caller read as the answer; else those that said it, or a part of it; else the last
    one. And all from which these stem, see `with_sources`.
    """
    return with_sources(calls, _answering(calls, answer))


def refusal_before(calls: Sequence[CallNote], answer: str | None) -> str | None:
    """Return the words by which the call that answered refused, perhaps none; None: it did not."""
    places = _answering(calls, answer)
    return calls[max(places)].refusal if places else None


def response_id_of(calls: Sequence[CallNote], answer: str | None) -> str | None:
    """Return what the provider calls the completion that answered; None: not told, or several did."""
    places = _answering(calls, answer)
    return calls[places[0]].response_id if answer and len(places) == 1 else None


def _answering(calls: Sequence[CallNote], answer: str | None) -> list[int]:
    places = [place for place, call in enumerate(calls) if call.answers]
    if not places and answer:
        texts = [(place, text) for place, call in enumerate(calls) for text in call.said]
        said = texts_that_said(answer, [text for _, text in texts])
        places = [texts[index][0] for index in said]
    return places or ([len(calls) - 1] if calls else [])


def with_sources(calls: Sequence[CallNote], places: Iterable[int]) -> list[CallNote]:
    """Return calls and those that they draw on, in order.

    As far back as it goes: calls whose words stand in a prompt of these (drafts, sub-answers, tools'
    answers), earlier calls of the same conversation, and calls of the same synthesis.

    Args:
        calls: The request's calls.
        places: Which of them to begin with.
    """
    chosen = set(places)
    waiting = sorted(chosen)
    while waiting:
        place = waiting.pop()
        prompt = "\n".join(text for _, texts in calls[place].messages for text in texts)
        collapsed = " ".join(prompt.split())
        for other, call in enumerate(calls):
            if other in chosen:
                continue
            beside = call.synthesis is not None and call.synthesis is calls[place].synthesis
            if beside or (
                other < place
                and (_continues(calls[place], call) or _quotes(prompt, collapsed, call))
            ):
                chosen.add(other)
                waiting.append(other)
    return [calls[place] for place in sorted(chosen)]


def _continues(later: CallNote, earlier: CallNote) -> bool:
    """Return whether a call goes on with the conversation of an earlier one."""
    if len(earlier.messages) >= len(later.messages):
        return False
    return bool(earlier.messages) and earlier.messages[-1] in later.messages


def _quotes(prompt: str, collapsed: str, call: CallNote) -> bool:
    """Return whether what a call said stands in a prompt: a short text only between two marks."""
    for text in call.said:
        said = " ".join(text.split())
        if len(said) >= LONG_CHARACTERS or is_long(said):
            if said in collapsed:
                return True
            continue
        start = prompt.find(text) if said else -1
        if start < 0:
            continue
        end = start + len(text)
        before = prompt[max(0, start - 2) : start].strip(" \"'")
        after = prompt[end : end + 2].strip(" \"'.")
        if before[-1:] in _OPENS and after[:1] in _CLOSES:
            return True
    return False


_OPENS = ("", "\n", ":", ">", "：")
_CLOSES = ("", "\n", "<")
