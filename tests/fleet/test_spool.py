"""The folder: what was put in comes out once, however the processes around it end."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from forked import in_child

from ragmeter.fleet import _spool_folder
from ragmeter.fleet._spool_folder import SpoolReader, SpoolSender
from ragmeter.fleet.queue import open_queue
from ragmeter.fleet.spool import folder_of
from ragmeter.fleet.transport import TransportDownError, open_sender
from ragmeter.metrics import ConfigurationError

PATIENCE_S = 60.0


_open = ExitStack()


@pytest.fixture(autouse=True)
def _closed():
    with _open:
        yield


def a_sender(folder, **arguments):
    sender = SpoolSender(folder, **arguments)
    _open.callback(sender.close, 1.0)
    return sender


def a_reader(folder):
    reader = SpoolReader(folder)
    _open.callback(reader.close)
    return reader


def drained(folder):
    reader = SpoolReader(folder)
    found = []
    while taken := reader.take():
        found += [one.message for one in taken]
        for one in taken:
            reader.done(one)
    reader.close()
    return found


def files(folder, ending=".messages.db"):
    return sorted(path.name for path in Path(folder).iterdir() if path.name.endswith(ending))


def test_messages_come_out_in_the_order_in_which_they_came(tmp_path):
    sender = open_sender(f"spool://{tmp_path}/queue")
    for number in range(5):
        sender.send(b"%d" % number, count=number + 1)

    found = drained(tmp_path / "queue")

    assert [(one.body, one.requests, one.deaths) for one in found] == [
        (b"%d" % number, number + 1, 0) for number in range(5)
    ]
    sender.close(1.0)
    assert list((tmp_path / "queue").iterdir()) == []


def test_texts_are_for_this_user_alone(tmp_path):
    sender = a_sender(tmp_path / "queue")
    sender.send(b"x", count=1)

    assert (tmp_path / "queue").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "queue").iterdir())


def test_what_was_taken_and_not_done_is_free_again_when_its_reader_closes(tmp_path):
    a_sender(tmp_path).send(b"x", count=1)
    reader = a_reader(tmp_path)
    assert [one.message.body for one in reader.take()] == [b"x"]
    other = a_reader(tmp_path)
    assert other.take() == []
    assert other.is_drained  # the reader lives
    assert not other.is_empty

    reader.close()

    (again,) = other.take()
    assert (again.message.body, again.message.deaths) == (b"x", 0)


KILLED_READER = """
import os, sys, pathlib
from ragmeter.fleet._spool_folder import SpoolReader
reader = SpoolReader(pathlib.Path(sys.argv[1]))
print(len(reader.take()), flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_reader_had_is_free_again_with_one_more_death(tmp_path):
    a_sender(tmp_path).send(b"x", count=1)
    for deaths in (1, 2):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED_READER, str(tmp_path)],
            check=False,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        assert (ended.stdout, ended.returncode) == (b"1\n", -signal.SIGKILL)
        reader = a_reader(tmp_path)
        assert not reader.is_drained
        (again,) = reader.take()
        assert (again.message.body, again.message.deaths) == (b"x", deaths)
        reader.close()
    assert files(tmp_path, ".lock") == [name for name in files(tmp_path, ".lock") if "reader" not in name]


KILLED_WRITER = """
import os, sys, pathlib
from ragmeter.fleet._spool_folder import SpoolSender
sender = SpoolSender(pathlib.Path(sys.argv[1]))
number = 0
while True:
    sender.send(b"%d" % number, count=1)
    number += 1
    print(number, flush=True)
"""


