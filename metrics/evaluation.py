"""Score samples offline: in a notebook, a test, a nightly job.

`evaluate` and its asynchronous twin use the meter's functions, so the numbers are those of live requests.
Nothing is exported here. For many batches, build a `ragmeter.Scorer` once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import wait

from ._display.progress_bar import ProgressBar, is_in_a_loop
from ._files.inputs import Samples, samples_of
from ._measuring import SampleMeasurement
from ._process.background_thread import BackgroundThread
from .errors import ConfigurationError
from .judge.protocol import Judge
from .protocol import Metric
from .registry import resolve_metrics
from .results import Evaluation, SampleScores
from .sample import RagSample
from .verdict import VerdictRules

LOOK_S = 0.1
"""Seconds between two checks of a measuring thread."""


def evaluate(
    samples: Samples,
    metrics: str | Iterable[str | Metric] | None = None,
    judge: Judge | None = None,
    *,
    embedder: object = None,
    concurrency: int = 16,
    verdict: VerdictRules | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Score every sample with every metric; also works inside a running event loop (notebooks).

    Args:
        samples: The samples: `RagSample` objects, rows as dictionaries with the columns of a data set, a
            frame or table (pandas, polars, pyarrow, datasets), or the path of a data set.
        metrics: ``"live"``, ``"golden"`` or ``"all"``, or names or `Metric` objects, as `RagMeter` takes
            them; None: ``"golden"`` if a sample has a reference, else ``"live"``. With a judge they include
            judged metrics.
        judge: The judge of judged metrics; without one their scores are ``skipped``.
        embedder: The embedder of semantic metrics, as for `ragmeter.RagMeter`; without one they are
            ``skipped``.
        concurrency: Most concurrent judged measurements, at least 1.
        verdict: The rules of the verdict; None: the default ones.
        progress: Whether to show a progress bar; None: in a notebook and on a terminal, and never in a
            server.

    Returns:
        A list with a summary: one dictionary per sample, in order: score name → `Score`, in the order of
        the metrics, with the sample's ``verdict`` as attribute.  A metric that fails gives a score with a
        status, never an exception.

    Raises:
        ConfigurationError: A metric is unknown, two scores share a name, a row cannot be read, or `concurrency`
            is < 1.
    """
    chosen, listed = _check(samples, metrics, judge, embedder, concurrency)
    measuring = SampleMeasurement(chosen, judge, verdict or VerdictRules())
    bar = ProgressBar(len(listed), wanted=progress)
    try:
        if not measuring.awaits:
            scored = Evaluation()
            for sample in listed:
                scored.append(measuring.compute(sample))
                bar.advance()
                bar.show()
            return scored
        if not is_in_a_loop():
            return asyncio.run(_measure(listed, measuring, concurrency, bar, closing=True))
        # asyncio refuses a second loop in this thread, and a library must not patch the first.
        thread = BackgroundThread("ragmeter-evaluate")
        measured = thread.call(
            lambda: asyncio.run(_measure(listed, measuring, concurrency, bar, showing=False, closing=True))
        )
        thread.finish(0.0)
        while not measured.done():
            wait([measured], LOOK_S)
            bar.show()
        return measured.result()
    finally:
        bar.close()


async def aevaluate(
    samples: Samples,
    metrics: str | Iterable[str | Metric] | None = None,
    judge: Judge | None = None,
    *,
    embedder: object = None,
    concurrency: int = 16,
    verdict: VerdictRules | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Do the same as `evaluate`, on the running event loop."""
    chosen, listed = _check(samples, metrics, judge, embedder, concurrency)
    measuring = SampleMeasurement(chosen, judge, VerdictRules() if verdict is None else verdict)
    bar = ProgressBar(len(listed), wanted=progress)
    try:
        return await _measure(listed, measuring, concurrency, bar)
    finally:
        bar.close()


def _check(
    samples: Samples,
    metrics: str | Iterable[str | Metric] | None,
    judge: Judge | None,
    embedder: object,
    concurrency: int,
) -> tuple[list[Metric], list[RagSample]]:
    if concurrency < 1:
        raise ConfigurationError(f"concurrency is {concurrency!r}; it is at least 1")
    listed = samples_of(samples)
    asked = None
    if embedder is not None:
        from .embedder import as_embedder  # noqa: PLC0415 -- only if there is one

        asked = as_embedder(embedder)
    if metrics is not None:
        return resolve_metrics(metrics, judged=judge is not None, embedder=asked), listed
    preset = "golden" if any(sample.reference is not None for sample in listed) else "live"
    chosen = resolve_metrics(preset, judged=judge is not None, embedder=asked)
    if all(sample.stages is None for sample in listed):  # no framework recorded them
        chosen = [metric for metric in chosen if "stages" not in metric.needs]
    return chosen, listed


async def _measure(
    samples: Sequence[RagSample],
    measuring: SampleMeasurement,
    concurrency: int,
    bar: ProgressBar,
    *,
    showing: bool = True,
    closing: bool = False,
) -> Evaluation:
    """Measure all samples; if `closing`, close judge's and embedder's connections before the loop ends."""
    places = asyncio.Semaphore(concurrency)

    async def score(sample: RagSample) -> SampleScores:
        found = await measuring.measure(sample, places)
        bar.advance()
        if showing:
            bar.show()
        return found

    try:
        return Evaluation(await asyncio.gather(*map(score, samples)))
    finally:
        if closing:
            await measuring.aclose()
