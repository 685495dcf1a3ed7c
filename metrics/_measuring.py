"""Measures one sample with many metrics, for `evaluate` and `ragmeter.Scorer`.

Computed metrics run at once; the others wait for a free slot and for their model. Scores are in the order of
the metrics, whichever ends first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .judge.halving import one_request
from .judge.protocol import Judge
from .protocol import ComputedMetric, Metric, compute_metric, lacks_input, run_metric, scores_without_value
from .results import SampleScores
from .sample import RagSample
from .score import Score
from .verdict import VerdictRules


def measurement_key(metric: Metric, judge_model: str | None) -> str:
    """Return the key of a measurement: its formula and, for judged metrics, the judge's model."""
    key = f"{metric.name}@{metric.definition}"
    return f"{key} {judge_model}" if metric.judged else key


class SampleMeasurement:
    """Scores samples, one at a time, and stores none of them.

    Args:
        metrics: The metrics, in the order of the scores.
        judge: The judge of judged metrics; None: their scores are ``skipped``.
        rules: The rules of the verdict.
        sparing: Inputs (``reference``, ``stages``): metrics that read one are left out for a sample without it.
        max_text_chars: Longest text, in characters; metrics that read a longer one are skipped.
        deadline_s: Longest wait of a metric for its model, in seconds; then its scores are ``timeout``.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        judge: Judge | None,
        rules: VerdictRules,
        *,
        sparing: Sequence[str] = (),
        max_text_chars: int | None = None,
        deadline_s: float | None = None,
    ) -> None:
        self.metrics = tuple(metrics)
        self._judge = judge
        self._rules = rules
        self._sparing = tuple(sparing)
        self._max_text_chars = max_text_chars
        self._deadline_s = deadline_s
        self.awaits = any(not isinstance(metric, ComputedMetric) for metric in self.metrics)
        """Whether any metric needs a model, and so `measure`."""

    def metrics_of(self, sample: RagSample, only: Callable[[Metric], bool] | None = None) -> list[Metric]:
        """Return the metrics of a sample that pass the filter `only`, in order."""
        return [
            metric
            for metric in self.metrics
            if (only is None or only(metric)) and not lacks_input(metric, sample, self._sparing)
        ]

    def measurements(self) -> dict[str, str]:
        """Return the key of each score's measurement: equal keys and samples mean equal scores."""
        model = None if self._judge is None else self._judge.model
        return {name: measurement_key(metric, model) for metric in self.metrics for name in metric.score_names}

    def compute(self, sample: RagSample, only: Callable[[Metric], bool] | None = None) -> SampleScores:
        """Score a sample with the computed metrics only; never raises `Exception`."""
        return self._together(
            sample,
            [
                compute_metric(metric, sample, self._max_text_chars)
                for metric in self.metrics_of(sample, only)
                if isinstance(metric, ComputedMetric)
            ],
        )

    async def measure(
        self,
        sample: RagSample,
        places: asyncio.Semaphore,
        *,
        only: Callable[[Metric], bool] | None = None,
        unjudged: str | None = None,
    ) -> SampleScores:
        """Score a sample with all metrics that pass the filter `only`; never raises `Exception`.

        `places` limits the metrics that use a model at a time, over all samples; if `unjudged` says why, these
        are ``skipped``.
        """

        async def one(metric: Metric) -> tuple[Score, ...]:
            if isinstance(metric, ComputedMetric):
                return compute_metric(metric, sample, self._max_text_chars)
            if unjudged is not None:
                return scores_without_value(metric, "skipped", f"not judged: {unjudged}")
            async with places:
                return await self._measure_in_time(metric, sample)

        with one_request():
            found = await asyncio.gather(*map(one, self.metrics_of(sample, only)))
        return self._together(sample, found)

    async def aclose(self) -> None:
        """Close the connections that belong to the running loop."""
        if self._judge is not None:
            await self._judge.aclose()
        for metric in self.metrics:
            await metric.aclose()

    async def _measure_in_time(self, metric: Metric, sample: RagSample) -> tuple[Score, ...]:
        measuring = run_metric(metric, sample, self._judge, self._max_text_chars)
        if self._deadline_s is None:
            return await measuring
        try:
            return await asyncio.wait_for(measuring, self._deadline_s)
        except (TimeoutError, asyncio.TimeoutError):
            why = f"not judged within {self._deadline_s:g} s"
            return scores_without_value(metric, "timeout", why, "timeout")

    def _together(self, sample: RagSample, measured: Sequence[tuple[Score, ...]]) -> SampleScores:
        scores = [score for found in measured for score in found]
        return SampleScores(scores, sample, self._rules)
