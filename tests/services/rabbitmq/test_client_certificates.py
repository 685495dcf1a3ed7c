"""A broker that demands a certificate of its clients: all who connect show theirs, and who has none is told what to write."""

import os

import pytest
from fleet_of_workers import Fleet
from python_process import run_python
from rabbitmq_broker import Broker, installed
from typer.testing import CliRunner

from ragmeter import RagMeter, RagSample
from ragmeter.cli.app import app
from ragmeter.cli.doctor._queue import check_queue
from ragmeter.fleet.publisher import FleetPublisher
from ragmeter.fleet.transport import TransportDownError, open_sender

pytestmark = pytest.mark.long_form


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """A node of this file's own."""
    if not installed():
        pytest.skip("no RabbitMQ found; .ci/services installs it")
    running = Broker(tmp_path_factory.mktemp("asking"), asks=True)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def url(asking, tmp_path, request):
    """A function that returns the URL of this test's queues, with these parameters."""
    with Fleet(asking, tmp_path, request.node.name) as fleet:

        def made(**files):
            files["cacertfile"] = asking.certificates.authority
            options = "".join(f"&{name}={value}" for name, value in files.items())
            host = f"127.0.0.1:{asking.tls_port}"
            return f"amqps://guest:guest@{host}//?queue={fleet.prefix}{options}"

        yield made


def test_who_shows_a_certificate_publishes_scores_and_looks(asking, url, tmp_path):
    made = asking.certificates
    ours = url(certfile=made.client, keyfile=made.client_key)
    with RagMeter(metrics=[], exporters=[FleetPublisher(ours)]) as meter:
        meter.submit(RagSample(question="q", contexts=["c"], answer="a"))
        assert meter.flush(60)
    env = {"RAGMETER_QUEUE_URL": ours}
    told = CliRunner().invoke(app, ["queue", "status"], env=env)
    assert "1 messages wait" in told.output, told.output
    [first, *_] = check_queue(env)
    assert (first.state, first.detail) == ("ok", "1 messages wait, 0 workers connected")
    out, kept = tmp_path / "scores.jsonl", {k: v for k, v in os.environ.items() if k[:4] != "OTEL"}
    done = run_python(
        "-m", "ragmeter", "worker", "--once", "--processes", "1", env=kept | env | {"RAGMETER_JSONL": str(out)}
    )
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 1
    assert "0 messages wait" in CliRunner().invoke(app, ["queue", "status"], env=env).output


def test_who_has_none_or_a_strangers_is_told_so(asking, url):
    made = asking.certificates
    strange = url(certfile=made.stranger, keyfile=made.stranger_key)
    for wrong in (url(), strange):
        sender = open_sender(wrong)
        with pytest.raises(TransportDownError) as caught:
            sender.send(b"SECRET", count=1)
        sender.close(0)
        assert "?certfile=FILE&keyfile=FILE" in str(caught.value)
        told = CliRunner().invoke(app, ["queue", "status"], env={"RAGMETER_QUEUE_URL": wrong})
        assert told.exit_code == 1
        assert "certfile=FILE" in told.output
        assert "guest:guest" not in told.output


def test_a_key_that_is_of_another_certificate_is_said(asking, url):
    made = asking.certificates
    sender = open_sender(url(certfile=made.client, keyfile=made.stranger_key))
    with pytest.raises(TransportDownError, match="a file holds no certificate or key"):
        sender.send(b"SECRET", count=1)
    sender.close(0)
