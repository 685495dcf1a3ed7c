"""Throughput of judging, beside the ideal of concurrency / latency.

``python benchmarks/judged_throughput.py``. A local judge of fixed latency, in a separate process, accepts 64
calls at once; the ideal is 64 / 0.2 s = 320 calls a second. Bare sockets alternate with `aevaluate` and with
a meter, so that each round includes the machine's limit at that time. Every request has new texts, and one
call judges it.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from fake_judge import FakeJudge
from measure import Row, Settings, Worker, interleave, median, number, run, spread

NAME = "judged_throughput"
CHUNKS = 5
VERDICTS = [{"id": f"TAGc{n + 1}", "reason": "it says so", "verdict": True} for n in range(CHUNKS)]
WAYS = {"aevaluate": "judged throughput", "meter": "judged throughput, through a meter"}


def bare(url: str, concurrency: int) -> Any:
    """Return a function that makes calls over bare sockets: this machine's limit."""
    port = int(url.split(":")[2].split("/", maxsplit=1)[0])
    body = json.dumps({"messages": [{"role": "user", "content": "Anything?"}]}).encode()
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    ) + body

    async def ask(calls: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(calls):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1]))
        writer.close()

    async def all_at_once(calls: int) -> None:
        await asyncio.gather(*(ask(calls) for _ in range(concurrency)))

    return lambda count: asyncio.run(all_at_once(count // concurrency))


def judging(url: str, concurrency: int, way: str) -> Any:
    """Return a function that has `count` new requests judged, by `aevaluate` or by a meter."""
    from ragmeter import Limits, RagMeter
    from ragmeter.exporters.memory import InMemoryExporter
    from ragmeter.metrics import ContextPrecision, RagSample, Reference, aevaluate
    from ragmeter.metrics.judge import OpenAIJudge

    judge = OpenAIJudge("fake", url, "none", concurrency=concurrency)
    loop = asyncio.new_event_loop()
    made = [0]

    def samples(count: int) -> list[RagSample]:
        first = made[0]
        made[0] += count
        return [
            RagSample(
                question=f"Question {n}?",
                contexts=[f"Chunk {n} of {k} says a thing about towers." for k in range(CHUNKS)],
                reference=Reference(answer="Towers are tall."),
            )
            for n in range(first, first + count)
        ]

    def by_aevaluate(count: int) -> None:
        asked = samples(count)
        job = aevaluate(asked, [ContextPrecision()], judge, concurrency=concurrency)
        for scores in loop.run_until_complete(job):
            assert scores["context_precision"].status == "ok", scores

    if way == "aevaluate":
        return by_aevaluate
    exporter = InMemoryExporter()
    meter = RagMeter(
        [ContextPrecision()],
        judge,
        exporters=[exporter],
        limits=Limits(queue_size=100_000, judge_concurrency=concurrency),
    )

    def by_meter(count: int) -> None:
        for sample in samples(count):
            meter.submit(sample)
        assert meter.flush(300)
        assert len(exporter.results) >= count, meter.stats()
        exporter.clear()

    return by_meter


def prepare(variant: str, options: dict[str, Any]) -> Any:
    url, concurrency = options["url"], options["concurrency"]
    many = bare(url, concurrency) if variant == "bare" else judging(url, concurrency, variant)

    def rate(count: int) -> dict[str, float]:
        """Return calls a second, and milliseconds of CPU a call in this process."""
        began, cpu = time.perf_counter(), time.process_time()
        many(count)
        spent, cpu = time.perf_counter() - began, time.process_time() - cpu
        return {"rate": count / spent, "cpu_ms": cpu / count * 1000}

    return {"rate": rate}


def benchmark(settings: Settings) -> list[Row]:
    concurrency, latency_s = (8, 0.01) if settings.quick else (64, 0.2)
    count = concurrency * (4 if settings.quick else 25)
    with FakeJudge(latency_s, always=json.dumps({"answers": VERDICTS})) as judge:
        options = {"url": judge.url, "concurrency": concurrency}
        workers = {way: Worker(__file__, way, None, options) for way in ("bare", *WAYS)}
        try:
            interleave(workers, 1, "rate", count=2 * concurrency)
            taken = interleave(workers, 1 if settings.quick else 4, "rate", count=count)
        finally:
            for worker in workers.values():
                worker.close()
    ideal = concurrency / latency_s
    possible = median(one["rate"] for one in taken["bare"])
    rows = []
    for way, what in WAYS.items():
        rates = [one["rate"] for one in taken[way]]
        share = median(rates) / ideal
        cpu = median(one["cpu_ms"] for one in taken[way])
        rows.append(
            Row(NAME, f"{what}, {concurrency} at once, {latency_s * 1000:.0f} ms a call", "/s", median(rates),
                ideal, "concurrency / latency", share, "≥ 0.9", share >= 0.9, spread(rates),
                f"{number(cpu)} ms of CPU a call, so one core does {1000 / cpu:.0f}/s at most; bare sockets reach {number(possible)}/s")
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    run(benchmark, prepare)
