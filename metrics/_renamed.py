"""A metric under other names, with a pass mark, or for fewer requests: `Metric.prefixed`, `passing`, `needing`.

The wrapped metric does all measuring; only names and labels of its scores, and what it needs, change here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from .errors import ConfigurationError
from .metric import ComputedMetric, Metric
from .sample import RagSample
from .score import Score

if TYPE_CHECKING:
    from .embedder import Embedder
    from .judge.protocol import Judge

__all__ = ["WrappedComputedMetric", "WrappedMetric", "needing", "passing", "prefixed"]

FIELDS = (
    "question",
    "contexts",
    "answer",
    "reference.answer",
    "reference.contexts",
    "reference.context_ids",
)
"""What `Metric.needs` may name."""

_PREFIX = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True)
class _Wrapping:
    """What is changed about `metric`; the same for computed and judged metrics."""

    metric: Metric
    """The metric that measures."""
    prefix: str = ""
    """Put before its name and the names of its scores."""
    at_least: float | None = None
    """Values from here on are labelled ``pass``, lower ones ``fail``; None: labels stay."""
    more_needs: tuple[str, ...] = ()
    """What a request must have besides what `metric` needs."""

    def __post_init__(self) -> None:
        inner = self.metric
        for attribute in (
            "method", "target", "definition", "range", "reads_texts", "direction", "lacks_embedder",
        ):  # fmt: skip
            object.__setattr__(self, attribute, getattr(inner, attribute))
        object.__setattr__(self, "needs", (*inner.needs, *self.more_needs))
        targets = {self.prefix + name: judged for name, judged in inner.targets.items()}
        object.__setattr__(self, "targets", targets)
        directions = {self.prefix + name: way for name, way in inner.directions.items()}
        object.__setattr__(self, "directions", directions)
        object.__setattr__(self, "name", self.prefix + inner.name)
        object.__setattr__(
            self, "score_names", tuple(self.prefix + name for name in inner.score_names)
        )

    def _wrap(self, scores: Sequence[Score]) -> tuple[Score, ...]:
        adjusted: list[Score] = []
        for score in scores:
            changes: dict[str, object] = {}
            if self.prefix:
                changes["name"] = self.prefix + score.name
            if self.at_least is not None and score.value is not None:
                changes["label"] = "pass" if score.value >= self.at_least else "fail"
            adjusted.append(score.model_copy(update=changes) if changes else score)
        return tuple(adjusted)


@dataclass(frozen=True)
class WrappedComputedMetric(_Wrapping, ComputedMetric):
    """A metric without a judge, under other names or with a pass mark."""

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Compute the wrapped metric, then rename and label its scores."""
        return self.compute_within(sample, None)

    def compute_within(self, sample: RagSample, max_text_chars: int | None) -> Sequence[Score]:
        """Do the same, with texts up to that length."""
        if not isinstance(self.metric, ComputedMetric):
            raise TypeError(f"{self.metric.name!r} is not a ComputedMetric")
        return self._wrap(self.metric.compute_within(sample, max_text_chars))


@dataclass(frozen=True)
class WrappedMetric(_Wrapping, Metric):
    """A judged metric under other names or with a pass mark."""

    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Measure with the wrapped metric, then rename and label its scores."""
        return self._wrap(await self.metric.measure(sample, judge))

    def asking(self, embedder: Embedder | None) -> Metric:
        """Return this metric with the wrapped one asking `embedder`."""
        return replace(self, metric=self.metric.asking(embedder))

    async def aclose(self) -> None:
        """Release what the wrapped metric has on the running event loop."""
        await self.metric.aclose()


@dataclass(frozen=True)
class _WrappedUnjudgedMetric(WrappedMetric):
    """As `WrappedMetric`, for a metric that awaits something other than a judge."""

    judged: ClassVar[bool] = False


def _wrap(
    metric: Metric,
    prefix: str = "",
    at_least: float | None = None,
    more_needs: tuple[str, ...] = (),
) -> Metric:
    if isinstance(metric, ComputedMetric):
        return WrappedComputedMetric(metric, prefix, at_least, more_needs)
    if metric.judged:
        return WrappedMetric(metric, prefix, at_least, more_needs)
    return _WrappedUnjudgedMetric(metric, prefix, at_least, more_needs)


def prefixed(metric: Metric, prefix: str) -> Metric:
    """Return `metric` with `prefix` before its name and its scores' names.

    Raises:
        ConfigurationError: The prefix is not snake case.
    """
    if not _PREFIX.match(prefix):
        raise ConfigurationError(f"prefix {prefix!r} is not snake case, e.g. 'sentence_'")
    return _wrap(metric, prefix=prefix)


def passing(metric: Metric, at_least: float) -> Metric:
    """Return `metric` with its scores labelled ``pass`` from `at_least` on, else ``fail``.

    Raises:
        ConfigurationError: `at_least` lies outside the metric's range.
    """
    lowest, highest = metric.range
    if at_least != at_least or (  # noqa: PLR0124 -- NaN
        (lowest is not None and at_least < lowest) or (highest is not None and at_least > highest)
    ):
        raise ConfigurationError(
            f"at_least is {at_least!r}, but {metric.name!r} ranges from {lowest} to {highest}"
        )
    return _wrap(metric, at_least=at_least)


def needing(metric: Metric, *fields: str) -> Metric:
    """Return `metric`, measured only where a request has `fields`, too.

    Raises:
        ConfigurationError: A field is none that a metric can need.
    """
    for option in (option for name in fields for option in name.split("|")):
        if option not in FIELDS:
            raise ConfigurationError(
                f"{option!r} is no field of a sample; a metric needs some of {', '.join(FIELDS)}"
            )
    return _wrap(metric, more_needs=fields)
