"""How samples and scores cross between the two processes.

Both are pickled as they are, the samples each on its own: one that cannot be sent costs no other.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import RagSample, Reference, RetrievedContext, Score
from ragmeter.metrics.errors import loggable

__all__ = ["Attempt", "pack_sample", "pack_scores", "unpack_scores"]


class Attempt(ErrorLog):
    """Keeps what a guard contained, to be given as a reason."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: str | None = None

    def report(self, component: str, error: Exception) -> None:
        """Remember `error`."""
        self.failure = f"{component}: {loggable(error)}"


def pack_sample(
    sample: RagSample, left_out: Callable[[str], None], *, plain: bool = False
) -> bytes | str:
    """Return a sample as bytes, or why it cannot be sent.

    Args:
        sample: What to send.
        left_out: Called with the type of each metadata value that the sample goes without: it cannot be
            sent.
        plain: Send metadata made of Python's own types only: the worker could not read the rest.
    """
    attempt = Attempt()
    if plain:
        contexts = _trimmed(sample.contexts, marshal.dumps, left_out)
        sample = sample.model_copy(update={"contexts": contexts})
    with Guard("the request cannot be sent to the worker process", attempt):
        return pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
    with Guard("the request cannot be sent to the worker process", attempt):
        return pickle.dumps(_sendable(sample, left_out), pickle.HIGHEST_PROTOCOL)
    return attempt.failure or ""


def _sendable(sample: RagSample, left_out: Callable[[str], None]) -> RagSample:
    """Return `sample` without what its classes add and without metadata that cannot be pickled."""
    fields = {name: getattr(sample, name) for name in sample.model_fields_set & _SAMPLE_FIELDS}
    if sample.contexts is not None:
        fields["contexts"] = _trimmed(sample.contexts, pickle.dumps, left_out)
    reference = sample.reference
    if reference is not None:
        given = reference.model_fields_set & _REFERENCE_FIELDS
        fields["reference"] = Reference(**{name: getattr(reference, name) for name in given})
    return RagSample(**fields)


_SAMPLE_FIELDS = frozenset(RagSample.model_fields)
_REFERENCE_FIELDS = frozenset(Reference.model_fields)


def _trimmed(
    contexts: Sequence[RetrievedContext] | None,
    dumps: Callable[[Any], bytes],
    left_out: Callable[[str], None],
) -> tuple[RetrievedContext, ...] | None:
    if contexts is None:
        return None
    trimmed: list[RetrievedContext] = []
    for context in contexts:
        kept: dict[str, Any] = {}
        for key, value in context.metadata.items():
            attempt = Attempt()
            with Guard("metadata", attempt):  # a value may raise anything
                dumps(value)
            if attempt.failure is None:
                kept[key] = value
            else:
                left_out(type(value).__name__)
        trimmed.append(
            RetrievedContext(text=context.text, id=context.id, score=context.score, metadata=kept)
        )
    return tuple(trimmed)


def pack_scores(scores: Sequence[Score]) -> bytes:
    """Return scores as bytes; one that cannot be sent is replaced by one that says so."""
    attempt = Attempt()
    with Guard("it cannot be sent to the meter's process", attempt):
        return pickle.dumps(list(scores), pickle.HIGHEST_PROTOCOL)
    if len(scores) == 1:
        return pack_scores([_unsendable(scores[0], attempt.failure)])
    each = [pickle.loads(pack_scores([score]))[0] for score in scores]  # noqa: S301 -- our own
    return pickle.dumps(each, pickle.HIGHEST_PROTOCOL)


def _unsendable(score: Score, reason: str | None) -> Score:
    return Score(
        name=score.name,
        value=None,
        status="metric_error",
        method=score.method,
        definition=score.definition,
        target=score.target,
        range=score.range,
        direction=score.direction,
        explanation=reason,
        error_type="worker",
    )


def unpack_scores(packed: bytes) -> list[Score]:
    """Return the scores that `pack_scores` was given."""
    scores: list[Score] = pickle.loads(packed)  # noqa: S301 -- from our own process at the other end
    return scores
