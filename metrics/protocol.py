"""The metric protocol, and the one function that runs a metric without ever raising.

Every metric is a frozen `Metric`. A metric without a judge is a `ComputedMetric`: a plain function of the
sample. `run_metric` (and `compute_metric` for computed metrics) checks the inputs, contains the metric's
exceptions and turns them into a `Score` with a status; the meter and `evaluate` call nothing else. This
module must not know any particular metric.
"""

from __future__ import annotations

import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ._display.wording import number_of
from .errors import ConfigurationError, TooLongError, loggable
from .sample import RagSample, Reference
from .score import Score, ScoreDirection, ScoreItem, ScoreMethod, ScoreStatus, ScoreTarget

if TYPE_CHECKING:
    from .embedder import Embedder
    from .judge.protocol import Judge


FIELDS = ("question", "contexts", "answer", "reference.answer", "reference.contexts", "reference.context_ids")
"""Allowed values in `Metric.needs`."""

_PREFIX = re.compile(r"[a-z][a-z0-9_]*\Z")


class Metric(ABC):
    """Measures one thing about a `RagSample`. Implementations are frozen and reentrant."""

    name: str
    """Unique name in snake case, for ``RagMeter(metrics=[...])``."""
    score_names: tuple[str, ...]
    """Names of the scores that `measure` returns, in order."""
    needs: tuple[str, ...]
    """Fields the metric reads: ``question``, ``contexts``, ``stages``, ``answer``, ``reference.answer``,
    ``reference.contexts``, ``reference.context_ids``; ``"a|b"`` means either."""
    judged: ClassVar[bool] = True
    """Whether it calls the judge (and so costs money)."""
    method: ScoreMethod
    """The method of its scores."""
    target: ScoreTarget
    """The judged part. Answer metrics skip requests whose status is not in `endings`."""
    endings: ClassVar[frozenset[str]] = frozenset({"ok"})
    """Statuses of the requests whose answers it judges; ``refused`` ones may lack a text."""
    targets: Mapping[str, ScoreTarget] = MappingProxyType({})
    """Targets of single scores, by name, if different from `target`."""
    definition: str
    """Version of the formula and prompt; changes whenever scores can change."""
    range: tuple[float | None, float | None] = (0.0, 1.0)
    """Smallest and largest possible value of its scores."""
    reads_texts: bool = True
    """Whether it reads the texts it needs, so that a too long one skips it; ids do not count."""
    reads_carried: ClassVar[bool] = False
    """Whether the texts in `RagSample.carried` suffice if only the ids of the contexts are known."""
    direction: ScoreDirection = "higher"
    """The better direction."""
    lacks_embedder: bool = False
    """Whether it lacks a required embedder: it is ``skipped`` until `asking` sets one."""
    directions: Mapping[str, ScoreDirection] = MappingProxyType({})
    """Directions of single scores, by name, if different from `direction`."""
    ranges: Mapping[str, tuple[float | None, float | None]] = MappingProxyType({})
    """Ranges of single scores, by name, if different from `range`."""

    @abstractmethod
    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Return one `Score` per name in `score_names`, in that order."""

    def asking(self, embedder: Embedder | None) -> Metric:
        """Return this metric with `embedder`, if it needs one and has none."""
        del embedder
        return self

    async def aclose(self) -> None:  # noqa: B027 -- most have nothing to release
        """Release its resources of the running event loop, which is about to end. It can be used again."""

    def direction_of(self, score_name: str) -> ScoreDirection:
        """Return the better direction of the score `score_name`."""
        return self.directions.get(score_name, self.direction)

    def target_of(self, score_name: str) -> ScoreTarget:
        """Return the target of the score `score_name`."""
        return self.targets.get(score_name, self.target)

    def range_of(self, score_name: str) -> tuple[float | None, float | None]:
        """Return the smallest and largest possible value of the score `score_name`."""
        return self.ranges.get(score_name, self.range)

    def undefined_scores(self, why: str) -> tuple[Score, ...]:
        """Return all scores without a value; `why` has no text of the request."""
        return tuple(self.make_score(name, None, explanation=why, summary=why) for name in self.score_names)

    def make_score(
        self,
        name: str,
        value: float | None,
        *,
        explanation: str | None = None,
        summary: str | None = None,
        label: str | None = None,
        items: Sequence[ScoreItem] = (),
        status: ScoreStatus | None = None,
        bounds: tuple[float, float] | None = None,
        method: ScoreMethod | None = None,
    ) -> Score:
        """Build the `Score` called `name` of this metric: ``ok``, or ``undefined`` without a value.

        Args:
            name: One of `score_names`.
            value: The value, or None if the formula has no denominator.
            explanation: One sentence for a person; the reason if there is no value.
            summary: The same without any text of the request, only ids, counts and numbers.
            label: A word for the value, one of few.
            items: The evidence.
            status: Another status.
            bounds: Lower and upper bound over all outcomes of the unknown verdicts.
            method: Another method.
        """
        # Arguments equal to the defaults are left out: each costs a tenth of the score. Ranges, directions
        # and targets are read without their methods: a request has a dozen scores.
        given: dict[str, Any] = {}
        if explanation is not None:
            given["explanation"] = explanation
        if summary is not None:
            given["summary"] = summary
        if label is not None:
            given["label"] = label
        make: Callable[..., Score] = _known_score if explanation == summary else Score
        if items:
            make, given["items"] = Score, tuple(items)
        if bounds is not None:
            given["lower"], given["upper"] = bounds
        if (span := self.ranges.get(name, self.range)) != (0.0, 1.0):
            given["range"] = span
        if self.direction != "higher" or self.directions:
            given["direction"] = self.directions.get(name, self.direction)
        return make(
            name=name,
            value=value,
            status=status or ("undefined" if value is None else "ok"),
            method=method or self.method,
            definition=self.definition,
            target=self.targets.get(name, self.target),
            **given,
        )

    def prefixed(self, prefix: str) -> Metric:
        """Return this metric with `prefix` before its name and its scores' names.

        So two of the same class can be used together: ``PrecisionRecallF1(...).prefixed("sentence_")``.

        Raises:
            ConfigurationError: The prefix is not snake case.
        """
        if not _PREFIX.match(prefix):
            raise ConfigurationError(f"prefix {prefix!r} is not snake case, e.g. 'sentence_'")
        return _wrap(self, prefix=prefix)

    def passing(self, *, at_least: float) -> Metric:
        """Return this metric with its scores labelled ``pass`` from `at_least` on, else ``fail``.

        Raises:
            ConfigurationError: `at_least` lies outside the metric's range.
        """
        lowest, highest = self.range
        if (
            math.isnan(at_least)
            or (lowest is not None and at_least < lowest)
            or (highest is not None and at_least > highest)
        ):
            raise ConfigurationError(
                f"at_least is {at_least!r}, but {self.name!r} ranges from {lowest} to {highest}"
            )
        return _wrap(self, at_least=at_least)

    def needing(self, *fields: str) -> Metric:
        """Return this metric, restricted to requests with these `fields`, spelled as in `needs`.

        So calls can be limited to requests with a reference: others get ``missing_input``.

        Raises:
            ConfigurationError: A field is not allowed in `needs`.
        """
        for option in "|".join(fields).split("|") if fields else ():
            if option not in FIELDS:
                raise ConfigurationError(
                    f"{option!r} is no field of a sample; a metric needs some of {', '.join(FIELDS)}"
                )
        return _wrap(self, more_needs=fields)


class ComputedMetric(Metric):
    """A metric that needs no judge: a pure function of the sample, cheap enough for live use."""

    judged: ClassVar[bool] = False

    @abstractmethod
    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Return one `Score` per name in `score_names`, in that order."""

    def compute_within(self, sample: RagSample, max_text_chars: int | None) -> Sequence[Score]:
        """Do the same as `compute`; metrics that read texts for only some scores limit these here."""
        del max_text_chars
        return self.compute(sample)

    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Do the same as `compute`, without the judge."""
        del judge
        return self.compute(sample)


@dataclass(frozen=True)
class _Wrapping:
    """The changes that `prefixed`, `passing` and `needing` make to `metric`."""

    metric: Metric
    prefix: str = ""
    at_least: float | None = None
    more_needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        inner = self.metric
        for attribute in (
            "judged", "method", "target", "definition", "range", "reads_texts", "direction", "lacks_embedder",
        ):  # fmt: skip
            object.__setattr__(self, attribute, getattr(inner, attribute))
        object.__setattr__(self, "needs", (*inner.needs, *self.more_needs))
        for attribute in ("targets", "directions", "ranges"):
            own = {self.prefix + name: one for name, one in getattr(inner, attribute).items()}
            object.__setattr__(self, attribute, own)
        object.__setattr__(self, "name", self.prefix + inner.name)
        object.__setattr__(self, "score_names", tuple(self.prefix + name for name in inner.score_names))

    def _wrap(self, scores: Sequence[Score]) -> tuple[Score, ...]:
        adjusted: list[Score] = []
        for score in scores:
            changes: dict[str, object] = {"name": self.prefix + score.name}
            if self.at_least is not None and score.value is not None:
                changes["label"] = "pass" if score.value >= self.at_least else "fail"
            adjusted.append(score.model_copy(update=changes))
        return tuple(adjusted)


@dataclass(frozen=True)
class _WrappedComputedMetric(_Wrapping, ComputedMetric):
    """A metric without a judge, under other names or with a pass mark."""

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Compute the wrapped metric, then rename and label its scores."""
        return self.compute_within(sample, None)

    def compute_within(self, sample: RagSample, max_text_chars: int | None) -> Sequence[Score]:
        """Do the same, with texts up to that length."""
        metric = cast("ComputedMetric", self.metric)
        return self._wrap(metric.compute_within(sample, max_text_chars))


