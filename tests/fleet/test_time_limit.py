"""What hangs ends its process, and what does not goes on."""

import os
import signal
import time

import pytest

from ragmeter.fleet._time_limit import ENDED_BY, at_most

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="worker processes are forked")


def in_a_child(work):
    child = os.fork()
    if not child:
        ended = 1
        try:
            work()
            ended = 0
        finally:
            os._exit(ended)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_takes_too_long_ends_its_process():
    def hang():
        with at_most(0.1):
            time.sleep(3600)

    assert in_a_child(hang) == -ENDED_BY


def test_what_is_done_in_time_leaves_nothing_behind():
    def work():
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        with at_most(3600):
            pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.signal(signal.SIGALRM, before) is not signal.SIG_DFL

    assert in_a_child(work) == 0


def test_without_a_limit_nothing_is_set():
    def work():  # in a child: a test has an alarm of its own
        with at_most(None):
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

    assert in_a_child(work) == 0
