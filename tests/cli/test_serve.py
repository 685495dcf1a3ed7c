"""`ragmeter serve` as a process: it says where it listens, scores what comes, and ends in order."""

import json
import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from python_process import plain_environment
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.serve import store_options, summary
from ragmeter.serve.store import StoreOptions

FULL = (
    Path(__file__).parent.parent / "adapters/recorded_spans/openinference-langchain-py/reranked/001.traces.pb"
)
PATIENCE_S = 100.0
RUN = "from ragmeter.cli.main import run; run()"


@pytest.fixture
def serving(warm, tmp_path):
    """A running command, its address, and its file of scores."""
    scores = tmp_path / "scores.jsonl"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    process = warm.start(
        RUN,
        *("serve", "--http-port", "0", "--grpc-port", "0", "--grace", "600"),
        cwd=tmp_path,
        env=environment | {"RAGMETER_JSONL": str(scores), "XDG_STATE_HOME": str(tmp_path)},
    )
    try:
        address = re.fullmatch(
            r"ragmeter serve: OTLP/HTTP on (http://127\.0\.0\.1:\d+), OTLP/gRPC on 127\.0\.0\.1:\d+, "
            rf"scores to {re.escape(str(scores))}\n",
            said_line(process),
        )
        assert address
        yield process, address[1], scores
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def said_line(process, word=""):
    """Return the first whole line with a word that a command writes on its error stream."""
    deadline = time.monotonic() + PATIENCE_S
    written = process.folder / "err"
    while True:
        text = written.read_text("utf-8") if written.exists() else ""
        for line in text.splitlines(keepends=True):
            if word in line and line.endswith("\n"):
                return line
        assert process.poll() is None, process.end()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def send_spans(address):
    headers = {"Content-Type": "application/x-protobuf"}
    url = f"{address}/v1/traces"
    httpx.post(url, content=FULL.read_bytes(), headers=headers, timeout=60).raise_for_status()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_has_everything_scored_that_came(serving, number):
    process, address, scores = serving
    send_spans(address)
    process.send_signal(number)

    done = process.end(PATIENCE_S)
    assert done.returncode == 0
    [scored] = [json.loads(line) for line in scores.read_text("utf-8").splitlines()]
    assert scored["scores"]["context_count"]["value"] == 2.0
    assert done.stderr.splitlines()[-1] == (
        "ragmeter serve: 1 exports (1 accepted); 11 spans (11 read); 1 requests (1 scored)"
    )


def test_it_says_what_to_set_when_nobody_would_get_the_scores(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "RAGMETER_JSONL", "RAGMETER_CONSOLE"):
        monkeypatch.delenv(name, raising=False)

    result = CliRunner().invoke(app, ["serve", "--http-port", "0", "--grpc-port", "0", "--no-store"])

    assert result.exit_code == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in result.stderr


def test_requests_are_kept_in_the_users_state_folder_or_where_it_is_said(tmp_path):
    """For a week and a gigabyte, unless said otherwise."""
    usual = store_options(None, "7d", "1GB", texts=True, environ={"XDG_STATE_HOME": str(tmp_path)})
    chosen = store_options(str(tmp_path / "a.db"), "12h", "500 MB", texts=False)

    assert usual == StoreOptions(path=tmp_path / "ragmeter" / "serve.db", or_private=True)
    assert chosen.path == tmp_path / "a.db"
    assert (chosen.keep_s, chosen.max_bytes, chosen.texts) == (43_200.0, 500_000_000, False)
    assert not chosen.or_private


def test_services_are_kept_for_times_of_their_own(tmp_path):
    """By the option, once for each, and by the same name in the file."""
    said = store_options(str(tmp_path / "a.db"), "7d", "1GB", texts=True, keep_service=["shop=30d", "a=b=12h"])

    assert said.keep_by_service == {"shop": 30 * 86_400.0, "a=b": 43_200.0}
    (tmp_path / "serve.toml").write_text('keep-service = ["shop=30d", "lab=12h"]')
    shown = CliRunner().invoke(app, ["serve", "--config", str(tmp_path / "serve.toml"), "--print-config"])
    assert 'keep-service = ["shop=30d", "lab=12h"]' in shown.stdout.splitlines()


def test_the_address_of_a_database_is_no_file_and_is_shown_nowhere(tmp_path):
    """By the option, or by a variable, which no list of processes shows."""
    address = "postgresql://me:secret@db.example:5432/ragmeter"
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    said = store_options(address, "7d", "1GB", texts=True, environ=environ)
    set_ = store_options(None, "7d", "1GB", texts=True, environ={**environ, "RAGMETER_SERVE_STORE": address})

    assert said == set_
    assert (said.path, said.url, said.or_private) == (None, address, False)
    assert said.beside == tmp_path / "ragmeter"
    assert "secret" not in repr(said)


def test_the_last_line_says_what_became_of_everything():
    stats = {
        "exports": {"accepted": 2, "busy": 1},
        "spans": {"read": 20, "duplicate": 3},
        "requests": {},
        "unsent": {},
    }

    assert summary(stats) == ("3 exports (2 accepted, 1 busy); 23 spans (20 read, 3 duplicate); 0 requests")
    assert summary({"unsent": {"traces": 4}}) == "4 unsent (4 traces)"


def test_a_second_signal_ends_it_at_once(warm, tmp_path):
    """Here the first one would wait for an endpoint that nobody listens at."""
    process = warm.start(
        RUN,
        *("serve", "--http-port", "0", "--grpc-port", "0"),
        *("--otlp", "http://127.0.0.1:9", "--drain-timeout", "600"),
        cwd=tmp_path,
        env=plain_environment(),
    )
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", said_line(process))
        send_spans(address[0])
        process.send_signal(signal.SIGTERM)
        said_line(process, "draining")
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 130
    finally:
        process.kill()
        process.wait(PATIENCE_S)
