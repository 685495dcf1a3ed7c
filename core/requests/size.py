"""Estimate the memory of a request's texts and metadata, for the bounds of queues.

This also runs on the request's path, so it uses only types and lengths, runs no code of the application's
classes, and stops early: a list of a thousand numbers is estimated from its first few.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from ragmeter.metrics import RagSample, RetrievedContext

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import RagRun

    from .scope import RequestScope

OBJECT = 64
"""Bytes for anything but texts and containers."""
DEPTH = 4
"""Levels of nested containers to inspect."""
SHOWN = 32
"""Items of a container to measure; the others count with their average."""


def weight_of(*values: object) -> int:
    """Estimate the bytes of all `values` together; None holds none."""
    weight = 0.0
    waiting: list[tuple[Any, int, float]] = []
    for value in values:
        if type(value) is str:
            weight += getsizeof(value)
        elif value is not None:
            waiting.append((value, DEPTH, 1.0))
    while waiting:
        value, depth, times = waiting.pop()
        kind = type(value)  # not `isinstance`, which runs code of the object
        if kind in _EXACT or kind.__module__ in _MEASURABLE:
            weight += times * getsizeof(value)
            continue
        weight += times * OBJECT
        if issubclass(kind, str):
            weight += times * str.__len__(value)
            continue
        if kind in _SMALL or not depth:
            continue
        try:
            if kind in _CONTAINERS:
                number, shown = len(value), list(islice(value, SHOWN))
            else:
                is_dict = issubclass(kind, dict)
                fields = value if is_dict else object.__getattribute__(value, "__dict__")
                number = dict.__len__(fields)
                shown = list(chain.from_iterable(islice(dict.items(fields), SHOWN)))
        except (AttributeError, TypeError, RuntimeError):  # no fields; changed by another thread
            continue
        times *= max(1.0, number / SHOWN)
        for item in shown:
            if type(item) is str:
                weight += times * getsizeof(item)
            else:
                waiting.append((item, depth - 1, times))
    return int(weight)


def weight_of_sample(sample: RagSample) -> int:
    """Estimate the bytes of a sample's texts and metadata; a context of several stages counts once."""
    return _weight_of_sample(sample, set())


def _weight_of_sample(sample: RagSample, known: set[int]) -> int:
    weight = weight_of(sample.question, sample.search_query, sample.answer)
    weight += _weight_of_contexts(sample.support, known)
    for stage in sample.stages or ():
        weight += OBJECT + _weight_of_contexts(stage.contexts or (), known)
    reference = sample.reference
    if reference is not None:
        weight += weight_of(
            reference.answer,
            *reference.contexts,
            *reference.alternative_answers,
            reference.context_ids,
            reference.orphaned_ids,
        )
    return weight


def weight_of_run(run: RagRun) -> int:
    """Estimate the bytes of a run: sample, metadata and retrievals."""
    known: set[int] = set()
    weight = _weight_of_sample(run.sample, known)
    weight += weight_of(run.metadata, run.tags, run.framework_metadata)
    for retrieval in run.retrievals:
        weight += OBJECT + weight_of(retrieval.query)
        weight += _weight_of_contexts(retrieval.contexts, known)
    return weight


def weight_of_scope(scope: RequestScope) -> int:
    """Estimate the bytes of a scope."""
    return weight_of(scope.question, scope.metadata, scope.tags, scope.reference)


def _weight_of_contexts(contexts: Iterable[RetrievedContext], known: set[int]) -> int:
    """Estimate the bytes of contexts not yet `known` by identity, and add them there."""
    held: list[object] = []
    for context in contexts:
        if id(context) not in known:
            known.add(id(context))
            held += (context.text, context.metadata)
    return OBJECT * len(held) // 2 + weight_of(*held)


_EXACT = frozenset({str, bytes, bytearray})
_SMALL = frozenset({int, float, bool, type(None), complex})
_CONTAINERS = frozenset({list, tuple, set, frozenset})
_MEASURABLE = frozenset({"numpy", "array"})
"""Modules whose objects report their real size."""
