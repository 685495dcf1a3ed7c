"""Samples and scores as plain values, so that both processes spend little on passing them.

The meter's process and its worker call this at both ends of the channel.  Pydantic objects pickle
five times slower than the tuples they are made of, and the time would be spent under the lock that
the worker is there to spare.  What holds something else than plain values is pickled: a metadata
value of a sample on its own, so that one nobody can send costs nothing but itself.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ragmeter.metrics import RagSample, Reference, RetrievedContext, Score
from ragmeter.metrics.score import ScoreItem, unvalidated

__all__ = [
    "UNSENDABLE",
    "pack",
    "pack_sample",
    "pack_scores",
    "unpack",
    "unpack_sample",
    "unpack_scores",
]

UNSENDABLE = (pickle.PickleError, AttributeError, TypeError, ValueError, RecursionError)
"""What pickling raises when something cannot be pickled."""

Packed = tuple[Any, ...]
M = TypeVar("M", bound=BaseModel)
Losing = AbstractContextManager[object]
"""Contains whatever is raised within it, and tells somebody."""

_SCORE_FIELDS = tuple(Score.model_fields)
_ITEM_FIELDS = tuple(ScoreItem.model_fields)
_STATUS = _SCORE_FIELDS.index("status")
_WITHOUT_TEXT = frozenset({"missing_input", "skipped"})
"""Their explanation names fields and reasons, never what a request said."""


def pack(value: Any) -> bytes:
    """Return `value`, made of plain values, as bytes; what marshal refuses is pickled.

    Raises:
        Exception: One of `UNSENDABLE`.
    """
    try:
        return b"m" + marshal.dumps(value)
    except ValueError:
        return b"p" + pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes | memoryview) -> Any:
    """Return what `pack` was given."""
    body = memoryview(data)[1:]
    if data[:1] == b"m":
        return marshal.loads(body)  # noqa: S302 -- from our own process at the other end
    return pickle.loads(body)  # noqa: S301 -- likewise


def pack_sample(sample: RagSample, losing: Losing) -> Packed:
    """Return a sample as plain values.

    Args:
        sample: What to send.
        losing: Contains and tells what a metadata value that cannot be sent raises; the sample goes
            without it.
    """
    reference = sample.reference
    if type(sample) is not RagSample or not (reference is None or type(reference) is Reference):
        with losing:
            return ("pickled", pickle.dumps(sample, pickle.HIGHEST_PROTOCOL))
        sample = _as(RagSample, sample)
        reference = None if reference is None else _as(Reference, reference)
    contexts = sample.contexts
    return (
        "plain",
        _state(sample),
        None if contexts is None else [_pack_context(context, losing) for context in contexts],
        None if reference is None else _state(reference),
    )


def unpack_sample(packed: Packed, losing: Losing) -> RagSample:
    """Return the sample that `pack_sample` was given; metadata that cannot be read is left out."""
    if packed[0] == "pickled":
        return cast("RagSample", pickle.loads(packed[1]))  # noqa: S301 -- from our own process
    _, (fields, given), contexts, reference = packed
    fields["contexts"] = (
        None if contexts is None else tuple(_unpack_context(one, losing) for one in contexts)
    )
    fields["reference"] = None if reference is None else unvalidated(Reference, *reference)
    return unvalidated(RagSample, fields, given)


def _state(model: BaseModel) -> tuple[dict[str, Any], set[str]]:
    fields = dict(model.__dict__)
    if type(model) is RagSample:
        fields["contexts"] = fields["reference"] = None  # packed on their own, put back in place
    return fields, model.model_fields_set


def _as(kind: type[M], model: M) -> M:
    """Return what a subclass's object has of `kind` itself: what it adds could not be sent."""
    fields = {name: getattr(model, name) for name in kind.model_fields}
    return unvalidated(kind, fields, model.model_fields_set & fields.keys())


def _pack_context(context: RetrievedContext, losing: Losing) -> Packed:
    if type(context) is not RetrievedContext:
        with losing:
            return (pickle.dumps(context, pickle.HIGHEST_PROTOCOL),)
        context = _as(RetrievedContext, context)
    metadata, others = context.metadata, {}
    if metadata and not _is_plain(metadata):
        plain: dict[str, Any] = {}
        for key, value in metadata.items():
            if _is_plain(value):
                plain[key] = value
                continue
            with losing:  # a value may raise whatever it likes
                others[key] = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        metadata = plain
    fields = dict(context.__dict__)
    fields["metadata"] = metadata
    return fields, context.model_fields_set, others


