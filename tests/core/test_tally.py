"""Counters stay right when Ctrl-C comes between any two lines of theirs."""

import sys
import threading
from itertools import count
from pathlib import Path

import pytest
from fakes_worker import EchoJudge

import ragmeter
from ragmeter import Limits, RagMeter
from ragmeter._runtime.stats import Tally
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample, metric


class Interrupting:
    """Raises KeyboardInterrupt at the so-manyth moment within the block: before a line, after a call into C.

    Args:
        moment: Which, from 1.
        files: What the names of the files end with whose moments count.
        folder: What they have in them; `threading` counts, too, where that is not everything.
        lines: Whether those before a line count. Python itself looks for signals as a function begins and after
            a call into C, and so never between a call and the `finally` that stands around it.

    Attributes:
        struck: The file in which it was raised; None: there are not so many moments.
    """

    def __init__(self, moment, files, folder="/", *, lines=True):
        self.left, self.files, self.folder, self.lines = moment, files, folder, lines
        self.struck = None

    def __enter__(self):
        self.before = sys.gettrace(), sys.getprofile()
        sys.settrace(self)
        sys.setprofile(self._called)
        return self

    def __exit__(self, kind, *_):
        trace, profile = self.before
        sys.settrace(trace)
        sys.setprofile(profile)
        return kind is KeyboardInterrupt

    def __call__(self, frame, event, _):
        if event == ("line" if self.lines else "call"):
            self._look(frame)
        return self

    def _called(self, frame, event, _):
        if event == "c_return":
            self._look(frame)

    def _look(self, frame):
        name = frame.f_code.co_filename
        if frame.f_code.co_name == "<lambda>":  # what a weak reference calls: there Python goes on
            return
        if name.endswith(self.files) and (self.folder in name or name == threading.__file__):
            self.left -= 1
            if self.left == 0:
                self.struck = name
                raise KeyboardInterrupt


@pytest.mark.parametrize("line", range(1, 70))
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


def test_no_interrupt_keeps_the_turn_of_who_works_something_in():
    for moment in count(1):
        tally = Tally()
        with Interrupting(moment, "stats.py", lines=False) as one:
            tally.add(("ours", 1))
            tally.counts()
        assert not tally._lock.locked(), moment
        if one.struck is None:
            break
    assert moment > 5


PARTS = {"flush": lambda meter: meter.flush(0.0), "a flush that waits": lambda meter: meter.flush(60)}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_no_interrupt_within_a_flush_leaves_a_request_in_flight_for_good(scoring, part):
    """Requests are held for the judge then, and a flush without time lets them go."""
    exporter = InMemoryExporter()
    meter = RagMeter(
        metrics=["context_utilization"],
        judge=EchoJudge(),
        exporters=[exporter],
        scoring=scoring,
        limits=Limits(hold_s=60),
    )
    ours = str(Path(ragmeter.__file__).parent)
    struck = set()
    for moment in count(1):
        meter.submit(RagSample(question="q", contexts=["a"], answer="a"))
        with Interrupting(moment, ".py", ours, lines=False) as one:
            PARTS[part](meter)
        assert meter.flush(20), (moment, one.struck)
        if one.struck is None:
            break
        struck.add(Path(one.struck).name)
    assert {"pipeline.py", "queue.py", "exporting.py"} <= struck
    stats = meter.stats()
    assert (stats.in_flight, stats.dropped, stats.exported) == (0, {}, moment)
    meter.shutdown(60)


def test_an_interrupted_shutdown_is_taken_up_by_the_next():
    struck = set()
    for moment in count(1):
        exporter = InMemoryExporter()
        meter = RagMeter(metrics=["retrieval_health"], exporters=[exporter])
        meter.submit(RagSample(question="q", contexts=["a"]))
        with Interrupting(moment, ".py", str(Path(ragmeter.__file__).parent), lines=False) as one:
            meter.shutdown(60)
        meter.shutdown(60)
        stats = meter.stats()
        assert stats.in_flight == 0, (moment, one.struck, stats)
        assert stats.captured == stats.exported + sum(stats.dropped.values())
        assert meter.port.pipeline._queue._closed
        if one.struck is None:
            break
        struck.add(Path(one.struck).name)
    assert {"pipeline.py", "queue.py", "exporting.py", "meter.py"} <= struck


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_a_request_that_is_interrupted_anywhere_while_it_is_offered_is_not_in_flight_for_good(scoring):
    """At each line of ragmeter's and after each call into C, which is where Python looks for signals."""
    exporter = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[exporter], scoring=scoring)
    meter.submit(RagSample(question="before", contexts=["a"]))
    struck = set()
    for moment in count(1):
        with Interrupting(moment, ".py", str(Path(ragmeter.__file__).parent)) as one:
            meter.submit(RagSample(question="q", contexts=["a"]))
        if one.struck is None:
            break
        struck.add(one.struck)
        assert meter.flush(60), moment  # also where nobody was told that something has come
    assert {"_port.py", "queue.py"} <= {Path(path).name for path in struck}
    assert meter.flush(60)
    stats = meter.stats()
    assert (stats.in_flight, stats.dropped) == (0, {})
    assert len(exporter.results) == stats.exported == stats.captured
    assert 2 <= stats.captured <= moment + 1
    meter.shutdown(60)


def test_an_interrupt_while_the_oldest_is_dropped_loses_none():
    """What makes room is in the queue, dropped, or with the worker, whichever step Ctrl-C comes at; and there is room again."""
    reached, go = threading.Event(), threading.Event()

    @metric
    def slow(sample):
        reached.set()
        go.wait(60)
        return 1.0

    exporter = InMemoryExporter()
    meter = RagMeter(metrics=[slow], exporters=[exporter], limits=Limits(queue_size=1))
    sample = RagSample(question="q", contexts=["a"])
    meter.submit(sample)
    assert reached.wait(60)
    meter.submit(sample)
    struck = set()
    for moment in count(1):
        with Interrupting(moment, ("queue.py", "pipeline.py", "stats.py")) as one:
            meter.submit(sample)
        if one.struck is None:
            break
        struck.add(Path(one.struck).name)
        meter.submit(sample)
        stats = meter.stats()
        assert (stats.in_flight, stats.queue_size) == (2, 1), moment
    assert struck == {"queue.py", "pipeline.py", "stats.py"}
    go.set()
    assert meter.flush(60)
    stats = meter.stats()
    assert (stats.in_flight, stats.exported) == (0, 2)
    assert stats.captured == stats.dropped["queue_full"] + 2
    meter.shutdown(60)
