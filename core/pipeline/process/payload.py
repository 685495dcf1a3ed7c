"""What the worker is sent once: its metrics and its judge, with every secret kept out of the pickles.

The meter makes one when it is built, so that what cannot be sent is a misconfiguration then and not
a surprise later.  Each metric is pickled on its own: one that the worker cannot load
takes no other with it.  Keys of judges never stand in these pickles; budgets stay in the meter's process
and are asked from the worker.
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
"""What pickling raises when something cannot be pickled."""


@runtime_checkable
class KeepsSecrets(Protocol):
    """What can be made again of its settings and its secrets: `OpenAIJudge`, `OpenAIEmbedder`."""

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its arguments: those that may be pickled, and those that must not be."""
        ...


@dataclass
class Payload:
    """The metrics and the judge, ready to be sent to any number of workers, one after another."""

    metrics: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    """A pickle of each metric, by the names of its scores."""
    judge: bytes = b""
    """A pickle of the judge, or of None."""
    secrets: list[dict[str, Any]] = field(default_factory=list)
    """What was taken out of the pickles: secret arguments of judge and embedder, and what their
    frameworks mark as secret."""
    budgets: list[JudgeBudget] = field(default_factory=list)
    """The budgets that the pickles refer to by number."""

    def __repr__(self) -> str:
        return f"<Payload of {len(self.metrics)} metrics>"


def make_payload(metrics: Sequence[Metric], judge: Judge | None) -> Payload:
    """Pickle what a worker needs.

    Raises:
        ConfigurationError: A metric or the judge cannot be sent to another process; names it and
            says what to do.
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
    """Puts secrets and budgets into the payload instead, and a reference into the pickle."""

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
        # Pickle would send it by name, and the worker's main module is another one.
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__!r} is defined in the main module")
        return NotImplemented


class Unpickler(pickle.Unpickler):
    """Reads one pickle of a `Payload` in the worker.

    Args:
        pickled: The pickle.
        secrets: As in the payload.
        budget: Makes what stands in the worker for a budget: its number and limits.
        made: What was made for references so far: the same object for the same number.
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
        """Return what a reference stands for."""
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
