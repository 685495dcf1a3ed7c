"""Scores in a real Phoenix: over OTLP gRPC and HTTP, by its API, and on the page a person sees."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from processes import wait_until
from python_process import run_python
from rag_apps import ANSWER, FRAMEWORKS, QUESTION, TEXTS, asking
from typer.testing import CliRunner

from ragmeter import RagMeter
from ragmeter.cli.app import app
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.exporters.protocol import ScoredRun

TRANSPORTS = ("grpc", "http")
RUNS = [(framework, transport) for framework in FRAMEWORKS for transport in TRANSPORTS]
CHIP = re.compile(r"^(\w+)\nμ\s(\d\.\d\d)$", re.MULTILINE)
"""A score beside a span, as the page's text has it."""
REGISTERED_S = 60
"""Phoenix looks every ten seconds whether the span of a waiting annotation has come."""


@dataclass
class Sent:
    """One scored request that was sent to Phoenix."""

    project: str
    trace_id: str
    result: ScoredRun
    sink: Any
    spans: dict[str, dict[str, Any]]

    def span(self, kind):
        """Return the span of an OpenInference kind, as Phoenix shows it."""
        [found] = [span for span in self.spans.values() if span["span_kind"] == kind]
        return found

    def expected(self, target):
        """Return the values of the scores that judge `target`."""
        return {
            name: score.value
            for name, score in self.result.scores.items()
            if score.target == target and score.value is not None
        }

    def shown(self, target):
        """Return those of them that people are shown: not counts, nor health that is as usual."""
        scores = self.result.scores
        return {
            name: value
            for name, value in self.expected(target).items()
            if scores[name].range[1] is not None
            and scores[name].direction != "none"
            and name not in {"empty_retrieval", "duplicate_ratio", "repeated_context_ratio"}
        }


@pytest.fixture(scope="module")
def sent(phoenix):
    """Send one request per framework and transport, and wait until Phoenix shows the spans."""
    requests = {}
    for framework, transport in RUNS:
        project = f"{framework}-{transport}"
        resource = Resource.create({"service.name": "tides", "openinference.project.name": project})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = (
            GrpcExporter(phoenix.grpc, insecure=True)
            if transport == "grpc"
            else HttpExporter(f"{phoenix.url}/v1/traces")
        )
        provider.add_span_processor(BatchSpanProcessor(exporter))
        memory = InMemoryExporter()
        spans = OpenTelemetryExporter(tracer_provider=provider, capture_content=False)
        sink = PhoenixAnnotations(phoenix.url, spans=spans, trace_annotations=True)
        meter = RagMeter(exporters=[memory, spans, sink])
        with (
            asking(framework, meter) as ask,
            provider.get_tracer("shop").start_as_current_span("POST /ask") as span,
        ):
            assert ask() == ANSWER
        # Annotations may well be there before their spans.
        assert meter.flush(30)
        assert meter.stats().export_errors == {}
        provider.force_flush()
        [result] = memory.results
        trace_id = f"{span.get_span_context().trace_id:032x}"
        requests[framework, transport] = (project, trace_id, result, sink, meter, provider)
    found = {}
    for run, (project, trace_id, result, sink, *_) in requests.items():

        def arrived(project=project):
            page = phoenix.get(f"/v1/projects/{project}/spans", limit=50)
            return page["data"] if page and len(page["data"]) >= 3 else None

        spans = {span["context"]["span_id"]: span for span in wait_until(arrived, 60)}
        found[run] = Sent(project, trace_id, result, sink, spans)
    yield found
    for *_, meter, provider in requests.values():
        meter.shutdown(60)
        provider.shutdown()


