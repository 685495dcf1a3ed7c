"""A request of which a part was lost is told, counted and not measured; what comes in time completes it."""

import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_receiver import attributes_of
from served import PATIENCE_S, traced_as, until
from test_api import PROTOBUF, ask, running


def halves(number):
    """A recorded request as two export requests, that of its retrievals alone and the rest, and its trace."""
    body, trace_id = traced_as(number)
    parts = []
    later = time.time_ns() - latest(ExportTraceServiceRequest.FromString(body))
    for wanted in (True, False):
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                kept = [
                    span
                    for span in scoped.spans
                    if (attributes_of(span).get("openinference.span.kind") == "RETRIEVER") is wanted
                ]
                for span in kept:
                    # The page shows what is of now.
                    span.start_time_unix_nano += later
                    span.end_time_unix_nano += later
                del scoped.spans[:]
                scoped.spans.extend(kept)
        parts.append(request.SerializeToString())
    return (*parts, trace_id)


def latest(request):
    return max(
        span.end_time_unix_nano
        for group in request.resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
    )


def send(client, body):
    client.post("/v1/traces", content=body, headers=PROTOBUF).raise_for_status()


def test_a_half_is_told_everywhere_and_measured_nowhere():
    retrieval, rest, trace_id = halves(7)
    with running(idle_s=0.1) as (server, client):
        send(client, retrieval)
        until(lambda: client.get(f"/api/requests/{trace_id}").status_code == 200, what="it does not end")
        found = ask(client, f"/api/requests/{trace_id}")
        health = client.get("/healthz").json()
        page = client.get("/", headers={"Accept-Language": "en"}).text
        one = client.get(f"/request/{trace_id}", headers={"Accept-Language": "en"})

        assert found["status"] == "partial"
        assert found["verdict"] is None
        assert found["scores"]
        assert all(score["value"] is None for score in found["scores"])
        assert (health["partial"], health["requests"]) == ({"requests": 1}, {"scored": 1})
        assert "1 came in part" in page
        assert "Only a part of it came" in one.text
        overview = ask(client, "/api/overview")
        assert overview["statuses"] == {"partial": 1}
        assert all(
            score["estimate"] is None or score["estimate"]["n_requests"] == 0 for score in overview["scores"]
        )
        assert server.meter.quality() == {}

        # What comes when it was told changes nothing.
        read = health["spans"]["read"]
        send(client, rest)
        until(lambda: client.get("/healthz").json()["spans"]["read"] > read, what="it is not read")
        assert server.meter.flush(PATIENCE_S)
        assert ask(client, "/api/overview")["statuses"] == {"partial": 1}
        assert client.get("/healthz").json()["partial"] == {"requests": 1}


def test_what_comes_in_time_completes_a_request():
    retrieval, rest, trace_id = halves(8)
    with running() as (_, client):
        send(client, retrieval)
        until(lambda: client.get("/healthz").json()["held"]["spans"] > 0, what="it does not wait")
        send(client, rest)
        until(lambda: client.get(f"/api/requests/{trace_id}").status_code == 200, what="it does not end")
        assert ask(client, f"/api/requests/{trace_id}")["status"] == "ok"
        assert client.get("/healthz").json()["partial"] == {}
