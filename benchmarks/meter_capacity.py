"""Capacity of the meter: samples a second, bytes per waiting sample, and behaviour beyond capacity.

``python benchmarks/meter_capacity.py``. CPU per sample by metric set, through the whole meter (building,
scoring, exporting), and how it grows with words, documents and requests; memory of a sample in the
queue; goodput and drops at 1, 2 and 10 times the capacity; and memory with a judge that never answers
at 10 times the capacity. Every sample has new texts, of 5 contexts of 200 words unless said otherwise.
"""

from __future__ import annotations

import gc
import itertools
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from measure import Row, Settings, Worker, growth, interleave, median, number, run, spread
from texts import chinese_sample, sample, text

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
SHORT = {
    "3 × 60 words": (3, 60, 1000),
    "5 × 60 words": (5, 60, 1000),
    "5 × 300 characters of Chinese": (5, 300, 600),
}
"""Chunks without a reference: their number and size, and the target of samples a second."""
AIMED = tuple(name for name in SETS if name.startswith("all free"))


class Nowhere:
    """An exporter that counts and discards."""

    def __init__(self) -> None:
        self.count = 0

    def export(self, batch: Any) -> None:
        self.count += len(batch)

    def flush(self, timeout_s: float) -> bool:
        return True

    def shutdown(self, timeout_s: float) -> None:
        pass


def resident_mb() -> float:
    """Return the process's current resident memory, or its peak if only that is known."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def samples(count: int, first: int, kind: str) -> list[Any]:
    """Return samples with new texts; or, like most traffic, with new questions about known chunks."""
    from ragmeter.metrics import Reference

    if kind in SHORT:
        chunks, size, _ = SHORT[kind]
        seeds = range(first, first + count)
        if "Chinese" in kind:
            return [chinese_sample(chunks, size, seed) for seed in seeds]
        made = [sample(chunks, size, 1, seed) for seed in seeds]
        return [one.model_copy(update={"reference": None}) for one in made]
    known = "seen before" in kind
    seeds = range(count) if known else range(first, first + count)
    made = [sample(5, 200, 3, seed) for seed in seeds]
    if known:
        changed = [{"question": f"{one.question} {first}", "answer": f"{one.answer} {first}."} for one in made]
        made = [one.model_copy(update=new) for one, new in zip(made, changed, strict=True)]
    if "no reference" in kind:
        made = [one.model_copy(update={"reference": None}) for one in made]
    if "reference answer" in kind:
        made = [one.model_copy(update={"reference": Reference(answer=one.reference.answer)}) for one in made]
    return made


def capacity(variant: str) -> dict[str, Any]:
    """Commands of a worker that measures CPU per sample of one metric set."""
    from ragmeter import Limits, RagMeter

    meter = RagMeter(metrics=SETS.get(variant), exporters=[Nowhere()], limits=Limits(queue_size=100_000))
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

    def cost(contexts: int, words: int, requests: int) -> float:
        """Return milliseconds of CPU of this many requests of that size."""
        given = [sample(contexts, words, 3, state["seed"] + n) for n in range(requests)]
        state["seed"] += requests
        if "no reference" in variant:
            given = [one.model_copy(update={"reference": None}) for one in given]
        gc.collect()
        before = time.process_time()
        for one in given:
            meter.submit(one)
        assert meter.flush(300)
        return (time.process_time() - before) * 1000

    return {"batch": batch, "cost": cost}


def waiting() -> dict[str, Any]:
    """Commands of a worker that measures the size of a waiting sample."""
    import tracemalloc

    from ragmeter import Limits, RagMeter
    from ragmeter.metrics import metric

    gate = threading.Event()

    @metric
    def stands_still(given: Any) -> float:
        gate.wait(120)
        return 1.0

    def weigh(count: int) -> dict[str, float]:
        meter = RagMeter(metrics=[stands_still], exporters=[Nowhere()], limits=Limits(queue_size=count))
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


PARTS = [text(200, n) for n in range(50)]
PREPARED = 5000
"""Samples made beforehand and offered in a cycle; more text than ragmeter's caches hold."""


