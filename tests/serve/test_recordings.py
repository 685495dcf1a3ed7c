"""Recorded spans of real instrumentations, sent over the network, are the samples that `ragmeter spans` finds."""

import gzip
from collections import Counter
from dataclasses import replace
from functools import cache

import grpc
import httpx
import pytest
from otlp_bodies import as_json, signal_of
from otlp_recordings import TOOLS, cases
from served import PATIENCE_S, served, until

from ragmeter.adapters.opentelemetry import RetrievalTool
from ragmeter.adapters.opentelemetry.build import build_run, is_scorable
from ragmeter.cli.spans import read_recording

RULES = [RetrievalTool(name) for name in TOOLS]
SERVICES = {"traces": "trace.v1.TraceService", "logs": "logs.v1.LogsService"}


def over_http(server, signal, body):
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    httpx.post(
        f"{server.url}/v1/{signal}", content=gzip.compress(body), headers=headers, timeout=60
    ).raise_for_status()


def over_json(server, signal, body):
    httpx.post(
        f"{server.url}/v1/{signal}",
        content=as_json(signal, body),
        headers={"Content-Type": "application/json"},
        timeout=60,
    ).raise_for_status()


def over_grpc(server, signal, body):
    method = f"/opentelemetry.proto.collector.{SERVICES[signal]}/Export"
    with grpc.insecure_channel(server.grpc) as channel:
        channel.unary_unary(method)(body, timeout=PATIENCE_S)


@cache
def expected():
    """The samples of all recordings, by request, and how many others were found."""
    found = [
        one
        for folder in cases().values()
        for one in read_recording(sorted(folder.glob("*.pb")), RULES).requests
    ]
    samples = {one.key: build_run(one, remote=True).sample for one in found if is_scorable(one)}
    return samples, Counter(one.reason for one in found if not is_scorable(one))


@pytest.mark.parametrize("send", [over_http, pytest.param(over_json, marks=pytest.mark.slow), over_grpc])
def test_recordings_give_the_same_samples(send):
    samples, others = expected()
    # No trace is complete before all has come: a recording may be spread over several files.
    with served(retrieval_tools=RULES, grace_s=600.0) as server:
        for folder in cases().values():
            for file in sorted(folder.glob("*.pb")):
                send(server, signal_of(file), file.read_bytes())
        results = server.drained()

    assert {scored.run.run_id: scored.run.sample for scored in results} == samples
    stats = server.stats()
    assert stats["requests"] == {"scored": len(samples), **others}
    assert set(stats["spans"]) == {"read"}


def test_the_same_requests_again_are_not_counted_again():
    """A sender that got no answer sends the same again: at once, or when the trace was scored."""
    folder = cases()["openinference-langchain-py/reranked"]
    bodies = [file.read_bytes() for file in sorted(folder.glob("*.pb"))]
    with served() as server:
        for body in bodies * 2:
            over_http(server, "traces", body)
        until(lambda: server.stats()["requests"] == {"scored": 1})
        for body in bodies:
            over_http(server, "traces", body)

        assert len(server.drained()) == 1
        stats = server.stats()
        assert stats["spans"]["duplicate"] == 2 * stats["spans"]["read"]


def test_a_request_of_one_span_belongs_to_the_trace_of_that_span():
    """A lone retrieval has neither a span of the request nor one around it."""
    folder = cases()["otel-genai-langchain-py/normal_zh"]
    [found] = read_recording(sorted(folder.glob("*.pb"))).requests
    lone = replace(found, span=None, seen=found.seen[:1])
    object.__setattr__(lone.seen[0].read.span, "parent_id", None)

    assert build_run(lone, remote=True).trace_id == int(found.trace_id, 16)
