"""Scores leave by OTLP, under the name of the service they are about, until they are taken."""

import grpc
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otlp_bodies import spans_of
from otlp_endpoint import Endpoint
from otlp_receiver import attributes_of
from served import PATIENCE_S, until

from ragmeter.metrics import ConfigurationError
from ragmeter.serve import ServeOptions, Server


@pytest.fixture
def server(backend):
    one = Server(ServeOptions(http_port=0, grpc_port=0, grace_s=0.0, idle_s=600.0))
    one.start()
    yield one
    one.stop(PATIENCE_S)


def ask(exporter, service="shop", question="How long do refunds take?", **resource):
    """Trace one request as an application does, and send it."""
    named = {"service.name": service, **resource}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("ask") as request:
        request.set_attributes({"openinference.span.kind": "CHAIN", "input.value": question})
        with tracer.start_as_current_span("search") as retrieval:
            retrieval.set_attribute("openinference.span.kind", "RETRIEVER")
            retrieval.set_attribute("retrieval.documents.0.document.id", "refund.md")
            retrieval.set_attribute("retrieval.documents.0.document.content", "Refunds take 14 days.")
        request.set_attribute("output.value", "14 days.")
    provider.shutdown()
    return request.get_span_context(), retrieval.get_span_context()


def over_http(server):
    return OTLPSpanExporter(
        endpoint=f"http://127.0.0.1:{server.http_port}/v1/traces", compression=Compression.Gzip
    )


def over_grpc(server):
    return GrpcExporter(
        endpoint=f"http://127.0.0.1:{server.grpc_port}", insecure=True, compression=grpc.Compression.Gzip
    )


def spans_by_service(backend):
    found = {}
    for request in backend.traces:
        for group in request.resource_spans:
            name = attributes_of(group.resource)["service.name"]
            found.setdefault(name, []).extend(span for scoped in group.scope_spans for span in scoped.spans)
    return found


@pytest.mark.parametrize("exporter", [over_http, over_grpc])
def test_scores_are_written_into_the_trace_of_the_request(server, backend, exporter):
    request, retrieval = ask(exporter(server))
    assert server.stop(PATIENCE_S)

    written = spans_by_service(backend)["shop"]
    assert {span.trace_id for span in written} == {request.trace_id.to_bytes(16, "big")}
    assert {span.parent_span_id for span in written} == {
        request.span_id.to_bytes(8, "big"),
        retrieval.span_id.to_bytes(8, "big"),
    }
    assert any("ragmeter.score.lexical_groundedness" in attributes_of(span) for span in written)
    assert {record.trace_id for record in backend.records} == {request.trace_id.to_bytes(16, "big")}
    assert "gen_ai.evaluation.score" in backend.metrics
    assert not any(b"How long do refunds" in body for body in backend.bodies)


def test_each_score_bears_the_name_of_the_service_it_is_about(server, backend):
    ask(over_http(server), "shop", **{"service.instance.id": "one", "process.pid": 7})
    ask(over_http(server), "bank", **{"openinference.project.name": "loans"})
    assert server.stop(PATIENCE_S)

    assert set(spans_by_service(backend)) == {"shop", "bank"}
    services = {}
    for request in backend.metric_requests:
        for group in request.resource_metrics:
            resource = attributes_of(group.resource)
            names = {metric.name for scoped in group.scope_metrics for metric in scoped.metrics}
            services.setdefault(resource["service.name"], (resource, set()))[1].update(names)
    assert "gen_ai.evaluation.score" in services["shop"][1]
    assert "process.pid" not in services["shop"][0]
    assert services["shop"][0]["service.instance.id"] == services["bank"][0]["service.instance.id"]
    assert services["bank"][0]["openinference.project.name"] == "loans"
    own = services["ragmeter"][1]
    assert {"ragmeter.serve.exports", "ragmeter.serve.spans", "ragmeter.captured"} <= own
    assert "gen_ai.evaluation.score" not in own


def quality_by_service(backend):
    """The last value of ``ragmeter.quality.n`` of each series, by service, workflow, score and segment."""
    found = {}
    for request in backend.metric_requests:
        for group in request.resource_metrics:
            service = attributes_of(group.resource)["service.name"]
            for scoped in group.scope_metrics:
                for metric in scoped.metrics:
                    for point in metric.sum.data_points:
                        if metric.name == "ragmeter.quality.n":
                            of = attributes_of(point)
                            key = (
                                service,
                                of["gen_ai.workflow.name"],
                                of["gen_ai.evaluation.name"],
                                of.get("ragmeter.segment"),
                            )
                            found[key] = point.as_double
    return found


@pytest.fixture
def by_language(monkeypatch):
    """The server is to tell segments apart; named before `server`."""
    monkeypatch.setenv("RAGMETER_SEGMENTS", "language,index_version")


