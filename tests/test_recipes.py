"""The recipes, each in its own server: every request that was made is scored once, also those of the last moment."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import free_port
from python_process import run_python

for needed in ("langchain_core", "llama_index.core", "fastapi", "uvicorn", "gunicorn", "celery"):
    pytest.importorskip(needed)

RECIPES = Path(__file__).parents[1] / "examples" / "recipes"
RETURNS = "When can goods be sent back?"
VOUCHER = "How long is a voucher valid?"
SHOP = "When does the shop open?"


@pytest.fixture
def environment(tmp_path):
    return {
        **os.environ,
        "PYTHONPATH": str(RECIPES),
        "RAGMETER_JSONL": str(tmp_path / "scored.jsonl"),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT",
        "PYTHONWARNINGS": "default",
    }


@pytest.fixture
def scored(tmp_path):
    """A function that returns what was scored so far."""

    def read():
        path = tmp_path / "scored.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return read


@contextmanager
def served(command, environment, tmp_path):
    """Run a server on a free port until the block ends, then end it as a service manager does."""
    port = free_port()
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *(part.format(port=port) for part in command)],
            cwd=RECIPES, env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait(60)


def get(url, **query):
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=60) as reply:
        return reply.read().decode()


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read().decode()


def summary(results):
    return sorted((one["question"], one["status"], one["verdict"]["word"]) for one in results)


def test_fastapi_that_streams(environment, scored, tmp_path):
    with served(["uvicorn", "fastapi_streaming:app", "--port={port}"], environment, tmp_path) as url:
        assert get(f"{url}/ask", question=RETURNS) == "Goods can be sent back within 30 days."

    assert summary(scored()) == [(RETURNS, "ok", "good")]
    assert scored()[0]["answer"] == "Goods can be sent back within 30 days."


def test_invoke_batch_and_stream(environment, scored, tmp_path):
    with served(["uvicorn", "batch_service:app", "--port={port}"], environment, tmp_path) as url:
        assert json.loads(post(f"{url}/batch", {"inputs": [VOUCHER, SHOP]})) == {
            "output": ["A voucher is valid for two years.", "The shop opens at nine and closes at six."]
        }
        post(f"{url}/invoke", {"input": RETURNS, "user": "ada"})
        assert post(f"{url}/stream", {"input": VOUCHER}) == "A voucher is valid for two years."

    assert summary(scored()) == sorted(
        (question, "ok", "good") for question in (VOUCHER, SHOP, RETURNS, VOUCHER)
    )
    assert [one["user_id"] for one in scored() if one["question"] == RETURNS] == ["ada"]


def test_a_llama_index_workflow(environment, scored, tmp_path):
    app = ["uvicorn", "llama_index_service:app", "--port={port}"]
    with served(app, environment, tmp_path) as url:
        get(f"{url}/ask", question=RETURNS)
        get(f"{url}/ask", question=VOUCHER)

    assert summary(scored()) == sorted((question, "ok", "good") for question in (RETURNS, VOUCHER))


def test_gunicorn_that_loads_before_it_forks(environment, scored, tmp_path):
    command = [
        "gunicorn",
        "--preload",
        "--workers=2",
        "--bind=127.0.0.1:{port}",
        "gunicorn_preload:application",
    ]
    with served(command, environment, tmp_path) as url:
        for question in (RETURNS, VOUCHER, SHOP):
            get(url, question=question)

    assert summary(scored()) == sorted((question, "ok", "good") for question in (RETURNS, VOUCHER, SHOP))


def test_a_celery_task_in_a_pool_of_processes(environment, scored, tmp_path):
    for name in ("queue", "control", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "on_files.py").write_text(
        f"""
from celery_tasks import answer, app

app.conf.update(
    broker_url="filesystem://",
    broker_transport_options={{
        "data_folder_in": {str(tmp_path / "queue")!r},
        "data_folder_out": {str(tmp_path / "queue")!r},
        "control_folder": {str(tmp_path / "control")!r},
    }},
    result_backend={f"file://{tmp_path / 'results'}"!r},
)
"""
    )
    environment = {**environment, "PYTHONPATH": f"{RECIPES}{os.pathsep}{tmp_path}"}
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "on_files", "worker", "--concurrency=2", "--without-gossip", "--without-mingle",
         "--loglevel=warning"],
        cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    ask = (
        "import on_files; "
        f"print([on_files.answer.delay(one).get(timeout=90) for one in ({RETURNS!r}, {VOUCHER!r})])"
    )
    try:
        done = run_python("-c", ask, env=environment)
        assert "A voucher is valid for two years." in done.stdout, done.stderr
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
    finally:
        worker.kill()
        worker.wait(60)

    assert summary(scored()) == sorted((question, "ok", "good") for question in (RETURNS, VOUCHER))


def test_a_function_that_is_frozen_after_its_answer(environment, scored):
    """What ran before the answer is all that ran: the process is killed then."""
    code = (
        "import os, lambda_handler; "
        f"print(lambda_handler.handler({{'question': {SHOP!r}}}, None), flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    done = run_python("-c", code, env=environment)

    assert "'statusCode': 200" in done.stdout, done.stderr
    assert summary(scored()) == [(SHOP, "ok", "good")]


def test_every_recipe_is_named_on_the_page():
    page = (RECIPES.parents[1] / "docs" / "recipes.md").read_text("utf-8")

    for path in (*RECIPES.glob("*.py"), *RECIPES.glob("*.ipynb")):
        assert f"examples/recipes/{path.name}" in page
