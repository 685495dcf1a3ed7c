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
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

from pydantic import SecretBytes, SecretStr

from ragmeter.metrics import ConfigurationError, Metric
from ragmeter.metrics.judge.budget import JudgeBudget
from ragmeter.metrics.judge.protocol import Judge

__all__ = ["UNSENDABLE", "KeepsSecrets", "Payload", "Unpacking", "make_payload"]

UNSENDABLE = (pickle.PickleError, AttributeError, TypeError, ValueError, RecursionError)
"""What pickling raises when something cannot be pickled."""


@runtime_checkable
class KeepsSecrets(Protocol):
    """What can be made again of its settings and its secrets: `OpenAIJudge`, `OpenAIEmbedder`."""

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its arguments: those that may be pickled, and those that must not be."""
        ...


@dataclass(frozen=True)
class Payload:
    """The metrics and the judge, ready to be sent to any number of workers, one after another."""

    metrics: tuple[bytes, ...]
    """One pickle per metric, in order."""
    judge: bytes
    """A pickle of the judge, or of None."""
    secrets: tuple[dict[str, Any], ...]
    """What was taken out of the pickles: secret arguments of judge and embedder, and what their
    frameworks mark as secret."""
    budgets: tuple[JudgeBudget, ...]
    """The budgets that the pickles refer to by number."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """What is sent to a worker: secrets, metrics and judge."""
        return self.secrets, self.metrics, self.judge

    def __repr__(self) -> str:
        return f"<Payload of {len(self.metrics)} metrics>"


def make_payload(metrics: Sequence[Metric], judge: Judge | None) -> Payload:
    """Pickle what a worker needs.

    Raises:
        ConfigurationError: A metric or the judge cannot be sent to another process; names it and
            says what to do.
    """
    packing = _Packing()
    return Payload(
        metrics=tuple(packing.dumps(metric, f"metric {metric.name!r}") for metric in metrics),
        judge=packing.dumps(judge, f"the judge {judge!r}"),
        secrets=tuple(packing.secrets),
        budgets=tuple(packing.budgets),
    )


class _Packing:
    def __init__(self) -> None:
        self.secrets: list[dict[str, Any]] = []
        self.budgets: list[JudgeBudget] = []
        self._seen: dict[int, tuple[Any, ...]] = {}

    def dumps(self, thing: object, what: str) -> bytes:
        buffer = io.BytesIO()
        try:
            _Pickler(buffer, self).dump(thing)
        except UNSENDABLE as error:
            raise ConfigurationError(
                f"scoring='process' cannot send {what} to the worker process: {error}; define it "
                "at the top level of a module that can be imported (not in the script that is "
                "run, not inside a function), or keep scoring='thread'"
            ) from error
        return buffer.getvalue()

    def reference_to(self, thing: object) -> tuple[Any, ...] | None:
        """Return what stands for `thing` in the pickle, if it is not to be pickled itself."""
        if id(thing) in self._seen:
            return self._seen[id(thing)]
        reference: tuple[Any, ...]
        if isinstance(thing, KeepsSecrets) and not isinstance(thing, type):
            settings, secret = thing.settings_and_secrets()
            reference = ("judge", len(self.secrets), type(thing), settings)
            self.secrets.append(secret)
        elif isinstance(thing, (SecretStr, SecretBytes)):
            reference = ("secret", len(self.secrets), type(thing))
            self.secrets.append({"value": thing.get_secret_value()})
        elif isinstance(thing, JudgeBudget) and thing.counts:
            reference = ("budget", len(self.budgets), thing.limits)
            self.budgets.append(thing)
        else:
            return None
        self._seen[id(thing)] = reference
        return reference


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, packing: _Packing) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._packing = packing

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        return self._packing.reference_to(obj)

    def reducer_override(self, obj: object) -> Any:
        # Pickle would send it by name, and the worker's main module is another one.
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__!r} is defined in the main module")
        return NotImplemented


class Unpacking:
    """Reads the pickles of a `Payload` in the worker.

    Args:
        secrets: As in the payload.
        budget: Makes what stands in the worker for a budget: its number and limits.
    """

    def __init__(
        self,
        secrets: Sequence[Mapping[str, Any]],
        budget: Callable[[int, Mapping[str, Any]], JudgeBudget],
    ) -> None:
        self._secrets = secrets
        self._budget = budget
        self._made: dict[tuple[str, int], Any] = {}

    def load(self, pickled: bytes) -> Any:
        """Return a metric or the judge; raises whatever loading it raises."""
        return _Unpickler(io.BytesIO(pickled), self).load()

    def referred(self, kind: str, number: int, *rest: Any) -> Any:
        """Return what a reference stands for: the same object for the same number."""
        if (kind, number) not in self._made:
            if kind == "judge":
                make, settings = rest
                made = make(**settings, **self._secrets[number])
            elif kind == "secret":
                made = rest[0](self._secrets[number]["value"])
            else:
                made = self._budget(number, rest[0])
            self._made[kind, number] = made
        return self._made[kind, number]


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, unpacking: Unpacking) -> None:
        super().__init__(buffer)
        self._unpacking = unpacking

    def persistent_load(self, pid: Any) -> Any:
        return self._unpacking.referred(*pid)