@dataclass(frozen=True)
class _WrappedMetric(_Wrapping, Metric):
    """A metric that awaits a model, under other names or with a pass mark."""

    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Measure with the wrapped metric, then rename and label its scores."""
        return self._wrap(await self.metric.measure(sample, judge))

    def asking(self, embedder: Embedder | None) -> Metric:
        """Return this metric with `embedder` set in the wrapped one."""
        return replace(self, metric=self.metric.asking(embedder))

    async def aclose(self) -> None:
        """Release the wrapped metric's resources of the running event loop."""
        await self.metric.aclose()


def _wrap(metric: Metric, **changes: Any) -> Metric:
    kind = _WrappedComputedMetric if isinstance(metric, ComputedMetric) else _WrappedMetric
    return kind(metric, **changes)


def reads_reference(metric: Metric) -> bool:
    """Return whether a metric reads any part of a reference, so that without one it has no value."""
    return any("reference." in need for need in metric.needs)


def lacks_input(metric: Metric, sample: RagSample, inputs: Sequence[str]) -> bool:
    """Return whether a metric reads one of these inputs, ``reference`` or ``stages``, that a request lacks."""
    read = {whole for _, options in _options(tuple(metric.needs)) for whole, _ in options}
    return any(name in read and getattr(sample, name) is None for name in inputs)


