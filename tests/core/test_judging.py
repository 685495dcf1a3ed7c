"""The judge's loop ends once, whoever tells it to and however early."""

import threading

from ragmeter.guard import ErrorLog, Guard
from ragmeter.judging import JudgeLoop


def _loop(log):
    return JudgeLoop(
        None, guard=Guard("meter.judge", log), concurrency=1, max_backlog=1, deadline_s=1
    )


def _alive():
    return [thread for thread in threading.enumerate() if thread.name == "ragmeter-judge"]


def test_closed_by_several_at_once():
    log = ErrorLog()
    for _ in range(60):
        loop = _loop(log)
        loop.start()
        closing = [threading.Thread(target=loop.close, args=(0.0,)) for _ in range(4)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(30)

    assert log.counts == {}


def test_closed_before_it_was_up():
    """Its thread starts, finds that all is over, and ends."""
    before = _alive()
    for _ in range(20):
        loop = _loop(ErrorLog())
        loop.start()
        loop.close(0.0)
    for thread in _alive():
        if thread not in before:
            thread.join(10)

    assert [thread for thread in _alive() if thread not in before] == []
