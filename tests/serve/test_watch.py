"""The server watches what it scores: each service under its own name, and over a restart."""

import json
import stat
from types import SimpleNamespace

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otlp_receiver import attributes_of
from served import PATIENCE_S, served, until

from ragmeter import Alarms, RagMeter
from ragmeter.exporters.changes import ChangeEvidence
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import QualitySums
from ragmeter.metrics import ConfigurationError
from ragmeter.quality.sums import SlotSums
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve._telemetry import Telemetry, endpoints
from ragmeter.serve._watch import standing_of
from ragmeter.serve.page import Standing
from ragmeter.watch.watch import Watch

MONDAY = 1_699_833_600.0  # 2023-11-13 00:00 UTC
DAY = 86_400.0
SHOP = {"service.name": "shop"}


def _server(**options):
    return Server(ServeOptions(**{"http_port": 0, "grpc_port": 0, "grace_s": 0.0, "idle_s": 600.0} | options))


def _fallen():
    """What a watch knows after four days of a score of the shop, the last hours of them bad."""
    watch = Watch()
    at, told = MONDAY, []
    while at < MONDAY + 4 * DAY:
        mean = 0.8 if at < MONDAY + 3.5 * DAY else 0.4
        sums = {"n": 20.0, "kd": 20.0, "wb": 20.0, "x": 20 * mean, "xx": 20 * (mean * mean + 0.04)}
        counted = QualitySums(score="goodness", workflow="qa", resource=SHOP, sums=sums)
        told += watch.take([SlotSums(at, counted)])
        at += 300.0
    (one,) = told
    return watch, one


def _ask(server):
    provider = TracerProvider(resource=Resource.create(SHOP), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{server.http_port}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with provider.get_tracer("app").start_as_current_span("ask") as span:
        span.set_attributes(
            {
                "openinference.span.kind": "RETRIEVER",
                "input.value": "How long do refunds take?",
                "retrieval.documents.0.document.content": "Refunds take 14 days.",
            }
        )
    provider.shutdown()


def _evidence(backend):
    return {
        (
            attributes_of(group.resource)["service.name"],
            attributes_of(point)["gen_ai.evaluation.name"],
        ): point.as_double
        for request in backend.metric_requests
        for group in request.resource_metrics
        for scoped in group.scope_metrics
        for metric in scoped.metrics
        if metric.name == "ragmeter.change.evidence"
        for point in metric.gauge.data_points
    }


def test_a_restart_learns_nothing_anew_and_a_change_that_is_on_stays_on(backend, tmp_path):
    watch, (change, _) = _fallen()
    kept = tmp_path / "spool" / "watch.json"
    kept.parent.mkdir()
    kept.write_text(json.dumps(watch.state()), encoding="utf-8")
    server = _server(spool=kept.parent)
    server.start()
    assert server.meter.watch.changes(on=True) == (change,)
    assert [one.status for one in server.meter.watch.series()] == ["fallen"]
    _ask(server)
    until(lambda: server.stats()["requests"] == {"scored": 1})
    assert server.stop(PATIENCE_S)
    assert _evidence(backend)["shop", "goodness"] > 1.0
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    again = Watch()
    again.restore(json.loads(kept.read_text(encoding="utf-8")))
    assert again.changes(on=True) == (change,)


def test_changes_are_told_under_the_name_of_the_service_they_are_about(backend):
    _, (change, resource) = _fallen()
    telemetry = Telemetry(endpoints(None))
    telemetry.changed(change, "it fell, too", {"service.name": "bank"})
    telemetry.observe_changes(
        lambda: [
            ChangeEvidence(score=name, workflow="qa", resource={"service.name": name}, evidence=0.5)
            for name in ("shop", "bank")
        ]
    )
    telemetry.changed(change, "it fell", resource)
    assert telemetry.flush(PATIENCE_S)
    found = {
        attributes_of(group.resource)["service.name"]: record.body.string_value
        for request in backend.log_requests
        for group in request.resource_logs
        for scoped in group.scope_logs
        for record in scoped.log_records
    }
    assert found == {"shop": "it fell", "bank": "it fell, too"}
    assert _evidence(backend) == {("shop", "shop"): 0.5, ("bank", "bank"): 0.5}
    telemetry.close(0.0)


@pytest.fixture
def watching():
    """A server with the shop under watch, and how it is spoken to."""
    watch, (change, _) = _fallen()
    meter = RagMeter(exporters=[InMemoryExporter()], alarms=Alarms())
    meter._alarming.watch.restore(watch.state())
    server = Server(ServeOptions(http_port=0, grpc_port=0), meter=meter)
    server.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http_port}", timeout=60) as client:
        yield SimpleNamespace(meter=meter, client=client, change=change)
    server.stop(PATIENCE_S)
    meter.shutdown(PATIENCE_S)


