"""How samples and scores cross between the two processes.

Both are pickled as they are.  Samples each on its own: one that cannot be sent costs no other.  The
scores of a frame together: what several requests share is sent, and read, once.
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
_WHAT_IT_IS = ("name", "method", "definition", "target", "range", "direction")


class AttemptErrors(ErrorLog):
    """Keeps what a guard contained, to be given as a reason."""

    def __init__(self) -> None:
        # Not as an `ErrorLog` is made: it counts nothing, and one is made for every request.
        self.failure: str | None = None

    def report(self, component: str, error: Exception) -> None:
        """Remember `error`."""
        self.failure = f"{component}: {loggable(error)}"


class Parcel:
    """A sample on its way to the worker, however often it is sent.

    Args:
        sample: What to send.
        left_out: As for `pack_sample`.
    """

    def __init__(self, sample: RagSample, left_out: Callable[[str], None]) -> None:
        self._sample = sample
        self._left_out = left_out
        self.packed = b""
        self.failure: str | None = None
        """Why it cannot be sent, if so."""
        self._pack("", plain=False)

    def unreadable(self, reason: str) -> None:
        """Reduce it to what every process can read: a worker could not."""
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
    """Return a sample as bytes, or why it cannot be sent.

    Args:
        sample: What to send.
        left_out: Called with the type of each value that the sample goes without, of metadata or of
            a field that a subclass added, as it cannot be sent.
        plain: Send metadata made of Python's own types only: the worker could not read the rest.
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
    """Return a part of a sample without the metadata that cannot be sent, or read by all if `plain`.

    Where something cannot be sent, a subclass's object becomes what it has of our own class: what it
    adds is left out. A context that passed several stages is sent once: it is `known` then.
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
    """Return the scores of some requests as bytes; one that cannot be sent is replaced and says so."""
    with Guard("a score", AttemptErrors()):
        return pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
    sendable = [[_sendable(score) for score in scores] for scores in batch]
    return pickle.dumps(sendable, pickle.HIGHEST_PROTOCOL)


def _sendable(score: Score) -> Score:
    attempt = AttemptErrors()
    with Guard("it cannot be sent to the meter's process", attempt):
        pickle.dumps(score, pickle.HIGHEST_PROTOCOL)
        return score
    known: dict[str, Any] = {name: getattr(score, name) for name in _WHAT_IT_IS}
    return Score(
        value=None,
        status="metric_error",
        explanation=attempt.failure,
        error_type="worker",
        **known,
    )


def unpack_scores(packed: bytes) -> list[list[Score]]:
    """Return the scores that `pack_scores` was given."""
    batch: list[list[Score]] = pickle.loads(packed)  # noqa: S301 -- from our own process at the other end
    return batch
