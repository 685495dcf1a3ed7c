"""With a spool nothing that was acknowledged is lost; what is passed on arrives; what has no room is refused."""

import json
import os
import shutil
import signal
import threading
from random import Random

import httpx
import pytest
from otlp_endpoint import HANG_UP, Endpoint, names_in
from served import FULL, PATIENCE_S, RECORDED, Stuck, served, traced_as, until

from ragmeter import RagMeter
from ragmeter.metrics import ConfigurationError
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve._intake import Intake

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def send(server, body):
    return httpx.post(f"{server.url}/v1/traces", content=body, headers=PROTOBUF, timeout=PATIENCE_S)


def traces_of(results):
    return sorted(f"{scored.run.trace_id:032x}" for scored in results)


def kept(server):
    return server.stats()["spool"].get("kept", 0)


def test_what_is_scored_and_flushed_is_kept_no_longer(tmp_path):
    with served(spool=tmp_path, settle_s=0.01) as server:
        assert send(server, FULL.read_bytes()).status_code == 200
        until(lambda: server.stats()["requests"].get("scored") == 1)
        until(lambda: kept(server) == 0)
        assert len(server.drained()) == 1
        assert server.stats()["spool"] == {}


def test_a_drained_server_leaves_nothing_behind(tmp_path):
    with served(spool=tmp_path, settle_s=600.0) as server:
        assert send(server, FULL.read_bytes()).status_code == 200
        assert len(server.drained()) == 1
        assert server.stats()["spool"] == {}
    with served(spool=tmp_path) as server:
        assert server.drained() == []


def as_killed(spool):
    """The spool's folder as a kill at this moment would leave it."""
    return shutil.copytree(spool, spool.with_name(f"{spool.name}-killed"))


def acknowledged(spool, bodies):
    """Have a server acknowledge requests, and return what a kill would leave before it has read them."""
    with served(spool=spool, grace_s=600.0, settle_s=600.0) as server:
        for body in bodies:
            assert send(server, body).status_code == 200
        assert kept(server) == len(bodies)
        return as_killed(spool)


def test_what_was_not_done_is_scored_after_a_restart(tmp_path):
    bodies, traces = zip(*map(traced_as, range(1, 6)), strict=True)
    left = acknowledged(tmp_path / "spool", bodies)
    with served(spool=left) as server:
        until(lambda: server.stats()["spans"].get("read", 0) == 55)
        assert traces_of(server.drained()) == sorted(traces)
        assert server.stats()["spool"] == {"found": 5, "finished": 5}


def test_a_server_that_ends_as_soon_as_it_is_up_again_finishes_what_was_kept(tmp_path):
    bodies, traces = zip(*map(traced_as, range(1, 41)), strict=True)
    left = acknowledged(tmp_path / "spool", bodies)
    with served(spool=left) as server:
        assert traces_of(server.drained()) == sorted(traces)
        assert server.stats()["spool"] == {"found": 40, "finished": 40}


@pytest.mark.contains_errors
def test_one_that_cannot_be_taken_up_again_keeps_no_other_from_it(tmp_path, monkeypatch):
    """It stays in the spool, for a start that can."""
    bodies, traces = zip(*map(traced_as, range(1, 4)), strict=True)
    left = acknowledged(tmp_path / "spool", bodies)
    admit, calls = Intake.admit, []

    def failing_first(intake, kept, request):
        calls.append(kept)
        if len(calls) == 1:
            raise RuntimeError("ours")
        return admit(intake, kept, request)

    with monkeypatch.context() as patched:
        patched.setattr(Intake, "admit", failing_first)
        with served(spool=left) as server:
            assert traces_of(server.drained()) == sorted(traces[1:])
            assert kept(server) == 1
            assert server.meter.stats().internal_errors["serve.replay"] == 1
    with served(spool=left) as server:
        assert traces_of(server.drained()) == [traces[0]]


