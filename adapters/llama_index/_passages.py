"""Output of a workflow's steps: nodes, and texts that may contain them.

A step's events are read on the request's own path, and copied; `_contexts` interprets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmeter.adapters.reading.fields import items_of, strings_in

from ._payloads import TextMode, event_payload, is_a, is_event, nodes_in, result_class, snapshot_nodes
from ._state import Frame, LlamaRun, StepNote

MAX_STEPS = 1_000
"""Maximum workflow steps recorded per request: the first ones."""


def begin_step(parent: Frame, id_: str, arguments: Mapping[str, Any], mode: TextMode) -> Frame:
    """Record the begin of a workflow's step, with the nodes and texts in its events."""
    request = parent.request
    run = LlamaRun(parent.run, next(request.clock), id_[:-37], "step")
    frame = Frame(id_, "step", request, run)
    if parent.notes_steps and len(request.steps) < MAX_STEPS:
        nodes, strings = _handed_on(tuple(arguments.values()))
        taken = snapshot_nodes(nodes, mode)
        frame.step = StepNote(run, taken, strings)
        request.steps.append(frame.step)
        request.hold_nodes(taken)
    return frame


def end_step(frame: Frame, note: StepNote, result: Any, mode: TextMode) -> None:
    """Record what a step passed on, unless it ended its workflow."""
    note.stops = result_class(result) == "StopEvent"
    if not note.stops:
        nodes, _ = _handed_on((result,))
        note.given = snapshot_nodes(nodes, mode)
        frame.request.hold_nodes(note.given)


def _handed_on(values: Sequence[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Return the nodes and the texts in the events among a step's arguments or in its result."""
    events = [event for value in values for event in (items_of(value) or (value,)) if is_event(event)]
    if not events:
        return [], ()
    texts = [item.text for event in events for item in strings_in(event_payload(event))]
    return nodes_in(events), tuple(texts)


def is_of_application(workflow: Any) -> bool:
    """Return whether a workflow's steps were written by the application."""
    return not any(is_a(type(workflow), name) for name in _AGENTS)


def is_workflow_step(id_: str, instance: Any) -> bool:
    """Return whether a span below a run is a step: workflows 1 pass the workflow, 2 nothing."""
    if instance is None:
        return True
    return is_a(type(instance), "Workflow") and not id_[:-37].endswith("._done")


_AGENTS = ("BaseWorkflowAgent", "AgentWorkflow")
"""Workflows whose steps are LlamaIndex's own: their events carry tools' results to the next call."""
