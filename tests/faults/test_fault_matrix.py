"""Faults, one by one: the application's answers stay the same and the counts reconcile."""

import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from openai_server import Misbehaviour, OpenAIServer, error
from otlp_receiver import OtlpReceiver
from processes import free_port
from rag_chain import ANSWER, QUESTION, ask, check
from waiting import until

from ragmeter import Limits, RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import metric
from ragmeter.metrics.judge import OpenAIJudge


def _judged(url, **changes):
    memory = InMemoryExporter()
    judge = OpenAIJudge("m", base_url=url, api_key="k", max_retries=0, timeout_s=60.0)
    meter = RagMeter(
        metrics=["context_relevancy", "retrieval_health"],
        judge=judge,
        exporters=[memory],
        **{"limits": Limits(hold_s=0.05), **changes},
    )
    return meter, memory


def _judged_scores(memory):
    return [r.scores["context_relevancy"] for r in memory.results if "context_relevancy" in r.scores]


def test_the_judge_is_down():
    meter, memory = _judged(f"http://127.0.0.1:{free_port()}/v1")

    check(meter, ask(meter, 20))

    scores = _judged_scores(memory)
    assert len(scores) == 20
    assert {score.status for score in scores} == {"judge_error"}
    assert all(score.value is None and score.error_type for score in scores)
    assert sum(1 for result in memory.results if "context_count" in result.scores) == 20


def test_the_judge_is_slower_than_the_deadline():
    with OpenAIServer(latency_s=30) as server:
        meter, memory = _judged(server.url, limits=Limits(hold_s=0.05, judge_deadline_s=0.3))

        check(meter, ask(meter, 5))

    assert {score.status for score in _judged_scores(memory)} == {"timeout"}


def test_the_judge_flaps():
    with OpenAIServer() as server:
        for _ in range(10):
            server.script.append(error(500))
        meter, memory = _judged(server.url)

        check(meter, ask(meter, 30))

    statuses = {score.status for score in _judged_scores(memory)}
    assert statuses <= {"ok", "judge_error"}
    assert all((score.value is not None) == (score.status == "ok") for score in _judged_scores(memory))


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>502 Bad Gateway</html>",
        b"",
        b"\xff\xfe\x00",
        json.dumps({"choices": []}).encode(),
        json.dumps({"choices": [{"message": {"content": "yes yes 1 true"}}]}).encode(),
        b'{"choices": [{"message": {"content": "{\\"a',
    ],
)
def test_the_judge_talks_garbage(garbage):
    with OpenAIServer() as server:
        for _ in range(30):
            server.script.append(Misbehaviour(body=garbage))
        meter, memory = _judged(server.url)

        check(meter, ask(meter, 3))

    assert all(score.value is None for score in _judged_scores(memory))
    assert {score.status for score in _judged_scores(memory)} <= {"judge_error", "partial"}


def test_the_otlp_backend_goes_down_and_comes_back():
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from ragmeter.exporters.otel import OpenTelemetryExporter

    receiver = OtlpReceiver()
    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces", timeout=2)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
    meter = RagMeter(exporters=[OpenTelemetryExporter(tracer_provider=provider)])
    receiver.refuse = True

    answers = ask(meter, 3)
    receiver.refuse = False
    answers += ask(meter, 3)

    check(meter, answers)
    provider.force_flush()
    assert {span.name for span in receiver.spans} >= {"retrieval", "invoke_workflow river_chain"}
    provider.shutdown()
    receiver.close()


@pytest.mark.contains_errors
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this platform")
def test_the_disk_is_full_for_jsonl():
    """What cannot be written waits for room, and is counted as lost where none comes until the end."""
    memory = InMemoryExporter()
    meter = RagMeter(exporters=[JsonlExporter("/dev/full"), memory])

    stats_of = ask(meter, 5)
    assert not meter.flush(3)

    assert stats_of == [ANSWER] * 5
    assert len(memory.results) == 5
    assert meter.stats().export_backlog["JsonlExporter"] == 5
    assert not meter.shutdown(3)
    assert meter.stats().export_errors["JsonlExporter:shutdown"] == 5


def test_the_clock_jumps_back(monkeypatch):
    """Wall clocks are set back now and then: no request ends before it began."""
    now = [1_800_000_000_000_000_000]

    def backwards() -> int:
        now[0] -= 3_600_000_000_000
        return now[0]

    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory])
    monkeypatch.setattr(time, "time_ns", backwards)
    answers = ask(meter, 3)
    with meter.request(QUESTION) as request:
        request.retrieved(["a"])
    monkeypatch.undo()

    assert answers == [ANSWER] * 3
    assert meter.flush(60)
    assert len(memory.results) == 4
    for result in memory.results:
        assert result.run.ended_ns >= result.run.started_ns
        for retrieval in result.run.retrievals:
            assert retrieval.ended_ns >= retrieval.started_ns


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_worker_thread_is_killed():
    others = set(threading.enumerate())
    deaths = iter([True, False, True])

    @metric
    def deadly(sample):
        if next(deaths, False):
            raise SystemExit
        return 1.0

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[deadly], exporters=[memory])
    answers = []
    for _ in range(10):
        answers += ask(meter)
        meter.flush(60)

    stats = check(meter, answers)
    assert stats.dropped == {"error": 2}
    assert len(memory.results) == 8
    meter.shutdown(60)
    for thread in set(threading.enumerate()) - others:
        if thread.name == "ragmeter-scoring":
            thread.join(60)


APP = """
import sys, time, threading
from ragmeter import Limits, RagMeter
from ragmeter.metrics import RagSample, metric
from ragmeter.exporters.jsonl import JsonlExporter
@metric
def slow(sample):
    time.sleep(0.002)
    return 1.0
meter = RagMeter(
    metrics=[slow], exporters=[JsonlExporter(sys.argv[1])], limits=Limits(shutdown_timeout_s=60)
)
print("ready", flush=True)
for number in range(100000):
    meter.submit(RagSample(question=str(number), contexts=["x" * 500]))
    time.sleep(0.0005)
"""


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL])
def test_killed_in_the_middle_of_a_batch_leaves_only_whole_lines(tmp_path, kill):
    path = tmp_path / "scores.jsonl"
    app = subprocess.Popen(
        [sys.executable, "-Ic", textwrap.dedent(APP), str(path)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert app.stdout.readline() == "ready\n"
    until(lambda: path.exists() and path.stat().st_size >= 20_000)

    app.send_signal(kill)
    app.wait(60)
    app.stdout.close()

    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    assert lines.pop() == ""
    assert len(lines) > 5
    assert all(json.loads(line)["scores"] for line in lines)
