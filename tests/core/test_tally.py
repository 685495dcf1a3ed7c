"""Counters stay right when Ctrl-C comes between any two lines of theirs."""

import sys

import pytest

from ragmeter import RagMeter
from ragmeter._runtime.stats import Tally
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample


class Interrupting:
    """Raises KeyboardInterrupt before the so-manyth line of ragmeter's that is run within the block."""

    def __init__(self, line, files):
        self.left, self.files = line, files

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, kind, *_):
        sys.settrace(self.before)
        return kind is KeyboardInterrupt

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("line", range(1, 45))
def test_no_interrupt_loses_or_doubles_what_another_thread_has_counted(line):
    tally = Tally()
    with tally._lock:  # another thread works something in, and this one can only note
        tally.add(("theirs", 1))
    with Interrupting(line, "stats.py"):
        tally.add(("ours", 1))
    before = tally.counts()
    tally.add(("later", 1))
    after = tally.counts()
    assert (after["theirs"], after["later"]) == (1, 1)
    assert before["ours"] == after["ours"] <= 1


@pytest.mark.parametrize("line", range(19, 44))
def test_a_request_that_is_interrupted_while_it_is_counted_is_not_in_flight_for_good(line):
    exporter = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[exporter])
    meter.submit(RagSample(question="before", contexts=["a"]))
    with Interrupting(line, ("_port.py", "stats.py")):
        meter.submit(RagSample(question="q", contexts=["a"]))
    assert meter.flush(60)
    stats = meter.stats()
    assert stats.in_flight == 0, line
    assert len(exporter.results) == stats.exported
    meter.shutdown(60)
