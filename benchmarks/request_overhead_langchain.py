"""CPU that an attached handler adds to a LangChain request, beside common tracers.

``python benchmarks/request_overhead_langchain.py``. A five-document LCEL chain and a LangGraph graph,
by invoke, ainvoke and stream; with nothing attached, a handler that does nothing, ragmeter with
all free metrics scoring in the background, and each peer. One process per variant, all in the
peers' environment, asked in turn.
"""

from __future__ import annotations

import asyncio
from typing import Any

from measure import Row, Settings, absent_rows, run, start
from request_path import DiscardingExporter, Path, SpanCount, attach_meter, compare, tracer_provider

PEERS = {
    "openinference": "openinference-langchain",
    "traceloop": "traceloop-langchain",
    "langfuse": "langfuse",
    "otel-genai": "otel-genai-langchain",
}
"""Variant: its name in ``peers.toml``."""


def attach(variant: str, provider: Any) -> tuple[list[Any], Any]:
    """Attach `variant`; return the callbacks of each request and a function that drains it."""
    if variant == "ours":
        from ragmeter.adapters.langchain import RagMeterCallbackHandler

        meter = attach_meter(provider)
        return [RagMeterCallbackHandler(meter)], lambda: meter.flush(30)
    if variant == "no-op":
        return [nothing()], lambda: None
    if variant == "openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=provider)
    elif variant == "traceloop":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        LangchainInstrumentor().instrument(tracer_provider=provider)
    elif variant == "otel-genai":
        from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor as GenAi

        GenAi().instrument(tracer_provider=provider)
    elif variant == "langfuse":
        from langfuse import Langfuse
        from langfuse.langchain import CallbackHandler

        Langfuse(
            public_key="pk-lf-benchmark",
            secret_key="sk-lf-benchmark",
            tracer_provider=provider,
            span_exporter=DiscardingExporter(),
        )
        return [CallbackHandler()], provider.force_flush
    return [], provider.force_flush


def nothing() -> Any:
    """Return a handler that does nothing."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Nothing(BaseCallbackHandler):
        run_inline = True

        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            """Do nothing: without this method LangChain raises, catches, and calls another one."""

    return Nothing()


def prepare(variant: str, options: dict[str, Any]) -> Any:
    from langchain_app import requests

    spans = SpanCount()
    callbacks, drain = attach(variant, tracer_provider(spans))
    loop = asyncio.new_event_loop()

    def asked(callbacks: list[Any]) -> dict[str, Any]:
        return {way: call for way, call in requests(loop, callbacks).items() if way in options["ways"]}

    beside = {"nothing attached": asked([]), "a handler that does nothing": asked([nothing()])}
    return Path(asked(callbacks), spans, drain, beside if variant == "ours" else None).commands()


WAYS = [f"{kind} {way}" for kind in ("LCEL", "LangGraph") for way in ("invoke", "ainvoke", "stream")]


def benchmark(settings: Settings) -> list[Row]:
    ways = WAYS[:1] if settings.quick else WAYS
    python = settings.python_of("langchain")
    needed = ["none", "no-op", "ours"]
    peers = [v for v, peer in PEERS.items() if settings.python_of("langchain", peer)]
    variants = dict.fromkeys([*needed, *peers], python)
    workers, absent = start(__file__, variants, needed, {"ways": ways})
    try:
        rows = compare(
            "request_overhead_langchain",
            "LangChain",
            workers,
            ways,
            rounds=2 if settings.quick else 40,
            count=5 if settings.quick else 8,
            targets={"openinference", "traceloop", "langfuse"},
        )
        return rows + absent_rows("request_overhead_langchain", absent)
    finally:
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    run(benchmark, prepare)
