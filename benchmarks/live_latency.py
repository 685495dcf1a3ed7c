"""Latency of an application at a fixed request rate, with and without ragmeter.

``python benchmarks/live_latency.py``. The LCEL application answers a fixed rate of requests from four
threads, each request waiting 5 ms for its store and 20 ms for its model, like real ones; latency counts from
the scheduled time of a request. Without anything, with all free metrics on every request, and with every
judged metric, on one request in ten and on all, by a judge that takes 200 ms; scored on a thread of the
application's process and in a worker process. One process per variant, in turn, each alone.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from fake_judge import FakeJudge
from measure import Row, Settings, Worker, interleave, median, quantile, run, spread

NAME = "live_latency"
THREADS = 4
METRICS = {
    "free": "free metrics on all",
    "judged 10 %": "free metrics on all, judged on one in ten",
    "judged": "free and judged metrics on all",
}
PLACES = {"thread": "", "process": ", scoring=process"}
LABELS = {f"{what}, {where}": METRICS[what] + PLACES[where] for what in METRICS for where in PLACES}
MODEL_S, STORE_S = 0.02, 0.005


def make_app(callbacks: list[Any]) -> Any:
    from langchain_app import ANSWER, make_chain, make_retriever
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    model = FakeListChatModel(responses=[ANSWER], sleep=MODEL_S)
    chain = make_chain(make_retriever(delay_s=STORE_S), model)
    return lambda question: chain.invoke(question, {"callbacks": callbacks})


def attach(variant: str, options: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the callbacks of `variant` and its meter, if any."""
    if variant == "none":
        return [], None
    from request_path import SpanCount, tracer_provider

    from ragmeter import Limits, RagMeter
    from ragmeter.adapters.langchain import RagMeterCallbackHandler
    from ragmeter.exporters.otel import OpenTelemetryExporter

    what, _, scoring = variant.rpartition(", ")
    exporters = [OpenTelemetryExporter(tracer_provider=tracer_provider(SpanCount()))]
    if what.startswith("judged"):
        from ragmeter.metrics.judge import OpenAIJudge

        judge = OpenAIJudge(model="fake", base_url=options["url"], api_key="none", concurrency=64)
        meter = RagMeter(
            judge=judge,
            exporters=exporters,
            judge_sample_rate=1.0 if what == "judged" else 0.1,
            scoring=scoring,
            limits=Limits(judge_concurrency=64),
        )
    else:
        meter = RagMeter(exporters=exporters, scoring=scoring)
    return [RagMeterCallbackHandler(meter)], meter


def prepare(variant: str, options: dict[str, Any]) -> Any:
    callbacks, meter = attach(variant, options)
    answer = make_app(callbacks)
    for _ in range(20):
        answer("warm up?")
    if meter is not None:
        meter.flush(30)

    def window(rate: float, seconds: float) -> dict[str, Any]:
        """Answer `rate` requests a second; return each one's milliseconds, and how many were scored."""
        due: queue.SimpleQueue[tuple[float, int] | None] = queue.SimpleQueue()
        latencies: list[float] = []

        def work() -> None:
            while (item := due.get()) is not None:
                answer(f"What was built in the {item[1]}th year?")
                latencies.append((time.perf_counter() - item[0]) * 1000)

        threads = [threading.Thread(target=work, name=f"app-{n}") for n in range(THREADS)]
        for thread in threads:
            thread.start()
        before = meter.stats().exported if meter is not None else 0
        worked = time.process_time()
        began = time.perf_counter() + 0.05
        for number in range(int(rate * seconds)):
            at = began + number / rate
            while (left := at - time.perf_counter()) > 0:
                time.sleep(left)
            due.put((at, number))
        for _ in threads:
            due.put(None)
        for thread in threads:
            thread.join()
        if meter is not None:
            meter.flush(30)
        scored = meter.stats().exported - before if meter is not None else 0
        cpu_ms = (time.process_time() - worked) * 1000 / len(latencies)
        return {"ms": latencies, "scored": scored, "cpu_ms": cpu_ms}

    return {"window": window}


def benchmark(settings: Settings) -> list[Row]:
    rate, seconds, rounds = (20, 1.0, 1) if settings.quick else (50, 3.0, 6)
    with FakeJudge(0.2) as judge:
        options = {"url": judge.url}
        workers = {name: Worker(__file__, name, None, options) for name in ("none", *LABELS)}
        try:
            windows = interleave(workers, rounds, "window", rate=rate, seconds=seconds)
        finally:
            for worker in workers.values():
                worker.close()
    rows = []
    base = windows["none"]
    for name, label in LABELS.items():
        scored = sum(window["scored"] for window in windows[name])
        sent = sum(len(window["ms"]) for window in windows[name])
        for share in (0.5, 0.99):
            ours = [quantile(window["ms"], share) for window in windows[name]]
            bare = [quantile(window["ms"], share) for window in base]
            slack = median(bare) * 0.02 + 0.2
            limit = median(bare) + slack
            aimed = share == 0.99
            note = f"{scored} of {sent} scored"
            met = median(ours) <= limit if aimed else None
            if aimed and quantile(bare, 0.75) - quantile(bare, 0.25) > slack:
                # Repeats without ragmeter differ by more than the target.
                met = None
                note += "; not decided: the machine was too busy to tell"
            rows.append(
                Row(NAME, f"latency at {rate} requests/s, {label}, p{share * 100:.0f}", "ms", median(ours),
                    median(bare), "without", median(ours) / median(bare),
                    f"≤ {limit:.2f} ms (+2 % + 0.2)" if aimed else None,
                    met,
                    f"{spread(ours)}; without {spread(bare)}", note)
            )  # fmt: skip
        ours = [window["cpu_ms"] for window in windows[name]]
        bare = [window["cpu_ms"] for window in base]
        rows.append(
            Row(NAME, f"CPU of the application's process per request, {label}", "ms", median(ours), median(bare),
                "without", median(ours) / median(bare), None, None,
                f"{spread(ours)}; without {spread(bare)}", "all threads; not the worker process")
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    run(benchmark, prepare)