def test_a_trace_in_two_requests_one_of_which_was_not_acknowledged_yet(tmp_path):
    """The second half comes after the restart."""
    folder = RECORDED / "openinference-langchain-py" / "late_spans"
    parts = [path.read_bytes() for path in sorted(folder.glob("*.traces.pb"))]
    assert len(parts) > 1
    with served() as server:
        for part in parts:
            send(server, part)
        expected = traces_of(server.drained())
    left = acknowledged(tmp_path / "spool", parts[:1])
    with served(spool=left, grace_s=600.0) as server:
        until(lambda: server.stats()["spans"].get("waiting", 0) > 0)
        for part in parts[1:]:
            assert send(server, part).status_code == 200
        assert traces_of(server.drained()) == expected


def test_a_json_request_is_kept_too(tmp_path):
    body = json.dumps(
        {
            "resourceSpans": [
                {
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": "0af7651916cd43dd8448eb211c80319c",
                                    "spanId": "b7ad6b7169203331",
                                    "name": "retrieve",
                                    "startTimeUnixNano": "1",
                                    "endTimeUnixNano": "2",
                                    "attributes": [
                                        {
                                            "key": "openinference.span.kind",
                                            "value": {"stringValue": "RETRIEVER"},
                                        },
                                        {"key": "input.value", "value": {"stringValue": "q?"}},
                                        {
                                            "key": "retrieval.documents.0.document.content",
                                            "value": {"stringValue": "a text"},
                                        },
                                    ],
                                }
                            ]
                        }
                    ]
                }
            ]
        }
    )
    with served(spool=tmp_path / "spool", grace_s=600.0, settle_s=600.0) as server:
        answer = httpx.post(
            f"{server.url}/v1/traces",
            content=body,
            headers={"Content-Type": "application/json"},
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 200
        left = as_killed(tmp_path / "spool")
    with served(spool=left) as server:
        until(lambda: server.stats()["spans"].get("read") == 1)
        [scored] = server.drained()
        assert [context.text for context in scored.sample.contexts] == ["a text"]


def test_a_full_disk_makes_senders_wait_and_is_got_over(tmp_path):
    with served(spool=tmp_path, settle_s=600.0) as server:
        database = server.server._journal._spool._database
        assert send(server, traced_as(1)[0]).status_code == 200
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages + 1}")
        refused = send(server, traced_as(2)[0])
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        assert server.stats()["spool"]["refused_disk"] == 1
        assert "database or disk is full" in server.health()["status"]
        assert "database or disk is full" in server.why_not_ready()
        database.execute("PRAGMA max_page_count = 1000000")
        assert send(server, traced_as(2)[0]).status_code == 200  # the next try
        assert server.health()["status"] == "ok"
        assert len(server.drained()) == 2
        assert server.stats()["exports"] == {"accepted": 2, "busy": 1}


def test_a_full_spool_makes_senders_wait_and_is_got_over(tmp_path):
    body = FULL.read_bytes()
    with served(spool=tmp_path, max_spool_bytes=2 * len(body), grace_s=600.0, settle_s=0.01) as server:
        assert send(server, traced_as(1)[0]).status_code == 200
        answers = [send(server, traced_as(2)[0]).status_code for _ in range(3)]
        assert answers == [503, 503, 503]
        assert server.stats()["spool"]["refused_full"] == 3
        assert len(server.drained()) == 1


