"""How near does judging come to the ideal of concurrency / latency?

A local endpoint with a fixed latency, in a process of its own, answers a judge that may have 64 calls
under way.  Ideal: 64 / 0.2 s = 320 calls a second.  Bare sockets and the judge take turns, so that each
round says what the machine allowed just then.  Run: ``python benchmarks/judge_throughput.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openai_server import OpenAIServer, content

from ragmeter.metrics import ContextPrecision, RagSample, Reference, aevaluate
from ragmeter.metrics.judge import OpenAIJudge


def serve(latency_s: float, ready, stop) -> None:
    verdicts = [{"id": f"c{n}", "reason": "it says so", "verdict": True} for n in range(1, 6)]
    with OpenAIServer(latency_s=latency_s) as server:
        server.always = content(json.dumps({"chunks": verdicts}))
        ready.put(server.url)
        stop.wait()
        ready.put(server.most_at_once)


async def bare(url: str, concurrency: int, seconds: float) -> float:
    """Calls a second over bare sockets: what this machine, as busy as it is, allows at most."""
    port = int(url.split(":")[2].split("/", maxsplit=1)[0])
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
    made = 0

    async def ask(until: float) -> None:
        nonlocal made
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            made += 1
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*[ask(started + seconds) for _ in range(concurrency)])
    return made / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds")
    parser.add_argument("--samples", type=int, default=1600, help="per round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    context = multiprocessing.get_context("spawn")
    ready, stop = context.Queue(), context.Event()
    server = context.Process(target=serve, args=(options.latency, ready, stop))
    server.start()
    url = ready.get()
    judge = OpenAIJudge("fake", url, "none", concurrency=options.concurrency)

    def samples(count: int, mark: str) -> list[RagSample]:
        return [
            RagSample(
                question=f"Question {mark} {n}?",
                contexts=[f"Chunk {n} of {k} says a thing or two about towers." for k in range(5)],
                reference=Reference(answer="Towers are tall."),
            )
            for n in range(count)
        ]

    ideal = options.concurrency / options.latency
    print(
        f"{options.samples} calls a round, {options.concurrency} at once, "
        f"{options.latency * 1000:g} ms each; ideal {ideal:.0f} calls/s"
    )
    print("  bare/s  judge/s  of ideal  of bare  CPU ms/call  load")

    async def rounds() -> None:
        warm = samples(2 * options.concurrency, "warm")
        await aevaluate(warm, [ContextPrecision()], judge, concurrency=options.concurrency)
        for number in range(options.rounds):
            before = await bare(url, options.concurrency, 3.0)
            asked = samples(options.samples, f"round {number}")
            started, cpu = time.perf_counter(), time.process_time()
            scored = await aevaluate(
                asked, [ContextPrecision()], judge, concurrency=options.concurrency
            )
            elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
            assert all(scores["context_precision"].status == "ok" for scores in scored)
            possible = (before + await bare(url, options.concurrency, 3.0)) / 2
            rate = options.samples / elapsed
            print(
                f"{possible:8.1f} {rate:8.1f} {rate / ideal:9.1%} {rate / possible:8.1%} "
                f"{cpu / options.samples * 1000:12.2f} {os.getloadavg()[0]:5.1f}",
                flush=True,
            )
        await judge.aclose()

    asyncio.run(rounds())
    stop.set()
    print(f"  most at once {ready.get()}")
    server.join(10)


if __name__ == "__main__":
    main()
