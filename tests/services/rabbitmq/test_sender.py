"""Publishing to a real broker that is killed, hangs, is full, refuses, and forgets its queues."""

import os
import socket
from contextlib import contextmanager

import pytest

from ragmeter.fleet._rabbitmq._address import BrokerAddress
from ragmeter.fleet._rabbitmq._connection import reachable
from ragmeter.fleet.queue import DEAD_TTL_S, open_queue
from ragmeter.fleet.transport import TransportDownError, open_sender


@contextmanager
def sending(url):
    sender = open_sender(url)
    try:
        yield sender
    finally:
        sender.close(0)


def down(sender):
    with pytest.raises(TransportDownError) as caught:
        sender.send(b"SECRET", count=1)
    assert "SECRET" not in str(caught.value)
    assert "guest:guest" not in str(caught.value)
    return str(caught.value)


def test_a_message_waits_in_the_queue_when_it_is_confirmed(fleet):
    for _ in range(3):
        fleet.send("a")
    assert fleet.queue.status().waiting == 3


def test_the_queues_are_made_by_who_comes_first(broker):
    url = f"{broker.url}?queue=first"
    with sending(url) as sender:
        sender.send(b"1", count=1)
    assert open_queue(url).status().waiting == 1


def test_a_queue_that_is_gone_is_made_again_and_nothing_is_lost(fleet):
    fleet.send("a")
    address = BrokerAddress.of(fleet.url)
    with reachable(address) as channel:
        channel.queue_delete(address.queue)
    fleet.send("b")
    assert fleet.queue.status().waiting == 1


def test_a_connection_that_was_cut_while_idle_costs_no_message(fleet):
    fleet.send("a")
    fleet.sender._connection.transport.sock.shutdown(socket.SHUT_RDWR)
    fleet.send("b")
    assert fleet.queue.status().waiting == 2


def test_a_child_opens_a_connection_of_its_own_and_the_parents_goes_on(fleet):
    fleet.send("parent")
    child = os.fork()
    if not child:
        ended = 1
        try:
            for _ in range(20):
                fleet.send("child")
            ended = 0
        finally:
            os._exit(ended)
    for _ in range(20):
        fleet.send("parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fleet.send("parent")
    assert fleet.queue.status().waiting == 42


def test_a_child_that_ends_as_python_does_leaves_the_parents_connection_alone(fleet):
    fleet.send("parent")
    connection = fleet.sender._connection
    child = os.fork()
    if not child:
        import gc

        fleet.sender._leave_to_parent()
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    fleet.send("parent")
    assert fleet.sender._connection is connection


def test_a_full_queue_refuses_and_takes_again_when_there_is_room(broker):
    url = f"{broker.url}?queue=small"
    queue = open_queue(url)
    assert not queue.declare(max_bytes=1_000_000, dead_ttl_s=DEAD_TTL_S)
    again = queue.declare(max_bytes=2_000_000, dead_ttl_s=DEAD_TTL_S)
    assert again == ("small.dead", "small.score")
    body = os.urandom(400_000)
    accepted = 0
    with sending(url) as sender:
        with pytest.raises(TransportDownError, match="full"):
            while accepted < 50:
                sender.send(body, count=32)
                accepted += 1
        assert queue.status().waiting == accepted
        with reachable(BrokerAddress.of(url)) as channel:
            channel.queue_purge("small.score")
        sender.send(body, count=32)


@pytest.mark.long_form
def test_a_broker_that_has_no_memory_left_ends_the_wait_and_what_it_had_may_come_later(fleet):
    fleet.send("a")
    with sending(fleet.url) as sender, fleet.broker.memory_alarm():
        assert "no answer in time" in down(sender)
        assert "no answer in time" in down(sender)
    fleet.send("b")
    assert 2 <= fleet.queue.status().waiting <= 4


def test_a_broker_that_hangs_ends_the_wait(fleet):
    fleet.send("a")
    with sending(fleet.url) as sender, fleet.broker.paused():
        assert "no answer in time" in down(sender)
        assert "no answer in time" in down(sender)
    fleet.send("b")


def test_who_may_not_in_is_told_so_without_the_password(broker):
    wrong = broker.url.replace("guest:guest", "guest:hunter2")
    with sending(wrong) as sender:
        said = down(sender)
    assert "refuses this user" in said
    assert "hunter2" not in said
    with sending(broker.url[:-1] + "nowhere") as sender:
        assert "virtual host" in down(sender)


@pytest.mark.long_form
def test_a_user_who_may_declare_nothing_publishes_to_queues_that_are_there(broker, fleet):
    broker.ctl("add_user", "publisher", "p")
    broker.ctl("set_permissions", "publisher", "^$", ".*", "^$")
    url = fleet.url.replace("guest:guest", "publisher:p")
    with sending(url) as sender:
        sender.send(b"1", count=1)
    assert fleet.queue.status().waiting == 1
    with sending(url.replace(f"queue={fleet.prefix}", "queue=absent")) as elsewhere:
        down(elsewhere)  # and not confirmed by a broker that has nowhere to put it
