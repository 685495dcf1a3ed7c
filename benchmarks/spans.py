"""Cost of reading other instrumentations' spans: received ones a second, and the processor in a process.

``python benchmarks/spans.py``. Export requests with spans of 1, 8 and 64 KB, in protobuf and in JSON:
received, assembled, read, and built into requests, without the metrics; memory of a trace that is not
complete; growth of cost with spans. And the cost that `RagMeterSpanProcessor` adds to a request that
OpenInference traces, on all threads, beside the cost of OpenInference itself.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

from measure import (
    Row,
    Settings,
    WorkerError,
    absent_rows,
    growth,
    interleave,
    median,
    number,
    reason,
    run,
    spread,
    start,
)
from texts import text

NAME = "spans"
SIZES_KB = (1, 8, 64)
AIMED_KB, AIMED_RATE = 8, 5_000
SPANS_PER_REQUEST = 6
LETTERS_PER_WORD = 5.9
"""Characters per word of `texts.text`, spaces included: to make texts of a given length."""
FRAMEWORKS = {"langchain": "openinference-langchain", "llama-index": "openinference-llama-index"}
"""The environment, and its peer in ``peers.toml``."""
_ids = itertools.count(1)


def request_spans(size_kb: float, steps: int = SPANS_PER_REQUEST - 3) -> list[dict[str, Any]]:
    """Return the spans of one request, in the order in which they end, in OTLP's JSON form.

    Each carries about `size_kb` of texts: five documents, which every step receives again, like LangChain's.

    Args:
        size_kb: Kilobytes a span.
        steps: Chains between the request and its model, beside the retriever.
    """
    seed = next(_ids)
    trace, first = f"{seed:032x}", seed * 100_000
    words = max(3, int(size_kb * 1024 / 5 / LETTERS_PER_WORD))
    # A retriever's texts are on its span twice; its span is of the same size nevertheless.
    documents = [text(max(2, words // 2), seed * 10 + n) for n in range(5)]
    context = " ".join([*documents, *documents])
    question = f"What was built in the {seed}th year, and by which council?"
    answer = text(30, seed)
    kind = "openinference.span.kind"
    retrieved: dict[str, Any] = {kind: "RETRIEVER", "input.value": question}
    for place, document in enumerate(documents):
        retrieved[f"retrieval.documents.{place}.document.content"] = document
        retrieved[f"retrieval.documents.{place}.document.metadata"] = f'{{"page": {place}}}'
    found = [{"id": f"doc-{n}", "metadata": {}, "page_content": item} for n, item in enumerate(documents)]
    retrieved |= {"output.value": json.dumps({"documents": found}), "output.mime_type": "application/json"}
    asked = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"Answer from:\n{context}\n\nQuestion: {question}",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    }
    step = {
        kind: "CHAIN",
        "input.value": json.dumps({"context": context, "question": question}),
        "input.mime_type": "application/json",
        "output.value": answer,
    }
    root = {
        kind: "CHAIN",
        "input.value": question,
        "output.value": json.dumps({"context": context, "answer": answer}),
        "output.mime_type": "application/json",
    }
    children = [
        ("retrieve", retrieved),
        *[(f"step {n}", step) for n in range(steps)],
        ("model", {kind: "LLM", **asked}),
    ]
    spans = [
        _span(trace, first + place, first, name, attributes, place)
        for place, (name, attributes) in enumerate(children, 1)
    ]
    return [*spans, _span(trace, first, None, "ask", root, 0, long=len(children) + 1)]


def _span(
    trace: str,
    span: int,
    parent: int | None,
    name: str,
    attributes: Mapping[str, str],
    place: int,
    long: int = 1,
) -> dict[str, Any]:
    begun = 1_700_000_000_000_000_000 + place * 1_000_000
    above = {} if parent is None else {"parentSpanId": f"{parent:016x}"}
    return {
        "traceId": trace,
        "spanId": f"{span:016x}",
        **above,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + long * 1_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


def body_of(spans: list[dict[str, Any]], form: str) -> bytes:
    """Return the export request with these spans, in ``protobuf`` or ``JSON``."""
    scoped = {"scope": {"name": "openinference.instrumentation.langchain"}, "spans": spans}
    value = {"resourceSpans": [{"scopeSpans": [scoped]}]}
    written = json.dumps(value).encode()
    if form == "JSON":
        return written
    from base64 import b64encode

    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for span in spans:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = b64encode(bytes.fromhex(span[key])).decode()
    return ParseDict(value, ExportTraceServiceRequest()).SerializeToString()


class Builds:
    """Accepts requests like a meter, builds each one, and scores none."""

    def __init__(self) -> None:
        self.count = 0
        self.port = self

    def offer(self, build: Callable[[], Any], **_: Any) -> None:
        """Build the request."""
        build()
        self.count += 1

    def count_lost(self, reason: str) -> None:
        """Fail: every request here can be scored."""
        raise AssertionError(reason)


def received() -> dict[str, Any]:
    """Commands of a worker that reads export requests."""
    from ragmeter.adapters.opentelemetry.assembly import TraceAssembler
    from ragmeter.adapters.opentelemetry.otlp import read_json, read_protobuf
    from ragmeter.adapters.opentelemetry.reporter import Reporter

    def spent(bodies: list[bytes], form: str, requests: int) -> int:
        """Return nanoseconds of CPU from bytes to built requests."""
        meter: Any = Builds()
        reporter = Reporter(meter, remote=True)
        assembler = TraceAssembler(reporter.report)
        read = read_json if form == "JSON" else read_protobuf
        gc.collect()
        gc.freeze()  # the objects that the bodies were made of are not measured
        before = time.thread_time_ns()
        for body in bodies:
            assembler.add(read(body).spans)
        assembler.drain()
        after = time.thread_time_ns()
        gc.unfreeze()
        assert meter.count == requests, f"{meter.count} of {requests} requests were found"
        return after - before

    def rate(size_kb: int, form: str, requests: int) -> dict[str, float]:
        """Return spans per second of CPU, and bytes a span."""
        bodies = [body_of(request_spans(size_kb), form) for _ in range(requests)]
        spans = requests * SPANS_PER_REQUEST
        return {"rate": spans / spent(bodies, form, requests) * 1e9, "bytes": sum(map(len, bodies)) / spans}

    def cost(spans: int) -> float:
        """Return nanoseconds of CPU of one trace with that number of small spans, which is one request."""
        made = request_spans(1, spans - 3)
        parts = [made[start : start + 100] for start in range(0, len(made), 100)]
        return spent([body_of(part, "protobuf") for part in parts], "protobuf", 1)

    def weigh(size_kb: int, traces: int) -> dict[str, float]:
        """Return the bytes of an incomplete trace: in memory, and as sent."""
        bodies = [body_of(request_spans(size_kb)[:-1], "protobuf") for _ in range(traces)]
        assembler = TraceAssembler(lambda _: None)
        gc.collect()
        tracemalloc.start()
        for body in bodies:
            assembler.add(read_protobuf(body).spans)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        stats = assembler.stats()
        assert stats.open_traces == traces
        return {
            "held": held / traces,
            "sent": sum(map(len, bodies)) / traces,
            "estimated": stats.bytes / traces,
        }

    return {"rate": rate, "cost": cost, "weigh": weigh}


def application(framework: str, provider: Any) -> Callable[[str], Any]:
    """Return a function that calls the application, which OpenInference traces to `provider`, if any."""
    loop = asyncio.new_event_loop()
    if framework == "langchain":
        if provider is not None:
            from openinference.instrumentation.langchain import LangChainInstrumentor

            LangChainInstrumentor().instrument(tracer_provider=provider)
        from langchain_app import requests

        return requests(loop, [])["LCEL invoke"]
    if provider is not None:
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    from llama_index_app import requests as asked

    return asked(loop)["query"]


def traced(framework: str, variant: str) -> dict[str, Any]:
    """Commands of a worker that sends requests to an application: bare, traced, or traced and read."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from request_path import DiscardingExporter, OtherWork, SpanCount

    provider = TracerProvider()
    counted = SpanCount()
    provider.add_span_processor(counted)
    if variant == "ours":
        from ragmeter import RagMeter
        from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor

        meter: Any = RagMeter(exporters=[])
        meter.port.offer = Builds().offer
        RagMeterSpanProcessor(meter).attach(provider)
    provider.add_span_processor(BatchSpanProcessor(DiscardingExporter(), max_queue_size=100_000))
    ask = application(framework, provider if variant != "none" else None)
    other_work = OtherWork()
    seeds = itertools.count()

    def batch(count: int) -> dict[str, float]:
        """Return microseconds of CPU a request: on its own thread, and on all threads."""
        path = 0
        rest = 0
        for _ in range(count):
            question = text(12, next(seeds)) + "?"
            other_work()
            whole, own = time.process_time_ns(), time.thread_time_ns()
            ask(question)
            path += time.thread_time_ns() - own
            rest += time.process_time_ns() - whole
        whole = time.process_time_ns()
        provider.force_flush()
        rest += time.process_time_ns() - whole
        return {"path": path / count / 1000, "all": rest / count / 1000}

    def spans() -> float:
        """Return the number of spans of a request."""
        counted.by_thread.clear()
        ask("How many?")
        return sum(counted.by_thread.values())

    batch(20)
    gc.collect()
    gc.freeze()
    return {"batch": batch, "spans": spans}


