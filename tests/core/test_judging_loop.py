"""The judge still reaches an endpoint by name while the program is ending."""

import asyncio
import json
import socket
import subprocess
import sys

import pytest
from openai_server import OpenAIServer

from ragmeter.pipeline.judging import LastingLoop

SCRIPT = """
import sys
from ragmeter import RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.metrics import RagSample
from ragmeter.metrics.judge import OpenAIJudge
judge = OpenAIJudge("m", base_url=sys.argv[1], api_key="k")
meter = RagMeter(metrics=["answer_relevancy"], judge=judge, exporters=[JsonlExporter(sys.argv[2])])
meter.submit(RagSample(question="q", contexts=["c"], answer="An answer."))
"""


def test_the_last_request_of_a_script_is_judged(tmp_path):
    path = tmp_path / "scores.jsonl"
    with OpenAIServer() as server:
        url = server.url.replace("127.0.0.1", "localhost")
        done = subprocess.run(
            [sys.executable, "-Ic", SCRIPT, url, str(path)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

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
