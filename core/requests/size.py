"""Estimate the memory of a request's texts and metadata, for the bounds of queues.

This also runs on the request's path, so it uses only types and lengths, runs no code of the application's
classes, and stops early: a list of a thousand numbers is estimated from its first few.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from ragmeter.metrics import RagSample, RetrievedContext

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import RagRun

    from .scope import RequestScope

__all__ = ["weight_of", "weight_of_run", "weight_of_sample", "weight_of_scope"]

OBJECT = 64
"""Bytes for anything but texts and containers."""
DEPTH = 4
"""Levels of nested containers to inspect."""
SHOWN = 32
"""Items of a container to measure; the others count with their average."""


def weight_of(value: object) -> int:
    """Estimate the bytes of `value`."""
    if type(value) is str:
        return getsizeof(value)
    if value is None:
        return 0
    if type(value) is dict and not value:
        return OBJECT  # most metadata
    try:
        return _weight(value, DEPTH)
    except RuntimeError:  # modified by another thread
        return OBJECT


def weight_of_sample(sample: RagSample) -> int:
    """Estimate the bytes of a sample's texts and metadata; a context of several stages counts once."""
    return _weight_of_sample(sample, set())


def _weight_of_sample(sample: RagSample, known: set[int]) -> int:
    weight = sum(map(weight_of, (sample.question, sample.search_query, sample.answer)))
    weight += _weight_of_contexts(sample.support, known)
    for stage in sample.stages or ():
        weight += OBJECT + _weight_of_contexts(stage.contexts or (), known)
    reference = sample.reference
    if reference is not None:
        weight += weight_of(reference.answer) + sum(
            [weight_of(text) for text in (*reference.contexts, *reference.alternative_answers)]
        )
        weight += weight_of(reference.context_ids) + weight_of(reference.orphaned_ids)
    return weight


def weight_of_run(run: RagRun) -> int:
    """Estimate the bytes of a run: sample, metadata and retrievals."""
    known: set[int] = set()
    weight = _weight_of_sample(run.sample, known) + weight_of(run.metadata) + weight_of(run.tags)
    weight += weight_of(run.framework_metadata)
    for retrieval in run.retrievals:
        weight += OBJECT + weight_of(retrieval.query)
        weight += _weight_of_contexts(retrieval.contexts, known)
    return weight


def weight_of_scope(scope: RequestScope) -> int:
    """Estimate the bytes of a scope."""
    weight = weight_of(scope.question) + weight_of(scope.metadata) + weight_of(scope.tags)
    reference = scope.reference
    return weight if reference is None else weight + _weight(reference, DEPTH)


def _weight_of_contexts(contexts: Iterable[RetrievedContext], known: set[int]) -> int:
    """Estimate the bytes of contexts not yet `known` by identity, and add them there."""
    weight = 0
    for context in contexts:
        if id(context) not in known:
            known.add(id(context))
            weight += OBJECT + getsizeof(context.text)
            weight += weight_of(context.metadata) if context.metadata else OBJECT
    return weight


def _weight(value: Any, depth: int) -> int:
    # By `type`, not `isinstance`, which runs code of the object.
    kind = type(value)
    if kind in _EXACT:
        return getsizeof(value)
    if issubclass(kind, str):
        return OBJECT + str.__len__(value)
    if issubclass(kind, bytes):
        return OBJECT + bytes.__len__(value)
    if kind in _SMALL or not depth:
        return OBJECT
    if issubclass(kind, dict):
        weight = 0
        # Common types of metadata are measured inline, without a call.
        for key, item in islice(dict.items(value), SHOWN):
            weight += getsizeof(key) if type(key) is str else OBJECT
            if type(item) is str:
                weight += getsizeof(item)
            else:
                weight += OBJECT if type(item) in _SMALL else _weight(item, depth - 1)
        number = dict.__len__(value)
        return OBJECT + (weight if number <= SHOWN else weight * number // SHOWN)
    if kind in _CONTAINERS:
        return _extrapolate(len(value), [_weight(item, depth - 1) for item in islice(value, SHOWN)])
    if kind.__module__ in _MEASURABLE:
        return getsizeof(value)
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return OBJECT
    return OBJECT + (_weight(fields, depth - 1) if type(fields) is dict else 0)


def _extrapolate(number: int, weights: list[int]) -> int:
    if not weights:
        return OBJECT
    return OBJECT + sum(weights) * number // len(weights)


_EXACT = frozenset({str, bytes, bytearray})
_SMALL = frozenset({int, float, bool, type(None), complex})
_CONTAINERS = frozenset({list, tuple, set, frozenset})
_MEASURABLE = frozenset({"numpy", "array"})
"""Modules whose objects report their real size."""
