"""Another retriever beside the one in use: asked the same questions after the answer, and compared by words.

A `Shadow` takes scored requests as an exporter does, and hands a share of them to a thread of its own, where
the other retriever is asked and both lists get the same free score.  Nothing of it is on a request's path, in
its trace or among the application's scores; the answer never sees what was found.

What words can say is little: on five data sets they named the wrong winner between families of retrievers, and
were sure of it, but with a margin of .02 they never called the better one *worse* (400 orders of requests).  So
the word is *worse* or *nothing seen*, and never *better*.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragmeter._runtime.guard import Guard
from ragmeter._runtime.queue import WorkerQueue
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import ConfigurationError, RagSample
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.quality.paired import PairedSums
from ragmeter.requests.inputs import as_context, as_contexts
from ragmeter.requests.scope import leave_host

__all__ = ["MARGIN", "Comparison", "Shadow"]

MARGIN = 0.02
"""How far below 0 the whole interval must lie for *worse*; chosen on the data sets that it was tried on."""
LEAST_REQUESTS = 50
SCORE = "lexical_context_relevance"
_WAITING = 100
_CHUNK_SIZES = 1.5
"""Chunks this much longer or shorter hold more or fewer words for no better reason."""
_LIST_LENGTHS = 1.2
_HOUR_S = 3600.0
_METHODS = ("invoke", "retrieve")
"""LangChain's retrievers and LlamaIndex's."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a shadow run has found so far.

    Attributes:
        name: The other retriever's.
        n: Requests of which both lists have a score.
        difference: Mean of the other's score less that of the one in use; None: no request yet.
        lower: Lower end of its interval: 95 %, however often one looks.
        upper: Upper end.
        better: Requests on which the other's score is higher.
        worse: Requests on which it is lower.
        same: Requests on which it is equal.
        word: ``worse``, or ``nothing seen``: words cannot tell that a retriever is better.
        comparable: Whether both lists are of a kind that words can compare.
        why: What the word rests on, or why they are not comparable.
        failed: Requests that were not compared, by reason: ``error``, ``queue_full``, ``budget``, ``no_score``.
    """

    name: str
    n: int
    difference: float | None
    lower: float
    upper: float
    better: int
    worse: int
    same: int
    word: Literal["worse", "nothing seen"]
    comparable: bool
    why: str
    failed: dict[str, int]

    def __str__(self) -> str:
        shown = "–" if self.difference is None else f"{self.difference:+.3f}"
        return (
            f"{self.name}: {self.word} ({SCORE} {shown} [{self.lower:+.3f}, {self.upper:+.3f}], n {self.n}: "
            f"better on {self.better}, worse on {self.worse}, same on {self.same}); {self.why}"
        )


class Shadow:
    """Asks another retriever about a share of the requests, and compares. Thread-safe.

    Args:
        retriever: A function from question to documents, also an ``async`` one, or a retriever of LangChain or
            LlamaIndex.
        name: What to call it.
        chosen: Whether a request is among those to ask about.
        workflow: Only of this workflow; None: of all.
        calls_per_hour: Most questions to it.
        guard: Contains its errors.

    Raises:
        ConfigurationError: It is nothing that retrieves, or a number makes no sense.
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
    ) -> None:
        self._ask = _call_of(retriever)
        self.name = name or getattr(retriever, "__name__", None) or type(retriever).__name__
        if type(calls_per_hour) is not int or calls_per_hour < 1:
            raise ConfigurationError(f"calls_per_hour is {calls_per_hour!r}; pass 1 or more")
        self._chosen, self._workflow = chosen, workflow
        self._calls_per_hour, self._called = calls_per_hour, deque[float]()
        [self._metric] = resolve_metrics([SCORE])
        self._lock = threading.Lock()
        self._sums, self._signs, self._failed = PairedSums(), Counter[str](), Counter[str]()
        self._sizes = {"in use": [0, 0], self.name: [0, 0]}
        self._worker: WorkerQueue[RagSample] = WorkerQueue(
            "ragmeter-shadow",
            self._compare,
            guard=guard,
            on_drop=lambda _, reason: self._fail(reason),
            on_start=leave_host,
            max_items=_WAITING,
            max_bytes=16 * 1024 * 1024,
        )

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Take what is to be compared; it is compared later, on another thread."""
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

    def flush(self, timeout_s: float) -> bool:
        """Return True: a comparison is nothing that anyone waits for."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Stop asking; what was found can still be read."""
        self._worker.close(time.monotonic() + min(timeout_s, 1.0))

    def wait(self, timeout_s: float) -> bool:
        """Wait until all that was taken is compared; return whether it is."""
        return self._worker.flush(time.monotonic() + timeout_s)

    def result(self) -> Comparison:
        """Return what was found so far."""
        with self._lock:
            sums, signs, failed = self._sums, Counter(self._signs), dict(self._failed)
            sizes = {name: tuple(size) for name, size in self._sizes.items()}
        lower, upper = sums.interval()
        unlike = _unlike(*sizes.values(), n=sums.n)
        is_worse = sums.n >= LEAST_REQUESTS and upper < -MARGIN and not unlike
        return Comparison(
            name=self.name,
            n=sums.n,
            difference=sums.mean(),
            lower=lower,
            upper=upper,
            better=signs["better"],
            worse=signs["worse"],
            same=signs["same"],
            word="worse" if is_worse else "nothing seen",
            comparable=not unlike,
            why=unlike
            or (
                f"the whole interval is below -{MARGIN}"
                if is_worse
                else f"worse takes {LEAST_REQUESTS} requests and an interval below -{MARGIN}"
            ),
            failed=failed,
        )

    def _compare(self, batch: Sequence[RagSample]) -> None:
        for sample in batch:
            if not self._may_call():
                self._fail("budget")
                continue
            try:
                question = sample.searched_for or sample.question or ""
                found = as_contexts(self._ask(question), "retrieved")
                other = sample.model_copy(update={"contexts": tuple(map(as_context, found))})
            except Exception:
                self._fail("error")
                raise
            values = [self._metric.compute(one)[0].value for one in (sample, other)]  # type: ignore[attr-defined]
            if None in values:
                self._fail("no_score")
                continue
            self._count(values[1] - values[0], sample, other)

    def _count(self, difference: float, sample: RagSample, other: RagSample) -> None:
        with self._lock:
            # A new object each time: who reads one has sums that belong together.
            self._sums = self._sums.merge(PairedSums(1, difference, difference * difference))
            self._signs[
                "same" if abs(difference) < 1e-9 else "better" if difference > 0 else "worse"
            ] += 1
            for size, one in zip(self._sizes.values(), (sample, other), strict=True):
                size[0] += len(one.contexts or ())
                size[1] += sum(len(context.text) for context in one.contexts or ())

    def _may_call(self) -> bool:
        now = time.monotonic()
        while self._called and self._called[0] < now - _HOUR_S:
            self._called.popleft()
        if len(self._called) >= self._calls_per_hour:
            return False
        self._called.append(now)
        return True

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failed[reason] += 1


