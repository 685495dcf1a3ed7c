"""One registration with `os` sees to every fork; what nobody holds leaves nothing behind."""

import asyncio
import gc
import os
import threading

import pytest
from forked import in_child
from python_process import run_python

from ragmeter.metrics._connection.loops import PerLoop
from ragmeter.metrics._process import fork

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


class Diary:
    """Writes down what it is told about forks."""

    def __init__(self, name="", *, failing=False):
        self.entries = []
        self.name = name
        self.failing = failing

    def stop(self):
        self.entries.append(f"{self.name}stop")

    def resume(self):
        self.entries.append(f"{self.name}resume")

    def child(self):
        self.entries.append(f"{self.name}child")
        if self.failing:
            raise ValueError("mine")


IMPORTING = """
import os, signal, sys, threading
from importlib import import_module
import ragmeter.metrics._process.fork

at_it, go_on = threading.Event(), threading.Event()
module, slow, name = sys.argv[1:]

def wait(event, args):  # a finder would wait with the lock that os.fork() takes
    if event == "import" and args[0] == slow and not at_it.is_set():
        at_it.set()
        go_on.wait(60)

sys.addaudithook(wait)
other = threading.Thread(target=import_module, args=[module], name=name)
other.start()
assert at_it.wait(60)
pid = os.fork()
if not pid:
    signal.alarm(30)
    import_module(module)
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
go_on.set()
other.join()
import_module(module)
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("module", "slow", "thread"),
    [
        ("ragmeter.metrics.text.facts", "ragmeter.metrics.text.dates", "theirs"),
        ("csv", "_csv", "ragmeter-scoring"),
    ],
)
def test_an_import_that_another_thread_was_in_the_middle_of_starts_again(module, slow, thread):
    done = run_python("-W", "ignore", "-c", IMPORTING, module, slow, thread)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("make", [fork.lock, fork.reentrant_lock])
def test_a_lock_held_by_another_thread_is_free_in_the_child_and_held_in_the_parent(make):
    lock = make()
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(lambda: lock.acquire(blocking=False)) == "True"
        assert not lock.acquire(blocking=False)
    finally:
        done.set()
        thread.join()


def test_methods_are_called_on_their_side_of_the_fork():
    diary = Diary()
    fork.pause(diary.stop, diary.resume)
    fork.forget(diary.child)

    assert in_child(lambda: diary.entries) == "['stop', 'child']"
    assert diary.entries == ["stop", "resume"]


def test_the_first_that_came_is_stopped_last_and_resumed_first():
    entries = []
    diaries = [Diary("a "), Diary("b ")]
    for diary in diaries:
        diary.entries = entries
        fork.pause(diary.stop, diary.resume)
        fork.forget(diary.child)

    assert in_child(lambda: entries) == str(["b stop", "a stop", "a child", "b child"])
    assert entries == ["b stop", "a stop", "a resume", "b resume"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_fails_keeps_no_other_from_its_turn(capfd):
    first, second = Diary(failing=True), Diary()
    fork.forget(first.child)
    fork.forget(second.child)

    assert in_child(lambda: second.entries) == "['child']"


def test_what_nobody_holds_is_neither_kept_nor_called():
    entries = []
    gc.collect()
    before = fork.registration_count()
    diary = Diary()
    diary.entries = entries
    lock = fork.lock()
    fork.pause(diary.stop, diary.resume)
    fork.forget(diary.child)
    assert fork.registration_count() == before + 4

    del diary, lock

    assert fork.registration_count() == before
    assert in_child(lambda: entries) == "[]"
    assert entries == []


def test_what_belongs_to_the_parents_loops_is_not_the_childs():
    made = PerLoop(os.getpid)
    loop = asyncio.new_event_loop()

    async def owner():
        return made.here()

    try:
        assert loop.run_until_complete(owner()) == os.getpid()
        assert in_child(lambda: loop.run_until_complete(owner()) == os.getpid()) == "True"
        assert loop.run_until_complete(owner()) == os.getpid()
    finally:
        loop.close()
