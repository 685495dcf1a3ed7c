"""Worker queues: bounded, ordered, never blocking, always accounted for."""

import gc
import os
import threading
from collections import deque

import pytest
from at_once import at_once
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

from ragmeter._runtime import queue as queue_module
from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter._runtime.queue import WorkerQueue
from ragmeter.metrics._process import fork


def _queue(work, dropped=None, **limits):
    dropped = [] if dropped is None else dropped
    bounds = {"max_items": 10, "max_bytes": 1_000_000, **limits}
    return WorkerQueue(
        "test",
        work,
        guard=Guard("test", ErrorLog()),
        on_drop=lambda item, reason: dropped.append((item, reason)),
        **bounds,
    )


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    max_items=st.integers(1, 8),
    max_bytes=st.integers(1, 120),
    max_batch=st.integers(1, 5),
)
def test_every_item_is_worked_or_dropped_once_and_in_order(sizes, max_items, max_bytes, max_batch):
    worked, dropped = [], []
    start = threading.Event()

    def work(batch):
        start.wait(60)
        assert 1 <= len(batch) <= max_batch
        worked.extend(batch)

    queue = _queue(work, dropped, max_items=max_items, max_bytes=max_bytes, max_batch=max_batch)
    for number, size in enumerate(sizes):
        queue.put(number, size)
        assert len(queue) <= max_items
    start.set()

    assert queue.flush(60)
    gone = [item for item, _ in dropped]
    assert sorted(worked + gone) == list(range(len(sizes)))
    assert worked == sorted(worked)
    assert gone == sorted(gone)
    assert queue.size_bytes == 0
    queue.close(1)


def test_concurrent_puts_lose_nothing():
    worked = []
    queue = _queue(worked.extend, max_items=100_000, max_batch=64)
    at_once(lambda n: [queue.put((n, i)) for i in range(500)], range(8))

    assert queue.flush(60)
    assert len(worked) == len(set(worked)) == 4_000
    queue.close(1)


def test_a_queue_that_is_never_empty_is_flushed_of_what_had_come():
    worked = []

    def work(batch):
        worked.extend(batch)
        queue.put(batch[-1] + 1)  # under load something always waits

    queue = _queue(work)
    queue.put(0)
    for number in range(20):
        assert queue.flush(60)
        assert len(worked) >= number
    queue.close(0.0)


def test_an_errand_is_done_after_what_is_taken_out_while_it_is_asked_for():
    started, go, seen = threading.Semaphore(0), threading.Semaphore(0), []

    def work(batch):
        started.release()
        go.acquire()
        seen.extend(batch)

    class Overtaken(deque):
        """Before the asking thread learns how many wait, the worker takes its next batch."""

        def __len__(self):
            if threading.current_thread() is threading.main_thread():
                go.release()
                assert started.acquire(timeout=60)
            return super().__len__()

    queue = _queue(work, max_batch=2)
    queue.put(0)
    assert started.acquire(timeout=60)
    for number in (1, 2, 3):
        queue.put(number)
    queue._items = Overtaken(queue._items)
    assert queue.errand(lambda: seen.append("errand"))
    queue._items = deque(queue._items)
    go.release(10)
    assert queue.flush(60)
    queue.close(60)
    assert seen == [0, 1, 2, 3, "errand"]


@pytest.mark.contains_errors
def test_work_that_raises_does_not_stop_the_lane():
    worked = []

    def work(batch):
        if batch == [1]:
            raise ValueError("one")
        worked.extend(batch)

    queue = _queue(work)
    for number in range(3):
        queue.put(number)

    assert queue.flush(60)
    assert worked == [0, 2]
    queue.close(1)


