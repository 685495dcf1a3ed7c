"""Wake-up delay of an application's thread beside scoring: waits for the interpreter lock.

``python benchmarks/waking_up.py``. A thread sleeps 2 ms at a time and records how much later it continues,
while 50 samples a second are scored in the same process, on a thread or in a worker process. A thread of an
uninvolved process does the same at the same time: an equal delay is a wait for a processor, a longer one a
wait for the lock. So the result is valid on a busy machine, too. Variants take turns in one process; medians
of repeats.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import count
from typing import Any

from fake_judge import FakeJudge
from measure import Row, Settings, median, quantile, run, spread
from texts import text

NAME = "waking_up"
NAP_S = 0.002
RATE = 50
LABELS = {
    "none": "nothing is scored",
    "free, thread": "free metrics",
    "free, process": "free metrics, scoring=process",
    "judged, thread": "free and judged metrics",
    "judged, process": "free and judged metrics, scoring=process",
}
ELSEWHERE = f"""
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    began = time.perf_counter()
    time.sleep({NAP_S})
    print((time.perf_counter() - began - {NAP_S}) * 1000)
"""


def make_meter(variant: str, url: str) -> Any:
    from ragmeter import Limits, RagMeter
    from ragmeter.metrics.judge import OpenAIJudge

    what, _, scoring = variant.partition(", ")
    if what == "none":
        return None
    judge = None
    if what == "judged":
        judge = OpenAIJudge("fake", url, "none", concurrency=64, cache=False)
    return RagMeter(exporters=[], judge=judge, scoring=scoring, limits=Limits(judge_concurrency=64))


def window(meter: Any, samples: list[Any]) -> dict[str, Any]:
    """Score `samples` at the fixed rate; return milliseconds late here and elsewhere, and the CPU."""
    here: list[float] = []
    ended = threading.Event()

    def nap() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            time.sleep(NAP_S)
            here.append((time.perf_counter() - began - NAP_S) * 1000)

    command = [sys.executable, "-c", ELSEWHERE, str(len(samples) / RATE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as elsewhere:
        worked = time.process_time()
        thread = threading.Thread(target=nap)
        thread.start()
        for sample in samples:
            if meter is not None:
                meter.submit(sample)
            time.sleep(1 / RATE)
        ended.set()
        thread.join()
        if meter is not None:
            meter.flush(30)
        cpu_ms = (time.process_time() - worked) * 1000 / len(samples)
        said, _ = elsewhere.communicate()
    return {"here": here, "elsewhere": [float(line) for line in said.split()], "cpu_ms": cpu_ms}


def benchmark(settings: Settings) -> list[Row]:
    from ragmeter.metrics import RagSample

    seconds, rounds = (0.5, 1) if settings.quick else (2.0, 8)
    seeds = count()

    def some(number: int) -> list[RagSample]:
        return [
            RagSample(
                question=text(12, next(seeds)),
                contexts=[text(200, next(seeds)) for _ in range(5)],
                answer=text(60, next(seeds)),
            )
            for _ in range(number)
        ]

    windows: dict[str, list[dict[str, Any]]] = {name: [] for name in LABELS}
    with FakeJudge(0.2) as judge:
        meters = {name: make_meter(name, judge.url) for name in LABELS}
        for meter in meters.values():
            window(meter, some(RATE // 2))
        for _ in range(rounds):
            for name, meter in meters.items():
                windows[name].append(window(meter, some(int(RATE * seconds))))
        for meter in meters.values():
            if meter is not None:
                meter.shutdown()
    rows = []
    for name, label in LABELS.items():
        for share in (0.9, 0.99):
            ours = [quantile(one["here"], share) for one in windows[name]]
            other = [quantile(one["elsewhere"], share) for one in windows[name]]
            rows.append(
                Row(NAME, f"late after a nap of 2 ms, {label}, p{share * 100:.0f}", "ms", median(ours),
                    median(other), "another process", median(ours) / median(other), None, None,
                    f"{spread(ours)}; another process {spread(other)}", "")
            )  # fmt: skip
        cpu = [one["cpu_ms"] for one in windows[name]]
        bare = median([one["cpu_ms"] for one in windows["none"]])
        rows.append(
            Row(NAME, f"CPU of the application's process per request, {label}", "ms", median(cpu), bare,
                "nothing scored", median(cpu) / bare, None, None, spread(cpu), "no exporter")
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    run(benchmark)
