"""Metrics made of plain functions: the decorator `metric` and its results."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, SupportsIndex, get_args, overload

from .errors import ConfigurationError
from .protocol import ComputedMetric, scores_without_value
from .sample import RagSample
from .score import Score, ScoreDirection, ScoreMethod, ScoreTarget


@dataclass(frozen=True, kw_only=True)
class FunctionMetric(ComputedMetric):
    """A plain function ``(RagSample) -> float | None`` as a metric; made by `metric`."""

    function: Callable[[RagSample], float | None]
    name: str
    needs: tuple[str, ...] = ()
    target: ScoreTarget = "retrieval"
    method: ScoreMethod = "exact"
    range: tuple[float | None, float | None] = (0.0, 1.0)
    direction: ScoreDirection = "higher"
    definition: str = "1"
    score_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score_names", (self.name,))

    def __call__(self, sample: RagSample) -> float | None:
        """Call the function itself."""
        return self.function(sample)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickle a decorated function by its name, which in its module refers to the metric."""
        module = str(getattr(self.function, "__module__", None))
        path = str(getattr(self.function, "__qualname__", None))
        if module != "__main__" and module in sys.modules and _object_at(module, path) is self:
            return _object_at, (module, path)
        return super().__reduce_ex__(protocol)

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Convert the function's result to a score; None is ``undefined``, NaN and infinities are errors."""
        value = self.function(sample)
        if value is None:
            return scores_without_value(self, "undefined", "the function returned None")
        value = float(value)
        lowest, highest = self.range
        if (
            not math.isfinite(value)
            or (lowest is not None and value < lowest)
            or (highest is not None and value > highest)
        ):
            raise ValueError(f"{self.name!r} returned {value!r}, outside {self.range!r}")
        return (self.make_score(self.name, value),)


def _object_at(module: str, path: str) -> Any:
    """Return the object at `path` in `module`, or None."""
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


@overload
def metric(function: Callable[[RagSample], float | None], /) -> FunctionMetric: ...


@overload
def metric(
    *,
    name: str | None = None,
    needs: Sequence[str] = (),
    target: ScoreTarget = "retrieval",
    method: ScoreMethod = "exact",
    range: tuple[float | None, float | None] = (0.0, 1.0),
    direction: ScoreDirection = "higher",
    definition: str = "1",
) -> Callable[[Callable[[RagSample], float | None]], FunctionMetric]: ...


def metric(
    function: Callable[[RagSample], float | None] | None = None,
    /,
    *,
    name: str | None = None,
    needs: Sequence[str] = (),
    target: ScoreTarget = "retrieval",
    method: ScoreMethod = "exact",
    range: tuple[float | None, float | None] = (0.0, 1.0),  # noqa: A002 -- the public word for it
    direction: ScoreDirection = "higher",
    definition: str = "1",
) -> FunctionMetric | Callable[[Callable[[RagSample], float | None]], FunctionMetric]:
    """Make a metric of a plain function ``(RagSample) -> float | None``.

    Use it bare (``@metric``) or with arguments (``@metric(needs=("answer",))``).

    Args:
        function: The function; returns a finite number within `range`, or None for "undefined".
        name: The score's name; default: the function's.
        needs: Fields it reads, as `Metric.needs`; when one is missing the function is not called.
        target: The judged part: retrieval or answer.
        method: The method of computation.
        range: Smallest and largest possible value; a result outside is a ``metric_error``.
        direction: The better direction: ``higher``, ``lower`` or, for a plain measurement, ``none``.
        definition: Version of the formula; change it whenever scores can move.

    Raises:
        ConfigurationError: The name is not snake case, or the direction is unknown.
    """
    if direction not in get_args(ScoreDirection):
        raise ConfigurationError(
            f"direction={direction!r} is unknown; allowed: {', '.join(get_args(ScoreDirection))}"
        )

    def decorate(wrapped: Callable[[RagSample], float | None]) -> FunctionMetric:
        metric_name = str(name or getattr(wrapped, "__name__", ""))
        if not metric_name.isidentifier() or metric_name != metric_name.lower():
            raise ConfigurationError(f"metric name {metric_name!r} is not snake case; pass name='my_metric'")
        return FunctionMetric(
            function=wrapped,
            name=metric_name,
            needs=tuple(needs),
            target=target,
            method=method,
            range=range,
            direction=direction,
            definition=definition,
        )

    return decorate if function is None else decorate(function)
