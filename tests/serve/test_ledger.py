"""An entry is forgotten when nothing of it is needed again, not earlier, whenever the process dies."""

import threading
from random import Random

import pytest
from moved_clock import MovedClock

from ragmeter.adapters.opentelemetry.assembly import TraceAssembler
from ragmeter.adapters.opentelemetry.record import LogNote, SpanRecord
from ragmeter.serve._ledger import Ledger
from ragmeter.serve._spool import FORWARDED, Spool

PATIENCE_S = 60


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path, max_bytes=1 << 20)
    yield spool
    spool.close()


def left(spool, folder):
    """What would be replayed if the process died now: position → parts that are done."""
    entries = spool._database.execute("SELECT position FROM entries").fetchall()
    parts = spool._database.execute("SELECT position, part FROM settled").fetchall()
    return {position: {part for other, part in parts if other == position} for (position,) in entries}


def test_an_entry_is_done_when_all_its_traces_are_read_and_flushed(spool, tmp_path):
    flushed = []
    ledger = Ledger(spool, lambda timeout_s: flushed.append(timeout_s) or True, clock=MovedClock(1000.0))
    one, two = spool.append("traces", b"1"), spool.append("traces", b"2")
    ledger.note_entry(one, "traces", {"a", "b"})
    ledger.note_entry(two, "traces", {"b", "c"})
    ledger.look(lambda: {"b": 1000.0, "c": 1000.0}, last=True)
    assert ledger.settle()
    assert left(spool, tmp_path) == {one: {"a"}, two: set()}
    ledger.look(lambda: {"c": 1000.0}, last=True)
    assert ledger.settle()
    assert left(spool, tmp_path) == {two: {"b"}}
    ledger.look(dict, last=True)
    assert ledger.settle()
    assert left(spool, tmp_path) == {}
    assert len(flushed) == 3


def test_nothing_is_done_while_it_has_not_left(spool, tmp_path):
    answers = iter([False, True])
    ledger = Ledger(spool, lambda _: next(answers), clock=MovedClock(1000.0))
    position = spool.append("traces", b"1")
    ledger.note_entry(position, "traces", {"a"})
    ledger.look(dict, last=True)
    assert not ledger.settle()
    assert left(spool, tmp_path) == {position: set()}
    assert ledger.settle()
    assert left(spool, tmp_path) == {}


def test_what_the_disk_does_not_take_is_said_again(spool, tmp_path):
    ledger = Ledger(spool, lambda _: True, clock=MovedClock(1000.0))
    position = spool.append("traces", b"1")
    ledger.note_entry(position, "traces", ())
    spool._database.execute("PRAGMA query_only = ON")
    assert not ledger.settle()
    spool._database.execute("PRAGMA query_only = OFF")
    assert ledger.settle()
    assert left(spool, tmp_path) == {}


def test_nothing_is_flushed_where_nothing_has_changed(spool):
    ledger = Ledger(spool, lambda _: pytest.fail("flushed"), clock=MovedClock(1000.0))
    ledger.look(dict, last=True)
    assert ledger.settle()


def test_an_entry_without_anything_to_read_is_done_at_once(spool, tmp_path):
    ledger = Ledger(spool, lambda _: True, clock=MovedClock(1000.0))
    ledger.note_entry(spool.append("logs", b"1"), "logs", ())
    assert ledger.settle()
    assert left(spool, tmp_path) == {}


def test_an_entry_is_done_when_it_was_passed_on_too(spool, tmp_path):
    ledger = Ledger(spool, lambda _: True, forwards=lambda signal: signal == "traces", clock=MovedClock(1000.0))
    spans, logs, later = (spool.append(signal, b"") for signal in ("traces", "logs", "traces"))
    ledger.note_entry(spans, "traces", {"a"})
    ledger.note_entry(logs, "logs", {"a"})
    ledger.note_entry(later, "traces", {"b"})
    ledger.look(lambda: {"b": 1000.0}, last=True)
    ledger.settle()
    assert left(spool, tmp_path) == {spans: {"a"}, later: set()}
    ledger.note_forwarded([spans, later, 999])
    ledger.settle()
    assert left(spool, tmp_path) == {later: {FORWARDED}}
    ledger.look(dict, last=True)
    ledger.settle()
    assert left(spool, tmp_path) == {}


