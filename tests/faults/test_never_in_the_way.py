"""What a host must never notice: collections inside our windows, its own signals, its last thread."""

import os
import signal
import textwrap
import threading
from pathlib import Path

import pytest
from at_once import at_once
from python_process import run_python

from ragmeter import RagMeter
from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample

TESTS = Path(__file__).resolve().parent.parent
HERE = Path(__file__).parent
PREAMBLE = """
import faulthandler, gc, os, sys, threading
faulthandler.dump_traceback_later(60, exit=True)
from ragmeter import RagMeter
from ragmeter.metrics import RagSample, metric
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import UnbufferedExporter
SAMPLE = RagSample(question="q", contexts=["a"])
@metric
def one(sample):
    return 1.0
class Abandoned:
    '''A stream nobody read to its end: what the collector finds ends its request.'''
    def __init__(self, *meters):
        self.meters = meters
        self.itself = self
    def __del__(self):
        for meter in self.meters:
            meter.submit(SAMPLE)
"""


def python(body, *arguments, timeout=90, **environment):
    return run_python(
        "-c",
        PREAMBLE + textwrap.dedent(body),
        *arguments,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(HERE)]), **environment},
        timeout=timeout,
    )


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_collections_at_every_allocation_while_a_first_request_starts_the_threads(scoring):
    """Abandoned requests of two meters end on whatever thread collects: nobody waits for ever."""
    done = python(
        f"""
        rounds = 12 if {scoring!r} == "thread" else 3
        for _ in range(rounds):
            exporters = [InMemoryExporter(), InMemoryExporter()]
            meters = [
                RagMeter(metrics=[], exporters=[e], scoring={scoring!r}) for e in exporters
            ]
            before = set(threading.enumerate())
            gc.disable()
            for _ in range(200):
                Abandoned(*meters)
            gc.set_threshold(1, 1, 1)
            gc.enable()
            for meter in meters:
                meter.submit(SAMPLE)
            gc.set_threshold(700, 10, 10)
            gc.collect()
            for meter, exporter in zip(meters, exporters):
                assert meter.flush(30)
                stats = meter.stats()
                assert stats.captured == stats.exported == len(exporter.results) == 201, stats
            names = [t.name for t in threading.enumerate() if t not in before]
            assert names.count("ragmeter-scoring") == 2, names
            for meter in meters:
                meter.shutdown(60)
        """
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_first_request_below_any_lock_of_threading_returns():
    """A collection inside `threading.enumerate` ends a request: starting threads takes the same lock."""
    done = python(
        """
        exporter = InMemoryExporter()
        meter = RagMeter(metrics=[one], exporters=[exporter])
        with threading._active_limbo_lock:
            meter.submit(SAMPLE)
        assert meter.flush(30)
        assert len(exporter.results) == 1
        """
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_eight_first_requests_at_once_start_one_thread_of_each():
    for _ in range(10):
        before = set(threading.enumerate())
        exporter = InMemoryExporter()
        meter = RagMeter(metrics=["retrieval_health"], exporters=[exporter])
        gate = threading.Barrier(8)

        def ask(sample, gate=gate, meter=meter):
            gate.wait(30)
            meter.submit(sample)

        at_once(ask, [RagSample(question="q", contexts=["a"])] * 8)
        assert meter.flush(30)

        ours = sorted(
            t.name for t in threading.enumerate() if t not in before and t.name.startswith("ragmeter")
        )
        assert ours == ["ragmeter-export-InMemoryExporter", "ragmeter-scoring"]
        assert len(exporter.results) == 8
        meter.shutdown(60)


def test_a_signal_handler_may_ask_flush_and_shut_down_whatever_it_interrupts():
    """A SIGTERM handler that flushes runs on top of a request, below it whatever lock that holds."""
    done = python(
        """
        import signal
        exporter = InMemoryExporter()
        meter = RagMeter(metrics=[one], exporters=[exporter])
        handled, inside = [], []
        def handler(signum, frame):
            if inside:
                return
            inside.append(1)
            handled.append(1)
            meter.submit(SAMPLE)
            meter.stats()
            if len(handled) % 25 == 0:
                assert meter.flush(30)
            inside.clear()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        asked = 0
        while len(handled) < 100:
            meter.submit(SAMPLE)
            meter.stats()
            asked += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert meter.flush(30)
        stats = meter.stats()
        assert stats.captured == asked + len(handled)
        assert stats.captured == stats.exported + sum(stats.dropped.values())
        signal.signal(signal.SIGALRM, lambda signum, frame: meter.shutdown(60))
        signal.raise_signal(signal.SIGALRM)
        meter.shutdown(60)
        """
    )

    assert (done.returncode, done.stderr) == (0, "")


class SoftTimeLimitExceeded(Exception):  # noqa: N818 -- as task queues call it
    """A time limit of the host."""


class Limits:
    """Time limits as an object's method, with arguments in odd places."""

    def method(self, signum, frame):
        raise SoftTimeLimitExceeded

    def anything(self, *given):
        self.deeper(given)

    def deeper(self, given):
        raise SoftTimeLimitExceeded

    def once(self, signum, frame):
        signal.signal(signum, signal.SIG_DFL)
        raise SoftTimeLimitExceeded


def plain(signum, frame):
    raise SoftTimeLimitExceeded


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no SIGALRM on this platform")
@pytest.mark.parametrize(
    "handler", [plain, Limits().method, Limits().anything, Limits().once, lambda *given: Limits().deeper(1)]
)
def test_what_a_signal_handler_raises_passes_the_guard(handler):
    log = ErrorLog()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(SoftTimeLimitExceeded), Guard("here", log):
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert log.counts == {}


@pytest.mark.contains_errors
def test_what_code_of_ours_raises_below_or_beside_a_handler_is_contained():
    """An error in a request that a handler makes is ours; so is one of a function with numbers."""
    log = ErrorLog()

    def ordinary(number, frame):
        raise ValueError(number, frame)

    def handler(signum, frame):
        with Guard("inside", log):
            raise ValueError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.raise_signal(signal.SIGALRM)
        with Guard("outside", log):
            ordinary(14, object())
    finally:
        signal.signal(signal.SIGALRM, before)

    assert log.counts == {"inside": 1, "outside": 1}


def test_a_first_request_after_the_main_thread_has_ended_is_scored():
    """Since Python 3.12 no thread can be started then: whoever asks does the work."""
    done = python(
        """
        class Printing(UnbufferedExporter):
            def export(self, batch):
                os.write(1, b"exported\\n" * len(batch))
        meter = RagMeter(metrics=[one], exporters=[Printing()])
        def late():
            threading.main_thread().join()
            meter.submit(SAMPLE)
            with meter.request("q") as request:
                request.retrieved(["a"])
        threading.Thread(target=late).start()
        """
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "exported\n" * 2, "")
