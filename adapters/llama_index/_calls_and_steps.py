"""Notes model calls and workflow steps of a LlamaIndex request, on the request's own path.

The base of `SpanFollower`, which tells the spans apart: prompts by reference, what a step's events
carry, and what all of it weighs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmeter.adapters._open_requests import OpenRequests
from ragmeter.pipeline._weight import weight_of

from ._answers import handed_on, is_stop
from ._calls import Messages, is_flattened, messages_of, size_of
from ._captured import Nodes
from ._nodes import TextMode, snapshot_nodes
from ._state import Attempt, CallNote, Frame, LlamaRequest, StepNote
from ._streams import being_read

__all__ = ["CallsAndSteps"]

MAX_CALLS = 1_000
MAX_STEPS = 1_000
"""Model calls and workflow steps of one request that are noted: of calls the last ones."""


class CallsAndSteps:
    """What `SpanFollower` does at a model call and at a workflow's step."""

    _frames: dict[str | None, Frame | None]
    _requests: OpenRequests[str, LlamaRequest]
    _text_mode: TextMode

    def _call(self, parent: Frame, id_: str, arguments: Mapping[str, Any]) -> Frame:
        """Note a model call; what a model's own class calls within it is the same call."""
        if parent.kind == "postprocess":  # a reranker's call does not answer
            return parent
        request = parent.request
        messages = messages_of(arguments)
        note = parent.call
        if note is None:
            note = CallNote(messages, parent.synthesis, parent.attempt)
            self._note_call(request, note)
        elif messages and not is_flattened(messages, note.messages):
            self._weigh_prompt(request, messages, note.messages)
            note.messages = messages  # nearer to the model
        frame = Frame(id_, "llm", request, parent.scope, parent.attempt)
        frame.synthesis = parent.synthesis
        frame.call = note
        return frame

    def _is_read_by_caller(self, id_: str, arguments: Mapping[str, Any]) -> bool:
        """Note a model call that begins only now that a request's stream is read, if it is one."""
        text = being_read.get()
        request = None if text is None else text.owner
        if not isinstance(request, LlamaRequest) or request.closed:
            return False
        note = CallNote(messages_of(arguments), None, None, answers=True)
        self._note_call(request, note)
        frame = Frame(id_, "llm", request, request.scopes[0])
        frame.call = note
        self._frames[id_] = frame
        return True

    def _note_call(self, request: LlamaRequest, note: CallNote) -> None:
        calls = request.calls
        before = calls[-1].messages if calls else ()
        if len(calls) >= MAX_CALLS:
            del calls[0]
        calls.append(note)
        self._weigh_prompt(request, note.messages, before)

    def _weigh_prompt(self, request: LlamaRequest, messages: Messages, before: Messages) -> None:
        size_bytes = size_of(messages, before)
        request.size_bytes += size_bytes
        self._requests.grow(request.run_id, size_bytes)

    def _step(self, parent: Frame, id_: str, arguments: Mapping[str, Any]) -> Frame:
        """Note a workflow's step: what fails in it does not count, and what its events carry may."""
        request = parent.request
        attempt = Attempt(parent.attempt)
        frame = Frame(id_, "step", request, parent.scope, attempt)
        if parent.notes_steps and len(request.steps) < MAX_STEPS:
            nodes, strings = handed_on(tuple(arguments.values()))
            taken = snapshot_nodes(nodes, self._text_mode)
            frame.step = StepNote(id_[:-37], request.tick(), taken, strings, attempt)
            request.steps.append(frame.step)
            self._weigh(request, taken)
        return frame

    def _end_step(self, request: LlamaRequest, note: StepNote, result: Any) -> None:
        note.stops = is_stop(result)
        if not note.stops:
            nodes, _ = handed_on((result,))
            note.given = snapshot_nodes(nodes, self._text_mode)
            self._weigh(request, note.given)

    def _weigh(self, request: LlamaRequest, nodes: Nodes) -> None:
        # The same texts come by again, at the synthesis: they are held once.
        weighed = request.weighed
        new = [item for item in nodes if id(item.text) not in weighed]
        if not new:
            return
        weighed.update([id(item.text) for item in new])
        size_bytes = sum([weight_of(item.text) + weight_of(item.metadata) for item in new])
        request.size_bytes += size_bytes
        self._requests.grow(request.run_id, size_bytes)