def test_what_was_done_before_a_restart_is_not_waited_for(spool, tmp_path):
    ledger = Ledger(spool, lambda _: True, forwards=lambda _: True, clock=MovedClock(1000.0))
    position = spool.append("traces", b"")
    ledger.note_entry(position, "traces", {"a", "b"}, settled={"a", FORWARDED})
    ledger.look(lambda: {"a": 1000.0}, last=True)
    assert ledger.settle()
    assert left(spool, tmp_path) == {}


def test_a_trace_that_lasts_for_hours_holds_only_what_it_waits_for(spool, tmp_path):
    """Parts of it were read; what came with them is done, although the trace is open."""
    clock = MovedClock(1000.0)
    ledger = Ledger(spool, lambda _: True, logs_wait_s=30.0, clock=clock)
    spans, logs = spool.append("traces", b""), spool.append("logs", b"")
    ledger.note_entry(spans, "traces", {"job"})
    ledger.note_entry(logs, "logs", {"job"})
    clock.now += 10
    later = spool.append("traces", b"")
    ledger.note_entry(later, "traces", {"job"})
    ledger.look(lambda: {"job": 1010.0}, last=True)
    ledger.settle()
    # The record's span may be still to come.
    assert left(spool, tmp_path) == {logs: set(), later: set()}
    ledger.look(lambda: {"job": 1031.0}, last=True)
    ledger.settle()
    assert left(spool, tmp_path) == {}


def test_it_looks_only_when_it_is_time(spool):
    ledger = Ledger(spool, lambda _: True)
    ledger.look(lambda: pytest.fail("looked"))


def test_its_thread_settles_what_the_reading_thread_has_looked_at(spool, tmp_path):
    ledger = Ledger(spool, lambda _: True, interval_s=0.001)
    ledger.note_entry(spool.append("traces", b""), "traces", {"a"})
    ledger.start()
    pause = threading.Event()
    for _ in range(PATIENCE_S * 100):
        ledger.look(dict)
        if not spool.stats().entries:
            break
        pause.wait(0.01)
    ledger.end(PATIENCE_S)
    assert left(spool, tmp_path) == {}


def test_its_thread_ends_although_nobody_looks(spool):
    ledger = Ledger(spool, lambda _: True, interval_s=0.001)
    ledger.start()
    ledger.end(PATIENCE_S)
    assert not ledger._thread.is_alive()


class Process:
    """A server without a network: what it delivers has left once it is flushed."""

    def __init__(self, folder, world):
        self.world = world
        self.spool = Spool(folder, max_bytes=1 << 24)
        self.delivered = []
        self.assembler = TraceAssembler(self._deliver, grace_s=1.0, idle_s=4.0, late_s=6.0, clock=world.clock)
        self.ledger = Ledger(self.spool, self._flush, logs_wait_s=4.0, clock=world.clock)
        for entry in self.spool.replay():
            self._take(entry.position, entry.signal, entry.body, entry.settled)

    def receive(self, signal, items):
        body = ",".join(f"{trace}:{span}" for trace, span in items).encode()
        self._take(self.spool.append(signal, body), signal, body, frozenset())

    def _take(self, position, signal, body, settled):
        items = [tuple(item.split(":")) for item in body.decode().split(",") if item]
        items = [(trace, span) for trace, span in items if trace not in settled]
        if signal == "traces":
            self.assembler.add(
                [
                    SpanRecord(
                        trace_id=trace,
                        span_id=span,
                        parent_id=None if span == "0" else "0",
                        scope="openinference.x",
                    )
                    for trace, span in items
                ]
            )
        else:
            self.assembler.add((), [LogNote(trace_id=trace, span_id=span) for trace, span in items])
        self.ledger.note_entry(position, signal, {trace for trace, _ in items}, settled=settled)

    def _deliver(self, assembled):
        spans = {span.span_id for span in assembled.spans}
        logs = {note.span_id for note in assembled.logs}
        self.delivered.append((assembled.trace_id, spans, logs))

    def _flush(self, timeout_s):
        if not self.world.up:
            return False
        for trace, spans, logs in self.delivered:
            self.world.left.append((trace, spans, logs, self.world.life))
        self.delivered.clear()
        return True

    def work(self):
        self.assembler.tick()
        self.ledger.look(self.assembler.waiting, last=True)

    def die(self):
        self.spool.close()