def fresh(number: int) -> Any:
    """Return a sample whose texts are new strings: nothing in memory is shared between requests."""
    from ragmeter.metrics import RagSample

    contexts = [f"{number} {PARTS[(number * 5 + n) % 50]}" for n in range(5)]
    return RagSample(question=f"What is {number}?", contexts=contexts, answer=contexts[0][:200])


def overload() -> dict[str, Any]:
    """Commands of a worker that is offered more than it can score.

    The samples are made beforehand: making one takes longer than submitting it, and would take time from
    scoring that belongs to the application, not to ragmeter.
    """
    from ragmeter import RagMeter

    meter = RagMeter(exporters=[Nowhere()])
    prepared = itertools.cycle([fresh(number) for number in range(PREPARED)])
    gc.collect()
    gc.freeze()

    def capacity(count: int) -> float:
        """Return samples a second while a queue is emptied, submitting included."""
        before = time.perf_counter()
        for _ in range(count):
            meter.submit(next(prepared))
        assert meter.flush(60)
        return count / (time.perf_counter() - before)

    def offer(rate: float, seconds: float) -> dict[str, float]:
        """Offer `rate` samples a second; return the rates sent and scored, the share lost, and the CPU used."""
        before, began = meter.stats(), time.perf_counter()
        process, thread = time.process_time(), time.thread_time()
        sent = 0
        while (now := time.perf_counter()) - began < seconds:
            for _ in range(int((now - began) * rate) - sent):
                meter.submit(next(prepared))
                sent += 1
            time.sleep(0.001)
        spent, after = time.perf_counter() - began, meter.stats()
        offering = time.thread_time() - thread
        process = time.process_time() - process
        assert meter.flush(60)
        return {
            "sent": sent / spent,
            "scored": (after.exported - before.exported) / spent,
            "lost": (sum(after.dropped.values()) - sum(before.dropped.values())) / max(1, sent),
            "submit_us": offering / max(1, sent) * 1e6,
            "offering": offering / spent,
            "process": process / spent,
        }

    return {"capacity": capacity, "offer": offer}


def judge_down(url: str) -> dict[str, Any]:
    """Commands of a worker whose judge never answers, and that is offered too much besides."""
    from ragmeter import RagMeter
    from ragmeter.metrics import RagSample
    from ragmeter.metrics.judge import OpenAIJudge

    judge = OpenAIJudge(model="fake", base_url=url, api_key="none", timeout_s=2.0)
    meter = RagMeter(judge=judge, exporters=[Nowhere()])

    def fill(count: int) -> None:
        """Score requests until the tables of texts and of conversations are full, which is no growth."""
        for place in range(count):
            chunk = f"The tower number {place} is high and stands in the town."
            meter.submit(RagSample(question=f"Tower {place}?", contexts=[chunk] * 5, answer=chunk))
            if place % 500 == 0:
                assert meter.flush(60)
        assert meter.flush(60)

    def offer(rate: float, seconds: float) -> list[float]:
        """Offer `rate` new samples a second, as far as they can be made; return memory over time."""
        began = next_look = time.perf_counter()
        memory: list[float] = []
        sent = 0
        while (now := time.perf_counter()) - began < seconds:
            while sent < int((now - began) * rate) and time.perf_counter() - now < 0.05:
                meter.submit(fresh(sent))
                sent += 1
            if now >= next_look:
                memory.append(resident_mb())
                next_look = now + seconds / 20
            time.sleep(0.0005)
        return memory

    return {"fill": fill, "offer": offer}


def prepare(variant: str, options: dict[str, Any]) -> Any:
    if variant == "waiting":
        return waiting()
    if variant == "overload":
        return overload()
    if variant == "judge down":
        return judge_down(options["url"])
    return capacity(variant)


def capacity_rows(settings: Settings) -> list[Row]:
    sets = list(SETS)[:2] if settings.quick else [*SETS, *SHORT]
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
        aimed = SHORT[name][2] if name in SHORT else 1000 if name in AIMED else None
        size = name if name in SHORT else f"5 × 200 words: {name}"
        rows.append(
            Row(NAME, f"samples a second on one core, {size}", "/s", rate,
                target=f"≥ {aimed:,} /s" if aimed else None, met=rate >= aimed if aimed else None,
                spread=spread([1000 / one for one in spent]))
        )  # fmt: skip
    return rows


