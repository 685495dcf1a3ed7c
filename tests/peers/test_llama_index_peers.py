"""Beside other instrumentations of LlamaIndex, attached before or after ours.

The samples are the same as without them; their spans are the same as without us; and our runs
name the span they recorded for the request, if they recorded one. Each test skips, and says why,
where its peer is not installed (``requirements-llama-index.txt`` installs them all).
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed")
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_fakes import Captured, ListRetriever, index, llm
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from ragmeter import RagMeter
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.otel import OpenTelemetryExporter

exported = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exported))


def load(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        pytest.skip(f"peer not importable: {error}")


def instrumentor(module: str) -> Callable[[], Callable[[], None]]:
    def attach() -> Callable[[], None]:
        peer = load(module, "LlamaIndexInstrumentor")()
        peer.instrument(tracer_provider=provider, skip_dep_check=True)
        return peer.uninstrument

    return attach


def llama_index_otel() -> Callable[[], None]:
    peer = load("llama_index.observability.otel", "LlamaIndexOpenTelemetry")
    peer(span_exporter=InMemorySpanExporter(), span_processor="simple").start_registering()
    return lambda: None


PEERS: dict[str, Callable[[], Callable[[], None]]] = {
    "openinference": instrumentor("openinference.instrumentation.llama_index"),
    "traceloop": instrumentor("opentelemetry.instrumentation.llamaindex"),
    "genai": instrumentor("opentelemetry.instrumentation.genai.llama_index"),
    "llama-index-otel": llama_index_otel,
}
ORDERS = ["peer first", "ragmeter first"]


@pytest.fixture(scope="module", autouse=True)
def _global_provider() -> None:
    trace.set_tracer_provider(provider)


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    """Some peers never take their handlers back."""
    root = get_dispatcher()
    spans, events = list(root.span_handlers), list(root.event_handlers)
    yield
    root.span_handlers, root.event_handlers = spans, events
    exported.clear()


def requests() -> None:
    """Plain, streamed, async, async streamed, bare and failing requests, each in a span of the app."""
    tracer = trace.get_tracer("app")
    plain = index().as_query_engine(llm=llm(), similarity_top_k=2)
    streaming = index().as_query_engine(llm=llm(), similarity_top_k=2, streaming=True)
    failing = RetrieverQueryEngine.from_args(ListRetriever([], error=OSError("x")), llm=llm())

    async def astream() -> None:
        response = await streaming.aquery("async streamed")
        assert "".join([word async for word in response.async_response_gen()])

    def fail() -> None:
        with pytest.raises(OSError, match="x"):
            failing.query("failing")

    for name, ask in {
        "plain": lambda: plain.query("plain"),
        "streamed": lambda: list(streaming.query("streamed").response_gen),
        "async": lambda: asyncio.run(plain.aquery("async")),
        "async streamed": lambda: asyncio.run(astream()),
        "bare": lambda: index().as_retriever().retrieve("bare"),
        "failing": fail,
        "last": lambda: plain.query("last"),
    }.items():
        with tracer.start_as_current_span(name):
            # What a peer leaves current must not reach the next request of this test.
            contextvars.copy_context().run(ask)
    gc.collect()


def spans_of(peer: str | None, order: str | None) -> tuple[list[ReadableSpan], Captured | None]:
    """Run the requests with a peer, with us, or with both; return its spans, and what we captured."""
    exported.clear()
    root = get_dispatcher()
    spans, events = list(root.span_handlers), list(root.event_handlers)
    capture = None if order is None else Captured()
    if capture is not None and order == "ragmeter first":
        capture.handler.attach()
    detach = PEERS[peer]() if peer is not None else None
    if capture is not None and order != "ragmeter first":
        capture.handler.attach()
    try:
        requests()
    finally:
        if capture is not None:
            capture.handler.detach()
        if detach is not None:
            detach()
        root.span_handlers, root.event_handlers = spans, events
    return list(exported.get_finished_spans()), capture


def facts(capture: Captured) -> list[tuple[Any, ...]]:
    return sorted(
        (
            str(run.sample.question),
            run.sample.status,
            run.sample.answer,
            tuple(item.id for item in run.sample.contexts or ()),
            len(run.run.retrievals),
        )
        for run in capture.runs
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("peer", PEERS)
def test_our_samples_and_their_spans_are_as_alone(peer: str, order: str) -> None:
    """Neither side notices the other: same samples, same spans, none left open."""
    theirs, _ = spans_of(peer, None)
    _, alone = spans_of(None, "ours alone")
    both, beside = spans_of(peer, order)
    assert alone is not None
    assert beside is not None

    assert facts(beside) == facts(alone)
    assert len(facts(alone)) == 7
    assert Counter(span.name for span in both) == Counter(span.name for span in theirs)
    assert beside.handler.open_entries == 0
    assert beside.meter.stats().internal_errors == {}
    for capture in (alone, beside):
        capture.meter.shutdown(60)


def named(spans: list[ReadableSpan], context: SpanContext | None) -> str | None:
    if context is None:
        return None
    return next((s.name for s in spans if s.context.span_id == context.span_id), "?")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("peer", ["openinference", "llama-index-otel"])
def test_target_is_the_span_that_the_peer_recorded(peer: str, order: str) -> None:
    """The request's own span, the retriever's own span, the application's span around them."""
    spans, capture = spans_of(peer, order)
    assert capture is not None

    for run in capture.runs:
        question = str(run.sample.question)
        target, parent = named(spans, run.run.target), named(spans, run.run.parent)
        retrieval = named(spans, run.run.retrievals[0].target)
        assert parent == question
        if question == "bare":
            assert str(target).endswith(".retrieve")
        else:
            assert str(target).endswith("query")
            assert str(retrieval).endswith("retrieve")
    capture.meter.shutdown(60)


