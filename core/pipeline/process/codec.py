"""Pickle what goes between the two processes: metrics and judge, samples and scores.

Each sample is pickled separately, so that one that fails costs no other; the scores of a frame together, so
that shared values are sent once. The meter pickles metrics and judge at construction, so that an object that
cannot be sent is a configuration error; each metric separately, so that one that the worker cannot load costs
no other. Keys of judges are never in these pickles; budgets stay in the meter's process.
"""

from __future__ import annotations

import io
import marshal
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

from pydantic import SecretBytes, SecretStr

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import (
    ConfigurationError,
    Metric,
    RagSample,
    Reference,
    RetrievalStage,
    RetrievedContext,
    Score,
)
from ragmeter.metrics.errors import loggable
from ragmeter.metrics.judge.budget import JudgeBudget
from ragmeter.metrics.judge.protocol import Judge

_CANNOT = "the request cannot be sent to the worker process"
_IDENTITY = ("name", "method", "definition", "target", "range", "direction")


class AttemptErrors(ErrorLog):
    """Stores the error that a guard contained, as a reason."""

    def __init__(self) -> None:
        # Without `super().__init__`: it counts nothing, and every request makes one.
        self.failure: str | None = None

    def report(self, component: str, error: Exception) -> None:
        """Store `error`."""
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


def pack_sample(sample: RagSample, left_out: Callable[[str], None], *, plain: bool = False) -> bytes | str:
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


def _reduce(value: Any, left_out: Callable[[str], None], known: dict[int, Any], *, plain: bool) -> Any:
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
    return Score(value=None, status="metric_error", explanation=attempt.failure, error_type="worker", **known)


def unpack_scores(packed: bytes) -> list[list[Score]]:
    """Unpickle the scores of `pack_scores`."""
    batch: list[list[Score]] = pickle.loads(packed)  # noqa: S301 -- from our own process at the other end
    return batch


UNSENDABLE = (pickle.PickleError, AttributeError, TypeError, ValueError, RecursionError)
"""The errors of pickling an object that cannot be pickled."""


@runtime_checkable
class KeepsSecrets(Protocol):
    """An object that can be rebuilt from settings and secrets: `OpenAIJudge`, `OpenAIEmbedder`."""

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its arguments: those that may be pickled, and those that must not be."""
        ...


@dataclass
class Payload:
    """The pickled metrics and judge, for any number of workers."""

    metrics: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    """A pickle of each metric, by the names of its scores."""
    judge: bytes = b""
    """A pickle of the judge, or of None."""
    secrets: list[dict[str, Any]] = field(default_factory=list)
    """Secrets removed from the pickles: secret arguments of judge and embedder, and values that frameworks
    mark as secret."""
    budgets: list[JudgeBudget] = field(default_factory=list)
    """Budgets, referenced by number in the pickles."""

    def __repr__(self) -> str:
        return f"<Payload of {len(self.metrics)} metrics>"


def make_payload(metrics: Sequence[Metric], judge: Judge | None) -> Payload:
    """Build the payload of a worker.

    Raises:
        ConfigurationError: A metric or the judge cannot be pickled; names it and the fix.
    """
    payload = Payload()
    seen: dict[int, tuple[Any, ...]] = {}
    for metric in metrics:
        pickled = _pickle(metric, f"metric {metric.name!r}", payload, seen)
        payload.metrics[metric.score_names] = pickled
    payload.judge = _pickle(judge, f"the judge {judge!r}", payload, seen)
    return payload


def _pickle(thing: object, what: str, payload: Payload, seen: dict[int, tuple[Any, ...]]) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, payload, seen).dump(thing)
    except UNSENDABLE as error:
        raise ConfigurationError(
            f"scoring='process' cannot send {what} to the worker process: {error}; define it "
            "at the top level of a module that can be imported (not in the script that is "
            "run, not inside a function), or keep scoring='thread'"
        ) from error
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Moves secrets and budgets into the payload, and pickles references to them."""

    def __init__(self, buffer: io.BytesIO, payload: Payload, seen: dict[int, tuple[Any, ...]]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._payload = payload
        self._seen = seen

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        if id(obj) not in self._seen:
            if isinstance(obj, KeepsSecrets) and not isinstance(obj, type):
                settings, secret = obj.settings_and_secrets()
                self._seen[id(obj)] = ("judge", len(self._payload.secrets), type(obj), settings)
                self._payload.secrets.append(secret)
            elif isinstance(obj, (SecretStr, SecretBytes)):
                self._seen[id(obj)] = ("secret", len(self._payload.secrets), type(obj))
                self._payload.secrets.append({"value": obj.get_secret_value()})
            elif isinstance(obj, JudgeBudget) and obj.counts:
                self._seen[id(obj)] = ("budget", len(self._payload.budgets), obj.limits)
                self._payload.budgets.append(obj)
        return self._seen.get(id(obj))

    def reducer_override(self, obj: object) -> Any:
        # Pickle sends it by name, but the worker's main module is another one.
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__!r} is defined in the main module")
        return NotImplemented


class Unpickler(pickle.Unpickler):
    """Reads one pickle of a `Payload` in the worker.

    Args:
        pickled: The pickle.
        secrets: As in the payload.
        budget: Makes the proxy of a budget from its number and limits.
        made: Objects by reference: the same number gives the same object.
    """

    def __init__(
        self,
        pickled: bytes,
        secrets: Sequence[Mapping[str, Any]],
        budget: Callable[[int, Mapping[str, Any]], JudgeBudget],
        made: dict[tuple[str, int], Any],
    ) -> None:
        super().__init__(io.BytesIO(pickled))
        self._secrets = secrets
        self._budget = budget
        self._made = made

    def persistent_load(self, pid: Any) -> Any:
        """Return the object of a reference."""
        kind, number, *rest = pid
        if (kind, number) not in self._made:
            if kind == "judge":
                make, settings = rest
                self._made[kind, number] = make(**settings, **self._secrets[number])
            elif kind == "secret":
                self._made[kind, number] = rest[0](self._secrets[number]["value"])
            else:
                self._made[kind, number] = self._budget(number, *rest)
        return self._made[kind, number]
