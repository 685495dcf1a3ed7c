"""The contract with the host application: one named test per line of it."""

import gc
import logging
import threading
import time
import tracemalloc

import pytest
from fakes_core import GatedExporter, RaisingExporter
from openai_server import OpenAIServer, error
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rag_chain import ANSWER, DOCUMENTS, QUESTION, ask, rag_chain

from ragmeter import Limits, RagMeter, RagRun, Scoring
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError, RagSample, metric
from ragmeter.metrics.judge import OpenAIJudge


@pytest.mark.contains_errors
def test_ragmeter_never_raises_into_the_application(monkeypatch):
    """Broken metrics, exporters, hooks and even a broken meter leave the answer untouched."""

    @metric
    def broken(sample):
        raise ZeroDivisionError

    def broken_hook(text):
        raise LookupError

    meter = RagMeter(metrics=[broken], exporters=[RaisingExporter()], scoring=Scoring(redact=broken_hook))
    assert ask(meter) == [ANSWER]

    def broken_offer(*_, **__):
        raise OSError("no")

    monkeypatch.setattr(meter.port, "offer", broken_offer)
    assert ask(meter) == [ANSWER]
    assert meter.stats().internal_errors
    meter.shutdown(60)


def test_a_blocked_worker_adds_nothing_to_the_chains_latency():
    """Scoring hangs; every request still ends, none of them waits for it."""
    gate = threading.Event()

    @metric
    def stuck(sample):
        gate.wait(60)
        return 1.0

    exporter = GatedExporter()
    meter = RagMeter(metrics=[stuck], exporters=[exporter])

    assert ask(meter, 50) == [ANSWER] * 50
    assert meter.stats().exported == 0
    gate.set()
    exporter.gate.set()
    assert meter.flush(60)
    assert meter.stats().exported == 50


def test_arguments_and_outputs_are_never_changed():
    documents = [document.model_copy(deep=True) for document in DOCUMENTS]
    chain = rag_chain(documents)
    meter = RagMeter(exporters=[InMemoryExporter()])
    metadata = {"ragmeter": {"reference": {"answer": "a"}, "tags": ["t"]}}
    config = {"callbacks": [RagMeterCallbackHandler(meter)], "metadata": metadata}

    with_meter = chain.invoke(QUESTION, config=config)
    without = chain.invoke(QUESTION)

    assert with_meter == without
    assert documents == DOCUMENTS
    assert metadata == {"ragmeter": {"reference": {"answer": "a"}, "tags": ["t"]}}
    meter.flush(60)
    assert documents == DOCUMENTS


def test_the_current_context_is_never_changed():
    meter = RagMeter(exporters=[InMemoryExporter()])
    tracer = TracerProvider().get_tracer("app")

    with tracer.start_as_current_span("request") as span:
        before = otel_context.get_current()
        ask(meter)
        assert otel_context.get_current() == before
        assert trace.get_current_span() is span
    assert trace.get_current_span() is trace.INVALID_SPAN
    meter.flush(60)


