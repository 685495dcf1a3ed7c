"""The judge still reaches an endpoint by name while the program is ending."""

import asyncio
import json
import socket
import threading

import pytest
from openai_server import OpenAIServer
from python_process import run_python

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter._runtime.loop import LastingLoop
from ragmeter.metrics import RagSample
from ragmeter.pipeline.judging import JudgeLoop

SCRIPT = """
import sys
from ragmeter import Limits, RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.metrics import RagSample
from ragmeter.metrics.judge import OpenAIJudge
judge = OpenAIJudge("m", base_url=sys.argv[1], api_key="k")
meter = RagMeter(
    metrics=["answer_relevancy"], judge=judge, exporters=[JsonlExporter(sys.argv[2])],
    limits=Limits(shutdown_timeout_s=60),
)
meter.submit(RagSample(question="q", contexts=["c"], answer="An answer."))
"""


def test_the_last_request_of_a_script_is_judged(tmp_path):
    path = tmp_path / "scores.jsonl"
    with OpenAIServer() as server:
        url = server.url.replace("127.0.0.1", "localhost")
        done = run_python("-Ic", SCRIPT, url, str(path))

    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(line)["scores"]["answer_relevancy"]["status"] == "ok"


def test_blocking_calls_outlast_the_pool(monkeypatch):
    """As when the interpreter has closed its pools; results and errors come through."""

    def closed(*_, **__):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    loop = LastingLoop()
    monkeypatch.setattr(asyncio.SelectorEventLoop, "run_in_executor", closed)
    try:
        found = loop.run_until_complete(loop.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM))
        with pytest.raises(socket.gaierror):
            loop.run_until_complete(loop.getaddrinfo("name.invalid", 80))
    finally:
        loop.close()

    assert {entry[4][0] for entry in found} <= {"127.0.0.1", "::1"}


class Judged:
    """A request that says when it is done."""

    sample = RagSample(question="q")
    metrics = ()
    size_bytes = 0

    def __init__(self):
        self.ended = []

    def judged(self, scores):
        raise AssertionError("nothing is measured")

    def done(self, skipped):
        self.ended.append(skipped)


class LooksUpAName:
    """Judges by looking a name up, with the pool closed."""

    async def judge(self, job, left_s):
        await asyncio.get_running_loop().getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)

    async def aclose(self):
        pass


def test_no_thread_is_started_once_the_loop_is(monkeypatch):
    """The main thread may end with the next line, and since Python 3.12 no thread starts after that."""

    def closed(*_, **__):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    guard = Guard("meter.judge", ErrorLog())
    loop = JudgeLoop(LooksUpAName(), guard=guard, concurrency=1, max_backlog=1, deadline_s=30)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "run_in_executor", closed)
    loop.start()
    monkeypatch.setattr(threading.Thread, "start", closed)
    job = Judged()
    loop.submit(job)

    assert loop.close(30)
    assert job.ended == [None]


def test_a_flush_waits_for_what_has_come_and_not_for_what_comes():
    """Or a judge that always has something to do would never be flushed."""

    class Job:
        metrics = ()
        sample = RagSample(question="q")
        size_bytes = 0

        def judged(self, scores):
            pass

        def done(self, skipped):
            if skipped is None:
                loop.submit(Job())

    class Judges:
        async def judge(self, job, left_s):
            await asyncio.sleep(0)

        async def aclose(self):
            pass

    guard = Guard("judge", ErrorLog())
    loop = JudgeLoop(Judges(), guard=guard, concurrency=2, max_backlog=9, deadline_s=60)
    loop.submit(Job())
    assert loop.flush(60)
    assert len(loop)
    loop.close(0)
