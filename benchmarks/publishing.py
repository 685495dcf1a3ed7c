"""Cost of a request that another process scores: the application's part, and the worker's.

``python benchmarks/publishing.py``. Processor time of the whole process for each request, flat out, beside
``scoring="thread"`` in the same run: publishing into memory (capture, message, compression), publishing into a
folder, and scoring what was published, with all free metrics. Samples are made beforehand: 5 contexts of 200 words.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from measure import Row, Settings, Worker, interleave, median, run, spread
from meter_capacity import Nowhere
from texts import sample

NAME = "publishing"
VARIANTS = {
    "thread": "scoring='thread', all free metrics",
    "memory": "publishing a request, without an engine",
    "spool": "publishing a request into a folder",
    "worker": "scoring a published request in a worker",
}
AT_MOST_US = 250.0
"""Microseconds of the application's core for a published request."""
AT_LEAST = 500.0
"""Requests a second that occupy a worker's core."""


class Kept:
    """A sender that stores messages."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def send(self, body: bytes, *, count: int) -> None:
        del count
        self.bodies.append(body)

    def close(self, timeout_s: float) -> None:
        del timeout_s


def prepare(variant: str, options: dict[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """Return the commands of a worker; each measures one round: microseconds of processor time a request."""
    from ragmeter import Limits, RagMeter
    from ragmeter.fleet.publisher import FleetPublisher
    from ragmeter.fleet.worker import BatchWorker

    del options
    seeds = itertools.count()

    def samples(count: int) -> list[Any]:
        # Without a reference, like most live traffic.
        made = (sample(5, 200, 3, next(seeds)) for _ in range(count))
        return [one.model_copy(update={"reference": None}) for one in made]

    def offered(meter: Any, asked: list[Any]) -> float:
        began = time.process_time()
        for one in asked:
            meter.submit(one)
        if not meter.flush(300):
            raise RuntimeError("not all is through")
        return (time.process_time() - began) / len(asked) * 1e6

    kept = Kept()
    if variant == "worker":
        publishing = RagMeter(
            metrics=[], exporters=[FleetPublisher(kept, linger_s=0.0)], limits=Limits(queue_size=100_000)
        )
        worker = BatchWorker(RagMeter(exporters=[Nowhere()], limits=Limits(queue_size=100_000)))

        def scored(count: int) -> float:
            offered(publishing, samples(count))
            bodies, kept.bodies = kept.bodies, []
            began = time.process_time()
            for body in bodies:
                worker.handle(body, 0)
            return (time.process_time() - began) / count * 1e6

        return {"measure": scored}
    exporters: dict[str, Any] = {"thread": Nowhere()}
    if variant == "memory":
        exporters[variant] = FleetPublisher(kept, linger_s=0.0)
    if variant == "spool":
        folder = Path(tempfile.mkdtemp(prefix="ragmeter-publishing-"))
        exporters[variant] = FleetPublisher(f"spool://{folder}", linger_s=0.0)
    metrics: Any = None if variant == "thread" else []
    meter = RagMeter(metrics=metrics, exporters=[exporters[variant]], limits=Limits(queue_size=100_000))

    def measure(count: int) -> float:
        kept.bodies.clear()
        return offered(meter, samples(count))

    return {"measure": measure}


def benchmark(settings: Settings) -> list[Row]:
    rounds, count = (2, 64) if settings.quick else (9, 960)
    workers = {variant: Worker(__file__, variant) for variant in VARIANTS}
    try:
        for worker in workers.values():
            worker.ask("measure", count=64)
        found = interleave(workers, rounds, "measure", count=count)
    finally:
        for worker in workers.values():
            worker.close()
    alone = median(found["thread"])
    rows = [Row(NAME, VARIANTS["thread"], "µs", alone, spread=spread(found["thread"]))]
    for variant in ("memory", "spool", "worker"):
        ours = median(found[variant])
        target = f"at most {AT_MOST_US:g} µs" if variant == "memory" else None
        met: bool | None = ours <= AT_MOST_US if variant == "memory" else None
        note = None
        if variant == "worker":
            target, met = f"at least {AT_LEAST:g}/s", 1e6 / ours >= AT_LEAST
            note = f"{1e6 / ours:.0f} requests a second fill a core"
        rows.append(
            Row(NAME, VARIANTS[variant], "µs", ours, alone, VARIANTS["thread"], ours / alone,
                target, met, spread(found[variant]), note)
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    run(benchmark, prepare)
