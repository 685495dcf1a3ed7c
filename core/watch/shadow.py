"""Compare another retriever with the one in use, on the same questions, after the answer.

A `Shadow` receives scored requests as an exporter does and passes a share of them to its own thread, which
calls the other retriever and scores both lists. It never touches a request's path, its trace, its answer or
the application's scores.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import WorkerQueue
from ragmeter.exporters.changes import RetrieverDifference
from ragmeter.exporters.protocol import ScoredRun, UnbufferedExporter
from ragmeter.metrics import ConfigurationError, RagSample
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.quality.retriever_comparison import LEAST_REQUESTS, Comparison, RetrieverComparison
from ragmeter.requests.inputs import as_context, as_contexts
from ragmeter.requests.scope import leave_host

_WAITING = 100
_HOUR_S = 3600.0
_METHODS = ("invoke", "retrieve")
"""Methods of LangChain's and LlamaIndex's retrievers."""


class Shadow(UnbufferedExporter):
    """Runs another retriever on a share of the requests, and compares. Thread-safe.

    Args:
        retriever: A function from question to documents, also an ``async`` one, or a retriever of LangChain or
            LlamaIndex.
        name: Name of the retriever.
        chosen: Returns whether to compare a request.
        workflow: Only requests of this workflow; None: all.
        calls_per_hour: Most calls of it.
        guard: Contains its errors.
        judge: Judges which chunks are relevant; None: the words of the answer decide.
        redact: The user's hook, applied to every text.

    Raises:
        ConfigurationError: `retriever` cannot retrieve, or a number is out of range.
    """

    def __init__(
        self,
        retriever: Any,
        *,
        name: str | None,
        chosen: Callable[[ScoredRun], bool],
        workflow: str | None,
        calls_per_hour: int,
        guard: Guard,
        judge: Judge | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._ask = _call_of(retriever)
        self.name = name or getattr(retriever, "__name__", None) or type(retriever).__name__
        if type(calls_per_hour) is not int or calls_per_hour < 1:
            raise ConfigurationError(f"calls_per_hour is {calls_per_hour!r}; pass 1 or more")
        self._chosen, self._workflow = chosen, workflow
        self._calls_per_hour, self._called = calls_per_hour, deque[float]()
        self._comparison, self._redact = RetrieverComparison(self.name, judge), redact
        self._judges = judge is not None
        self._worker: WorkerQueue[RagSample] = WorkerQueue(
            "ragmeter-shadow",
            self._compare,
            guard=guard,
            on_drop=lambda _, reason: self._comparison.fail(reason),
            on_start=leave_host,
            max_items=_WAITING,
            max_bytes=16 * 1024 * 1024,
        )

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Queue the requests to compare; never blocks."""
        for scored in batch:
            sample = scored.sample
            if (
                not scored.late
                and scored.selection == "sampled"
                and sample.question
                and sample.contexts is not None
                and self._workflow in (None, scored.run.name)
                and self._chosen(scored)
            ):
                self._worker.start()
                self._worker.put(sample, 1_000 + sum(len(one.text) for one in sample.contexts))

    def shutdown(self, timeout_s: float) -> None:
        """Stop calling the retriever; the result can still be read."""
        self._worker.close(time.monotonic() + min(timeout_s, 1.0))

    def wait(self, timeout_s: float) -> bool:
        """Wait until all queued requests are compared; return whether they are."""
        return self._worker.flush(time.monotonic() + timeout_s)

    def result(self) -> Comparison:
        """Return the comparison so far."""
        return self._comparison.result()

    def differences(self) -> Sequence[RetrieverDifference]:
        """Return the difference for exporters; empty if the lists cannot be compared, or hardly were."""
        found = self.result()
        if found.difference is None or not found.comparable or found.n < LEAST_REQUESTS:
            return ()
        ends = {"mean": found.difference, "lower": found.lower, "upper": found.upper}
        return (RetrieverDifference(name=self.name, score=found.score, **ends),)

    def _compare(self, batch: Sequence[RagSample]) -> None:
        for sample in batch:
            if not self._may_call():
                self._comparison.fail("budget")
                continue
            try:
                question = sample.searched_for or sample.question or ""
                found = [as_context(one) for one in as_contexts(self._ask(question), "retrieved")]
                if self._redact is not None:
                    found = [one.model_copy(update={"text": self._redact(one.text)}) for one in found]
                if self._judges:
                    asyncio.run(self._comparison.add(sample, found))
                else:
                    self._comparison.add_by_words(sample, found)
            except Exception:
                self._comparison.fail("error")
                raise

    def _may_call(self) -> bool:
        now = time.monotonic()
        while self._called and self._called[0] < now - _HOUR_S:
            self._called.popleft()
        if len(self._called) >= self._calls_per_hour:
            return False
        self._called.append(now)
        return True


def _call_of(retriever: Any) -> Callable[[str], Iterable[Any]]:
    found = next(
        (getattr(retriever, name) for name in _METHODS if callable(getattr(retriever, name, None))), retriever
    )
    if isinstance(retriever, type) or not callable(found):
        raise ConfigurationError(
            f"retriever is {retriever!r}; pass a function from question to documents, or a retriever of "
            "LangChain or LlamaIndex"
        )
    call: Callable[[str], Any] = found

    def ask(question: str) -> Iterable[Any]:
        made = call(question)
        return asyncio.run(_result_of(made)) if inspect.isawaitable(made) else made

    return ask


async def _result_of(made: Any) -> Any:
    return await made
