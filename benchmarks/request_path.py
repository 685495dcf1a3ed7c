"""The worker's half of the overhead benchmarks: CPU, memory, allocations and spans per request.

The LangChain and the LlamaIndex benchmark pass in their requests and functions that attach each variant.
Spans go to a real tracer provider with a batch processor whose exporter discards them, so that the cost of
creating them is measured, not that of a network.
"""

from __future__ import annotations

import difflib
import gc
import json
import re
import sys
import textwrap
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

from measure import RequestClock, Row, interleave, median, number, quantile, spread
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from texts import text

Request = Callable[[str], Any]

_RECORDS = [{"text": text(200, n), "numbers": [n / 7 for n in range(80)]} for n in range(40)]


class OtherWork:
    """Other work in a process that serves requests: some milliseconds, on another thread.

    Done before each request whose CPU is taken, by every variant alike. A bare request directly after another
    one finds its core, and the framework's code and data in the caches, and takes 1.2 to 1.4 ms; after
    anything else (this work, scoring, or a pause on a shared machine) 1.5 to 1.9 ms. Without it this
    difference would count only for variants with background work.
    """

    def __init__(self) -> None:
        self._ask, self._answer = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, name="other-work", daemon=True).start()

    def __call__(self) -> None:
        self._ask.release()
        self._answer.acquire()

    def _run(self) -> None:
        while self._ask.acquire():
            json.loads(json.dumps(_RECORDS))
            for record in _RECORDS[:8]:
                words = re.findall(r"\w+", record["text"])
                difflib.SequenceMatcher(None, words, _RECORDS[0]["text"].split()).ratio()
                textwrap.wrap(record["text"], 70)
            self._answer.release()


class SpanCount(SpanProcessor):
    """A span processor that counts spans by the thread that started them."""

    def __init__(self) -> None:
        self.by_thread: dict[int, int] = {}

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        ident = threading.get_ident()
        self.by_thread[ident] = self.by_thread.get(ident, 0) + 1


class DiscardingExporter(SpanExporter):
    """Discards every span."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def tracer_provider(spans: SpanCount) -> TracerProvider:
    """Return a real provider that counts and discards."""
    provider = TracerProvider()
    provider.add_span_processor(spans)
    provider.add_span_processor(BatchSpanProcessor(DiscardingExporter(), max_queue_size=100_000))
    return provider


def attach_meter(provider: Any) -> Any:
    """Return a meter with every free metric that exports spans to `provider`."""
    from ragmeter import RagMeter
    from ragmeter.exporters.otel import OpenTelemetryExporter

    return RagMeter(exporters=[OpenTelemetryExporter(tracer_provider=provider)])


class Path:
    """Commands of a worker: ``batch`` for CPU, ``beside``, ``memory``, ``blocks``, ``spans``.

    Args:
        requests: Functions that send one, by calling method.
        spans: Counts started spans.
        drain: Waits for the background.
        beside: The same requests with another handler attached, or none, to the same process.
    """

    def __init__(
        self,
        requests: Mapping[str, Request],
        spans: SpanCount,
        drain: Callable[[], Any],
        beside: Mapping[str, Mapping[str, Request]] | None = None,
    ) -> None:
        self._requests = requests
        self._beside = {"": requests, **(beside or {})}
        self._spans = spans
        self._drain = drain
        self._clock = RequestClock()
        self._other_work = OtherWork()
        for asked in self._beside.values():
            for request in asked.values():
                for _ in range(20):
                    request("warm up?")
        self._other_work()
        drain()
        gc.collect()
        gc.freeze()  # objects that the libraries made at import are not this benchmark's garbage
        self.background = self._clock.settle()

    def commands(self) -> dict[str, Callable[..., Any]]:
        return {
            "batch": self.batch,
            "beside": self.beside,
            "memory": self.memory,
            "blocks": self.blocks,
            "spans": self.spans,
        }

    def batch(self, way: str, count: int) -> list[int]:
        """Send `count` requests; return the nanoseconds of CPU on each request's path.

        After each one the background finishes, as it does at any load that leaves a core some rest. The
        behaviour without such rest is measured by ``live_latency.py``.
        """
        return [self._spent(self._requests[way], n) for n in range(count)]

    def beside(self, way: str, count: int) -> dict[str, list[int]]:
        """Run `batch` with the attached variant (``""``) and with those for comparison, in turn.

        The effects of scoring on the process (caches, memory in other places) then slow down all of them
        alike: only the work during a request differs.
        """
        spent: dict[str, list[int]] = {name: [] for name in self._beside}
        names = list(self._beside)
        for n in range(count):
            for name in names[n % len(names) :] + names[: n % len(names)]:
                spent[name].append(self._spent(self._beside[name][way], n))
        return spent

    def _spent(self, request: Request, n: int) -> int:
        now = self._clock.now
        question = f"What was built in the {n}th year?"
        self._other_work()
        before = now()
        request(question)
        spent = now() - before
        self._drain()
        return spent

    def memory(self, way: str, count: int) -> list[int]:
        """Return, for each of `count` requests, the peak increase of memory in bytes."""
        request = self._requests[way]
        peaks = []
        tracemalloc.start()
        for n in range(count):
            self._drain()
            gc.collect()
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            request(f"What was built in the {n}th year?")
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
        self._drain()
        return peaks

    def blocks(self, way: str, count: int) -> list[int]:
        """Return, for each of `count` requests, the increase of memory blocks in use at its end.

        The garbage collector is off meanwhile: garbage in cycles counts.
        """
        request = self._requests[way]
        left = []
        gc.disable()
        for n in range(count):
            self._drain()
            gc.collect()
            before = sys.getallocatedblocks()
            request(f"What was built in the {n}th year?")
            left.append(sys.getallocatedblocks() - before)
        gc.enable()
        self._drain()
        return left

    def spans(self, way: str, count: int) -> float:
        """Return the number of spans that the request's own threads started, per request."""
        background = {t.ident for t in threading.enumerate() if t.name in self.background}
        self._drain()
        self._spans.by_thread.clear()
        for n in range(count):
            self._requests[way](f"What was built in the {n}th year?")
        self._drain()
        on_path = sum(n for ident, n in self._spans.by_thread.items() if ident not in background)
        return on_path / count