@pytest.mark.parametrize("after", [1, 7, 40])
def test_what_a_killed_process_had_sent_is_there(tmp_path, after):
    """Killed at any moment: everything that `send` returned for is read, and its file goes away."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        sent = 0
        while sent < after:
            sent = int(writer.stdout.readline())
        writer.kill()
        sent = max([sent, *(int(line) for line in writer.stdout.read().splitlines() if line)])

    found = [int(one.body) for one in drained(tmp_path)]

    assert found == list(range(len(found)))
    assert len(found) in (sent, sent + 1)  # the last may have been kept before it could be told
    assert files(tmp_path) == []


def test_a_file_whose_process_lives_stays_when_it_is_empty(tmp_path):
    sender = a_sender(tmp_path)
    sender.send(b"x", count=1)
    assert len(drained(tmp_path)) == 1
    assert len(files(tmp_path)) == 1

    sender.send(b"y", count=1)

    assert [one.body for one in drained(tmp_path)] == [b"y"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_begins_a_file_of_its_own(tmp_path):
    sender = a_sender(tmp_path)
    sender.send(b"parent", count=1)
    in_child(lambda: sender.send(b"child", count=1))
    sender.send(b"parent again", count=1)

    assert len(files(tmp_path)) == 2
    assert sorted(one.body for one in drained(tmp_path)) == [b"child", b"parent", b"parent again"]
    assert len(files(tmp_path)) == 1  # the child's copy of the parent's lock is gone, too, and its own


def test_a_full_folder_refuses_until_something_was_read(tmp_path):
    sender = a_sender(tmp_path, max_bytes=200_000)
    body = os.urandom(20_000)
    sent = 0
    with pytest.raises(TransportDownError, match="as much as may"):
        for _ in range(100):
            sender.send(body, count=1)
            sent += 1
    assert 2 <= sent <= 11

    assert len(drained(tmp_path)) == sent

    sender.send(body, count=1)
    assert len(drained(tmp_path)) == 1


def test_a_damaged_file_is_set_aside_and_stops_nothing(tmp_path, caplog):
    sender = a_sender(tmp_path)
    sender.send(b"good", count=1)
    (tmp_path / "1-strange.messages.db").write_bytes(b"no database at all" * 1000)

    assert [one.body for one in drained(tmp_path)] == [b"good"]

    assert files(tmp_path, ".damaged") == ["1-strange.messages.db.damaged"]
    assert "set aside" in caplog.text


def test_a_process_whose_own_file_is_damaged_begins_another(tmp_path, caplog):
    sender = a_sender(tmp_path)
    sender.send(b"lost", count=1)
    sender._file._database.close()
    (mine,) = files(tmp_path)
    (tmp_path / mine).write_bytes(b"no database at all" * 1000)
    sender._file._database = sqlite3.connect(tmp_path / mine, isolation_level=None, check_same_thread=False)

    with pytest.raises(TransportDownError):
        sender.send(b"kept", count=1)
    sender.send(b"kept", count=1)

    assert [one.body for one in drained(tmp_path)] == [b"kept"]
    assert "set aside" in caplog.text


def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    sender = a_sender(tmp_path)
    sender.send(b"x", count=1)
    sender._file._database.execute("PRAGMA user_version = 99")

    assert drained(tmp_path) == []
    assert len(files(tmp_path)) == 1


def test_a_message_is_replaced_by_those_it_was_split_into(tmp_path):
    a_sender(tmp_path).send(b"both", count=2)
    reader = a_reader(tmp_path)
    (taken,) = reader.take()

    reader.done(taken, (b"one", b"two"))

    assert [(one.message.body, one.message.requests) for one in reader.take(5)] == [(b"one", 1), (b"two", 1)]


@pytest.mark.parametrize(
    "url", ["spool://queue", "spool:queue", "spool:///", "spool://", "spool:///q?x=1", "spool:"]
)
def test_a_url_without_a_folder_says_what_it_looks_like(url):
    with pytest.raises(ConfigurationError, match="three slashes: spool:///"):
        folder_of(url)


def test_a_folder_that_cannot_be_used_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(ConfigurationError, match="cannot be used"):
        open_sender(f"spool://{tmp_path}/file")


def test_dead_letters_are_seen_sent_again_and_deleted(tmp_path):
    queue = open_queue(f"spool://{tmp_path}")
    assert queue.declare(max_bytes=1, dead_ttl_s=1) == ()
    assert (queue.status().waiting, queue.status().dead) == (0, 0)
    assert (queue.dead(5), queue.replay(5), queue.drop(5)) == ([], 0, 0)
    a_sender(tmp_path).send(b"alive", count=2)
    reader = a_reader(tmp_path)
    for number in range(3):
        reader.bury(b"%d" % number, 1, "it kills", 4)

    assert (queue.status().waiting, queue.status().dead) == (1, 3)
    (oldest, *_) = queue.dead(2)
    assert (oldest.body, oldest.reason, oldest.deaths) == (b"0", "it kills", 4)
    assert queue.replay(1) == 1
    assert queue.drop(1) == 1

    assert (queue.status().waiting, queue.status().dead) == (2, 1)
    assert sorted(one.body for one in drained(tmp_path)) == [b"0", b"alive"]
    assert queue.status().waiting == 0


def test_several_who_replay_at_once_send_each_dead_letter_once(tmp_path):
    for number in range(60):
        a_reader(tmp_path).bury(b"%d" % number, 1, "it kills", 4)
    with ThreadPoolExecutor(4) as operators:
        done = [operators.submit(lambda: open_queue(f"spool://{tmp_path}").replay(60)) for _ in range(4)]

    assert sum(one.result() for one in done) == 60
    assert sorted(int(one.body) for one in drained(tmp_path)) == list(range(60))
    assert open_queue(f"spool://{tmp_path}").status().dead == 0


def test_a_dead_letter_that_cannot_be_sent_again_stays(tmp_path, monkeypatch):
    queue = open_queue(f"spool://{tmp_path}")
    for number in range(3):
        a_reader(tmp_path).bury(b"%d" % number, 1, "it kills", 4)
    send, sent = SpoolSender.send, []

    def full(sender, body, *, count):
        if sent:
            raise TransportDownError("full")
        sent.append(body)
        send(sender, body, count=count)

    monkeypatch.setattr(SpoolSender, "send", full)
    with pytest.raises(TransportDownError, match="full"):
        queue.replay(3)

    assert (queue.status().waiting, queue.status().dead) == (1, 2)
    assert [one.body for one in queue.dead(5)] == [b"1", b"2"]


def test_dead_letters_are_forgotten_after_a_week_and_the_oldest_where_they_are_too_many(tmp_path, monkeypatch):
    queue = open_queue(f"spool://{tmp_path}")
    began_ns, now = time.time_ns(), {"days_ago": 0.0}
    monkeypatch.setattr(time, "time_ns", lambda: began_ns - round(now["days_ago"] * 86_400e9))
    for now["days_ago"], body in ((7.1, b"old"), (6.9, b"less old")):
        a_reader(tmp_path).bury(body, 1, "it kills", 4)
    now["days_ago"] = 0.0
    a_reader(tmp_path).bury(b"new", 1, "it kills", 4)
    assert [one.body for one in queue.dead(5)] == [b"less old", b"new"]

    monkeypatch.setattr(_spool_folder, "MAX_BYTES", 50_000)
    for number in range(5):
        a_reader(tmp_path).bury(b"%d" % number * 20_000, 1, "it kills", 4)
    assert [one.body[:1] for one in queue.dead(9)] == [b"4"]


def test_a_folder_that_was_deleted_is_made_again_and_loses_nothing_that_comes_then(tmp_path, caplog):
    folder = tmp_path / "queue"
    sender = a_sender(folder)
    sender.send(b"lost with the folder", count=1)
    shutil.rmtree(folder)
    sender.send(b"first", count=1)
    sender.send(b"second", count=1)
    assert [one.body for one in drained(folder)] == [b"first", b"second"]
    [said] = caplog.messages
    assert "was deleted" in said


def test_a_file_whose_lock_was_deleted_is_left_to_its_readers(tmp_path):
    """They take its process for gone, and may delete what it writes to."""
    sender = a_sender(tmp_path)
    sender.send(b"first", count=1)
    for lock in tmp_path.glob("*.lock"):
        lock.unlink()
    sender.send(b"second", count=1)
    assert len(files(tmp_path, ".messages.db")) == 2
    assert {one.body for one in drained(tmp_path)} == {b"first", b"second"}


def test_readers_of_a_folder_that_was_deleted_still_know_of_each_other(tmp_path):
    """Else each would take what the other has at hand, and count a death of it."""
    folder = tmp_path / "queue"
    sender, first, second = a_sender(folder), a_reader(folder), a_reader(folder)
    shutil.rmtree(folder)
    with pytest.raises(TransportDownError):
        first.take()
    sender.send(b"message", count=1)
    [taken] = first.take()
    assert taken.message.deaths == 0
    assert second.take() == []
    first.done(taken)
    assert second.is_empty


def test_the_last_of_the_disk_is_left_to_those_who_read(tmp_path, monkeypatch):
    """On a disk that is full to the last byte nobody can note that a message is taken, and it stays full."""
    real, left = os.statvfs, []
    monkeypatch.setattr(os, "statvfs", lambda path: left[0] if left else real(path))
    sender = a_sender(tmp_path)
    sender.send(b"message", count=1)
    of_disk = real(tmp_path)
    fields = list(of_disk)
    fields[4] = 2**23 // of_disk.f_frsize  # blocks that are free for all
    left.append(os.statvfs_result(fields))
    with pytest.raises(TransportDownError, match="free on the disk"):
        for _ in range(100):
            sender.send(b"message", count=1)
    left.clear()
    sender.send(b"message", count=1)
    assert drained(tmp_path)


def test_a_folder_that_nobody_has_made_yet_says_who_makes_it(tmp_path):
    with pytest.raises(TransportDownError, match="ragmeter queue declare"):
        open_queue(f"spool://{tmp_path}/none").status()


def test_a_worker_that_is_told_to_end_just_before_it_waits_ends(tmp_path):
    """Its processes were started by then, and are in no list yet: they are told as well."""
    script = f"""
import os, signal
from ragmeter.fleet import spool

starts = spool._ForkedWorkers._start

def start(processes):
    started = starts(processes)
    if len(asked) == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    asked.append(started)
    return started

class Worker:
    def close(self, timeout_s):
        pass

asked = []
spool._ForkedWorkers._start = start
assert spool.run_worker("spool://{tmp_path}", Worker, processes=2)
assert [process.exitcode for process in asked] == [0, 0]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)
