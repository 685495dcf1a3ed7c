"""The fixed record that a LlamaIndex request ends as: what the meter's worker builds the run from.

Made by `_requests`, read by `_reached` and `_runs`; free of the framework's objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ragmeter.adapters._current_span import CallSpans
from ragmeter.adapters._output_strings import OutputString
from ragmeter.context import RequestScope
from ragmeter.metrics.sample import SampleStatus

from ._calls import Call
from ._nodes import NodeSnapshot
from ._payloads import RetrieverFacts

__all__ = [
    "NO_OUTPUT",
    "Captured",
    "CapturedRetrieval",
    "CapturedScope",
    "Nodes",
    "Output",
    "Step",
]

Nodes = tuple[NodeSnapshot, ...]


class CapturedScope(NamedTuple):
    """What one query, chat, run or tool call found and gave to the model."""

    given: tuple[Nodes, ...]
    """Nodes of each synthesis, in order: what reached the model."""
    combined: tuple[Nodes, ...]
    """Nodes of each synthesis that joins sub-answers."""
    found: tuple[Nodes, ...]
    """Results of retrievers, after postprocessors, in start order: for want of a synthesis."""
    syntheses: tuple[int, ...] = ()
    """Numbers of the syntheses in `given`, by which calls name them."""
    found_at: tuple[int, ...] = ()
    """When each retriever of `found` began: a place in the order of the request's events."""


class Step(NamedTuple):
    """What a workflow's step was handed and what it handed on, as far as that carries documents."""

    name: str
    started: int
    """When it began: a place in the order of the request's events."""
    taken: Nodes
    """Nodes in the events that it was called with."""
    given: Nodes
    """Nodes in the event that it returned, unless that ended the run."""
    strings: tuple[str, ...]
    """Texts in the events that it was called with."""
    stops: bool
    """It ended the run."""


class CapturedRetrieval(NamedTuple):
    """One outermost retriever call."""

    scope: int
    """Index of its scope in `Captured.scopes`."""
    started_ns: int
    ended_ns: int
    query: str | None
    name: str
    facts: RetrieverFacts
    nodes: Nodes | None
    """What it returned; None: it raised."""
    error_type: str | None
    spans: CallSpans


class Output(NamedTuple):
    """What a request gave out, for what its answer and contexts may have to be chosen from."""

    strings: tuple[OutputString, ...] = ()
    """The strings of an output of unknown shape."""
    copied: tuple[OutputString, ...] = ()
    """The strings of the request's input."""
    nodes: Nodes = ()
    """Nodes that the output of unknown shape names."""
    contexts: Nodes | None = None
    """What the application says to be the contexts (``contexts=``); None: it does not."""


NO_OUTPUT = Output()


@dataclass(frozen=True, slots=True)
class Captured:
    """A request that has ended: immutable, and free of the framework's objects."""

    run_id: str
    name: str
    question: str | None
    scope: RequestScope | None
    status: SampleStatus
    answer: str | None
    error_type: str | None
    started_ns: int
    ended_ns: int
    scopes: tuple[CapturedScope, ...]
    retrievals: tuple[CapturedRetrieval, ...]
    source_ids: tuple[str, ...]
    """Ids of the nodes that the response names as its sources, in its order."""
    spans: CallSpans
    output: Output = NO_OUTPUT
    """What was noted of an output, beside the answer that stands in it."""
    calls: tuple[Call, ...] = ()
    """The request's model calls, in start order."""
    steps: tuple[Step, ...] = ()
    """A workflow's steps that were handed documents, or handed on some, in start order."""
