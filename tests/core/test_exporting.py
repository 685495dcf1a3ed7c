"""What exporters hold, lose and delay: counted, bounded by one deadline, side by side."""

import threading

import pytest
from fakes_core import FakeJudge, GatedExporter, GatedMetric, RaisingExporter, answer_length, context_tally
from waiting import until

from ragmeter import Limits, RagMeter, Scoring, TryLaterError
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample

SAMPLE = RagSample(question="q", contexts=["a"])


class Buffering(InMemoryExporter):
    """Takes runs and delivers them when it is flushed, if at all."""

    def __init__(self, works=True):
        super().__init__()
        self.works = works
        self.n_held = 0
        self.shut_down = threading.Event()

    def export(self, batch):
        self.n_held += len(batch)
        super().export(batch)

    @property
    def backlog(self):
        return self.n_held

    def flush(self, timeout_s):
        if self.works:
            self.n_held = 0
        return self.works

    def shutdown(self, timeout_s):
        self.flush(timeout_s)
        self.shut_down.set()


def _meter(*exporters, requests=3, **arguments):
    meter = RagMeter(metrics=[context_tally], exporters=exporters, **arguments)
    for _ in range(requests):
        meter.submit(SAMPLE)
    return meter


def _reconciles(stats):
    return stats.captured == stats.exported + sum(stats.dropped.values()) + stats.in_flight


def _handed_on(meter):
    """Return how many requests have left the scoring thread, lost on the way or not."""
    stats = meter.stats()
    return sum(stats.export_backlog.values()) + sum(stats.export_errors.values())


def test_a_request_counts_as_exported_when_it_was_taken_not_when_it_was_handed_on():
    hanging = GatedExporter()
    meter = _meter(hanging)
    assert hanging.entered.wait(60)
    until(lambda: _handed_on(meter) == 3)

    assert meter.flush(0.2) is False
    stats = meter.stats()
    assert (stats.exported, stats.in_flight) == (0, 3)
    assert stats.export_backlog == {"GatedExporter": 3}
    assert _reconciles(stats)
    hanging.gate.set()
    assert meter.flush(30)
    assert meter.stats().exported == 3
    meter.shutdown(60)


def test_what_a_hanging_exporter_never_took_is_counted_at_shutdown():
    hanging = GatedExporter()
    meter = _meter(hanging, requests=70)
    assert hanging.entered.wait(60)
    until(lambda: _handed_on(meter) == 70)

    meter.shutdown(0.3)

    stats = meter.stats()
    assert (stats.exported, stats.dropped, stats.in_flight) == (0, {"shutdown": 70}, 0)
    assert sum(stats.export_errors.values()) == 70
    hanging.gate.set()


@pytest.mark.contains_errors
def test_what_one_of_two_exporters_took_is_exported():
    memory = InMemoryExporter()
    meter = _meter(RaisingExporter(), memory)
    assert meter.flush(30) is False

    stats = meter.stats()
    assert (stats.exported, stats.dropped) == (3, {})
    assert stats.export_errors == {"RaisingExporter": 3}
    meter.shutdown(60)


@pytest.mark.contains_errors
def test_what_no_exporter_took_is_dropped():
    meter = _meter(RaisingExporter())
    meter.flush(30)

    assert (meter.stats().exported, meter.stats().dropped) == (0, {"export": 3})
    meter.shutdown(60)


class Refusing(InMemoryExporter):
    """Takes one run of each batch, and the others later, once there is room."""

    def __init__(self):
        super().__init__()
        self.refused = threading.Event()
        self.room = threading.Event()

    def export(self, batch):
        if self.room.is_set():
            return super().export(batch)
        if not self.refused.is_set():
            super().export(batch[:1])
            batch = batch[1:]
        self.refused.set()
        raise TryLaterError("the disk is full", batch)


def test_what_an_exporter_may_take_later_waits_and_a_flush_does_not_call_it_done():
    refusing = Refusing()
    meter = _meter(refusing)
    assert refusing.refused.wait(60)
    assert meter.flush(0.2) is False
    assert _reconciles(meter.stats())
    assert meter.stats().export_errors == {}
    refusing.room.set()
    assert meter.flush(60)
    assert (meter.stats().exported, meter.stats().in_flight) == (3, 0)
    assert len({scored.run.run_id for scored in refusing.results}) == len(refusing.results) == 3
    meter.shutdown(60)


class Stepwise(InMemoryExporter):
    """Takes a batch when it is told to go on."""

    def __init__(self):
        super().__init__()
        self.entered, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def export(self, batch):
        self.entered.release()
        self.go.acquire()
        super().export(batch)


