"""The answer of a LangChain request: its place in the output, and the model calls that produced it.

The data of a root run's output is recorded on the request's path. An output of a known shape has one answer;
any other may also contain a moderation's verdict or follow-up questions, so its strings are recorded, by
reference, and compared with the model calls' replies (`ragmeter.adapters.reading.answer`), on the worker.

A request may call models for other purposes: to rewrite the query, to grade a document, to moderate, to
suggest further questions. Only the input of the answering call counts, and the input of the calls whose
replies are in its prompt: the drafts of a map-reduce or refine chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from ragmeter.adapters._unseen import plain_of
from ragmeter.adapters.reading.answer import ANSWER_NAMES, Said, choose_answer, is_label
from ragmeter.adapters.reading.fields import OutputString, strings_in

from ._payloads import closing_text, fields_in

STRUCTURED_KEY = "structured_response"
"""Key at which ``create_agent(response_format=...)`` returns the object that is its answer."""

_ASKS = ("?", "？")


class OutputNote(NamedTuple):
    """The data of an output from which the answer is chosen."""

    text: str | None = None
    """The answer, if the shape leaves no choice."""
    strings: tuple[OutputString, ...] = ()
    """Strings of an output whose shape leaves a choice."""
    copied: tuple[OutputString, ...] = ()
    """Strings of the input: their repetitions in the output are no answer."""
    structured: object = None
    """An agent's structured answer as plain values."""


_NOTHING = OutputNote()


def note_output(outputs: object, inputs: object = None) -> OutputNote:
    """Return the data of a root run's output for choosing the answer; references and plain copies only."""
    if outputs is None:
        return _NOTHING
    if isinstance(outputs, str):  # a message's own text has its own class
        return OutputNote(str.__str__(outputs) or None)
    fields = outputs if type(outputs) is dict else fields_in(outputs)
    if fields and "content" not in fields:
        structured = fields.get(STRUCTURED_KEY)
        if structured is not None:
            return OutputNote(structured=plain_of(structured))
        given = fields_in(inputs) or {}
        named = [
            str.__str__(text)
            for key in ANSWER_NAMES
            if isinstance(text := fields.get(key), str) and text and text != given.get(key)
        ]
        closing = closing_text(fields.get("messages"))
        if len(named) == 1 and closing is None:
            return OutputNote(named[0])
        # A verdict or questions after the answer may come last.
        if closing and not named and not is_label(closing) and closing.rstrip()[-1:] not in _ASKS:
            return OutputNote(closing)
    return OutputNote(None, strings_in(outputs), strings_in(inputs))


def answer_in(note: OutputNote, said: Iterable[Said], contexts: Iterable[str]) -> str | None:
    """Return the answer, or None; on the worker."""
    if note.text is not None:
        return note.text
    held = note.structured
    if held is None:
        return choose_answer(note.strings, said, copied=note.copied, contexts=contexts)
    # The value named as the answer, or the only long string; without either, the whole is the answer.
    text = held if isinstance(held, str) else choose_answer(strings_in(held), ())
    return text or json.dumps(held, ensure_ascii=False, default=lambda _: None)
