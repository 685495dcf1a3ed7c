"""CPU that an attached handler adds to a LlamaIndex request, beside common tracers.

``python benchmarks/request_overhead_llama_index.py``. A five-node query engine by query, aquery and
streaming query; with nothing attached, handlers that do nothing, ragmeter with all free metrics
scoring in the background, and each peer. One process per variant, all in the peers' environment,
asked in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from measure import Row, Settings, absent_rows, run, start
from request_path import DiscardingExporter, Path, SpanCount, attach_meter, compare, tracer_provider

PEERS = {
    "openinference": "openinference-llama-index",
    "traceloop": "traceloop-llama-index",
    "llama-index-otel": "llama-index-otel",
}
"""Variant: its name in ``peers.toml``."""

WAYS = ["query", "aquery", "streaming query"]


def attach_nothing() -> None:
    """Attach a span handler that does nothing, to measure the cost of the calls alone."""
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.span_handlers import NullSpanHandler

    class Nothing(NullSpanHandler):
        """A handler added beside the null handler that is always there."""

    get_dispatcher().add_span_handler(Nothing())


def attach(variant: str, provider: Any, spans: SpanCount) -> Callable[[], Any]:
    """Attach `variant`; return a function that drains it."""
    if variant == "ours":
        from ragmeter.adapters.llama_index import RagMeterHandler

        meter = attach_meter(provider)
        RagMeterHandler(meter).attach()
        return lambda: meter.flush(30)
    if variant == "no-op":
        attach_nothing()
    elif variant == "openinference":
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    elif variant == "traceloop":
        from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor as Traceloop

        Traceloop().instrument(tracer_provider=provider)
    elif variant == "llama-index-otel":
        from llama_index.observability.otel import LlamaIndexOpenTelemetry

        LlamaIndexOpenTelemetry(
            span_exporter=DiscardingExporter(), extra_span_processors=[spans]
        ).start_registering()
    return provider.force_flush


def prepare(variant: str, options: dict[str, Any]) -> Any:
    from llama_index_app import requests

    spans = SpanCount()
    drain = attach(variant, tracer_provider(spans), spans)
    loop = asyncio.new_event_loop()
    ways = {way: call for way, call in requests(loop).items() if way in options["ways"]}
    return Path(ways, spans, drain).commands()


def benchmark(settings: Settings) -> list[Row]:
    ways = WAYS[:1] if settings.quick else WAYS
    python = settings.python_of("llama-index")
    needed = ["none", "no-op", "ours"]
    peers = [v for v, peer in PEERS.items() if settings.python_of("llama-index", peer)]
    variants = dict.fromkeys([*needed, *peers], python)
    workers, absent = start(__file__, variants, needed, {"ways": ways})
    try:
        rows = compare(
            "request_overhead_llama_index",
            "LlamaIndex",
            workers,
            ways,
            rounds=2 if settings.quick else 40,
            count=5 if settings.quick else 8,
            targets={"openinference"},
        )
        return rows + absent_rows("request_overhead_llama_index", absent)
    finally:
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    run(benchmark, prepare)
