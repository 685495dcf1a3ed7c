"""What the meter can take: samples a second, bytes a waiting sample, and behaviour beyond capacity.

``python benchmarks/meter_capacity.py``. CPU per sample by metric set, through the whole meter
(building, scoring, exporting); memory of a sample in the queue; goodput, drops and memory at 1, 2
and 10 times the capacity; and memory with a judge that never answers at 10 times the capacity.
Every sample has new texts of 5 contexts of 200 words.
"""

from __future__ import annotations

import gc
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from measure import Row, Settings, Worker, interleave, median, quantile, run, spread
from texts import sample, text

NAME = "meter_capacity"
SETS: dict[str, list[str] | None] = {
    "all free metrics, full reference": None,
    "all free metrics, full reference, chunks seen before": None,
    "all free metrics, reference answer": None,
    "all free metrics, no reference (live traffic)": None,
    "precision_recall_f1": ["precision_recall_f1"],
    "ranked_retrieval": ["ranked_retrieval"],
    "answer_overlap": ["answer_overlap"],
    "lexical_groundedness": ["lexical_groundedness"],
    "retrieval_health": ["retrieval_health"],
}
AIMED = tuple(name for name in SETS if name.startswith("all free"))


class Nowhere:
    """An exporter that counts and keeps nothing."""

    def __init__(self) -> None:
        self.count = 0

    def export(self, batch: Any) -> None:
        self.count += len(batch)

    def flush(self, timeout_s: float) -> bool:
        return True

    def shutdown(self, timeout_s: float) -> None:
        pass


