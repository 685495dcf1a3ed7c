"""Broker over TLS with an authority of one's own: everything works as without, and a wrong certificate is explained."""

import os
import subprocess
import sys

import pytest
from processes import wait_until
from typer.testing import CliRunner

from ragmeter import RagMeter, RagSample
from ragmeter.cli.app import app
from ragmeter.cli.doctor._queue import check_queue
from ragmeter.fleet.publisher import FleetPublisher
from ragmeter.fleet.queue import open_queue
from ragmeter.fleet.transport import TransportDownError, open_sender


@pytest.fixture
def tls(broker, fleet):
    """A function that returns the URL of this test's queues over TLS."""

    def url(authority=None, port=None, **more):
        more["cacertfile"] = authority or broker.certificates.authority
        options = "".join(f"&{name}={value}" for name, value in more.items())
        host = f"127.0.0.1:{port or broker.tls_port}"
        return f"amqps://guest:guest@{host}//?queue={fleet.prefix}{options}"

    return url


def refused(url):
    sender = open_sender(url)
    with pytest.raises(TransportDownError) as caught:
        sender.send(b"SECRET", count=1)
    sender.close(0)
    assert "guest:guest" not in str(caught.value)
    return str(caught.value)


def ragmeter(url, out, *words):
    """Run a command of ours in a process of its own, as people do."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGMETER_", "OTEL_"))}
    env |= {"RAGMETER_QUEUE_URL": url, "RAGMETER_JSONL": str(out)}
    command = [sys.executable, "-m", "ragmeter", *words]
    with out.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=log)


def test_what_is_published_over_tls_is_scored_by_a_worker_over_tls(tls, fleet, tmp_path):
    with RagMeter(metrics=[], exporters=[FleetPublisher(tls())]) as meter:
        meter.submit(RagSample(question="q", contexts=["c"], answer="a"))
        assert meter.flush(60)
    env = {"RAGMETER_QUEUE_URL": tls()}
    told = CliRunner().invoke(app, ["queue", "status"], env=env)
    assert "1 messages wait" in told.output, told.output
    [first, *_] = check_queue(env)
    assert (first.state, first.detail) == ("ok", "1 messages wait, 0 workers connected")
    out = tmp_path / "scores.jsonl"
    worker = ragmeter(tls(), out, "worker", "--once", "--processes", "1")
    assert worker.wait(100) == 0, out.with_suffix(".log").read_text()
    assert len(out.read_text().splitlines()) == 1
    assert open_queue(tls()).status().waiting == 0


def test_what_is_wrong_with_a_certificate_is_said_and_what_to_do(tls, broker):
    strange = tls(authority=broker.certificates.stranger)
    assert "has an unknown authority: name the authority with ?cacertfile=FILE" in refused(strange)
    assert "name the authority" in refused(tls().partition("&cacertfile")[0])
    named = tls(server_name_indication="elsewhere.example")
    assert "its certificate is for another name" in refused(named)
    assert "a file holds no certificate or key" in refused(tls(authority=broker.certificates.server_key))
    assert "it speaks no TLS on this port" in refused(tls(port=broker.port))
    assert "where it expects TLS, write amqps://" in refused(
        broker.url.replace(str(broker.port), str(broker.tls_port))
    )
    [found] = check_queue({"RAGMETER_QUEUE_URL": strange})
    assert (found.state, "?cacertfile=FILE" in found.detail) == ("failed", True)
    told = CliRunner().invoke(app, ["queue", "status"], env={"RAGMETER_QUEUE_URL": strange})
    assert told.exit_code == 1
    assert "?cacertfile=FILE" in told.output


def test_a_name_that_the_certificate_has_opens_the_connection_by_another_address(tls):
    sender = open_sender(tls(server_name_indication="localhost"))
    sender.send(b"1", count=1)
    sender.close(0)
    assert open_queue(tls()).status().waiting == 1


def test_a_worker_says_what_is_wrong_with_a_certificate_and_goes_on_trying(tls, broker, tmp_path):
    out = tmp_path / "scores.jsonl"
    worker = ragmeter(tls(authority=broker.certificates.stranger), out, "worker")
    log = out.with_suffix(".log")
    try:
        wait_until(lambda: "name the authority with ?cacertfile=FILE" in log.read_text(), 60)
        assert worker.poll() is None
        assert "guest:guest" not in log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        worker.terminate()
        assert worker.wait(60) is not None


def test_a_broker_that_hangs_ends_the_wait_and_a_child_has_a_connection_of_its_own(tls, broker):
    sender = open_sender(tls())
    sender.send(b"parent", count=1)
    child = os.fork()
    if not child:
        ended = 1
        try:
            sender.send(b"child", count=1)
            ended = 0
        finally:
            os._exit(ended)
    sender.send(b"parent", count=1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sender.send(b"parent", count=1)
    assert open_queue(tls()).status().waiting == 4
    with broker.paused(), pytest.raises(TransportDownError, match="no answer in time"):
        sender.send(b"lost", count=1)
    sender.close(0)
