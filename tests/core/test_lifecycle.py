"""Forks, threads and the end of the process."""

import gc
import os
import textwrap
import weakref

import pytest
from fakes_core import context_tally
from python_process import run_python
from waiting import until

from ragmeter import RagMeter
from ragmeter._runtime import queue
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample
from ragmeter.metrics._process import fork

SAMPLE = RagSample(question="q", contexts=["a"])

# Python 3.12 and later warn of a fork beside threads.
FORKING_IS_MEANT = ("-W", "ignore:This process:DeprecationWarning")

PREAMBLE = """
import os, sys, threading, time
from ragmeter import Limits, RagMeter
from ragmeter.exporters.protocol import UnbufferedExporter
from ragmeter.metrics import RagSample, metric
SAMPLE = RagSample(question="q", contexts=["a"])
@metric
def one(sample):
    return 1.0
class Printing(UnbufferedExporter):
    def export(self, batch):
        time.sleep(0.05)
        os.write(1, b"exported\\n" * len(batch))
meter = RagMeter(metrics=[one], exporters=[Printing()], limits=Limits(shutdown_timeout_s=60))
"""


def _python(body):
    return run_python("-I", *FORKING_IS_MEANT, "-c", PREAMBLE + textwrap.dedent(body))


def test_what_was_submitted_last_is_exported_before_the_process_exits():
    done = _python("for _ in range(5): meter.submit(SAMPLE)")

    assert (done.returncode, done.stdout.count("exported"), done.stderr) == (0, 5, "")


def test_providers_configured_after_the_meter_are_still_alive_at_exit():
    done = _python(
        """
        import atexit
        meter.submit(SAMPLE)
        atexit.register(lambda: os.write(1, b"provider shut down\\n"))
        """
    )

    assert done.stdout == "exported\nprovider shut down\n"


def test_an_unhandled_exception_and_sys_exit_still_flush():
    done = _python("meter.submit(SAMPLE)\nraise SystemExit(3)")
    assert (done.returncode, done.stdout) == (3, "exported\n")

    done = _python("meter.submit(SAMPLE)\nraise RuntimeError('app')")
    assert (done.returncode, done.stdout) == (1, "exported\n")
    assert "RuntimeError: app" in done.stderr


def test_exit_never_waits_longer_than_the_deadline():
    done = _python(
        """
        class Hanging(Printing):
            def export(self, batch):
                time.sleep(600)
            def flush(self, timeout_s):
                time.sleep(600)
        stuck = RagMeter(metrics=[one], exporters=[Hanging()], limits=Limits(shutdown_timeout_s=0.2))
        stuck.submit(SAMPLE)
        """
    )

    assert done.returncode == 0


def test_importing_and_building_a_meter_starts_no_thread():
    done = _python("print(threading.active_count())")

    assert done.stdout == "1\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_scores_its_own_requests_and_none_of_its_parents():
    done = _python(
        """
        gate = threading.Event()
        @metric
        def gated(sample):
            gate.wait(30)
            return 1.0
        meter = RagMeter(metrics=[gated], exporters=[Printing()])
        for _ in range(3):
            meter.submit(SAMPLE)
        pid = os.fork()
        gate.set()
        if pid == 0:
            meter.submit(SAMPLE)
            meter.flush(60)
            stats = meter.stats()
            assert stats.exported == 1, stats
            assert stats.dropped.get("fork", 0) == 3, stats
            assert stats.captured == 4, stats
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        meter.flush(60)
        assert meter.stats().exported == 3
        sys.exit(os.waitstatus_to_exitcode(status))
        """
    )

    assert (done.returncode, done.stdout.count("exported"), done.stderr) == (0, 4, "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_flush_at_their_end(tmp_path, method):
    script = tmp_path / "app.py"
    script.write_text(
        PREAMBLE
        + textwrap.dedent(
            f"""
            import multiprocessing
            def work():
                meter.submit(SAMPLE)
            if __name__ == "__main__":
                context = multiprocessing.get_context({method!r})
                children = [context.Process(target=work) for _ in range(2)]
                for child in children: child.start()
                for child in children: child.join()
                meter.submit(SAMPLE)
            """
        ),
        encoding="utf-8",
    )
    done = run_python("-W", "ignore", str(script))

    assert (done.returncode, done.stdout.count("exported"), done.stderr) == (0, 3, "")


def test_meters_do_not_know_of_each_other():
    first, second = InMemoryExporter(), InMemoryExporter()
    one = RagMeter(metrics=[context_tally], exporters=[first])
    two = RagMeter(metrics=[context_tally], exporters=[second])

    one.submit(SAMPLE)
    one.shutdown(60)
    two.submit(SAMPLE)
    two.flush(60)

    assert (len(first.results), len(second.results)) == (1, 1)
    two.shutdown(60)


@pytest.mark.parametrize("shut_down", [True, False])
def test_a_meter_without_references_is_collected(shut_down, monkeypatch):
    """Also where it was never shut down: a script that runs again at every click builds another each time."""
    monkeypatch.setattr(queue, "IDLE_S", 60.0 if shut_down else 0.0)
    meter = RagMeter(metrics=[context_tally], exporters=[InMemoryExporter()])
    meter.submit(SAMPLE)
    assert meter.flush(60)
    if shut_down:
        meter.shutdown(60)
    gone = weakref.ref(meter)
    del meter
    until(lambda: gc.collect() >= 0 and gone() is None)  # its threads may still be on their way out


@pytest.mark.parametrize(("exporter", "count"), [("memory", 2_000), ("opentelemetry", 200)])
def test_dropped_meters_leave_nothing_for_a_fork_to_do(exporter, count):
    def build():
        return RagMeter(exporters=[InMemoryExporter()] if exporter == "memory" else None)

    build()
    gc.collect()
    before = fork.registration_count()

    for _ in range(count):
        build()
    gc.collect()

    assert fork.registration_count() <= before  # other tests may have left something that ended meanwhile