def test_what_is_now_can_be_accepted_over_http(watching):
    post = watching.client.post
    assert post("/api/changes/accept", json={"service": "bank"}).json() == {"series": 0}
    assert watching.meter.watch.changes(on=True) == (watching.change,)
    answer = post("/api/changes/accept", json={"service": "shop", "score": "goodness"})
    assert (answer.status_code, answer.json()) == (200, {"series": 1})
    assert watching.meter.watch.changes(on=True) == ()


def test_a_deployment_can_be_marked_over_http(watching):
    answer = watching.client.post("/api/marks", json={"service": "shop"})
    assert (answer.status_code, answer.json()) == (200, {"series": 1})
    assert [one.status for one in watching.meter.watch.series()] == ["learning"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"json": {"service": 7}}, 400),
        ({"json": {"server": "shop"}}, 400),
        ({"json": ["shop"]}, 400),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ({"data": {"service": "shop"}}, 415),
        ({"json": {"service": "s" * 20_000}}, 413),
    ],
)
def test_what_is_no_such_request_is_refused_and_changes_nothing(watching, sent, status):
    answer = watching.client.post("/api/marks", **sent)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert watching.meter.watch.changes(on=True) == (watching.change,)


def test_other_sites_may_not_ask_and_nothing_is_done_by_looking(watching):
    elsewhere = {"origin": "https://elsewhere.example"}
    refused = watching.client.post("/api/marks", json={}, headers=elsewhere)
    assert refused.status_code == 403
    assert watching.client.get("/api/marks").status_code == 405
    assert watching.meter.watch.changes(on=True) == (watching.change,)


def test_the_page_is_told_how_far_the_watch_is(watching):
    assert standing_of(watching.meter) == Standing(1, None)
    watching.meter.watch.mark()
    assert standing_of(watching.meter) == Standing(0, (0, 500))


def test_the_page_is_told_of_an_hour_of_which_nothing_is_known():
    """Four workdays are known when the first weekend begins."""
    watch, standings, at = Watch(), {}, MONDAY
    while at < MONDAY + 5 * DAY + 3_600.0:
        sums = {"n": 20.0, "kd": 20.0, "wb": 20.0, "x": 16.0, "xx": 13.6}
        counted = QualitySums(score="goodness", workflow="qa", resource=SHOP, sums=sums)
        watch.take([SlotSums(at, counted)])
        at += 300.0
        standings[at] = standing_of(SimpleNamespace(watch=watch))
    assert standings[MONDAY + 5 * DAY] == Standing(1, None)
    assert standings[at] == Standing(1, None, 1)


def test_a_meter_that_does_not_watch_says_so():
    with served() as server:
        answer = httpx.post(f"{server.url}/api/marks", json={}, timeout=60)
        assert answer.status_code == 409
        assert "alarms=True" in answer.json()["error"]


def test_objectives_and_the_webhook_can_be_said_to_the_server(backend, monkeypatch):
    server = _server(objectives=["qa:goodness>=0.5 for 90%"], webhook="http://127.0.0.1:9/secret")
    server.start()
    assert [str(one) for one in server.meter.port.objectives.all()] == ["qa:goodness>=0.5 for 90%"]
    health = server.health()
    assert health["webhook"] == {"delivered": 0, "waiting": 0, "not_delivered": 0}
    assert "secret" not in str(health)
    server.stop(PATIENCE_S)
    with pytest.raises(ConfigurationError, match="objective"):
        _server(objectives=["goodness is fine"])
    with pytest.raises(ConfigurationError, match="webhook"):
        _server(webhook="no address")
    assert "secret" not in repr(ServeOptions(webhook="http://127.0.0.1:9/secret"))
