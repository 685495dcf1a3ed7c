"""What the application tells about its own requests: where question, contexts and answer stand.

The handler's ``question=``, ``contexts=`` and ``answer=`` are keys or functions; they are called on
the request's own path, under a guard: one that raises counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragmeter._runtime.guard import Guard
from ragmeter.adapters._fields import fields_of
from ragmeter.metrics import ConfigurationError

from ._answers import Answer, answer_of, event_payload, nodes_in, payload_of
from ._nodes import NodeSnapshot, TextMode, snapshot_nodes
from ._payloads import text_of

__all__ = ["Reader", "Readers"]

Reader = str | Callable[[Any], Any]
"""A key of what a request was given, or gave out, or a function of it."""


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
        for label, reader in (("question", question), ("contexts", contexts), ("answer", answer)):
            if reader is not None and not isinstance(reader, str) and not callable(reader):
                raise ConfigurationError(
                    f"{label}={reader!r}: pass a key such as {label!r}, or a function"
                )
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
