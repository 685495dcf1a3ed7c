"""Servers, task queues, frozen functions and notebooks: every request is scored, exits are clean."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from openai_server import OpenAIServer
from processes import free_port
from rag_chain import ANSWER, QUESTION, rag_chain
from waiting import until

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics.judge import OpenAIJudge

TESTS = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "faults")])}


def questions(path):
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a line may be in the middle of being written
    return Counter(json.loads(line)["question"] for line in whole.splitlines())


def test_uvicorn_alone_under_sigterm(tmp_path):
    """The server finishes its requests and exits; every one of them is scored, once."""
    pytest.importorskip("fastapi")
    port = free_port()
    scores = tmp_path / "scores.jsonl"
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--port", str(port), "served_app:app"],
        cwd=TESTS / "faults", env={**ENVIRONMENT, "SCORES": str(scores)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"

    def answers():
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{url}/openapi.json", timeout=60).status_code == 200
        return False

    try:
        until(answers, what="uvicorn did not start")
        for number in range(20):
            way = "ask-async" if number % 2 else "ask"
            assert httpx.get(f"{url}/{way}/{number}", timeout=30).json()["answer"] == ANSWER
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait(60)

    assert questions(scores) == Counter(f"question {number}" for number in range(20))


FROZEN = """
import json, sys
from rag_chain import ANSWER, rag_chain
from ragmeter import Limits, RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.jsonl import JsonlExporter

meter = RagMeter(
    exporters=[JsonlExporter(sys.argv[1], include_content=True)], limits=Limits(shutdown_timeout_s=60)
)
config = {"callbacks": [RagMeterCallbackHandler(meter)]}
chain = rag_chain()
for line in sys.stdin:
    assert chain.invoke(line.strip(), config) == ANSWER
    print(json.dumps(meter.flush(60)), flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP on this platform")
def test_a_function_that_is_frozen_between_requests(tmp_path):
    """Flushed at the end of each request: the scores are out before the freeze, and after the thaw."""
    scores = tmp_path / "scores.jsonl"
    app = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FROZEN), str(scores)],
        env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    try:
        for number in range(4):
            app.stdin.write(f"q{number}\n")
            app.stdin.flush()
            assert json.loads(app.stdout.readline()) is True
            app.send_signal(signal.SIGSTOP)
            assert questions(scores) == Counter(f"q{n}" for n in range(number + 1))
            threading.Event().wait(0.2)
            app.send_signal(signal.SIGCONT)
        app.stdin.close()
        assert app.wait(30) == 0
    finally:
        if app.poll() is None:
            app.kill()
            app.wait(60)
        app.stdout.close()
        if not app.stdin.closed:
            app.stdin.close()


def test_a_notebook_with_a_running_loop():
    """`flush` called while the main thread's loop runs waits for judged scores, too."""
    memory = InMemoryExporter()

    async def cell(meter):
        config = {"callbacks": [RagMeterCallbackHandler(meter)]}
        answers = [rag_chain().invoke(QUESTION, config), await rag_chain().ainvoke(QUESTION, config)]
        assert meter.flush(60)
        meter.shutdown(60)
        return answers

    with OpenAIServer() as server:
        judge = OpenAIJudge("m", server.url, "k")
        meter = RagMeter(metrics=["context_relevancy"], judge=judge, exporters=[memory])
        assert asyncio.run(cell(meter)) == [ANSWER, ANSWER]

    assert [r.scores["context_relevancy"].value for r in memory.results] == [1.0, 1.0]


def test_a_meter_built_again_after_shutdown():
    """The old one counts what comes too late, the new one works, also with the same judge."""
    with OpenAIServer() as server:
        judge = OpenAIJudge("m", server.url, "k")
        meters = []
        for _ in range(3):
            memory = InMemoryExporter()
            meter = RagMeter(metrics=["context_relevancy"], judge=judge, exporters=[memory])
            meters.append(meter)
            for one in meters:
                config = {"callbacks": [RagMeterCallbackHandler(one)]}
                assert rag_chain().invoke(QUESTION, config) == ANSWER
            meter.shutdown(60)
            [result] = memory.results
            assert result.scores["context_relevancy"].value == 1.0

    assert [meter.stats().dropped for meter in meters] == [{"shutdown": 2}, {"shutdown": 1}, {}]


CELERY_APP = """
import os
from celery import Celery
from rag_chain import rag_chain
from ragmeter import Limits, RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.jsonl import JsonlExporter

folder = os.environ["QUEUE"]
app = Celery("rag", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": folder, "data_folder_out": folder, "control_folder": folder + "-control",
}
app.conf.broker_connection_retry_on_startup = True
# Built in the parent; the pool's processes are forked from it.
meter = RagMeter(
    exporters=[JsonlExporter(os.environ["SCORES"], include_content=True)], limits=Limits(shutdown_timeout_s=60)
)
handler = RagMeterCallbackHandler(meter)
chain = rag_chain()

@app.task
def ask(number):
    chain.invoke(f"question {number}", {"callbacks": [handler]})
    meter.flush(60)
"""


@pytest.mark.skipif(find_spec("celery") is None, reason="celery is not installed here")
def test_celery_with_forked_workers(tmp_path):
    """Tasks in two forked processes: every one's scores arrive, none twice; the worker ends cleanly."""
    (tmp_path / "rag_tasks.py").write_text(textwrap.dedent(CELERY_APP), encoding="utf-8")
    queue, scores = tmp_path / "queue", tmp_path / "scores.jsonl"
    queue.mkdir()
    (tmp_path / "queue-control").mkdir()
    environment = {**ENVIRONMENT, "QUEUE": str(queue), "SCORES": str(scores)}
    send = "import rag_tasks\nfor n in range(30): rag_tasks.ask.delay(n)"
    subprocess.run([sys.executable, "-c", send], cwd=tmp_path, env=environment, check=True, timeout=60)
    log = (tmp_path / "log").open("wb")
    worker = subprocess.Popen(
        [
            sys.executable, "-m", "celery", "-A", "rag_tasks", "worker", "--pool=prefork",
            "--concurrency=2", "--loglevel=INFO", "--without-gossip", "--without-mingle",
        ],
        cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        until(lambda: sum(questions(scores).values()) >= 30, what="celery did not work its queue off")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait(60)
        log.close()

    assert questions(scores) == Counter(f"question {number}" for number in range(30))


def test_no_reason_is_ever_silent(caplog):
    """Each reason for a loss that nobody asked for is logged once a minute, and counted each time."""
    meter = RagMeter(metrics=[], exporters=[])
    with caplog.at_level(logging.WARNING, "ragmeter"):
        for reason in ("queue_full", "shutdown", "evicted", "detached", "error"):
            for _ in range(3):
                meter.port.count_lost(reason)
        meter.port.count_lost("sampled_out")

    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 5
    assert meter.stats().dropped == {
        "queue_full": 3, "shutdown": 3, "evicted": 3, "detached": 3, "error": 3, "sampled_out": 1,
    }  # fmt: skip