class World:
    def __init__(self):
        self.clock = MovedClock(1000.0)
        self.left = []
        self.up = True
        self.life = 0


@pytest.mark.parametrize("seed", range(4))
def test_whenever_it_dies_everything_that_was_acknowledged_leaves_and_little_of_it_twice(tmp_path, seed):
    chance = Random(seed)
    world = World()
    process = Process(tmp_path, world)
    expected, settled_traces = {}, {}
    for step in range(120):
        what = chance.randrange(10)
        if what < 5:
            items = [
                (f"t{max(0, step // 4 - chance.randrange(3))}", str(chance.randrange(4)))
                for _ in range(chance.randrange(4))
            ]
            signal = chance.choice(["traces", "traces", "logs"])
            items = [item for item in items if item[0] not in settled_traces]
            process.receive(signal, items)
            for trace, span in items if signal == "traces" else ():
                expected.setdefault(trace, set()).add(span)
        elif what < 8:
            world.clock.now += chance.random() * 3
            process.work()
        elif what == 8:
            world.up = chance.random() < 0.7
            if process.ledger.settle():
                for trace, _, _, _ in world.left:
                    if trace not in process.assembler.waiting():
                        settled_traces.setdefault(trace, world.life)
        else:
            process.die()
            world.life += 1
            process = Process(tmp_path, world)
    world.up = True
    for _ in range(4):
        world.clock.now += 10
        process.work()
        assert process.ledger.settle()
    assert process.spool.stats().entries == 0
    process.die()

    for trace, spans in expected.items():
        found = set().union(*(seen for key, seen, _, _ in world.left if key == trace))
        assert found == spans, trace
    # A trace whose leaving was settled does not leave again in a later life.
    assert settled_traces
    for trace, settled_in in settled_traces.items():
        assert all(life <= settled_in for key, _, _, life in world.left if key == trace), trace


def test_entries_that_are_somebody_elses_now_are_forgotten_with_the_traces_that_only_they_wait_for(
    spool, tmp_path
):
    ledger = Ledger(spool, lambda _: True, clock=MovedClock(1000.0))
    one, two = spool.append("traces", b"1"), spool.append("traces", b"2")
    ledger.note_entry(one, "traces", {"a", "b"})
    ledger.note_entry(two, "traces", {"b"})
    assert ledger.forget([one, 77]) == {"a"}
    ledger.look(dict, last=True)
    assert ledger.settle()
    assert left(spool, tmp_path) == {one: set()}


def test_of_what_is_open_nothing_is_done_once_it_is_forgotten(spool, tmp_path):
    ledger = Ledger(spool, lambda _: True, clock=MovedClock(1000.0))
    one, two = spool.append("traces", b"1"), spool.append("traces", b"2")
    ledger.note_entry(one, "traces", {"a"})
    ledger.note_entry(two, "traces", {"b"})
    ledger.look(lambda: {"b": 1000.0}, last=True)
    assert ledger.forget_open() == {"b"}
    ledger.look(dict, last=True)
    assert ledger.settle()
    assert left(spool, tmp_path) == {two: set()}
