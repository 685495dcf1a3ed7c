"""How samples and scores cross between the two processes.

Both are pickled as they are.  Samples each on its own: one that cannot be sent costs no other.  The
scores of a frame together: what several requests share is sent, and read, once.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import RagSample, Reference, RetrievalStage, RetrievedContext, Score
from ragmeter.metrics.errors import loggable

__all__ = ["Attempt", "pack_sample", "pack_scores", "unpack_scores"]


M = TypeVar("M", bound=BaseModel)


class Attempt(ErrorLog):
    """Keeps what a guard contained, to be given as a reason."""

    def __init__(self) -> None:
        # Not as an `ErrorLog` is made: it counts nothing, and one is made for every request.
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
        left_out: Called with the type of each value that the sample goes without, of metadata or of
            a field that a subclass added, as it cannot be sent.
        plain: Send metadata made of Python's own types only: the worker could not read the rest.
    """
    attempt = Attempt()
    if plain:
        sample = sample.model_copy(update=_trimmed(sample, marshal.dumps, left_out))
    with Guard("the request cannot be sent to the worker process", attempt):
        return pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
    with Guard("the request cannot be sent to the worker process", attempt):
        fields = _trimmed(sample, pickle.dumps, left_out)
        fields["reference"] = _as(Reference, sample.reference, {}, left_out)
        return pickle.dumps(_as(RagSample, sample, fields, left_out), pickle.HIGHEST_PROTOCOL)
    return attempt.failure or ""


def _as(
    kind: type[M], model: M | None, fields: Mapping[str, Any], left_out: Callable[[str], None]
) -> M | None:
    """Return what a subclass's object has of `kind` itself: what it adds is left out."""
    if model is None:
        return None
    for name in model.model_fields_set - kind.model_fields.keys():
        left_out(type(getattr(model, name)).__name__)
    given = {
        name: getattr(model, name) for name in model.model_fields_set if name in kind.model_fields
    }
    return kind(**{name: fields.get(name, value) for name, value in given.items()})


def _trimmed(
    sample: RagSample, dumps: Callable[[Any], bytes], left_out: Callable[[str], None]
) -> dict[str, Any]:
    """Return the sample's fields with contexts, these without metadata that cannot be sent."""
    known: dict[int, RetrievedContext] = {}

    def trimmed(contexts: Iterable[RetrievedContext]) -> tuple[RetrievedContext, ...]:
        # A context that passed several stages is sent once.
        for context in contexts:
            if id(context) not in known:
                known[id(context)] = _without_unsendable(context, dumps, left_out)
        return tuple(known[id(context)] for context in contexts)

    contexts, stages = sample.contexts, sample.stages
    return {
        "contexts": None if contexts is None else trimmed(contexts),
        "stages": None
        if stages is None
        else tuple(
            RetrievalStage(
                name=stage.name,
                kind=stage.kind,
                contexts=None if stage.contexts is None else trimmed(stage.contexts),
                inputs=stage.inputs,
                recorded=stage.recorded,
            )
            for stage in stages
        ),
    }


def _without_unsendable(
    context: RetrievedContext, dumps: Callable[[Any], bytes], left_out: Callable[[str], None]
) -> RetrievedContext:
    kept: dict[str, Any] = {}
    for key, value in context.metadata.items():
        with Guard("metadata", Attempt()):  # a value may raise anything
            dumps(value)
            kept[key] = value
        if key not in kept:
            left_out(type(value).__name__)
    return RetrievedContext(text=context.text, id=context.id, score=context.score, metadata=kept)


def pack_scores(batch: Sequence[Sequence[Score]]) -> bytes:
    """Return the scores of some requests as bytes; one that cannot be sent is replaced and says so."""
    with Guard("a score", Attempt()):
        return pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
    sendable = [[_sendable_score(score) for score in scores] for scores in batch]
    return pickle.dumps(sendable, pickle.HIGHEST_PROTOCOL)


def _sendable_score(score: Score) -> Score:
    attempt = Attempt()
    with Guard("it cannot be sent to the meter's process", attempt):
        pickle.dumps(score, pickle.HIGHEST_PROTOCOL)
        return score
    return _unsendable(score, attempt.failure)


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


def unpack_scores(packed: bytes) -> list[list[Score]]:
    """Return the scores that `pack_scores` was given."""
    batch: list[list[Score]] = pickle.loads(packed)  # noqa: S301 -- from our own process at the other end
    return batch
