"""The circuit breaker: closed, open, half-open."""

import logging

import pytest
from moved_clock import MovedClock

from ragmeter.metrics.judge import JudgeError
from ragmeter.metrics.judge.breaker import CircuitBreaker


@pytest.fixture
def clock():
    return MovedClock()


@pytest.fixture
def breaker(clock):
    return CircuitBreaker("m at h", threshold=3, pause_s=30, clock=clock)


def refused(breaker):
    try:
        breaker.admit()
    except JudgeError as error:
        return error.error_type
    return None


def test_it_opens_after_failures_in_a_row_only(breaker):
    for _ in range(5):
        breaker.record_failure("server_error", "500")
        breaker.record_failure("server_error", "500")
        breaker.record_success()
    assert refused(breaker) is None

    for _ in range(3):
        breaker.record_failure("server_error", "500")
    assert refused(breaker) == "server_error"


def test_a_refusal_opens_it_at_once(breaker):
    breaker.record_failure("authentication", "401", fatal=True)

    assert refused(breaker) == "authentication"


def test_one_probe_decides(breaker, clock):
    """After the pause one call goes through; the others wait for its outcome."""
    breaker.record_failure("authentication", "401", fatal=True)
    clock.now = 30

    assert [refused(breaker) for _ in range(3)] == [None, "authentication", "authentication"]
    breaker.record_success()
    assert refused(breaker) is None


def test_a_failed_probe_doubles_the_pause(breaker, clock):
    breaker.record_failure("connection", "down", fatal=True)
    clock.now = 30
    breaker.admit()
    breaker.record_failure("connection", "down")
    clock.now = 60

    assert refused(breaker) == "connection"
    clock.now = 90
    assert refused(breaker) is None


def test_an_abandoned_probe_leaves_room_for_another(breaker, clock):
    breaker.record_failure("connection", "down", fatal=True)
    clock.now = 30
    breaker.admit()
    breaker.record_abandonment()

    assert refused(breaker) is None


def test_calls_that_set_out_before_do_not_count(breaker, clock):
    """Failures of calls under way when it opened do not prolong the pause."""
    breaker.record_failure("connection", "down", fatal=True)
    for _ in range(10):
        breaker.record_failure("connection", "down", fatal=True)
    clock.now = 30

    assert refused(breaker) is None


def test_it_speaks_once_per_cause_and_on_recovery(breaker, clock, caplog):
    with caplog.at_level(logging.DEBUG, logger="ragmeter"):
        breaker.record_failure("connection", "down", fatal=True)
        for step in range(1, 5):
            clock.now = 1000 * step
            breaker.admit()
            breaker.record_failure("connection", "down")
        clock.now = 9999
        breaker.admit()
        breaker.record_success()

    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    breaker.admit()