def growth_rows(settings: Settings) -> list[Row]:
    """Return the rows of the growth of all free metrics' cost with words, documents and requests."""
    middle = {"contexts": 5, "words": 100, "requests": 20}
    sizes = {
        "words": [25, 50, 100, 200, 400, 800],
        "contexts": [2, 4, 8, 16, 32, 64],
        "requests": [10, 20, 40, 80, 160, 320],
    }
    rows = []
    for name in AIMED[:1] if settings.quick else (AIMED[0], AIMED[-1]):
        worker = Worker(__file__, name)
        try:
            worker.ask("cost", **middle)
            for over, points in sizes.items():
                chosen = points[:2] if settings.quick else points
                costs = [
                    median(
                        worker.ask("cost", **{**middle, over: point}) for _ in range(1 if settings.quick else 3)
                    )
                    for point in chosen
                ]
                exponent = growth(chosen, costs)
                what = "documents" if over == "contexts" else over
                ends = f"{number(costs[0])} ms at {chosen[0]}, {number(costs[-1])} at {chosen[-1]}"
                rows.append(
                    Row(NAME, f"exponent of cost over {what}: {name}", "", exponent, target="≤ 1.2",
                        met=exponent <= 1.2, note=f"{ends}; others {middle}".replace("contexts", "documents"))
                )  # fmt: skip
        finally:
            worker.close()
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
    """Return the rows of goodput at 1, 2 and 10 times the capacity, which is measured again before each."""
    count, seconds, rounds = (100, 0.3, 1) if settings.quick else (1500, 3.0, 5)
    capacities: list[float] = []
    seen: dict[int, list[dict[str, float]]] = {1: [], 2: [], 10: []}
    shares: dict[int, list[float]] = {times: [] for times in seen}
    worker = Worker(__file__, "overload")
    try:
        worker.ask("capacity", count=count)
        for _ in range(rounds):
            for times, taken in seen.items():
                capacities.append(worker.ask("capacity", count=count))
                taken.append(worker.ask("offer", rate=capacities[-1] * times, seconds=seconds))
                shares[times].append(taken[-1]["scored"] / capacities[-1])
    finally:
        worker.close()
    whole = median(capacities)
    rows = [
        Row(NAME, "capacity of one process, offered by the same process", "/s", whole,
            spread=spread(capacities))
    ]  # fmt: skip
    for times, taken in seen.items():
        scored = [one["scored"] for one in taken]
        middle = {key: median(one[key] for one in taken) for key in taken[0]}
        rows.append(
            Row(NAME, f"scored at {times} × capacity", "/s", median(scored), whole, "capacity",
                median(shares[times]), spread=spread(scored),
                note=f"{number(middle['sent'])}/s offered, {middle['lost']:.0%} dropped and counted; "
                     f"submit takes {middle['submit_us']:.1f} µs, offering {middle['offering']:.0%} of a "
                     f"core, the process {middle['process']:.0%}")
        )  # fmt: skip
    return rows + down_rows(settings, whole)


def down_rows(settings: Settings, rate: float) -> list[Row]:
    """Return the rows of ten times the capacity for a minute, with a judge that never answers a call."""
    from fake_judge import FakeJudge

    seconds = 2.0 if settings.quick else 62.0
    with FakeJudge(3600.0) as judge:
        worker = Worker(__file__, "judge down", options={"url": judge.url})
        try:
            worker.ask("fill", count=100 if settings.quick else 6_000)
            memory = worker.ask("offer", rate=rate * 10, seconds=seconds)
        finally:
            worker.close()
    # The first fifth fills the queues; after that memory must stay constant.
    settled, last = memory[len(memory) // 5], median(memory[-3:])
    grown = last - settled
    flat = grown <= 0.05 * settled
    return [
        Row(NAME, f"memory after {seconds:.0f} s of 10 × overload with the judge down", "MB", last, settled,
            f"after {seconds / 5:.0f} s", last / settled, "flat (≤ +5 %)",
            None if settings.quick else flat, f"{min(memory):.0f} to {max(memory):.0f} MB; its tables were full before")
    ]  # fmt: skip


def benchmark(settings: Settings) -> list[Row]:
    return capacity_rows(settings) + growth_rows(settings) + memory_rows(settings) + overload_rows(settings)


if __name__ == "__main__":
    run(benchmark, prepare)