def is_measurable(metric: Metric, sample: RagSample) -> bool:
    """Return whether a request has the inputs of a metric and, for answers, a regular end.

    The length of its texts is not checked here.
    """
    return _not_measurable(metric, sample) is None


def missing_field(sample: RagSample, needs: Sequence[str]) -> str | None:
    """Return the first of `needs` that is unset, or None.

    Empty is not missing: ``contexts=()`` is a retrieval without results.
    """
    for need, options in _options(tuple(needs)):
        for whole, part in options:
            given = getattr(sample, whole)
            if given is not None and (not part or given.supplies(part)):
                break
        else:
            return need
    return None


@lru_cache(maxsize=512)
def _options(needs: tuple[str, ...]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the alternatives of each need: a sample's field, and a field within it or ""."""
    cut = [(need, [option.partition(".") for option in need.split("|")]) for need in needs]
    return [(need, [(whole, part) for whole, _, part in options]) for need, options in cut]


def scores_without_value(
    metric: Metric,
    status: ScoreStatus,
    explanation: str,
    error_type: str | None = None,
    *,
    missing: str | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Score, ...]:
    """Build the scores of a metric, all or those with these `names`, without a value for the same reason."""
    build = Score if missing is None else _known_score
    return tuple(
        build(
            name=name,
            value=None,
            status=status,
            method=metric.method,
            definition=metric.definition,
            target=metric.target_of(name),
            explanation=explanation,
            range=metric.range_of(name),
            direction=metric.direction_of(name),
            missing=missing,
            error_type=error_type,
        )
        for name in (metric.score_names if names is None else names)
    )


_known_score: Callable[..., Score] = lru_cache(maxsize=1024)(Score)
"""Cached scores: many equal those of the request before. They have no text of a request, so that one object is
enough."""


def _longest_text(metric: Metric, sample: RagSample) -> int:
    """Return the length in characters of the longest text that the metric reads."""
    reference = sample.reference
    texts: list[str | None] = []
    for _, options in _options(tuple(metric.needs)):
        for whole, part in options:
            if whole == "question":
                texts += (sample.question, sample.search_query)
            elif whole == "contexts" and not part:
                for contexts in (sample.contexts or (), sample.carried):
                    for context in contexts:
                        texts.append(context.text)
            elif whole == "stages":
                for stage in sample.stages or ():
                    texts += [context.text for context in stage.contexts or ()]
            elif whole == "answer":
                texts.append(sample.answer)
            elif reference is not None and part == "contexts":
                texts += reference.contexts
            elif reference is not None and part == "answer":
                texts += (reference.answer, *reference.alternative_answers)
    return max(map(len, filter(None, texts)), default=0)


def too_long_scores(
    metric: Metric, longest: int, max_text_chars: int, names: Sequence[str]
) -> tuple[Score, ...]:
    """Build the scores `names` of a metric that would have to read a too long text."""
    why = f"too long: a text of {longest} characters, max_text_chars is {max_text_chars}"
    return scores_without_value(metric, "skipped", why, "too_long", names=names)


def _not_measurable(
    metric: Metric, sample: RagSample, max_text_chars: int | None = None
) -> tuple[Score, ...] | None:
    if metric.target == "answer" and sample.status not in metric.endings:
        return scores_without_value(metric, "skipped", f"the request ended {sample.status!r}")
    if metric.target == "answer" and sample.status == "refused":
        return None
    missing = missing_field(sample, metric.needs)
    if missing is not None:
        return scores_without_value(metric, "missing_input", f"not given: {missing}", missing=missing)
    orphaned = 0 if sample.reference is None else _count_orphans(metric, sample.reference)
    if orphaned:
        why = f"{number_of(orphaned, 'golden id')} orphaned: no chunk has its text now"
        return scores_without_value(metric, "undefined", why)
    if (
        sample.contexts_by == "ids"
        and metric.reads_texts
        and not (metric.reads_carried and sample.carried)
        and any(("contexts", "") in options for _, options in _options(tuple(metric.needs)))
    ):
        why = "only the ids of the contexts are known"
        return scores_without_value(metric, "missing_input", why, missing="contexts.text")
    if max_text_chars is not None and metric.reads_texts:
        longest = _longest_text(metric, sample)
        if longest > max_text_chars:
            return too_long_scores(metric, longest, max_text_chars, metric.score_names)
    return None


def _count_orphans(metric: Metric, reference: Reference) -> int:
    # Chunks that replaced them would count as wrong, so no number would be true.
    by_id = "reference.context_ids" in metric.needs or (
        not reference.contexts and any("reference.context_ids" in need for need in metric.needs)
    )
    return len(reference.orphaned_ids) if by_id else 0


def failed_scores(
    metric: Metric, sample: RagSample, status: ScoreStatus, explanation: str, error_type: str
) -> tuple[Score, ...]:
    """Build the scores of a metric that failed.

    Scores that would not have been measured anyway are ``missing_input`` or ``skipped``.
    """
    return _not_measurable(metric, sample) or scores_without_value(metric, status, explanation, error_type)


def _failure_scores(metric: Metric, error: Exception) -> tuple[Score, ...]:
    if isinstance(error, TooLongError):
        return scores_without_value(metric, "skipped", f"too long: {error}", "too_long")
    status: ScoreStatus = "judge_error" if metric.judged else "metric_error"
    # On Python 3.10 asyncio's class is another one. If it was raised, asyncio is already loaded; it need not
    # be imported here.
    if isinstance(error, (TimeoutError, getattr(sys.modules.get("asyncio"), "TimeoutError", TimeoutError))):
        status = "timeout"
    return scores_without_value(metric, status, loggable(error), type(error).__name__)


def _orient(metric: Metric, scores: Sequence[Score]) -> tuple[Score, ...]:
    """Return `scores`, with the metric's direction in those that left it out."""
    if metric.direction == "higher" and not metric.directions:
        return tuple(scores)
    oriented = list(scores)
    for place, score in enumerate(scores):
        direction = metric.directions.get(score.name, metric.direction)
        # Whether the default was given explicitly matters only if the metric has another direction.
        if score.direction == "higher" != direction and "direction" not in score.model_fields_set:
            oriented[place] = score.model_copy(update={"direction": direction})
    return tuple(oriented)


def compute_metric(
    metric: ComputedMetric, sample: RagSample, max_text_chars: int | None = None
) -> tuple[Score, ...]:
    """Run a computed metric; never raises `Exception`, always one score per name.

    It is skipped if it reads a text of more than `max_text_chars` characters. None: no limit.
    """
    try:
        unmeasurable = _not_measurable(metric, sample, max_text_chars)
        return unmeasurable or _orient(metric, metric.compute_within(sample, max_text_chars))
    except Exception as error:  # noqa: BLE001 -- what a metric raises is data: a score with a status
        return _failure_scores(metric, error)


async def run_metric(
    metric: Metric, sample: RagSample, judge: Judge | None, max_text_chars: int | None = None
) -> tuple[Score, ...]:
    """Run any metric, with the guarantees of `compute_metric`."""
    if isinstance(metric, ComputedMetric):
        return compute_metric(metric, sample, max_text_chars)
    try:
        unmeasurable = _not_measurable(metric, sample, max_text_chars)
        if unmeasurable is not None:
            return unmeasurable
        if metric.judged and judge is None:
            return scores_without_value(metric, "skipped", "no judge is configured")
        return _orient(metric, await metric.measure(sample, judge))
    except Exception as error:  # noqa: BLE001 -- what a metric raises is data: a score with a status
        return _failure_scores(metric, error)