def resident_mb() -> float:
    """Return the process's resident memory now, or its peak where only that is known."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )


def samples(count: int, first: int, kind: str) -> list[Any]:
    """Return samples with new texts; or, as most traffic, with new questions about known chunks."""
    from ragmeter.metrics import Reference

    known = "seen before" in kind
    seeds = range(count) if known else range(first, first + count)
    made = [sample(5, 200, 3, seed) for seed in seeds]
    if known:
        changed = [
            {"question": f"{one.question} {first}", "answer": f"{one.answer} {first}."}
            for one in made
        ]
        made = [one.model_copy(update=new) for one, new in zip(made, changed, strict=True)]
    if "no reference" in kind:
        made = [one.model_copy(update={"reference": None}) for one in made]
    if "reference answer" in kind:
        made = [
            one.model_copy(update={"reference": Reference(answer=one.reference.answer)})
            for one in made
        ]
    return made


def capacity(variant: str) -> dict[str, Any]:
    """Commands of a worker that measures CPU per sample of one metric set."""
    from ragmeter import RagMeter

    meter = RagMeter(metrics=SETS[variant], exporters=[Nowhere()], queue_size=100_000)
    state = {"seed": 1}

    def batch(count: int) -> float:
        """Return milliseconds of CPU a sample, on all threads, submitting included."""
        given = samples(count, state["seed"], variant)
        state["seed"] += count
        gc.collect()
        before = time.process_time()
        for one in given:
            meter.submit(one)
        assert meter.flush(300)
        return (time.process_time() - before) / count * 1000

    return {"batch": batch}


def waiting() -> dict[str, Any]:
    """Commands of a worker that measures what a waiting sample weighs."""
    import tracemalloc

    from ragmeter import RagMeter
    from ragmeter.metrics import metric

    gate = threading.Event()

    @metric
    def stands_still(given: Any) -> float:
        gate.wait(120)
        return 1.0

    def weigh(count: int) -> dict[str, float]:
        meter = RagMeter(metrics=[stands_still], exporters=[Nowhere()], queue_size=count)
        meter.submit(sample(1, 5, 1, 0))
        time.sleep(0.2)
        given = samples(count, 10, "no reference")
        size = sum(len(context.text) for one in given for context in one.contexts or ())
        tracemalloc.start()
        for one in given:
            meter.submit(one)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        gate.set()
        meter.flush(60)
        return {"own": held / count, "texts": size / count}

    return {"weigh": weigh}


def overload(variant: str, options: dict[str, Any]) -> dict[str, Any]:
    """Commands of a worker that is offered more than it can take."""
    from ragmeter import RagMeter
    from ragmeter.metrics import RagSample

    if variant == "judge down":
        from ragmeter.metrics.judge import OpenAIJudge

        judge = OpenAIJudge(model="fake", base_url=options["url"], api_key="none", timeout_s=2.0)
        meter = RagMeter(judge=judge, exporters=[Nowhere()])
    else:
        meter = RagMeter(exporters=[Nowhere()])
    # Every request's texts are new strings: nothing in memory is shared between requests.
    parts = [text(200, n) for n in range(50)]

    def fresh(number: int) -> Any:
        contexts = [f"{number} {parts[(number * 5 + n) % 50]}" for n in range(5)]
        return RagSample(question=f"What is {number}?", contexts=contexts, answer=contexts[0][:200])

    def free_rate(count: int) -> float:
        """Return samples a second when a full queue is worked off."""
        given = [fresh(number) for number in range(count)]
        before = time.perf_counter()
        for one in given:
            meter.submit(one)
        meter.flush(60)
        return count / (time.perf_counter() - before)

    def offer(rate: float, seconds: float) -> dict[str, Any]:
        """Offer `rate` samples a second; return counts, the longest `submit` and memory over time."""
        before, began = meter.stats(), time.perf_counter()
        memory: list[float] = []
        longest: list[float] = []
        sent = 0
        next_look = began
        while (now := time.perf_counter()) - began < seconds:
            due = int((now - began) * rate)
            while sent < due:
                one = fresh(sent)
                start = time.perf_counter()
                meter.submit(one)
                longest.append(time.perf_counter() - start)
                sent += 1
                if time.perf_counter() - now > 0.05:
                    break
            if now >= next_look:
                memory.append(resident_mb())
                next_look = now + seconds / 20
            time.sleep(0.0005)
        spent = time.perf_counter() - began
        after = meter.stats()
        return {
            "sent": sent,
            "exported": (after.exported - before.exported) / spent,
            "dropped": sum(after.dropped.values()) - sum(before.dropped.values()),
            "captured": after.captured - before.captured,
            "submit_p99_us": quantile(longest, 0.99) * 1e6,
            "memory": memory,
        }

    return {"free_rate": free_rate, "offer": offer}


def prepare(variant: str, options: dict[str, Any]) -> Any:
    if variant == "waiting":
        return waiting()
    if variant in ("overload", "judge down"):
        return overload(variant, options)
    return capacity(variant)


def capacity_rows(settings: Settings) -> list[Row]:
    sets = list(SETS)[:2] if settings.quick else list(SETS)
    workers = {name: Worker(__file__, name) for name in sets}
    try:
        rounds, count = (2, 5) if settings.quick else (5, 120)
        interleave(workers, 1, "batch", count=5)
        taken = interleave(workers, rounds, "batch", count=count)
    finally:
        for worker in workers.values():
            worker.close()
    rows = []
    for name, spent in taken.items():
        rate = 1000 / median(spent)
        aimed = name in AIMED
        rows.append(
            Row(NAME, f"samples a second on one core, 5 × 200 words: {name}", "/s", rate,
                target="≥ 1,000 /s" if aimed else None, met=rate >= 1000 if aimed else None,
                spread=spread([1000 / one for one in spent]))
        )  # fmt: skip
    return rows


def memory_rows(settings: Settings) -> list[Row]:
    worker = Worker(__file__, "waiting")
    try:
        held = worker.ask("weigh", count=100 if settings.quick else 1000)
    finally:
        worker.close()
    return [
        Row(NAME, "memory of a waiting sample beside its texts", "bytes", held["own"], held["texts"],
            "its texts", held["own"] / held["texts"])
    ]  # fmt: skip


def overload_rows(settings: Settings) -> list[Row]:
    rows = []
    worker = Worker(__file__, "overload")
    seconds = 1.0 if settings.quick else 10.0
    try:
        rate = worker.ask("free_rate", count=50 if settings.quick else 1500)
        rows.append(Row(NAME, "capacity of one process, offered by the same process", "/s", rate))
        for times in (1, 2, 10):
            seen = worker.ask(
                "offer", rate=rate * times * (0.9 if times == 1 else 1), seconds=seconds
            )
            share = seen["exported"] / rate
            lost = seen["dropped"] / max(1, seen["captured"])
            grown = seen["memory"][-1] - seen["memory"][len(seen["memory"]) // 2]
            rows.append(
                Row(NAME, f"scored at {'0.9' if times == 1 else times} × capacity", "/s", seen["exported"], rate,
                    "capacity", share,
                    note=f"{lost:.0%} dropped and counted; submit p99 {seen['submit_p99_us']:.0f} µs; "
                         f"memory {grown:+.1f} MB in the second half")
            )  # fmt: skip
    finally:
        worker.close()
    return rows + down_rows(settings, rate)


def down_rows(settings: Settings, rate: float) -> list[Row]:
    """Ten times the capacity for a minute, and the judge takes every call and never answers."""
    from fake_judge import FakeJudge

    seconds = 4.0 if settings.quick else 62.0
    with FakeJudge(3600.0) as judge:
        worker = Worker(__file__, "judge down", options={"url": judge.url})
        try:
            memory = worker.ask("offer", rate=rate * 10, seconds=seconds)["memory"]
        finally:
            worker.close()
    # The first fifth fills the queues; from then on memory is to stay.
    settled, last = memory[len(memory) // 5], median(memory[-3:])
    grown = last - settled
    flat = grown <= 0.05 * settled
    return [
        Row(NAME, f"memory after {seconds:.0f} s of 10 × overload with the judge down", "MB", last, settled,
            f"after {seconds / 5:.0f} s", last / settled, "flat (≤ +5 %)",
            None if settings.quick else flat, f"{min(memory):.0f} to {max(memory):.0f} MB")
    ]  # fmt: skip


def benchmark(settings: Settings) -> list[Row]:
    return capacity_rows(settings) + memory_rows(settings) + overload_rows(settings)


if __name__ == "__main__":
    run(benchmark, prepare)