def test_a_put_from_within_whatever_the_lane_is_at_does_not_deadlock():
    """The garbage collector may run a finalizer that puts, on any thread, at any time."""
    worked = []
    queue = _queue(worked.extend, max_items=100_000)
    finalized = [0]

    class Abandoned:
        def __del__(self):
            finalized[0] += 1
            queue.put("finalized")

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(300):
            cycle = Abandoned()
            cycle.self = cycle
            del cycle
            queue.put("put")
    finally:
        gc.set_threshold(*threshold)

    def all_finalized():
        gc.collect()  # which does nothing while another thread collects
        return finalized[0] == 300

    until(all_finalized)
    assert queue.flush(30)

    assert sorted(worked) == ["finalized"] * 300 + ["put"] * 300
    queue.close(1)


def test_a_worker_without_work_ends_and_what_comes_later_is_done_all_the_same(monkeypatch):
    """Where it ends after each item, so that items and errands also come while it ends."""
    monkeypatch.setattr(queue_module, "IDLE_S", 0.0)
    worked, errands = [], []
    queue = _queue(worked.extend, max_items=1_000)
    for number in range(500):
        queue.put(number)
        if number % 5 == 0:
            assert queue.errand(lambda number=number: errands.append(number)) is not None
        if number % 50 == 0:
            assert queue.flush(30)
    assert queue.flush(30)
    while queue.is_alive:
        threading.Event().wait(0.001)

    assert worked == list(range(500))
    assert errands == list(range(0, 500, 5))
    queue.put("last")
    assert queue.flush(30)
    assert worked[-1] == "last"
    queue.close(1)


def test_a_first_put_below_the_locks_of_threading_starts_a_worker_all_the_same():
    """`threading` holds a lock of its own while it starts or lists threads; a finalizer may run there."""
    worked = []
    queue = _queue(worked.extend)

    with threading._active_limbo_lock:
        queue.put("first")

    assert queue.flush(30)
    assert worked == ["first"]
    queue.close(1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lane_whose_thread_died_starts_another():
    """Whether the next item comes before, while or after the thread ends."""
    others = set(threading.enumerate())
    worked = []

    def work(batch):
        if batch == ["die"]:
            raise SystemExit
        worked.extend(batch)

    queue = _queue(work, max_items=200)
    for _ in range(50):
        queue.put("die")
        queue.put("alive")

    assert queue.flush(60)
    assert worked == ["alive"] * 50
    queue.close(1)
    for thread in set(threading.enumerate()) - others:
        thread.join(60)


def test_closing_drops_what_is_left_and_says_so():
    dropped = []
    gate, at_work = threading.Event(), threading.Event()

    def work(batch):
        at_work.set()
        gate.wait(60)

    queue = _queue(work, dropped)
    for number in range(3):
        queue.put(number)
    assert at_work.wait(60)

    assert queue.close(0.05) is False
    queue.put(3)
    gate.set()

    assert dropped == [(1, "shutdown"), (2, "shutdown"), (3, "shutdown")]


def test_the_tick_runs_while_idle():
    ticked = threading.Event()
    calls = []

    def tick():
        calls.append(1)
        if len(calls) > 3:
            ticked.set()
            return None
        return 0.01

    queue = _queue(lambda batch: None, tick=tick)
    queue.put("start")

    assert ticked.wait(60)
    queue.close(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_comes_between_two_batches(monkeypatch):
    """In the middle of one the worker may hold a lock, for which the child would wait for ever."""
    monkeypatch.setattr(fork, "PATIENCE_S", 60.0)
    at_work, go, seen = threading.Event(), threading.Event(), []

    def work(batch):
        at_work.set()
        go.wait(60)
        seen.append("worked")

    def forks():
        child = os.fork()
        if not child:
            os._exit(0)
        seen.append("forked")
        os.waitpid(child, 0)

    queue = _queue(work)
    queue.put(1)
    assert at_work.wait(60)
    forking = threading.Thread(target=forks)
    forking.start()
    until(lambda: queue._gate._forking)
    go.set()
    forking.join(60)
    assert seen == ["worked", "forked"]
    assert queue.flush(60)
    queue.close(1)