def test_memory_does_not_grow_while_everything_behind_is_stuck():
    """A hanging exporter and a stuck metric: queues fill, then the oldest go; memory is bounded."""
    gate = threading.Event()

    @metric
    def stuck(sample):
        gate.wait(60)
        return 1.0

    meter = RagMeter(metrics=[stuck], exporters=[], limits=Limits(queue_size=100, late_window=0))

    def run(number):
        sample = RagSample(question=str(number), contexts=["x" * 2_000 + str(number)])
        return RagRun(sample=sample, run_id=str(number), framework="manual", started_ns=1, ended_ns=1)

    def offer(count):
        for number in range(count):
            built = run(number)
            meter.port.offer(lambda built=built: built, run_id=built.run_id, size_bytes=2_000)

    offer(500)
    gc.collect()
    tracemalloc.start()
    offer(3_000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert meter.stats().queue_size <= 100
    # 100 queued samples of 2 kB replaced by 100 others, now seen by the tracer; 3,000 would be 6 MB.
    assert grown < 1_500_000
    gate.set()
    meter.shutdown(60)


def test_text_is_never_sent_unasked():
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    meter = RagMeter(exporters=[OpenTelemetryExporter(tracer_provider=provider)])

    ask(meter)
    meter.flush(60)

    written = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "river_chain" in written
    assert "secret" not in written


def test_judge_calls_are_never_captured_or_traced_as_the_users():
    """A judged metric that itself runs a chain under a global handler causes no second sample."""
    from ragmeter.adapters import instrument, uninstrument

    memory = InMemoryExporter()

    @metric
    def nosy(sample):
        rag_chain().invoke("as judge")
        assert not trace.get_current_span().is_recording()
        return 1.0

    meter = RagMeter(metrics=[nosy], exporters=[memory])
    instrument(meter)
    try:
        assert rag_chain().invoke(QUESTION) == ANSWER
        assert meter.flush(60)
        assert meter.flush(60)
    finally:
        uninstrument()

    assert [result.sample.question for result in memory.results] == [QUESTION]
    assert memory.results[0].scores["nosy"].value == 1.0


def test_the_embedders_calls_are_never_captured_or_traced_as_the_users():
    """Both frameworks' embedders, one of them with a chain inside, under global handlers."""
    from langchain_core.embeddings import Embeddings
    from llama_index.core.base.embeddings.base import BaseEmbedding

    from ragmeter.adapters import instrument, uninstrument

    seen = []

    def note():
        seen.append(trace.get_current_span().is_recording())
        return rag_chain().invoke("as embedder")

    class OfLangChain(Embeddings):
        def embed_query(self, text):
            note()
            return [1.0, 0.0]

        def embed_documents(self, texts):
            return [[1.0, 1.0] for _ in texts]

    class OfLlamaIndex(BaseEmbedding):
        def _get_query_embedding(self, query):
            note()
            return [1.0, 0.0]

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text):
            return [1.0, 1.0]

    for embedder in (OfLangChain(), OfLlamaIndex()):
        memory = InMemoryExporter()
        meter = RagMeter(
            metrics=["semantic_context_relevance"],
            embedder=embedder,
            exporters=[memory],
            limits=Limits(hold_s=60),
        )
        instrument(meter)
        try:
            assert rag_chain().invoke(QUESTION) == ANSWER
            assert meter.flush(60)
            assert meter.flush(60)
        finally:
            uninstrument()
            meter.shutdown(60)

        assert [result.sample.question for result in memory.results] == [QUESTION]
        assert memory.results[0].scores["semantic_context_relevance"].status == "ok"
        assert meter.stats().captured == 1
    assert seen == [False, False]


def test_a_secret_is_never_logged(caplog):
    key = "sk-very-secret-key"
    with OpenAIServer() as server, caplog.at_level(logging.DEBUG):
        server.script.append(error(401, message=f"bad key {key}"))
        judge = OpenAIJudge("m", base_url=server.url, api_key=key, max_retries=0)
        memory = InMemoryExporter()
        meter = RagMeter(metrics=["answer_relevancy"], judge=judge, exporters=[memory])
        meter.submit(RagSample(question="q", contexts=["c"], answer="a."))
        meter.flush(60)
        meter.shutdown(60)

    seen = " ".join(record.getMessage() for record in caplog.records if "ragmeter" in record.name)
    assert memory.results[0].scores["answer_relevancy"].status == "judge_error"
    assert seen
    assert key not in seen
    assert key not in repr(judge) + repr(meter) + repr(memory.results)


def test_a_number_it_does_not_have_is_never_reported():
    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory])

    meter.submit(RagSample(question="q"))
    meter.submit(RagSample(question="", contexts=[], answer=""))
    meter.flush(60)

    unknown, empty = memory.results
    assert {score.status for score in unknown.scores.values()} == {"missing_input"}
    assert all(score.value is None for score in unknown.scores.values())
    for score in empty.scores.values():
        assert (score.value is not None) == (score.status == "ok")
    assert empty.scores["empty_retrieval"].value == 1.0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_base_exceptions_pass_through(kind):
    def stop(_):
        raise kind

    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory])

    with pytest.raises(kind):
        ask(meter, chain=rag_chain() | stop)

    meter.flush(60)
    assert [result.sample.status for result in memory.results] in (["cancelled"], ["error"])


def test_misconfiguration_raises_at_construction():
    with pytest.raises(ConfigurationError):
        RagMeter(sample_rate=2)


def test_exit_and_shutdown_wait_no_longer_than_told():
    exporter = GatedExporter()
    meter = RagMeter(metrics=[], exporters=[exporter])
    meter.submit(RagSample(question="q"))
    started = time.monotonic()

    meter.shutdown(0.3)

    # Generous: the promise is "not for ever", the exporter would take a minute.
    assert time.monotonic() - started < 20
    exporter.gate.set()
