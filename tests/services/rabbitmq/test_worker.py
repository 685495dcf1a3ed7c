"""Workers that are killed, ended, and given what nobody can read: nothing is lost, and what is repeated is bounded."""

import os
import signal

import amqp
import pytest
from processes import wait_until

from ragmeter.fleet._rabbitmq._address import BrokerAddress
from ragmeter.fleet._rabbitmq._connection import CONFIRM_S, reachable
from ragmeter.fleet.transport import TransportDownError

BATCH = 32


def ids(name, count=BATCH):
    return [f"{name}-{number}" for number in range(count)]


def counted(fleet):
    return fleet.queue.status().waiting, fleet.queue.status().dead


def test_what_waits_is_scored_and_a_worker_that_is_to_drain_ends_by_itself(fleet):
    sent = [one for name in "abcde" for one in ids(name)]
    for name in "abcde":
        fleet.send(*ids(name))
    worker = fleet.start("--once", processes=2)
    assert worker.wait(60) == 0
    assert fleet.exported() == dict.fromkeys(sent, 1)
    assert counted(fleet) == (0, 0)
    assert fleet.log.read_text().count("closed\n") == 3  # both processes, and the one that was a trial


def test_a_message_whose_process_is_killed_comes_back_and_is_judged_once_more(fleet):
    worker = fleet.start()
    fleet.send(*ids("held"))
    fleet.wait_judged(BATCH)
    os.kill(fleet.children(worker)[0], signal.SIGKILL)
    fleet.gate.touch()
    fleet.wait_exported(*ids("held"))
    assert fleet.exported() == dict.fromkeys(ids("held"), 1)
    assert fleet.judged() == dict.fromkeys(ids("held"), 2)


@pytest.mark.long_form
def test_a_process_that_is_killed_while_its_worker_begins_is_replaced(fleet):
    """Celery takes it for one that cannot begin, and ends the worker."""
    worker = fleet.start(processes=2)
    wait_until(lambda: fleet.log.read_text().count("closed\n") == 1, 60)  # the trial's
    while not (found := fleet.children(worker)):
        pass
    os.kill(found[0], signal.SIGKILL)
    fleet.send(*ids("a"))
    fleet.wait_exported(*ids("a"))
    assert worker.poll() is None
    assert fleet.drain(worker) == 0


@pytest.mark.long_form
def test_a_message_whose_worker_is_killed_goes_to_another_one(fleet):
    first = fleet.start()
    fleet.send(*ids("held"))
    fleet.wait_judged(BATCH)
    second = fleet.start()
    wait_until(lambda: fleet.queue.status().workers == 2, 60)
    fleet.kill(first)
    fleet.gate.touch()
    fleet.wait_exported(*ids("held"))
    assert fleet.exported() == dict.fromkeys(ids("held"), 1)
    assert fleet.judged() == dict.fromkeys(ids("held"), 2)
    assert fleet.drain(second) == 0


def test_a_worker_killed_between_export_and_acknowledgement_repeats_one_message(fleet):
    flag = fleet.folder / "die"
    flag.touch()
    fleet.start(DIE_AFTER_EXPORT=str(flag))
    fleet.send(*ids("a"))
    wait_until(lambda: fleet.exported() == dict.fromkeys(ids("a"), 2), 60)
    wait_until(lambda: counted(fleet) == (0, 0), 60)


def test_a_request_that_kills_lies_among_the_dead_alone(fleet):
    fleet.start(processes=2)
    others = ids("a", BATCH - 1)
    fleet.send("poison", *others)
    fleet.wait_exported(*others)
    fleet.wait_dead(1)
    [letter] = fleet.queue.dead(10)
    assert b'"poison"' in letter.body
    assert b"a-0" not in letter.body
    assert letter.deaths == 6  # two in company, four alone
    assert fleet.exported() == dict.fromkeys(others, 1)
    assert fleet.judged()["poison"] == 6


@pytest.mark.long_form
def test_a_request_that_hangs_lies_among_the_dead_alone_after_the_limit(fleet):
    fleet.start(processes=2, LIMIT_S="5")
    others = ids("a", BATCH - 1)
    fleet.send("hanging", *others)
    fleet.send(*ids("b"))
    fleet.wait_exported(*others, *ids("b"))
    fleet.wait_dead(1)
    [letter] = fleet.queue.dead(10)
    assert b'"hanging"' in letter.body
    assert b"a-0" not in letter.body
    assert letter.deaths == 6
    assert set(fleet.exported().values()) == {1}
    assert fleet.judged()["hanging"] == 6


def test_what_cannot_be_read_is_dead_at_once_and_its_neighbours_are_scored(fleet):
    fleet.sender.send(b"\xff not json", count=1)
    fleet.send("a", "unreadable", "b")
    assert fleet.start("--once").wait(60) == 0
    assert fleet.exported() == {"a": 1, "b": 1}
    assert [(one.reason, one.deaths) for one in fleet.queue.dead(10)] == [
        ("a newer version wrote it", 0),
        ("unreadable", 0),
    ]


