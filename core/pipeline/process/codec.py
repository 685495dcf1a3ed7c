"""Pickle samples and scores for the way between the two processes.

Each sample is pickled on its own, so that one that fails costs no other; the scores of a frame together, so
that shared values are sent once.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import RagSample, Reference, RetrievalStage, RetrievedContext, Score
from ragmeter.metrics.errors import loggable

__all__ = ["AttemptErrors", "Parcel", "pack_sample", "pack_scores", "unpack_scores"]

_CANNOT = "the request cannot be sent to the worker process"
_IDENTITY = ("name", "method", "definition", "target", "range", "direction")


class AttemptErrors(ErrorLog):
    """Keeps the error that a guard contained, as a reason."""

    def __init__(self) -> None:
        # Without `super().__init__`: it counts nothing, and every request makes one.
        self.failure: str | None = None

    def report(self, component: str, error: Exception) -> None:
        """Remember `error`."""
        self.failure = f"{component}: {loggable(error)}"


class Parcel:
    """A sample packed for the worker, for any number of attempts.

    Args:
        sample: The sample.
        left_out: As for `pack_sample`.
    """

    def __init__(self, sample: RagSample, left_out: Callable[[str], None]) -> None:
        self._sample = sample
        self._left_out = left_out
        self.packed = b""
        self.failure: str | None = None
        """Why it cannot be sent, if it cannot."""
        self._pack("", plain=False)

    def unreadable(self, reason: str) -> None:
        """Reduce it to Python's own types, as the worker could not read it."""
        self._pack(reason, plain=True)

    def _pack(self, reason: str, *, plain: bool) -> None:
        packed = pack_sample(self._sample, self._left_out, plain=plain)
        if isinstance(packed, str):
            self.failure = packed
        elif packed == self.packed:
            self.failure = reason
        else:
            self.packed = packed


def pack_sample(
    sample: RagSample, left_out: Callable[[str], None], *, plain: bool = False
) -> bytes | str:
    """Pickle a sample; return the reason as a string if that fails.

    Args:
        sample: The sample.
        left_out: Called with the type of each value (of metadata or of a subclass's field) that cannot be
            sent and is dropped.
        plain: Send only metadata of Python's own types, as the worker could not read the rest.
    """
    attempt = AttemptErrors()
    if not plain:
        with Guard(_CANNOT, attempt):
            return pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
    with Guard(_CANNOT, attempt):
        reduced = _reduce(sample, left_out, {}, plain=plain)
        return pickle.dumps(reduced, pickle.HIGHEST_PROTOCOL)
    return attempt.failure or ""


def _reduce(
    value: Any, left_out: Callable[[str], None], known: dict[int, Any], *, plain: bool
) -> Any:
    """Return a part of a sample without metadata that cannot be sent, or not read by every process if `plain`.

    Instances of subclasses become instances of our classes, without added fields. `known` holds contexts
    already reduced, so that one that passed several stages is sent once.
    """
    if id(value) in known:
        return known[id(value)]
    for kind in (RagSample, Reference, RetrievalStage, RetrievedContext):
        if isinstance(value, kind):
            given = {name: getattr(value, name) for name in value.model_fields_set}
            ours = {
                name: _reduce(given[name], left_out, known, plain=plain)
                for name in given.keys() & kind.model_fields.keys()
            }
            if plain:
                known[id(value)] = value.model_copy(update=ours)
                return known[id(value)]
            for name in given.keys() - ours.keys():
                left_out(type(given[name]).__name__)
            known[id(value)] = kind(**ours)
            return known[id(value)]
    if isinstance(value, tuple):
        return tuple(_reduce(item, left_out, known, plain=plain) for item in value)
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        with Guard("metadata", AttemptErrors()):  # a value may raise anything
            (marshal if plain else pickle).dumps(item)
            kept[key] = item
        if key not in kept:
            left_out(type(item).__name__)
    return kept


def pack_scores(batch: Sequence[Sequence[Score]]) -> bytes:
    """Pickle the scores of some requests; one that cannot be sent is replaced by an error."""
    with Guard("a score", AttemptErrors()):
        return pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
    sendable = [[_sendable(score) for score in scores] for scores in batch]
    return pickle.dumps(sendable, pickle.HIGHEST_PROTOCOL)


def _sendable(score: Score) -> Score:
    attempt = AttemptErrors()
    with Guard("it cannot be sent to the meter's process", attempt):
        pickle.dumps(score, pickle.HIGHEST_PROTOCOL)
        return score
    known: dict[str, Any] = {name: getattr(score, name) for name in _IDENTITY}
    return Score(
        value=None,
        status="metric_error",
        explanation=attempt.failure,
        error_type="worker",
        **known,
    )


def unpack_scores(packed: bytes) -> list[list[Score]]:
    """Unpickle the scores of `pack_scores`."""
    batch: list[list[Score]] = pickle.loads(packed)  # noqa: S301 -- from our own process at the other end
    return batch
