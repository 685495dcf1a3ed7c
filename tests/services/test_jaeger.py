"""Scores in a real Jaeger, by the API that its page asks: names, question and answer, the verdict as a tag."""

import httpx
import pytest
from live_app import SwitchableRetriever
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from processes import free_port, listening_addresses, running, wait_until
from rag_apps import QUESTION, TEXTS, langchain_chain

from ragmeter import RagMeter
from ragmeter.exporters.otel import OpenTelemetryExporter

OPTIONS = {
    "query.http-server": "query",
    "collector.otlp.http": "otlp",
    "collector.otlp.grpc": "",
    "query.grpc-server": "",
    "collector.grpc-server": "",
    "collector.http-server": "",
    "admin.http": "",
}
"""What it listens to, all on loopback; those that are used have a name."""


@pytest.fixture(scope="module")
def jaeger(jaeger_program, tmp_path_factory):
    """The addresses of a Jaeger that keeps what it gets in memory: of its API, and where it takes OTLP."""
    at = {option: f"127.0.0.1:{free_port()}" for option in OPTIONS}
    command = [jaeger_program, *(f"--{option}.host-port={place}" for option, place in at.items())]
    command += [
        f"--processor.{name}.server-host-port=127.0.0.1:{free_port()}"
        for name in ("jaeger-compact", "jaeger-binary", "zipkin-compact")
    ]
    command += [f"--http-server.host-port=127.0.0.1:{free_port()}"]
    query = f"http://{at['query.http-server']}"
    log = tmp_path_factory.mktemp("jaeger") / "log"
    with running(command, log, f"{query}/api/services", timeout_s=120) as process:
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        yield query, f"http://{at['collector.otlp.http']}"


@pytest.fixture(scope="module")
def search(jaeger):
    """Ask a shop two good questions and one for which nothing is retrieved; return what finds traces by tags."""
    query, otlp = jaeger
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{otlp}/v1/traces")))
    exporter = OpenTelemetryExporter(provider, capture_content="SPAN_ONLY")
    meter = RagMeter(exporters=[exporter])
    retriever = SwitchableRetriever()
    ask = langchain_chain(retriever, meter)
    for found in (TEXTS, (), TEXTS):
        retriever.found = found
        ask(QUESTION)
    assert meter.flush(60)
    meter.shutdown(60)
    provider.shutdown()

    def traces(tags):
        asked = {"service": "shop", "limit": 20, "lookback": "1h", "tags": tags}
        return httpx.get(f"{query}/api/traces", params=asked, timeout=30).json()["data"]

    wait_until(lambda: len(traces("{}")) == 3, 60)
    return traces


def test_the_verdict_is_the_tag_that_finds_bad_requests(search):
    [bad] = search('{"ragmeter.verdict":"bad"}')
    assert len(search('{"ragmeter.verdict":"good"}')) == 2
    [request] = [span for span in bad["spans"] if not span["references"]]
    assert request["operationName"] == "invoke_workflow tides"
    tags = {one["key"]: one["value"] for one in request["tags"]}
    assert tags["ragmeter.verdict"] == "bad"
    assert "error" not in tags  # a bad answer is no failed request
    assert tags["input.value"] == QUESTION
    assert tags["output.value"]


def test_a_score_is_found_by_equality_only(search):
    assert len(search('{"ragmeter.score.empty_retrieval":"1"}')) == 1
    assert not search('{"ragmeter.score.empty_retrieval":"1.0"}')