def prepare(variant: str, options: dict[str, Any]) -> Mapping[str, Callable[..., Any]]:
    if variant == "received":
        return received()
    return traced(options["framework"], variant)


def received_rows(settings: Settings) -> list[Row]:
    rounds, requests = (2, 5) if settings.quick else (12, 60)
    sizes = (20, 60) if settings.quick else (300, 1_000, 3_000, 10_000)
    workers, _ = start(__file__, {"received": None}, ["received"])
    worker = workers["received"]
    rows: list[Row] = []
    try:
        worker.ask("rate", size_kb=8, form="protobuf", requests=5)
        for form, size in itertools.product(("protobuf", "JSON"), SIZES_KB):
            taken = [worker.ask("rate", size_kb=size, form=form, requests=requests) for _ in range(rounds)]
            rates = [one["rate"] for one in taken]
            aimed = size == AIMED_KB
            rows.append(
                Row(NAME, f"spans of {size} KB read, {form}, per second of CPU", "spans/s", median(rates),
                    ratio=median(rates) / AIMED_RATE if aimed else None,
                    target=f"≥ {AIMED_RATE:,}" if aimed else None,
                    met=median(rates) >= AIMED_RATE if aimed else None, spread=spread(rates),
                    note=f"{number(taken[0]['bytes'])} bytes a span, {SPANS_PER_REQUEST} a request")
            )  # fmt: skip
        for size in SIZES_KB[: 1 if settings.quick else None]:
            weighed = worker.ask("weigh", size_kb=size, traces=20 if settings.quick else 200)
            rows.append(
                Row(NAME, f"memory of a trace that is not complete, 5 spans of {size} KB", "KiB",
                    weighed["held"] / 1024, weighed["sent"] / 1024, "as it was sent",
                    weighed["held"] / weighed["sent"],
                    note=f"estimated at {number(weighed['estimated'] / 1024)} KiB, which the limit is about")
            )  # fmt: skip
        costs = [min(worker.ask("cost", spans=size) for _ in range(3)) for size in sizes]
        exponent = growth(sizes, costs)
        rows.append(
            Row(NAME, f"exponent of cost over the spans of one trace, {sizes[0]} to {sizes[-1]:,}", "",
                exponent, ratio=costs[-1] / costs[0], target="≤ 1.1",
                met=None if settings.quick else exponent <= 1.1,
                note=f"{number(costs[-1] / sizes[-1] / 1000)} µs a span; "
                f"ratio: {number(sizes[-1] / sizes[0])} times the spans")
        )  # fmt: skip
    finally:
        worker.close()
    return rows


