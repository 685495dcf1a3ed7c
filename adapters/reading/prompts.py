"""The retrieved texts in the prompts that were sent to the model, as templates changed them.

Adapters record the prompts of a request's model calls by reference and call this module on the worker. A
prompt is dropped after its comparison. Knows no framework: texts in, indices out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .align import Shown, align
from .fields import ROLES
from .prompt_page import SMALL

MAX_PROMPTS = 4_000_000
"""Prompts of more characters together are not compared."""


class Prompt(NamedTuple):
    """What one model call was sent."""

    texts: Sequence[str]
    """Instructions, the user's message and what followed it: the usual places of retrieved texts."""
    history: Sequence[str] = ()
    """Earlier turns and the model's own replies: searched only if `texts` shows nothing."""


Sent = tuple[tuple[str, tuple[str, ...]], ...]
"""Role and texts of each message sent to a model, by reference."""


def new_bytes(sent: Sent, known: set[int]) -> int:
    """Return the bytes of texts whose identity is not in `known` yet, and add these to it.

    An agent's calls are sent the whole conversation again each time: its texts are held once.
    """
    size = 0
    for _, texts in sent:
        for text in texts:
            if id(text) not in known:
                known.add(id(text))
                size += str.__sizeof__(text)
    return size


_MAX_DEPTH = 4
_NOT_TEXT = frozenset({"image", "image_url", "audio", "input_audio", "video", "file"})
"""Types of content blocks without text."""
_LABELS = frozenset({"type", "id", "role", "name", "index", "mime_type", "tool_call_id"})


def texts_of_content(content: object) -> tuple[str, ...]:
    """Return the strings in a message's content: texts, and results of searches and tools within its blocks."""
    if type(content) is str:
        return (content,)
    texts: list[str] = []
    for block in content if isinstance(content, (list, tuple)) else (content,):
        text = block if isinstance(block, str) else getattr(block, "text", None)
        texts += [text] if isinstance(text, str) else _texts(block, 1)
    return tuple(texts)


def _texts(content: object, depth: int) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, (Mapping, list, tuple)):
        values: Iterable[object] = content
        if isinstance(content, Mapping):
            is_text = content.get("type") not in _NOT_TEXT
            values = [item for key, item in content.items() if is_text and key not in _LABELS]
        for value in values if depth < _MAX_DEPTH else ():
            yield from _texts(value, depth + 1)


def prompt_of(messages: Iterable[tuple[str, str]], new: Collection[str] = frozenset()) -> Prompt:
    """Return the prompt of a conversation, given as role and text of each message.

    A document of an earlier turn, or one that the model quoted, is no evidence about this request. So
    everything before the last user messages is history, except the system's instructions.

    Args:
        messages: Role, by any name in `ROLES`, and text, in the order sent.
        new: Texts that are new in this turn, at any place: those sent to earlier calls.
    """
    sent = [(ROLES.get(role, role), text) for role, text in messages]
    turn = turn_in([role for role, _ in sent])
    texts: list[str] = []
    history: list[str] = []
    for place, (role, text) in enumerate(sent):
        is_new = role == "system" or (role != "assistant" and (place >= turn or text in new))
        (texts if is_new else history).append(text)
    return Prompt(texts, history)


def turn_in(roles: Sequence[str]) -> int:
    """Return the index in a conversation at which this turn begins: its last run of user messages."""
    turn = max((place for place, role in enumerate(roles) if role == "user"), default=0)
    while turn > 0 and roles[turn - 1] == "user":
        turn -= 1
    return turn


_LONG = 60
"""Minimum characters of a text whose verbatim occurrence is unambiguous."""


def seen_in_prompts(candidates: Sequence[str], prompts: Sequence[Prompt]) -> tuple[int, ...] | None:
    """Return the candidates in the prompts, whole or cut at an end, in the prompts' order, or None.

    As `shown_in_prompts`, without the parts from within a text.
    """
    if len(prompts) == 1 and (order := _written_out(candidates, prompts[0])):
        return order
    shown = shown_in_prompts(candidates, prompts, parts=False)
    return tuple([one.passage for one in shown]) if shown else None


def _written_out(candidates: Sequence[str], prompt: Prompt) -> tuple[int, ...]:
    """Return the candidates in a prompt's order if each occurs verbatim; else none: compare closely."""
    if len({*candidates}) < len(candidates) or len(min(candidates, key=len, default="")) < _LONG:
        return ()
    page = "\0".join(prompt.texts)
    if len(page) * len(candidates) > SMALL:
        return ()
    places = sorted([(page.rfind(text), index) for index, text in enumerate(candidates)])
    end = 0
    for place, index in places:
        if place < end:
            return ()
        end = place + len(candidates[index])
    return tuple([index for _, index in places])


def shown_in_prompts(
    candidates: Sequence[str], prompts: Sequence[Prompt], question: str | None = None, *, parts: bool = True
) -> list[Shown] | None:
    """Return the parts of candidates in the prompts, in the prompts' order; None if they are too long.

    Args:
        candidates: Retrieved texts in retrieval order, duplicates included.
        prompts: Prompts of the calls that made the answer, in their order. They add up: one call
            may show one document, the next one another.
        question: The user's question. It is in a prompt anyway, so a chunk that is a part of it is not found
            there.
        parts: Whether to look also for parts that are neither beginning nor end of a candidate.

    Returns:
        Of equal texts, as many as the prompts show, the first ones first.
    """
    if sum(len(text) for prompt in prompts for text in (*prompt.texts, *prompt.history)) > MAX_PROMPTS:
        return None
    shown = align(candidates, [prompt.texts for prompt in prompts], question, parts=parts)
    if not shown and any(prompt.history for prompt in prompts):
        whole = [(*prompt.history, *prompt.texts) for prompt in prompts]
        shown = align(candidates, whole, question, parts=parts)
    return shown