def compare(
    benchmark: str,
    framework: str,
    workers: Mapping[str, Any],
    ways: list[str],
    *,
    rounds: int,
    count: int,
    targets: set[str],
) -> list[Row]:
    """Measure all `workers` and return the rows; `targets`: peers with whose cost a tenth is compared."""
    rows: list[Row] = []
    peers = [name for name in workers if name not in ("none", "no-op", "ours")]
    for way in ways:
        batches = interleave(workers, rounds, "batch", way=way, count=count)
        memory = interleave(workers, 1, "memory", way=way, count=10)
        blocks = interleave(workers, 1, "blocks", way=way, count=10)
        spans = interleave(workers, 1, "spans", way=way, count=20)
        cost = Cost(batches)
        ours = median(cost.added("ours"))
        note = (
            f"bare request {number(cost.bare)} µs; "
            f"a handler that does nothing adds {number(median(cost.added('no-op')))} µs"
        )
        for peer in peers or [None]:
            theirs = None if peer is None else median(cost.added(peer))
            aimed = peer in targets
            # A negative value occurs only where the machine's noise exceeds the difference.
            ratio = ours / theirs if theirs is not None and min(ours, theirs) > 0 else None
            apart = spread(cost.added("ours"))
            apart += "" if peer is None else f"; peer {spread(cost.added(peer))}"
            rows.append(
                Row(benchmark, f"{framework} {way}: CPU added, p50", "µs", ours, theirs, peer, ratio,
                    "≤ 0.1" if aimed else None, ratio <= 0.1 if aimed and ratio else None, apart, note)
            )  # fmt: skip
            if peer is not None:
                slow, slower = cost.tail("ours"), cost.tail(peer)
                rows.append(
                    Row(benchmark, f"{framework} {way}: CPU added, p99", "µs", slow, slower, peer,
                        slow / slower if min(slow, slower) > 0 else None)
                )  # fmt: skip
        for label, above in during(workers["ours"], way, rounds, count).items():
            rows.append(
                Row(benchmark, f"{framework} {way}: CPU added, p50, {label}", "µs", median(above),
                    spread=spread(above))
            )  # fmt: skip
        added = {
            "memory added at the request's peak": ("KiB", over_bare(memory, 1024)),
            "allocated blocks added when it ends": ("blocks", over_bare(blocks, 1)),
        }
        for what, (unit, by_variant) in added.items():
            for peer in peers or [None]:
                mine, there = by_variant["ours"], None if peer is None else by_variant[peer]
                rows.append(
                    Row(benchmark, f"{framework} {way}: {what}", unit, mine, there, peer,
                        mine / there if there else None)
                )  # fmt: skip
        most = max(peers, key=lambda peer: spans[peer][0], default=None)
        rows.append(
            Row(benchmark, f"{framework} {way}: spans begun on the request's path", "spans",
                spans["ours"][0], None if most is None else spans[most][0], most, target="0",
                met=spans["ours"][0] == 0)
        )  # fmt: skip
    return rows


def over_bare(answers: Mapping[str, list[list[int]]], unit: int) -> dict[str, float]:
    """Return each variant's median less the bare request's."""
    bare = median(answers["none"][0])
    return {name: (median(taken[0]) - bare) / unit for name, taken in answers.items()}


class Cost:
    """Costs that each variant adds to a request, from batches taken in turn."""

    def __init__(self, batches: Mapping[str, list[list[int]]]) -> None:
        self._batches = batches
        self.bare = median(median(batch) for batch in batches["none"]) / 1000
        """Microseconds of CPU of a request with nothing attached."""

    def added(self, variant: str) -> list[float]:
        """Return the microseconds added to the median, one number per round: neighbours in time compared."""
        pairs = zip(self._batches[variant], self._batches["none"], strict=True)
        return [(median(batch) - median(none)) / 1000 for batch, none in pairs]

    def tail(self, variant: str) -> float:
        """Return the microseconds added to the 99th percentile of all requests."""
        with_it = [spent for batch in self._batches[variant] for spent in batch]
        without = [spent for batch in self._batches["none"] for spent in batch]
        return (quantile(with_it, 0.99) - quantile(without, 0.99)) / 1000


def during(worker: Any, way: str, rounds: int, count: int) -> dict[str, list[float]]:
    """Return the cost of `worker` above that of its other attachable variants in one process, by round."""
    taken = [worker.ask("beside", way=way, count=count) for _ in range(rounds)]
    return {
        f"while it runs, above {name}": [(median(spent[""]) - median(spent[name])) / 1000 for spent in taken]
        for name in taken[0]
        if name
    }
