"""A request of one framework within a request of another: together they are one request of the user.

Each framework keeps its own context variable of what runs around the current code. An adapter can look up an
open request there (`Finder`); when a request begins, those of other frameworks are asked. If one knows a
request around it, both share an order of events, and at its end the inner one becomes a part of the outer
(`InnerRequest`): its calls of models are calls of the outer request, what reached its model is its retrieval.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.reading.route import Found
from ragmeter.exporters.protocol import RagRun

if TYPE_CHECKING:
    from ragmeter import RagMeter
    from ragmeter.adapters.reading.step import Step


class InnerRequest:
    """A request that ended within another one.

    Args:
        read: Builds its run, None if it did not retrieve, and returns its calls of models; on the worker.
        retrieved: Whether it tried to retrieve.
        size_bytes: Estimated size of the texts it holds.
    """

    def __init__(
        self, read: Callable[[], tuple[RagRun | None, Sequence[Step]]], *, retrieved: bool, size_bytes: int
    ) -> None:
        self._read = read
        self.retrieved = retrieved
        self.size_bytes = size_bytes

    @cached_property
    def result(self) -> tuple[RagRun | None, Sequence[Step]]:
        """Its run and its calls of models."""
        return self._read()

    @property
    def documents(self) -> tuple[ContextSnapshot, ...] | None:
        """What reached its model, or what it found without one; None if unknown."""
        run, _ = self.result
        if run is None or run.sample.contexts is None:
            return None
        return tuple(
            [ContextSnapshot(one.text, one.id, one.score, one.metadata) for one in run.sample.contexts]
        )


N = TypeVar("N", bound=Found)


def read_parts(notes: list[N]) -> None:
    """Read what the parts among retrievals found; one that turns out not to have retrieved is left out."""
    for note in [note for note in notes if note.part is not None]:
        part = cast("InnerRequest", note.part)
        run = part.result[0]
        if run is None:
            notes.remove(note)
        else:
            note.contexts, note.query = part.documents, run.sample.search_query or run.sample.question


def runs_of(notes: Iterable[Found]) -> list[RagRun]:
    """Return the runs of the parts among retrievals."""
    runs = [note.part.result[0] for note in notes if note.part is not None]
    return [run for run in runs if run is not None]


def with_calls_of(parts: Iterable[InnerRequest], calls: Iterable[Step]) -> list[Step]:
    """Return the calls of a request and of its parts, in start order."""
    return sorted(
        (*calls, *(call for part in parts for call in part.result[1])), key=lambda call: call.started_ns
    )


class Enclosure(NamedTuple):
    """An open request around the current code."""

    clock: Iterator[int]
    """The further positions in the order of its events."""
    take: Callable[[InnerRequest], bool]
    """Adds a part to it; returns whether it is still open."""

    def offer(
        self, read: Callable[[], tuple[RagRun | None, Sequence[Step]]], *, retrieved: bool, size_bytes: int
    ) -> bool:
        """Add a request that has ended, as in `InnerRequest`; return whether this one is still open."""
        return self.take(InnerRequest(read, retrieved=retrieved, size_bytes=size_bytes))


NOT_CAPTURED = Enclosure(count(), bool)
"""Around requests that do not count: within a retriever, or in a request that is not captured."""


class Finder(Protocol):
    """An adapter that knows the open requests of its framework."""

    def enclosure(self) -> Enclosure | None:
        """Return the request around the current code, by the framework's own context; None if there is none."""


_Finders = list[tuple[str, "weakref.ref[Finder]"]]
_by_meter: weakref.WeakKeyDictionary[RagMeter, _Finders] = weakref.WeakKeyDictionary()


def register(meter: RagMeter, framework: str, finder: Finder) -> _Finders:
    """Let the other frameworks' requests of a meter be found by `finder`; return all finders."""
    finders = _by_meter.setdefault(meter, [])
    finders.append((framework, weakref.ref(finder)))
    finders[:] = [one for one in finders if one[1]() is not None]
    return finders


def enclosure_around(finders: _Finders, framework: str) -> Enclosure | None:
    """Return the open request of another framework around a request that begins, or None."""
    for name, known in finders:
        finder = None if name == framework else known()
        found = None if finder is None else finder.enclosure()
        if found is not None:
            return found
    return None
