"""Pickle the metrics and the judge for the worker, with every secret kept out of the pickles.

The meter makes one at construction, so that an object that cannot be sent is a configuration error. Each
metric is pickled on its own, so that one that the worker cannot load costs no other. Keys of judges are never
in these pickles; budgets stay in the meter's process.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

from pydantic import SecretBytes, SecretStr

from ragmeter.metrics import ConfigurationError, Metric
from ragmeter.metrics.judge.budget import JudgeBudget
from ragmeter.metrics.judge.protocol import Judge

__all__ = ["UNSENDABLE", "KeepsSecrets", "Payload", "Unpickler", "make_payload"]

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

    def __init__(
        self, buffer: io.BytesIO, payload: Payload, seen: dict[int, tuple[Any, ...]]
    ) -> None:
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