def annotations(phoenix, sent, span):
    """Return the annotations of a span by name, as a list each, once there are any."""

    def registered():
        page = phoenix.get(
            f"/v1/projects/{sent.project}/span_annotations", span_ids=span["context"]["span_id"], limit=1000
        )
        return page and page["data"]

    found = {}
    for one in wait_until(registered, REGISTERED_S, "no annotations"):
        found.setdefault(one["name"], []).append(one)
    return found


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_spans_arrive_in_one_trace_with_scores_as_attributes(sent, run):
    request = sent[run]
    assert {span["context"]["trace_id"] for span in request.spans.values()} == {request.trace_id}
    for kind, target in (("RETRIEVER", "retrieval"), ("CHAIN", "answer")):
        attributes = request.span(kind)["attributes"]
        for name, value in request.expected(target).items():
            assert attributes[f"ragmeter.score.{name}"] == pytest.approx(value)
    retriever, chain = request.span("RETRIEVER"), request.span("CHAIN")
    assert retriever["parent_id"] == chain["context"]["span_id"]
    assert not [t for t in (QUESTION, ANSWER, *TEXTS) if t in str(request.spans)]


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_every_score_becomes_an_annotation_of_the_span_it_judges(phoenix, sent, run):
    request = sent[run]
    found = annotations(phoenix, request, request.span("RETRIEVER"))
    scores = {name: one["result"]["score"] for name, [one] in found.items()}
    assert scores == pytest.approx(request.shown("retrieval"))
    assert {one["annotator_kind"] for [one] in found.values()} == {"CODE"}
    found = annotations(phoenix, request, request.span("CHAIN"))
    verdict = request.result.verdict
    assert {name: one["result"]["label"] for name, [one] in found.items()} == {"ragmeter.verdict": verdict.word}
    assert request.expected("retrieval")["recall"] == 1.0


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_an_annotation_sent_twice_is_there_once(phoenix, sent, run):
    request = sent[run]
    before = annotations(phoenix, request, request.span("RETRIEVER"))
    request.sink.export([request.result])
    request.sink.export([request.result])

    def rewritten():
        found = annotations(phoenix, request, request.span("RETRIEVER"))
        fresh = all(
            one["updated_at"] > before[name][0]["updated_at"] for name, many in found.items() for one in many
        )
        return found if fresh else None

    after = wait_until(rewritten, REGISTERED_S, "the second sending was not registered")
    assert {name: len(many) for name, many in after.items()} == dict.fromkeys(before, 1)
    assert {name: one["id"] for name, [one] in after.items()} == {
        name: one["id"] for name, [one] in before.items()
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_person_reads_the_scores_on_the_trace_page(phoenix, sent, browser, keep_picture, framework):
    request = sent[framework, "http"]
    annotations(phoenix, request, request.span("RETRIEVER"))
    node = phoenix.node_id(request.project)
    page = browser.open(f"{phoenix.url}/projects/{node}/traces/{request.trace_id}")
    text = page.wait_for("invoke_workflow", "retrieval", "recall", "lexical_groundedness")
    # Phoenix cuts off after two digits, and folds a span's further chips away.
    shown = {name: float(value) for name, value in CHIP.findall(text)}
    expected = request.shown("retrieval") | request.shown("answer")
    assert shown == {name: pytest.approx(expected[name], abs=0.01) for name in shown}
    assert len(shown) > 10
    page.click(request.span("RETRIEVER")["name"])
    page.wait_for("Attributes", "Annotations")
    page.click("Attributes")
    page.wait_for("ragmeter")
    keep_picture(page, f"phoenix-{framework}-trace")


def test_the_project_page_averages_the_scores(phoenix, sent, browser, keep_picture):
    request = sent["langchain", "http"]
    annotations(phoenix, request, request.span("CHAIN"))
    node = phoenix.node_id(request.project)
    page = browser.open(f"{phoenix.url}/projects/{node}/traces", width=1800)
    page.wait_for("recall", "lexical_groundedness")
    keep_picture(page, "phoenix-project")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_doctor_says_what_phoenix_takes_and_what_it_does_not(phoenix, monkeypatch, transport):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", getattr(phoenix, transport, phoenix.url))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", {"http": "http/protobuf"}.get(transport, transport))
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert done.exit_code == 0, done.output
    found = {one["what"].split(" to ")[0]: one for one in json.loads(done.stdout)["findings"]}
    assert found["traces"]["state"] == "ok"
    assert found["logs"]["state"] == found["metrics"]["state"] == "warning"


PROGRAM = """
import os
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider, export
from rag_chain import QUESTION, rag_chain

provider = TracerProvider()
address = os.environ["PHOENIX_COLLECTOR_ENDPOINT"] + "/v1/traces"
provider.add_span_processor(export.BatchSpanProcessor(OTLPSpanExporter(address)))
trace.set_tracer_provider(provider)
callbacks = []
{meter}
with trace.get_tracer("shop").start_as_current_span("theirs") as span:
    print(f"{{span.get_span_context().trace_id:032x}}")
    rag_chain().invoke(QUESTION, {{"callbacks": callbacks}})
"""
METER = """
from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
callbacks.append(RagMeterCallbackHandler(RagMeter()))
"""


@pytest.mark.parametrize("meter", ["", METER], ids=["without a meter", "with a meter of its own"])
def test_run_shows_the_scores_on_the_programs_trace(phoenix, tmp_path, meter):
    (tmp_path / "app.py").write_text(PROGRAM.format(meter=meter))
    done = run_python(
        "-m",
        "ragmeter",
        "run",
        "--phoenix",
        phoenix.url,
        "app.py",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    trace_id = done.stdout.strip()
    assert done.stderr.count(trace_id) == 1, done.stderr

    def annotated():
        query = {"trace_ids": trace_id, "limit": 1000}
        page = phoenix.get("/v1/projects/default/trace_annotations", **query)
        return page and page["data"]

    names = [one["name"] for one in wait_until(annotated, REGISTERED_S, "no annotations")]
    assert names.count("ragmeter.verdict") == 1
    spans = phoenix.get("/v1/projects/default/spans", trace_id=trace_id, limit=1000)["data"]
    mine = [one for one in spans if one["context"]["trace_id"] == trace_id]
    assert sorted(one["name"].split()[0] for one in mine) == ["invoke_workflow", "retrieval", "theirs"]


def test_the_link_of_the_servers_page_opens_the_trace(sent, phoenix, tabs):
    """``--trace-url`` as docs/serve.md gives it, at this Phoenix."""
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text("utf-8")
    [path] = re.findall(r"Phoenix `http://localhost:6006(\S+)`", page)
    one = sent["langchain", "http"]
    opened = tabs(phoenix.url + path.replace("{trace_id}", one.trace_id))

    opened.wait_for("POST /ask")
    assert one.trace_id in opened.evaluate("location.href")
