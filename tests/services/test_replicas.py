"""Two `ragmeter serve` behind a real Collector and before one PostgreSQL: one is killed, one is added, and all is accounted for."""

import os
import time
from collections import Counter, defaultdict
from pathlib import Path

import httpx
import pytest
import yaml
from kafka_traffic import messages_of, trace_of
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_collector import ARRIVED_S, collecting, listening_here, shown_on, spans_of
from otlp_receiver import OtlpReceiver, attributes_of
from processes import wait_until
from serving import serving
from two_services import ask_many

SHORT = bool(os.environ.get("RAGMETER_TEST_SHORT"))
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(SHORT, reason="part of the long form: RAGMETER_TEST_SHORT is set"),
]
COUNT = 60
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "100", "RAGMETER_EVENTS": "off"}


def balancing(servers):
    """The part of the page's configuration that spreads traces, with these servers."""
    config = shown_on("already-traced.md", "Behind a Collector")
    http, grpc = listening_here(config, "otlp/applications")
    del (config["receivers"]["otlp/scored"], config["processors"], config["exporters"]["otlp_http/backend"])
    balancer = config["exporters"]["load_balancing"]
    balancer["resolver"]["static"]["hostnames"] = [server.grpc for server in servers]
    balancer["protocol"]["otlp"]["retry_on_failure"] = {"max_elapsed_time": "0s", "max_interval": "1s"}
    pipelines = config["service"]["pipelines"]
    config["service"]["pipelines"] = {
        name: pipelines[name] for name in ("traces/applications", "logs/applications")
    }
    return config, http, grpc


def deployed(servers, folder):
    """The configuration of examples/deploy, with these servers; its queue is in a folder."""
    path = Path(__file__).parents[2] / "examples" / "deploy" / "collector.yaml"
    config = yaml.safe_load(path.read_text("utf-8"))
    http, grpc = listening_here(config, "otlp")
    config["extensions"]["file_storage"]["directory"] = str(folder)
    balancer = config["exporters"]["load_balancing"]
    balancer["resolver"] = {"static": {"hostnames": [server.grpc for server in servers]}}
    del balancer["protocol"]["otlp"]["headers"]
    return config, http, grpc


def health(server):
    return httpx.get(f"{server.http}/healthz", timeout=60).json()