def test_a_sender_faster_than_scoring_is_told_to_wait_and_nothing_is_lost_or_counted_twice(tmp_path):
    stuck = Stuck()
    meter = RagMeter(exporters=[stuck])
    server = Server(
        ServeOptions(
            http_port=0, grpc_port=0, grace_s=0.0, max_held_bytes=2_000_000, spool=tmp_path, settle_s=0.05
        ),
        meter=meter,
    )
    server.start()
    accepted, refused, most = set(), 0, 0
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http_port}", headers=PROTOBUF, timeout=60) as client:
        number = 0
        while refused < 50:
            number += 1
            assert number < 20_000, "it takes whatever it is sent"
            body, trace = traced_as(number)
            answer = client.post("/v1/traces", content=body, timeout=PATIENCE_S)
            if answer.status_code == 200:
                accepted.add(trace)
            else:
                assert answer.status_code == 503
                assert answer.headers["Retry-After"]
                refused += 1
            most = max(most, server.health()["held"]["bytes"])
        assert most < 4_000_000
        stuck.go.set()
        until(lambda: server.health()["status"] == "ok")
        body, trace = traced_as(number + 1)
        assert client.post("/v1/traces", content=body, timeout=PATIENCE_S).status_code == 200
        accepted.add(trace)
    assert server.stop(PATIENCE_S)
    meter.shutdown(PATIENCE_S)
    assert traces_of(stuck.taken) == sorted(accepted)
    stats = server.stats()
    assert stats["exports"] == {"accepted": len(accepted), "busy": refused}
    assert stats["requests"] == {"scored": len(accepted)}
    assert stats["spans"] == {"read": 11 * len(accepted)}
    assert stats["spool"] == {}


def test_what_is_passed_on_is_what_came_and_scores_come_all_the_same(tmp_path, monkeypatch):
    with Endpoint() as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{endpoint.port}")
        bodies = [traced_as(number)[0] for number in range(1, 4)]
        with served(forward=True, spool=tmp_path) as server:
            for body in bodies:
                assert send(server, body).status_code == 200
            assert len(server.drained()) == 3
            assert server.stats()["forwarded"] == {"taken": 3}
            assert server.stats()["spool"] == {}
        assert b"".join(endpoint.bodies) == b"".join(bodies)


def test_an_endpoint_that_is_down_makes_senders_wait_and_loses_nothing(monkeypatch, limited):
    up = threading.Event()
    with Endpoint(*[lambda body: 200 if up.is_set() else HANG_UP] * 10_000) as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{endpoint.port}")
        size = len(FULL.read_bytes())
        limited(forward_bytes=3 * size)
        with served(forward=True) as server:
            accepted = []
            for number in range(1, 20):
                body, _ = traced_as(number)
                answer = send(server, body)
                if answer.status_code == 200:
                    accepted.append(body)
                else:
                    assert answer.status_code == 503
                    assert answer.headers["Retry-After"]
            assert 0 < len(accepted) < 19
            up.set()
            until(lambda: server.stats()["forwarded"] == {"taken": len(accepted)})
            assert len(server.drained()) == len(accepted)
        assert b"".join(endpoint.bodies) == b"".join(accepted)


def test_what_was_not_passed_on_is_passed_on_after_a_restart(tmp_path, monkeypatch):
    up = threading.Event()
    with Endpoint(*[lambda body: 200 if up.is_set() else HANG_UP] * 10_000) as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{endpoint.port}")
        with served(forward=True, spool=tmp_path, settle_s=0.05) as server:
            assert send(server, FULL.read_bytes()).status_code == 200
            ledger = server.server._journal._ledger
            until(lambda: all(entry.noted for entry in tuple(ledger._open.values())))
            assert not server.server.stop(2.0)
            assert server.stats()["forwarded"] == {"shutdown": 1}
        up.set()
        with served(forward=True, spool=tmp_path) as server:
            until(lambda: server.stats()["forwarded"].get("taken") == 1)
            # It was scored before.
            assert server.drained() == []
            assert server.stats()["spool"] == {"found": 1, "finished": 1}
        assert names_in(endpoint.bodies) == names_in([FULL.read_bytes()])