def _unpack_context(packed: Packed, losing: Losing) -> RetrievedContext:
    if len(packed) == 1:
        return cast("RetrievedContext", pickle.loads(packed[0]))  # noqa: S301 -- our own process
    fields, given, others = packed
    for key, pickled in others.items():
        with losing:
            fields["metadata"][key] = pickle.loads(pickled)  # noqa: S301 -- our own process
    return unvalidated(RetrievedContext, fields, given)


def _is_plain(value: Any) -> bool:
    try:
        marshal.dumps(value)
    except ValueError:
        return False
    return True


def pack_scores(scores: Iterable[Score], sample: RagSample) -> list[Packed]:
    """Return scores as plain values; a text of `sample` is sent as its number."""
    numbers = {text: number for number, text in enumerate(_texts(sample))}
    return [_pack_score(score, numbers) for score in scores]


def _pack_score(score: Score, numbers: Mapping[str, int]) -> Packed:
    if type(score) is not Score or any(type(item) is not ScoreItem for item in score.items):
        return (pickle.dumps(score, pickle.HIGHEST_PROTOCOL),)
    fields = score.__dict__
    items: list[Any] = []
    for item in score.items:
        of_item = item.__dict__
        text, evidence = of_item["text"], of_item["evidence"]
        items += (
            of_item["id"],
            of_item["verdict"],
            numbers.get(text, text),
            numbers.get(evidence, evidence),
            of_item["reason"],
            of_item["value"],
            _mask(item, _ITEM_FIELDS),
        )
    values = tuple([fields[name] if name != "items" else None for name in _SCORE_FIELDS])
    return values, _mask(score, _SCORE_FIELDS), tuple(items)


def unpack_scores(packed: Sequence[Packed], sample: RagSample) -> list[Score]:
    """Return the scores that `pack_scores` was given; texts of `sample` are its own again."""
    texts = _texts(sample)
    return [_unpack_score(one, texts) for one in packed]


def _unpack_score(packed: Packed, texts: Sequence[str]) -> Score:
    if len(packed) == 1:
        return cast("Score", pickle.loads(packed[0]))  # noqa: S301 -- from our own worker
    values, mask, flat = packed
    if not flat:
        return _usual(values, mask) if values[_STATUS] in _WITHOUT_TEXT else _score(values, mask)
    items: list[ScoreItem] = []
    parts = iter(flat)
    for item_id, verdict, text, evidence, reason, value, given in zip(*[parts] * 7, strict=True):
        fields = {
            "id": item_id,
            "verdict": verdict,
            "text": texts[text] if type(text) is int else text,
            "evidence": texts[evidence] if type(evidence) is int else evidence,
            "reason": reason,
            "value": value,
        }
        items.append(unvalidated(ScoreItem, fields, _names(ScoreItem, given)))
    return _score(values, mask, tuple(items))


def _score(values: Packed, mask: int, items: tuple[ScoreItem, ...] = ()) -> Score:
    fields = dict(zip(_SCORE_FIELDS, values, strict=True))
    fields["items"] = items
    return unvalidated(Score, fields, _names(Score, mask))


_usual = lru_cache(maxsize=512)(_score)
"""Most scores of a request without a reference say ``missing_input``: one object will do for all."""


def _mask(model: BaseModel, names: Sequence[str]) -> int:
    """Return which fields were given, as bits in the order of the fields."""
    given = model.model_fields_set
    return sum([1 << place for place, name in enumerate(names) if name in given])


@lru_cache(maxsize=1024)
def _names(kind: type[BaseModel], mask: int) -> set[str]:
    # Shared by all that were given the same fields: nobody changes it, the models are frozen.
    return {name for place, name in enumerate(kind.model_fields) if mask >> place & 1}


def _texts(sample: RagSample) -> list[str]:
    """Return the sample's texts, in an order that both ends know."""
    texts = [context.text for context in sample.contexts or ()]
    texts += [text for text in (sample.question, sample.answer) if text is not None]
    reference = sample.reference
    if reference is not None:
        texts += reference.contexts
        if reference.answer is not None:
            texts.append(reference.answer)
    return texts