def test_a_flush_waits_for_what_came_after_one_that_gave_up():
    """The exporter comes to the first one's turn while the second waits, and has not seen the rest then."""
    stepwise = Stepwise()
    meter = _meter(stepwise, requests=1)
    assert stepwise.entered.acquire(timeout=60)
    assert meter.flush(0.01) is False
    meter.submit(SAMPLE)
    until(lambda: _handed_on(meter) == 2)
    flushed = []
    waiting = threading.Thread(target=lambda: flushed.append((meter.flush(60), meter.stats())))
    waiting.start()
    worker = meter.port.pipeline._exporting._queues[0].worker
    until(lambda: worker._errands[0].until >= 2)
    stepwise.go.release()
    assert stepwise.entered.acquire(timeout=60)
    waiting.join(0.2)
    assert flushed == []
    stepwise.go.release()
    waiting.join(60)
    [(done, stats)] = flushed
    assert (done, stats.exported, stats.in_flight) == (True, 2, 0)
    meter.shutdown(60)


def test_a_flush_waits_for_what_is_on_its_way_out_just_then():
    """It has been held long enough, its judged scores come in at the same moment, and its texts are being redacted."""
    gate, leaving, go = threading.Event(), threading.Event(), threading.Event()

    def redact(text):
        if text not in {"q", "a"}:  # why a score has no value
            leaving.set()
            go.wait(60)
        return text

    exporter = InMemoryExporter()
    meter = RagMeter(
        metrics=[answer_length, GatedMetric(gate)],
        judge=FakeJudge(),
        exporters=[exporter],
        scoring=Scoring(redact=redact),
        limits=Limits(hold_s=0.01),
    )
    meter.submit(SAMPLE)
    assert leaving.wait(60)
    gate.set()
    flushed = []
    waiting = threading.Thread(target=lambda: flushed.append((meter.flush(60), meter.stats())))
    waiting.start()
    waiting.join(0.5)
    assert flushed == []
    go.set()
    waiting.join(60)
    [(done, stats)] = flushed
    assert (done, stats.exported, stats.in_flight) == (True, 1, 0)
    meter.shutdown(60)


def test_a_flush_that_waits_while_the_meter_ends_does_not_take_what_is_given_up_for_done():
    refusing = Refusing()
    meter = _meter(refusing)
    assert refusing.refused.wait(60)
    flushed = []
    waiting = threading.Thread(target=lambda: flushed.append(meter.flush(60)))
    waiting.start()
    meter.shutdown(0.3)
    waiting.join(60)
    assert flushed == [False]
    stats = meter.stats()
    assert (stats.in_flight, stats.captured) == (0, stats.exported + stats.dropped["shutdown"])


@pytest.mark.parametrize("delivers", [True, False])
def test_what_an_exporter_still_holds_is_seen_and_counted_at_shutdown(delivers):
    exporter = Buffering(delivers)
    meter = _meter(exporter)

    assert meter.flush(30) is delivers
    assert meter.stats().export_backlog == {"Buffering": 0 if delivers else 3}
    meter.shutdown(60)

    assert meter.stats().export_errors == ({} if delivers else {"Buffering:shutdown": 3})


def test_exporters_close_side_by_side_within_one_deadline():
    """All are being closed at the same time, and the exporter that is done first waits for none."""
    together = threading.Barrier(4)

    class Meeting(GatedExporter):
        def shutdown(self, timeout_s):
            together.wait(60)
            super().shutdown(timeout_s)

    hanging = [Meeting() for _ in range(4)]
    quick = Buffering()
    meter = _meter(*hanging, quick, requests=0)

    closing = threading.Thread(target=meter.shutdown, args=(100.0,))
    closing.start()
    assert quick.shut_down.wait(60)
    assert closing.is_alive()
    for exporter in hanging:
        exporter.gate.set()
    closing.join(90)

    assert not closing.is_alive()
    assert not together.broken
    assert quick.n_held == 0


def test_flushing_a_hanging_exporter_again_and_again_starts_no_thread():
    hanging = GatedExporter()
    meter = _meter(hanging, requests=1)
    assert hanging.entered.wait(60)
    hanging.gate.set()
    assert meter.flush(30)
    hanging.gate.clear()

    meter.flush(0.05)
    before = threading.active_count()
    for _ in range(20):
        assert meter.flush(0.01) is False
    assert threading.active_count() == before
    hanging.gate.set()
    assert meter.flush(30)
    meter.shutdown(60)