def test_forwarding_needs_somewhere_and_not_itself(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with pytest.raises(ConfigurationError, match="nowhere to pass spans on"):
        with served(forward=True):
            pass
    with served() as other:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{other.http_port}")
    with pytest.raises(ConfigurationError, match="listens itself"):
        with served(forward=True, http_port=other.http_port):
            pass


def test_a_spool_that_another_server_uses_is_refused(tmp_path):
    with served(spool=tmp_path):
        with pytest.raises(ConfigurationError, match="in use by another process"):
            with served(spool=tmp_path):
                pass


SERVER = """
import signal, sys, threading
from pathlib import Path
from ragmeter import RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve._intake import Intake

folder = Path(sys.argv[1])
ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
meter = RagMeter(exporters=[JsonlExporter(folder / "scores.jsonl")])
server = Server(
    ServeOptions(http_port=0, grpc_port=0, grace_s=0.0, spool=folder / "spool", settle_s=0.1),
    meter=meter,
)
server.start()
print(server.http_port, flush=True)
while not ending.wait(1.0):
    pass
print(server.stop(60.0), flush=True)
meter.shutdown(60.0)
"""


class Killable:
    """A server in a process of its own, that writes scores to a file."""

    def __init__(self, folder, warm):
        self.process = warm.start(SERVER, str(folder), cwd=folder, env=dict(os.environ))
        out = self.process.folder / "out"
        until(lambda: out.exists() and out.read_text().endswith("\n"))
        self.url = f"http://127.0.0.1:{int(out.read_text())}"

    def end(self, number):
        self.process.send_signal(number)
        return self.process.end(PATIENCE_S).stdout.partition("\n")[2]


def scored_in(folder):
    lines = (folder / "scores.jsonl").read_text().splitlines()
    return [json.loads(line)["trace_id"] for line in lines]


def killed_while_senders_send(folder, warm, seed, kills):
    chance = Random(seed)
    acknowledged, number = set(), 0
    for _ in range(kills):
        server = Killable(folder, warm)
        ended = threading.Event()
        lock = threading.Lock()

        def sending():
            nonlocal number
            with httpx.Client(base_url=server.url, headers=PROTOBUF, timeout=60) as client:  # noqa: B023
                while not ended.is_set():  # noqa: B023
                    with lock:  # noqa: B023
                        number += 1
                        mine = number
                    body, trace = traced_as(mine)
                    try:
                        answer = client.post("/v1/traces", content=body, timeout=PATIENCE_S)
                    except httpx.HTTPError:
                        return
                    if answer.status_code == 200:
                        acknowledged.add(trace)

        threads = [threading.Thread(target=sending) for _ in range(3)]
        goal = len(acknowledged) + chance.randrange(20, 60)
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) >= goal)  # noqa: B023
        server.end(signal.SIGKILL)
        ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    server = Killable(folder, warm)
    assert server.end(signal.SIGTERM) == "True\n"
    found = scored_in(folder)
    assert acknowledged <= set(found)
    # Twice at most what was scored after the last settlement before a kill.
    assert max(found.count(trace) for trace in set(found)) <= kills + 1
    return found, acknowledged


def test_nothing_acknowledged_is_lost_by_kills_while_senders_send(tmp_path, warm):
    killed_while_senders_send(tmp_path, warm, seed=1, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 6))
def test_nothing_acknowledged_is_lost_by_many_kills(tmp_path, warm, seed):
    killed_while_senders_send(tmp_path, warm, seed, kills=5)


def test_what_was_settled_before_a_kill_is_not_scored_again(tmp_path, warm):
    server = Killable(tmp_path, warm)
    traces = []
    for number in range(1, 6):
        body, trace = traced_as(number)
        assert httpx.post(f"{server.url}/v1/traces", content=body, headers=PROTOBUF, timeout=60).is_success
        traces.append(trace)
    health = f"{server.url}/healthz"
    until(lambda: not httpx.get(health, timeout=60).json()["spool"].get("kept"))
    server.end(signal.SIGKILL)
    assert sorted(scored_in(tmp_path)) == sorted(traces)
    server = Killable(tmp_path, warm)
    assert server.end(signal.SIGTERM) == "True\n"
    assert sorted(scored_in(tmp_path)) == sorted(traces)