def added_rows(settings: Settings, framework: str, peer: str) -> list[Row]:
    """Return the rows of the processor's cost beside OpenInference; none if that is not installed."""
    python = settings.python_of(framework, peer)
    if python is None:
        return []
    rounds, count = (2, 5) if settings.quick else (40, 20)
    variants = ("none", "openinference", "ours")
    workers, absent = start(__file__, dict.fromkeys(variants, python), [], {"framework": framework})
    try:
        if absent:
            return absent_rows(NAME, absent)
        taken = interleave(workers, rounds, "batch", count=count)
        spans = workers["ours"].ask("spans")
    except WorkerError as error:
        return absent_rows(NAME, {framework: reason(error)})
    finally:
        for worker in workers.values():
            worker.close()

    def above(variant: str, other: str, where: str) -> list[float]:
        pairs = zip(taken[variant], taken[other], strict=True)
        return [one[where] - less[where] for one, less in pairs]

    rows: list[Row] = []
    for where, label in (("all", "on all threads"), ("path", "on the request's own thread")):
        ours, theirs = above("ours", "openinference", where), above("openinference", "none", where)
        ratio = median(ours) / median(theirs) if median(theirs) > 0 else None
        aimed = where == "all" and ratio is not None
        rows.append(
            Row(NAME, f"{framework}: CPU that the processor adds to a traced request, {label}", "µs",
                median(ours), median(theirs), "openinference", ratio, "≤ 0.1" if aimed else None,
                ratio <= 0.1 if aimed and ratio is not None else None,
                f"{spread(ours)}; peer {spread(theirs)}",
                f"{number(spans)} spans; scoring left out")
        )  # fmt: skip
    return rows


def benchmark(settings: Settings) -> list[Row]:
    rows = received_rows(settings)
    for framework, peer in FRAMEWORKS.items():
        rows += added_rows(settings, framework, peer)
    return rows


if __name__ == "__main__":
    run(benchmark, prepare)
