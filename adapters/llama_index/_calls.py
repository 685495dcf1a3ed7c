"""What was sent to the model and what it said, per call: noted by reference, compared on the worker.

A call's prompt and text are references to the framework's own strings; they tell which retrieved texts
reached the model and which string of an output is the answer, and are then forgotten: never scored,
stored or exported. Nothing of LlamaIndex is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from sys import getsizeof
from typing import Any, NamedTuple

from ragmeter.adapters._answers import LONG_CHARACTERS, is_long, texts_that_said
from ragmeter.adapters._output_strings import strings_in
from ragmeter.adapters._prompts import Prompt, prompt_of

from ._answers import result_class

__all__ = [
    "Call",
    "Messages",
    "answering_calls",
    "is_flattened",
    "messages_of",
    "prompts_of",
    "said_in",
    "size_of",
    "with_sources",
]

Messages = tuple[tuple[str, tuple[str, ...]], ...]
"""Role and texts of each message that a model was sent; a bare prompt is one message of the user's."""


class Call(NamedTuple):
    """One model call that has ended, or is still streaming."""

    messages: Messages
    said: tuple[str, ...]
    """What it said; empty for a stream, which goes by unheard."""
    is_stream: bool
    synthesis: int
    """Which of the request's syntheses made it; -1: none."""
    answers: bool = False
    """It was made by reading the request's own streamed answer."""


def messages_of(arguments: Mapping[str, Any]) -> Messages:
    """Return what a model call is sent, from its arguments; empty when it is made of templates."""
    prompt = arguments.get("prompt")
    if isinstance(prompt, str):
        return (("user", (prompt,)),)
    messages = arguments.get("messages")
    if not isinstance(messages, (list, tuple)):
        return ()
    return tuple([_message(item) for item in messages])


def _message(message: Any) -> tuple[str, tuple[str, ...]]:
    role = getattr(message, "role", None)
    blocks = getattr(message, "blocks", None)
    if blocks is None:
        blocks = (getattr(message, "content", None),)
    texts = [
        text
        for block in blocks
        if type(text := block if isinstance(block, str) else getattr(block, "text", None)) is str
    ]
    return str(getattr(role, "value", role)), tuple(texts)


def size_of(messages: Messages, before: Messages) -> int:
    """Return the bytes that a prompt adds to those of an earlier one: a conversation grows."""
    known = {id(text) for _, texts in before for text in texts} if before else ()
    return sum(
        [getsizeof(text) for _, texts in messages for text in texts if id(text) not in known]
    )


def is_flattened(prompt: Messages, messages: Messages) -> bool:
    """Return whether a prompt is a conversation written as one text: the conversation says more."""
    if len(prompt) != 1 or len(messages) < 2:
        return False
    return _characters(prompt) >= _characters(messages)


def _characters(messages: Messages) -> int:
    return sum([len(text) for _, texts in messages for text in texts])


def said_in(result: object) -> tuple[str, ...]:
    """Return what a model call said: its text, or the strings of the object that it filled in."""
    kind = result_class(result)  # by class: asking a pydantic object for what it has not is slow
    if kind == "CompletionResponse":
        text = getattr(result, "text", None)
    elif kind == "ChatResponse":
        text = getattr(getattr(result, "message", None), "content", None)
    elif result is None or hasattr(result, "__next__") or hasattr(result, "__anext__"):
        return ()
    else:
        return tuple([item.text for item in strings_in(result)])
    return (text,) if isinstance(text, str) and text else ()


def prompts_of(calls: Iterable[Call]) -> list[Prompt]:
    """Return the prompts of calls, in their order."""
    return [prompt_of(call.messages) for call in calls if call.messages]


def answering_calls(calls: Sequence[Call], answer: str | None) -> list[Call]:
    """Return the calls from which the answer stems, in order.

    Those whose stream the caller read as the answer; else those that said it, or a part of it; else the last
    one. And all from which these stem, see `with_sources`.
    """
    places = [place for place, call in enumerate(calls) if call.answers]
    if not places and answer:
        texts = [(place, text) for place, call in enumerate(calls) for text in call.said]
        said = texts_that_said(answer, [text for _, text in texts])
        places = [texts[index][0] for index in said]
    if not places and calls:
        places = [len(calls) - 1]
    return with_sources(calls, places)


def with_sources(calls: Sequence[Call], places: Iterable[int]) -> list[Call]:
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
            beside = call.synthesis >= 0 and call.synthesis == calls[place].synthesis
            if beside or (
                other < place
                and (_continues(calls[place], call) or _quotes(prompt, collapsed, call))
            ):
                chosen.add(other)
                waiting.append(other)
    return [calls[place] for place in sorted(chosen)]


def _continues(later: Call, earlier: Call) -> bool:
    """Return whether a call goes on with the conversation of an earlier one."""
    if len(earlier.messages) >= len(later.messages):
        return False
    return bool(earlier.messages) and earlier.messages[-1] in later.messages


def _quotes(prompt: str, collapsed: str, call: Call) -> bool:
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