@pytest.mark.parametrize("order", ORDERS)
def test_genai_records_only_the_retrieval(order: str) -> None:
    """No span for the request: our own become children of the application's."""
    spans, capture = spans_of("genai", order)
    assert capture is not None

    for run in capture.runs:
        assert named(spans, run.run.parent) == run.sample.question
        assert str(named(spans, run.run.retrievals[0].target)).startswith("retrieval")
        if run.sample.question != "bare":
            assert run.run.target is None
    capture.meter.shutdown(60)


@pytest.mark.parametrize("order", ORDERS)
def test_everything_stays_in_the_applications_trace_beside_traceloop(order: str) -> None:
    """Its current span may be a dead one: never another request's trace."""
    spans, capture = spans_of("traceloop", order)
    assert capture is not None
    traces = {span.name: span.context.trace_id for span in spans if span.parent is None}

    for run in capture.runs:
        assert run.run.trace_id == traces[str(run.sample.question)]
    capture.meter.shutdown(60)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("peer", ["openinference", "traceloop", "genai"])
def test_what_we_emit_repeats_nothing_and_stays_in_the_trace(peer: str, order: str) -> None:
    """One trace per request; own spans only for what the peer did not record, and scores on each."""
    theirs, _ = spans_of(peer, None)
    root = get_dispatcher()
    spans, events = list(root.span_handlers), list(root.event_handlers)
    exported.clear()
    meter = RagMeter(
        metrics=["retrieval_health"],
        exporters=[OpenTelemetryExporter(tracer_provider=provider, metrics=False, events="off")],
    )
    handler = RagMeterHandler(meter)
    if order == "ragmeter first":
        handler.attach()
    detach = PEERS[peer]()
    if order != "ragmeter first":
        handler.attach()
    try:
        requests()
        assert meter.flush(30)
    finally:
        handler.detach()
        detach()
        root.span_handlers, root.event_handlers = spans, events
        meter.shutdown(60)
    both = list(exported.get_finished_spans())
    ours = [s for s in both if scope(s) == "ragmeter"]
    beside = [s for s in both if scope(s) != "ragmeter"]

    assert Counter(map(described, beside)) == Counter(map(described, theirs))
    roots = {s.context.trace_id: s.name for s in both if s.parent is None and scope(s) == "app"}
    assert len(roots) == 7
    assert {s.context.trace_id for s in ours} <= set(roots)
    for trace_id, request in roots.items():
        names = [s.name for s in beside if s.context.trace_id == trace_id]
        kinds = Counter(s.name.split()[0] for s in ours if s.context.trace_id == trace_id)
        # The official instrumentation never records the request, Traceloop no streamed or failed one.
        recorded = request == "bare" or any(n.startswith("RetrieverQueryEngine") for n in names)
        retrieval = any(n.lower().startswith("retrieval") or "Retriever." in n for n in names)
        assert kinds["invoke_workflow"] == (0 if recorded else 1), (request, names)
        assert kinds["retrieval"] == 0 or not retrieval, (request, names)
        # Nothing could be tried on the failing request.
        assert kinds["evaluation"] == (0 if request == "failing" else 1), (request, kinds)


def scope(span: ReadableSpan) -> str:
    return span.instrumentation_scope.name if span.instrumentation_scope else ""


def described(span: ReadableSpan) -> tuple[str, tuple[str, ...]]:
    return span.name, tuple(sorted(span.attributes or {}))
