"""Scores in a real Zipkin, behind a real Collector: by its API, and on the pages that a person sees."""

from dataclasses import dataclass

import httpx
import pytest
from live_app import SwitchableRetriever
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otel_collector import ARRIVED_S, collecting, listening_here, shown_on
from processes import wait_until
from rag_apps import QUESTION, TEXTS, langchain_chain

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import ScoredRun

BAD = "ragmeter.verdict=bad"


@dataclass
class Sent:
    """The requests that were sent: two good ones and one for which nothing was retrieved."""

    results: dict[str, ScoredRun]
    """By trace."""

    def trace(self, verdict):
        """Return the first trace whose request has this verdict."""
        return next(trace for trace, one in self.results.items() if one.verdict.word == verdict)


@pytest.fixture(scope="module")
def sent(zipkin, collector_program, tmp_path_factory):
    """Ask an application with ragmeter attached, whose spans go through the Collector of docs/backends.md."""
    config = shown_on("backends.md", "Zipkin")
    http, _ = listening_here(config, "otlp")
    config["exporters"]["zipkin"]["endpoint"] = f"{zipkin}/api/v2/spans"
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{http}/v1/traces")))
    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory, OpenTelemetryExporter(tracer_provider=provider)])
    retriever = SwitchableRetriever()
    ask = langchain_chain(retriever, meter)
    with collecting(collector_program, config, tmp_path_factory.mktemp("zipkin") / "collector"):
        for found in (TEXTS, (), TEXTS):
            retriever.found = found
            with provider.get_tracer("shop").start_as_current_span("POST /ask"):
                ask(QUESTION)
        assert meter.flush(60)
        meter.shutdown(60)
        provider.shutdown()
        results = {f"{one.run.trace_id:032x}": one for one in memory.results}
        for trace in results:
            wait_until(lambda trace=trace: len(spans(zipkin, trace)) == 3, ARRIVED_S, "no spans came")
    return Sent(results)


def spans(zipkin, trace):
    """Return the spans of a trace as Zipkin has them."""
    reply = httpx.get(f"{zipkin}/api/v2/trace/{trace}", timeout=60)
    return [] if reply.status_code == 404 else reply.raise_for_status().json()


def found(zipkin, query):
    """Return the traces that a search for tags finds."""
    reply = httpx.get(f"{zipkin}/api/v2/traces", params={"annotationQuery": query}, timeout=60)
    return {trace[0]["traceId"] for trace in reply.raise_for_status().json()}


def test_scores_are_tags_of_the_spans_they_judge(zipkin, sent):
    for trace, result in sent.results.items():
        by_name = {span["name"]: span for span in spans(zipkin, trace)}
        request, retrieval = by_name["invoke_workflow tides"], by_name["retrieval"]
        assert request["parentId"] == by_name["post /ask"]["id"]
        assert request["tags"]["ragmeter.verdict"] == result.verdict.word
        for name, score in result.scores.items():
            span = retrieval if score.target == "retrieval" else request
            tag = span["tags"].get(f"ragmeter.score.{name}")
            assert tag is None if score.value is None else float(tag) == pytest.approx(score.value)


def test_a_search_finds_requests_by_verdict_and_by_a_score_s_exact_value(zipkin, sent):
    """Tags are texts to Zipkin, and compared for equality: there is no search for low scores."""
    bad = {trace for trace, one in sent.results.items() if one.verdict.word == "bad"}
    assert len(bad) == 1
    assert found(zipkin, BAD) == bad
    assert found(zipkin, "ragmeter.score.empty_retrieval=1") == bad
    assert found(zipkin, "ragmeter.verdict") == set(sent.results)
    assert found(zipkin, f"{BAD} and ragmeter.score.empty_retrieval=1") == bad
    assert found(zipkin, "ragmeter.score.empty_retrieval=1.0") == set()


def test_a_person_reads_the_verdict_and_the_scores_on_the_trace_page(zipkin, sent, browser, keep_picture):
    trace = sent.trace("good")
    page = browser.open(f"{zipkin}/zipkin/traces/{trace}", width=1400, height=800)
    page.wait_for("shop: invoke_workflow tides")
    page.click("shop: invoke_workflow tides")
    text = page.wait_for(r"ragmeter\.verdict\s+good", r"ragmeter\.score\.lexical_groundedness\s+1")
    assert "shop: retrieval" in text
    page.scroll_to("ragmeter.verdict")
    keep_picture(page, "zipkin-trace")


def test_a_person_finds_the_bad_requests(zipkin, sent, browser, keep_picture):
    page = browser.open(f"{zipkin}/zipkin/?annotationQuery={BAD}", width=1400, height=420)
    page.wait_for("RUN QUERY")
    page.click("RUN QUERY")
    page.wait_for("1 Result", "shop: post /ask")
    keep_picture(page, "zipkin-bad-requests")
