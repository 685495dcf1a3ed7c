"""Score batches of samples with one set of metrics, for workers, archives and your own jobs.

A `Scorer` is built once and used for many batches. It captures, exports and writes nothing: samples go in,
and the scores of live requests come out. Judge and embedder run on one background event loop, which keeps
their connections from the first batch to `Scorer.close`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from ragmeter.metrics import Metric, RagSample, VerdictRules
from ragmeter.metrics._measuring import SampleMeasurement
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.metrics.results import Evaluation

from ._runtime.loop import LastingLoop
from .metrics._files.inputs import Samples, samples_of
from .metrics._process import fork
from .requests.scope import leave_host
from .settings.options import at_least, check_askable, more_than_0, verdict_rules, whole

CLOSE_S = 5.0
"""Longest wait of `Scorer.close` for connections to close, in seconds."""


class Scorer:
    """Scores batches of samples as a `RagMeter` scores requests.

    Thread-safe. A forked child starts its own loop. It can be pickled if judge and metrics can.

    Args:
        metrics: As for `RagMeter`: a preset, or names and `Metric` objects. None: the golden ones for a
            sample with a reference, the live ones for the others.
        judge: The judge; with one, presets include judged metrics.
        embedder: The embedder; with one, presets include semantic metrics.
        fused: Judge precision, recall and relevancy of presets in one call.
        verdict: The rules of the verdict; None: the default ones.
        concurrency: Most metrics that call judge or embedder at a time, over all batches; at least 1.
        deadline_s: Seconds for each of them, else its scores are ``timeout``; None: no limit.
        max_text_chars: Metrics skip longer texts (``skipped``); None: no limit.

    Raises:
        ConfigurationError: A metric is unknown or lacks judge or embedder, or an argument is out of range.
    """

    def __init__(
        self,
        metrics: str | Iterable[str | Metric] | None = None,
        judge: Judge | None = None,
        *,
        embedder: object = None,
        fused: bool = False,
        verdict: VerdictRules | None = None,
        concurrency: int = 16,
        deadline_s: float | None = 60.0,
        max_text_chars: int | None = 300_000,
    ) -> None:
        asked = None
        if embedder is not None:
            from ragmeter.metrics.embedder import as_embedder  # noqa: PLC0415 -- only if there is one

            asked = as_embedder(embedder)
        rules = verdict_rules(verdict)
        chosen = resolve_metrics(
            "golden" if metrics is None else metrics, judged=judge is not None, fused=fused, embedder=asked
        )
        check_askable([one for one in chosen if not isinstance(one, ComputedMetric)], judge)
        self._concurrency = whole("concurrency", at_least(1, "concurrency", concurrency))
        self._measuring = SampleMeasurement(
            chosen,
            judge,
            rules,
            sparing=("reference", "stages") if metrics is None else (),
            max_text_chars=None
            if max_text_chars is None
            else whole("max_text_chars", at_least(1, "max_text_chars", max_text_chars)),
            deadline_s=None if deadline_s is None else more_than_0("deadline_s", deadline_s),
        )
        self._begin()

    def _fresh(self) -> None:
        self._starting = fork.lock()
        self._running: _Loop | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return its arguments, without loop and thread."""
        return {"_measuring": self._measuring, "_concurrency": self._concurrency}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore it in another process."""
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        self._fresh()
        fork.forget(self._fresh)  # a forked child has no loop and no thread

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, in the order of the scores."""
        return self._measuring.metrics

    @property
    def measurements(self) -> dict[str, str]:
        """The definition and judge of each score, e.g. ``faithfulness@3 gpt-4o-mini``."""
        return self._measuring.measurements()

    def metrics_of(self, sample: RagSample) -> list[Metric]:
        """Return the metrics for a sample: the default ones depend on its inputs."""
        return self._measuring.metrics_of(sample)

    def score(
        self,
        samples: Samples,
        *,
        only: Callable[[Metric], bool] | None = None,
        unjudged: Sequence[str | None] | None = None,
    ) -> Evaluation:
        """Score samples; waits for judge and embedder. Blocks a running event loop.

        Args:
            samples: `RagSample` objects, rows as dictionaries with the columns of a data set, a frame or
                table (pandas, polars, pyarrow, datasets), or the path of a data set.
            only: Filter of the metrics, e.g. `ragmeter.metrics.protocol.reads_reference`; None: all.
            unjudged: For each sample why judge and embedder are not called (a short word, e.g.
                ``sampled_out``), or None if they are; None: they are called for all.

        Returns:
            A list with a summary, as `ragmeter.metrics.evaluate` returns: one mapping per sample, in order,
            score name → `Score`, in the order of the metrics, with the sample's ``verdict`` as attribute. A
            metric that fails gives a score with a status.
        """
        listed = samples_of(samples)
        if not self._measuring.awaits:
            return Evaluation(self._measuring.compute(sample, only) for sample in listed)
        running = self._running_loop()
        job = running.submit(self._measure(running, listed, only, unjudged))
        try:
            return job.result()
        except BaseException:
            job.cancel()  # an interrupt: running calls would cost money for nothing
            raise

    async def ascore(
        self,
        samples: Samples,
        *,
        only: Callable[[Metric], bool] | None = None,
        unjudged: Sequence[str | None] | None = None,
    ) -> Evaluation:
        """Do the same as `score`, without blocking the running event loop."""
        listed = samples_of(samples)
        if not self._measuring.awaits:
            found = Evaluation()
            for sample in listed:
                found.append(self._measuring.compute(sample, only))
                await asyncio.sleep(0)
            return found
        running = self._running_loop()
        return await asyncio.wrap_future(running.submit(self._measure(running, listed, only, unjudged)))

    def close(self) -> None:
        """Close the connections of judge and embedder, and end the loop. A later batch starts it again."""
        with self._starting:
            running, self._running = self._running, None
        if running is not None:
            running.close(self._measuring.aclose)

    def __enter__(self) -> Scorer:
        """Return the scorer; the end of the block calls `close`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Call `close`."""
        self.close()

    def _running_loop(self) -> _Loop:
        with self._starting:
            if self._running is None:
                self._running = _Loop(self._concurrency)
            return self._running

    async def _measure(
        self,
        running: _Loop,
        samples: Sequence[RagSample],
        only: Callable[[Metric], bool] | None,
        unjudged: Sequence[str | None] | None,
    ) -> Evaluation:
        reasons = [None] * len(samples) if unjudged is None else unjudged
        return Evaluation(
            await asyncio.gather(
                *(
                    self._measuring.measure(sample, running.places, only=only, unjudged=reason)
                    for sample, reason in zip(samples, reasons, strict=True)
                )
            )
        )


class _Loop:
    """An event loop on its own daemon thread, outside the host's traces."""

    def __init__(self, concurrency: int) -> None:
        self.places = asyncio.Semaphore(concurrency)
        self._loop = LastingLoop()
        try:
            self._thread = threading.Thread(target=self._run, name="ragmeter-scorer", daemon=True)
            self._thread.start()
        except BaseException:
            self._loop.close()
            raise

    def submit(self, work: Coroutine[Any, Any, Evaluation]) -> concurrent.futures.Future[Evaluation]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, release: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(self._end(release), self._loop)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        leave_host()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _end(self, release: Callable[[], Coroutine[Any, Any, None]]) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        try:
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.wait_for(release(), CLOSE_S / 2)
        finally:
            self._loop.stop()