def test_what_others_wrote_is_dead_at_once_and_not_printed(fleet):
    address = BrokerAddress.of(fleet.url)
    strange = [
        ("application/json", {}),
        ("application/x-python-serialize", {"task": "x", "id": "1"}),
        ("text/plain", {"task": "ragmeter.score", "id": "1"}),
        ("application/x-ragmeter-json-z", {"task": ["x"], "id": "1"}),
        ("application/x-ragmeter-json-z", {"task": "x", "id": "1"}),
    ]
    with reachable(address) as channel:
        for kind, headers in strange:
            made = amqp.Message(b'{"SECRET": 1}', content_type=kind, application_headers=headers)
            channel.basic_publish(made, routing_key=address.queue, confirm_timeout=CONFIRM_S)
    fleet.send("a")
    assert fleet.start("--once").wait(60) == 0
    assert fleet.exported() == {"a": 1}
    assert counted(fleet) == (0, len(strange))
    assert "SECRET" not in fleet.log.read_text()


def test_headers_of_others_neither_put_a_message_off_nor_give_it_a_time_limit(fleet):
    address = BrokerAddress.of(fleet.url)
    with reachable(address) as channel:
        made = amqp.Message(
            b'{"ids": ["a"], "s": 0}',
            content_type="application/x-ragmeter-json-z",
            content_encoding="binary",
            application_headers={
                "task": "ragmeter.score",
                "id": "1",
                "eta": "2999-01-01T00:00:00+00:00",
                "expires": "1999-01-01T00:00:00+00:00",
                "timelimit": [0.001, 0.001],
                "argsrepr": "SECRET",
            },
        )
        channel.basic_publish(made, routing_key=address.queue, confirm_timeout=CONFIRM_S)
    assert fleet.start("--once").wait(60) == 0
    assert fleet.exported() == {"a": 1}
    assert "SECRET" not in fleet.log.read_text()


@pytest.mark.parametrize(
    "whom", ["the worker", pytest.param("all of its processes", marks=pytest.mark.long_form)]
)
def test_a_worker_that_is_told_to_end_finishes_its_message_and_leaves_the_rest(fleet, whom):
    worker = fleet.start()
    for name in ("held", "b", "c"):
        fleet.send(*ids(name))
    fleet.wait_judged(BATCH)
    (os.killpg if whom == "all of its processes" else os.kill)(worker.pid, signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in fleet.log.read_text(), 60)
    fleet.gate.touch()
    assert worker.wait(60) == 0
    done, (waiting, dead) = fleet.exported(), counted(fleet)
    assert set(ids("held")) <= set(done)
    assert set(done.values()) == {1}
    assert (len(done) + waiting * BATCH, dead) == (3 * BATCH, 0)
    assert fleet.judged() == done
    assert fleet.start("--once").wait(60) == 0
    assert fleet.exported() == {one: 1 for name in ("held", "b", "c") for one in ids(name)}


@pytest.mark.long_form
def test_a_message_that_is_to_come_back_does_so_and_is_not_dead_of_it(fleet):
    fleet.start()
    fleet.send("later", "a")
    fleet.wait_judged(4)  # the second time it was there
    fleet.gate.touch()
    fleet.wait_exported("later", "a")
    assert counted(fleet) == (0, 0)


def test_sender_and_workers_go_on_when_the_broker_was_killed_and_what_waited_is_there(broker, fleet):
    worker = fleet.start()
    fleet.send(*ids("a"))
    fleet.wait_exported(*ids("a"))
    fleet.send(*ids("held"))
    fleet.wait_judged(2 * BATCH)
    fleet.send(*ids("b"))
    fleet.send(*ids("c"))
    broker.kill()
    with pytest.raises(TransportDownError):
        fleet.sender.send(b"nowhere", count=1)
    broker.start()
    fleet.send(*ids("d"))
    fleet.gate.touch()
    everything = [one for name in ("a", "held", "b", "c", "d") for one in ids(name)]
    fleet.wait_exported(*everything, timeout_s=120)
    assert set(fleet.exported()) == set(everything)
    assert fleet.drain(worker) == 0
    assert fleet.queue.status().dead == 0


@pytest.mark.long_form
def test_variables_of_another_celery_application_do_not_reach_ours(fleet):
    fleet.send("a")
    elsewhere = {"CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "CELERY_RESULT_BACKEND": "redis://127.0.0.1:1"}
    assert fleet.start("--once", **elsewhere).wait(60) == 0
    assert fleet.exported() == {"a": 1}


@pytest.mark.long_form
def test_the_password_is_in_no_line_of_the_log(broker, fleet):
    broker.ctl("add_user", "worker", "hunter2")
    broker.ctl("set_permissions", "worker", ".*", ".*", ".*")
    fleet.url = fleet.url.replace("guest:guest", "worker:hunter2")
    fleet.send("poison")
    worker = fleet.start()
    fleet.wait_judged(1)
    fleet.wait_dead(1)
    assert fleet.drain(worker) == 0
    assert "hunter2" not in fleet.log.read_text()