@pytest.mark.usefixtures("by_language")
def test_each_service_has_means_of_its_own(server, backend):
    """Sums of services with the same workflow do not mix."""
    for service, question, version in (
        ("shop", "How long do refunds take?", "7"),
        ("shop", "Когда вернут деньги?", "8"),
        ("bank", "How long do refunds take?", "long " * 20),
    ):
        ask(over_http(server), service, question, index_version=version)
    until(lambda: server.stats()["requests"] == {"scored": 3})
    meter = server.meter
    assert meter.flush(PATIENCE_S)
    assert meter.quality("lexical_groundedness", service="shop").n_requests == 2
    assert meter.quality("lexical_groundedness").n_requests == 3
    assert server.stop(PATIENCE_S)
    found = {
        (service, segment): n
        for (service, workflow, score, segment), n in quality_by_service(backend).items()
        if (workflow, score) == ("ask", "lexical_groundedness")
    }
    assert found == {
        ("shop", None): 2, ("shop", "language:en"): 1, ("shop", "language:ru"): 1,
        ("shop", "index_version:7"): 1, ("shop", "index_version:8"): 1,
        ("bank", None): 1, ("bank", "language:en"): 1, ("bank", "index_version:other"): 1,
    }  # fmt: skip


def test_what_the_application_counted_itself_is_not_counted_again(server, backend):
    """Its own ragmeter scored the request within the trace: the spans say so."""
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(over_http(server)))
    with provider.get_tracer("app").start_as_current_span("ask") as request:
        request.set_attributes({"openinference.span.kind": "CHAIN", "input.value": "Refunds?"})
        with provider.get_tracer("app").start_as_current_span("search") as retrieval:
            retrieval.set_attribute("openinference.span.kind", "RETRIEVER")
            retrieval.set_attribute("retrieval.documents.0.document.content", "14 days.")
        with provider.get_tracer("ragmeter").start_as_current_span("ragmeter"):
            pass
        request.set_attribute("output.value", "14 days.")
    provider.shutdown()
    ask(over_http(server), "bank")
    until(lambda: server.stats()["requests"] == {"captured": 1, "scored": 1})
    assert server.stop(PATIENCE_S)
    assert {service for service, *_ in quality_by_service(backend)} == {"bank"}


def test_what_an_endpoint_cannot_take_now_it_gets_later(server, backend):
    backend.refuse = True
    ask(over_http(server))
    until(lambda: server.stats()["requests"] == {"scored": 1})
    assert sum(server.health()["unsent_waiting"].values()) > 0
    backend.refuse = False

    assert server.stop(PATIENCE_S)
    assert spans_by_service(backend)["shop"]
    assert server.stats()["unsent"] == {}


@pytest.mark.contains_errors
def test_what_an_endpoint_takes_without_a_part_is_counted_and_named(caplog):
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    with Endpoint(answer_body=answer.SerializeToString()) as endpoint:
        server = Server(
            ServeOptions(
                http_port=0,
                grpc_port=0,
                grace_s=0.0,
                otlp=f"http://127.0.0.1:{endpoint.port}",
                signals=("traces",),
            )
        )
        server.start()
        request, _ = ask(over_http(server))
        until(lambda: server.stats()["unsent"] == {"traces": 1})
        assert server.stop(PATIENCE_S)
    assert f"1 of the scores of {request.trace_id:032x}" in caplog.text


@pytest.mark.contains_errors
def test_an_endpoint_that_stays_down_does_not_hang_the_end(server, backend):
    backend.refuse = True
    ask(over_http(server))
    until(lambda: server.stats()["requests"] == {"scored": 1})

    assert not server.stop(2.0)
    assert sum(server.stats()["unsent"].values()) + sum(server.health()["unsent_waiting"].values())
    backend.refuse = False  # the end of the fixture need not wait


def test_while_the_endpoint_takes_nothing_senders_are_told_to_wait(backend, limited):
    """What has come waits, and nothing of it is dropped."""
    limited(outgoing=1, held_spans=4)
    server = Server(ServeOptions(http_port=0, grpc_port=0, grace_s=0.0, idle_s=600.0))
    server.start()
    backend.refuse = True
    ask(over_http(server))
    until(lambda: sum(server.health()["unsent_waiting"].values()))
    for _ in range(2):
        ask(over_http(server))
    until(lambda: server.health()["held"]["spans"] == 4)

    answer = httpx.post(
        f"http://127.0.0.1:{server.http_port}/v1/traces",
        content=spans_of(b"\x02" * 8).SerializeToString(),
        headers={"Content-Type": "application/x-protobuf"},
        timeout=60,
    )
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert server.stats()["exports"] == {"accepted": 3, "busy": 1}
    backend.refuse = False
    assert server.stop(PATIENCE_S)
    assert server.stats()["requests"] == {"scored": 3}


def test_scores_are_not_sent_to_the_server_itself(monkeypatch):
    monkeypatch.delenv("RAGMETER_JSONL", raising=False)
    monkeypatch.setattr("ragmeter.serve.server.bind_grpc", lambda *_: 4317)
    with pytest.raises(ConfigurationError, match="listens itself"):
        Server(ServeOptions(http_port=0, otlp="http://localhost:4317"))


def test_somebody_must_get_the_scores(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "RAGMETER_JSONL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="RAGMETER_JSONL"):
        Server(ServeOptions(http_port=0, grpc_port=0))


def test_a_port_that_is_taken_is_named(server):
    with pytest.raises(ConfigurationError, match="--http-port"):
        Server(ServeOptions(http_port=server.http_port, grpc_port=0))
    with pytest.raises(ConfigurationError, match="--grpc-port"):
        Server(ServeOptions(http_port=0, grpc_port=server.grpc_port))