def test_a_server_that_is_killed_and_comes_back_loses_nothing(collector_program, postgresql, tmp_path):
    """What waits for it waits in the Collector, what it had in its spool; both pages show all requests once."""
    receiver = OtlpReceiver()
    store = {"RAGMETER_SERVE_STORE": postgresql.database(), **QUICK}
    spools = [("--spool", str(tmp_path / f"spool-{number}")) for number in (1, 2)]
    with (
        serving(tmp_path / "1", receiver.url, *spools[0], **store) as one,
        serving(tmp_path / "2", receiver.url, *spools[1], **store) as two,
    ):
        config, http, grpc = balancing([one, two])
        with collecting(collector_program, config, tmp_path / "collector"):
            asked = ask_many(http, grpc, COUNT // 2)
            two.process.kill()
            two.process.wait(60)
            asked |= ask_many(http, grpc, COUNT // 2)
            ports = [
                "--http-port", two.http.rpartition(":")[2], "--grpc-port", two.grpc.rpartition(":")[2],
            ]  # fmt: skip
            with serving(tmp_path / "2b", receiver.url, *spools[1], *ports, **store) as again:
                wait_until(
                    lambda: {span.trace_id for span in spans_of(receiver) if span.verdict} >= set(asked),
                    ARRIVED_S,
                    "not every request was scored",
                )
                for server in (one, again):
                    wait_until(
                        lambda server=server: overview(server) == COUNT,
                        ARRIVED_S,
                        "a page does not show all requests",
                    )
                assert [one.drain(), again.drain()] == [0, 0]
    said = defaultdict(list)
    for span in spans_of(receiver):
        if span.scores:
            said[span.trace_id, span.span_id].append(span.scores)
    receiver.close()
    assert set(Counter(trace for trace, _ in said).values()) == {2}  # what came again has the same ids
    assert all(all(one == several[0] for one in several) for several in said.values())


def test_what_waits_for_a_server_waits_on_the_collectors_disk(collector_program, postgresql, tmp_path):
    """As examples/deploy has it: server and Collector go away, and every request is shown once."""
    receiver = OtlpReceiver()
    store = {"RAGMETER_SERVE_STORE": postgresql.database(), **QUICK}
    spools = [("--spool", str(tmp_path / f"spool-{number}")) for number in (1, 2)]
    with (
        serving(tmp_path / "1", receiver.url, *spools[0], **store) as one,
        serving(tmp_path / "2", receiver.url, *spools[1], **store) as two,
    ):
        config, http, grpc = deployed([one, two], tmp_path / "queue")
        with collecting(collector_program, config, tmp_path / "collector"):
            ask_many(http, grpc, COUNT // 2)
            two.process.kill()
            two.process.wait(60)
            ask_many(http, grpc, COUNT // 2)
        ports = [
            "--http-port", two.http.rpartition(":")[2], "--grpc-port", two.grpc.rpartition(":")[2],
        ]  # fmt: skip
        with (
            collecting(collector_program, config, tmp_path / "collector-again"),
            serving(tmp_path / "2b", receiver.url, *spools[1], *ports, **store) as again,
        ):
            for server in (one, again):
                wait_until(
                    lambda server=server: overview(server) == COUNT,
                    ARRIVED_S,
                    "a page does not show all requests",
                )
            assert [one.drain(), again.drain()] == [0, 0]
    receiver.close()


def overview(server):
    return httpx.get(f"{server.http}/api/overview", timeout=60).json()["requests"]


def test_traces_that_are_open_when_a_server_is_added_end_as_partial_and_are_counted(
    collector_program, tmp_path
):
    """Their halves are with two servers then: what is there is scored once, and every span is accounted for."""
    receiver = OtlpReceiver()
    names = [f"half-{number}" for number in range(COUNT)]
    lines = [messages_of(name, number) for number, name in enumerate(names)]
    wait = ("--idle", "20", "--no-store")
    with (
        serving(tmp_path / "1", receiver.url, *wait, **QUICK) as one,
        serving(tmp_path / "2", receiver.url, *wait, **QUICK) as two,
    ):
        for servers, parts in (([one], slice(0, 2)), ([one, two], slice(2, 3))):
            config, http, _ = balancing(servers)
            with collecting(collector_program, config, tmp_path / f"collector-{len(servers)}"):
                for line in lines:
                    for _, body in line[parts]:
                        sent = httpx.post(
                            f"{http}/v1/traces",
                            content=body,
                            headers={"Content-Type": "application/x-protobuf"},
                            timeout=60,
                        )
                        assert sent.status_code == 200
                wanted = sum({0: 4, 2: 1}[parts.start] for _ in lines)
                before = 4 * COUNT if parts.start else 0
                wait_until(
                    lambda total=before + wanted: came(one) + came(two) == total,
                    ARRIVED_S,
                    "not every span arrived",
                )
        moved = came(two)
        assert 0 < moved < COUNT
        wait_until(lambda: health(one)["partial_traces"] == moved, ARRIVED_S, "they do not end")
        wait_until(
            lambda: {span.trace_id for span in spans_of(receiver) if span.verdict} == set(map(trace_of, names)),
            ARRIVED_S,
            "not every request was scored",
        )
        wait_until(lambda: not health(two)["held"]["spans"], ARRIVED_S, "they do not end")
        spans = Counter(health(one)["spans"]) + Counter(health(two)["spans"])
        requests = Counter(health(one)["requests"]) + Counter(health(two)["requests"])
        assert [one.drain(), two.drain()] == [0, 0]
    verdicts = Counter(span.trace_id for span in spans_of(receiver) if span.verdict)
    receiver.close()
    assert spans == {"read": 5 * COUNT}
    assert requests == {"scored": COUNT}
    assert set(verdicts.values()) == {1}


def split(body, kinds):
    """Return a message's spans of these kinds, and the others, as a message each."""
    parts = []
    for wanted in (True, False):
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                kept = [
                    span
                    for span in scoped.spans
                    if (attributes_of(span).get("openinference.span.kind") in kinds) is wanted
                ]
                del scoped.spans[:]
                scoped.spans.extend(kept)
        parts.append(request.SerializeToString())
    return parts


def of_now(body):
    """Return a message whose spans ended just now: the page shows what is of today."""
    request = ExportTraceServiceRequest.FromString(body)
    later = time.time_ns() - 1_790_000_001_000_000_000
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.start_time_unix_nano += later
                span.end_time_unix_nano += later
    return request.SerializeToString()


def halves(name, number):
    """Return the retrieval of a request, what else is below its root, and the root that ends it, as bodies."""
    (_, model), (_, assistant), (_, web) = messages_of(name, number)
    retrieval, rest = split(assistant, {"RETRIEVER"})
    return [of_now(retrieval)], [of_now(model), of_now(rest)], [of_now(web)]


def test_what_a_killed_server_had_open_ends_as_partial_or_is_no_request_and_all_is_explained(
    postgresql, tmp_path
):
    """Fed as a balancer does that looks elsewhere after the kill; without a spool, which would lose nothing."""
    receiver = OtlpReceiver()
    store = {"RAGMETER_SERVE_STORE": postgresql.database(), **QUICK}
    each = 12
    with (
        serving(tmp_path / "1", receiver.url, "--idle", "30", **store) as one,
        serving(tmp_path / "2", receiver.url, "--idle", "30", **store) as two,
    ):

        def send(server, bodies):
            for body in bodies:
                sent = httpx.post(
                    f"{server.http}/v1/traces", content=body, timeout=60,
                    headers={"Content-Type": "application/x-protobuf"},
                )  # fmt: skip
                assert sent.status_code == 200

        number = 0

        def requests(what):
            nonlocal number
            for place in range(each):
                number += 1
                yield trace_of(f"{what}-{place}"), *halves(f"{what}-{place}", number)

        whole = set()
        for server in (one, two):
            for trace, *parts in requests(f"whole-{server.http}"):
                for bodies in parts:
                    send(server, bodies)
                whole.add(trace)
        wait_until(lambda: overview(one) == 2 * each, ARRIVED_S, "not all is scored")
        kept = list(requests("kept"))
        without_answer, without_retrieval = list(requests("partial")), list(requests("unseen"))
        for _, retrieval, *_ in kept:
            send(one, retrieval)
        for _, _, rest, _ in without_answer:
            send(two, rest)
        for _, retrieval, *_ in without_retrieval:
            send(two, retrieval)
        held = health(two)["held"]["spans"]
        assert held == each * (3 + 1)
        two.process.kill()
        two.process.wait(60)
        for _, _, rest, root in kept + without_retrieval:
            send(one, rest + root)
        for _, retrieval, _, root in without_answer:
            send(one, retrieval + root)
        wait_until(lambda: not health(one)["held"]["spans"], ARRIVED_S, "they do not end")
        wait_until(lambda: overview(one) == 4 * each, ARRIVED_S, "the page does not show them")
        seen = httpx.get(f"{one.http}/api/overview", timeout=60).json()
        said = health(one)
        assert one.drain() == 0
    told = {span.trace_id for span in spans_of(receiver)}
    receiver.close()
    partial = {trace for trace, *_ in without_answer}
    assert seen["statuses"].get("partial") == each
    assert said["partial"] == {"requests": each}
    # Whole are those before, and those that were open at the one that lives; nobody knows that the others retrieved.
    lost = {trace for trace, *_ in without_retrieval}
    assert told - lost == whole | {trace for trace, *_ in kept} | partial
    assert sum(said["spans"].values()) == each * (5 + 5 + 4 + 2)


def came(server):
    """Return how many spans a server was sent."""
    return sum(health(server)["spans"].values())