def _call_of(retriever: Any) -> Callable[[str], Iterable[Any]]:
    found = next(
        (getattr(retriever, name) for name in _METHODS if callable(getattr(retriever, name, None))),
        retriever,
    )
    if isinstance(retriever, type) or not callable(found):
        raise ConfigurationError(
            f"retriever is {retriever!r}; pass a function from question to documents, or a retriever of "
            "LangChain or LlamaIndex"
        )
    call: Callable[[str], Any] = found

    def ask(question: str) -> Iterable[Any]:
        made = call(question)
        return asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made

    return ask


async def _awaited(made: Any) -> Any:
    return await made


def _unlike(mine: Sequence[int], theirs: Sequence[int], *, n: int) -> str:
    """Return why words cannot compare two kinds of lists; empty: they can."""
    if not n or not mine[0] or not theirs[0]:
        return ""
    lengths = sorted((mine[0] / n, theirs[0] / n))
    sizes = sorted((mine[1] / mine[0], theirs[1] / theirs[0]))
    if sizes[1] > _CHUNK_SIZES * max(sizes[0], 1.0):
        return (
            f"not comparable: chunks of {sizes[0]:.0f} and {sizes[1]:.0f} characters; ask a judge"
        )
    if lengths[1] > _LIST_LENGTHS * lengths[0]:
        return f"not comparable: lists of {lengths[0]:.1f} and {lengths[1]:.1f} chunks; ask for as many"
    return ""
