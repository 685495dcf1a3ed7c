"""``ragmeter queue`` on a real broker, from the outside."""

import json
import os
import subprocess
import sys

import pytest
from processes import free_port
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.exporters.protocol import RagRun
from ragmeter.fleet.payload import MessageContent, SentRun, pack
from ragmeter.metrics import RagSample


def run(url, *words, code=0):
    variables = {"RAGMETER_QUEUE_URL": url, "COLUMNS": "200", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, ["queue", *words], env=variables)
    assert done.exit_code == code, done.output
    assert "guest:guest" not in done.output
    return json.loads(done.stdout) if "--json" in words else done.output


@pytest.fixture
def dead(fleet):
    """Queues with two dead letters: a request whose workers died, and what nobody wrote."""
    sample = RagSample(question="SECRET question", answer="an answer")
    sent = SentRun(run=RagRun(run_id="the-run", framework="manual", started_ns=1, ended_ns=2, sample=sample))
    body = pack(MessageContent(runs=[sent], resource={"service.name": "shop"}, published_ns=3))
    for one, reason in ((body, "its version is too new"), (b"\xff", "unreadable")):
        from ragmeter.fleet._rabbitmq._message import message

        fleet.sender.publish(message(one, count=1, deaths=2, reason=reason), f"{fleet.prefix}.dead")
    return fleet


def test_status_counts_what_waits_what_is_dead_and_who_works(dead):
    dead.send("a")
    assert run(dead.url, "status", "--json") == {"waiting": 1, "dead": 2, "workers": 0, "differing": []}
    assert "1 messages wait" in run(dead.url, "status")


def test_dead_letters_are_listed_without_their_text_and_stay(dead):
    for _ in range(2):
        first, second = run(dead.url, "dead", "list", "--json")
        assert first.pop("age_s") >= 0
        assert first == {
            "reason": "its version is too new",
            "deaths": 2,
            "readable": True,
            "service": "shop",
            "ids": ["the-run"],
        }
        assert (second["readable"], second["service"], second["ids"]) == (False, None, [])
    told = run(dead.url, "dead", "list")
    assert "the-run" in told
    assert "shop" in told
    assert "SECRET" not in told


def test_texts_are_shown_when_asked_for(dead):
    assert "SECRET question" in run(dead.url, "dead", "list", "--with-text")
    [first] = run(dead.url, "dead", "list", "--with-text", "--limit", "1", "--json")
    assert first["texts"][0]["question"] == "SECRET question"


def test_the_oldest_are_sent_again_or_deleted(dead):
    assert run(dead.url, "dead", "replay", "1", "--json") == {"replayed": 1}
    assert run(dead.url, "status", "--json")["waiting"] == 1
    assert run(dead.url, "dead", "drop", "5", "--json") == {"dropped": 1}
    assert run(dead.url, "status", "--json")["dead"] == 0
    assert "no dead letters" in run(dead.url, "dead", "list")


def test_what_is_sent_again_is_scored_once_whoever_sends_it(fleet):
    """Two operators at once, once workers run that can read it; what is dead a second time is there again."""
    fleet.send("a", "newer-1", "newer-2")
    fleet.send("newer-3", "unreadable-1")
    assert fleet.start("--once").wait(60) == 0
    assert fleet.exported() == {"a": 1}
    assert len(run(fleet.url, "dead", "list", "--json")) == 4

    fleet.gate.touch()
    command = [sys.executable, "-m", "ragmeter", "queue", "dead", "replay", "9", "--json"]
    env = {**os.environ, "RAGMETER_QUEUE_URL": fleet.url}
    operators = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    told = [json.loads(one.communicate(timeout=120)[0]) for one in operators]
    assert sum(one["replayed"] for one in told) == 4
    assert fleet.start("--once").wait(60) == 0

    assert fleet.exported() == {"a": 1, "newer-1": 1, "newer-2": 1, "newer-3": 1}
    [left] = run(fleet.url, "dead", "list", "--json")
    assert left["reason"] == "unreadable"


def test_queues_are_declared_once_and_other_bounds_are_told(broker):
    url = f"{broker.url}?queue=declared"
    assert "`ragmeter queue declare` makes it" in run(url, "status", code=1)
    assert "are there" in run(url, "declare", "--max-bytes", "2000000")
    assert "are there" in run(url, "declare", "--max-bytes", "2000000")
    assert "other bounds" in run(url, "declare", code=1)
    assert run(url, "status", "--json")["differing"] == ["declared.dead", "declared.score"]


def test_a_broker_that_is_away_is_one_line_and_exit_code_1():
    told = run(f"amqp://me:hunter2@127.0.0.1:{free_port()}/", "status", code=1)
    assert "Connection refused" in told
    assert "hunter2" not in told
    assert len(told.splitlines()) == 1


def test_no_queue_at_all_says_how_to_name_one():
    assert "RAGMETER_QUEUE_URL" in run("", "status", code=2)


def test_the_doctor_says_how_the_queue_looks(dead):
    from ragmeter.cli.doctor._queue import check_queue

    dead.send("a")
    found = list(check_queue({"RAGMETER_QUEUE_URL": dead.url}))
    assert [(one.state, one.detail) for one in found] == [
        ("ok", "1 messages wait, 0 workers connected"),
        ("warning", "no worker scores what waits"),
        ("warning", "2 messages could not be scored"),
    ]
    assert not any("guest:guest" in one.what + one.detail + one.fix for one in found)


def test_the_doctor_says_what_is_wrong_with_the_queue():
    from ragmeter.cli.doctor._queue import check_queue

    away = f"amqp://me:hunter2@127.0.0.1:{free_port()}/"
    for url, state in ((away, "failed"), ("amqp://", "failed"), ("nothing:hunter2", "failed")):
        [found] = check_queue({"RAGMETER_QUEUE_URL": url})
        assert found.state == state
        assert "hunter2" not in found.what + found.detail + found.fix
    assert list(check_queue({})) == []
