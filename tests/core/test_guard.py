"""The one guard: Exception only, counted, logged once a minute."""

import asyncio
import logging
import signal
import sys

import pytest

from ragmeter._runtime.guard import REPEAT_AFTER_S, ErrorLog, Guard

pytestmark = pytest.mark.contains_errors


def test_exceptions_are_contained_and_counted():
    log = ErrorLog()
    guard = Guard("here", log)

    for _ in range(3):
        with guard:
            raise ValueError("no")

    assert log.counts == {"here": 3}


def test_a_guard_contains_what_was_caught_without_its_block():
    log = ErrorLog()

    assert Guard("here", log).contains(ValueError("no"))

    assert log.counts == {"here": 1}


def test_what_a_signal_handler_raised_is_to_be_raised_again():
    log = ErrorLog()

    def handler(number, frame):
        raise TimeoutError

    try:
        handler(signal.SIGINT, sys._getframe())  # as Python calls it, with the frame it interrupts
    except TimeoutError as error:
        contained = Guard("here", log).contains(error)

    assert not contained
    assert log.counts == {}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_base_exceptions_pass_through(kind):
    log = ErrorLog()

    with pytest.raises(kind), Guard("here", log):
        raise kind

    assert log.counts == {}


def test_the_same_kind_is_logged_once_a_minute(caplog):
    now = [0.0]
    log = ErrorLog(clock=lambda: now[0])
    guard = Guard("here", log)

    def fail(times):
        for _ in range(times):
            with guard:
                raise ValueError("no")

    with caplog.at_level(logging.ERROR, "ragmeter"):
        fail(100)
        assert len(caplog.records) == 1
        now[0] = REPEAT_AFTER_S + 1
        fail(100)
        assert len(caplog.records) == 2
        with guard:
            raise KeyError("another kind")
        assert len(caplog.records) == 3

    assert "Your application is not affected" in caplog.records[0].message
    assert log.counts == {"here": 201}


def test_guards_are_reentrant():
    log = ErrorLog()
    guard = Guard("here", log)

    with guard, guard:
        raise ValueError("inner")

    assert log.counts == {"here": 1}


def test_logging_that_raises_is_contained_and_counted_too():
    """As it does once standard error is closed: the error would reach the request, or end a thread of ours."""

    class Closed(logging.Handler):
        def emit(self, record):
            raise ValueError("I/O operation on closed file")

    log = ErrorLog()
    handler = Closed()
    logger = logging.getLogger("ragmeter")
    logger.addHandler(handler)
    try:
        with Guard("here", log):
            raise TypeError("no")
    finally:
        logger.removeHandler(handler)

    assert log.counts == {"here": 1, "logging": 1}


def test_a_traceback_keeps_its_lines_and_names_of_others_begin_none(caplog):
    """Forty frames, longer than any line that is logged, one of them of code whose file is called as a log line."""
    names = {}
    exec(compile("def fail():\n    raise ValueError", "<page\nERROR all is lost\x1b[2J>", "exec"), names)

    def deeper(left):
        return deeper(left - 1) if left else names["fail"]()

    with caplog.at_level(logging.DEBUG, "ragmeter"), Guard("test", ErrorLog()):
        deeper(40)

    lines = caplog.records[-1].getMessage().split("\n")
    assert lines[0] == "ValueError in test was raised here:"
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith(f'  File "{__file__}"') for line in lines) == 42
    assert lines.count('    return deeper(left - 1) if left else names["fail"]()') == 41
    assert not any(line.startswith("ERROR") for line in lines)
    assert "all is lost" in lines[-2]
