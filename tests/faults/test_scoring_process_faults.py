"""The worker process crashes, hangs, cannot start; the application forks, exits, is killed."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest
from at_once import at_once
from fakes_worker import EchoJudge, ends, is_running, misbehave, question_length, scorer_pid, workers_of

from ragmeter import Limits, RagMeter, TryLaterError
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import RunsLostError
from ragmeter.metrics import RagSample
from ragmeter.pipeline.process import judging, supervision, worker

HERE = Path(__file__).parent
FORKING_IS_MEANT = ("-W", "ignore:This process:DeprecationWarning")
SAMPLE = RagSample(question="q", contexts=["a"], answer="b")


@pytest.fixture
def build():
    """Build meters that are shut down at the end, and leave no process."""
    meters = []

    def make(metrics, **arguments):
        exporter = InMemoryExporter()
        meter = RagMeter(metrics, exporters=[exporter], scoring="process", **arguments)
        meters.append(meter)
        return meter, exporter

    yield make
    for meter in meters:
        meter.shutdown()
    assert workers_of(os.getpid()) == []


def asked(meter, exporter, question="q"):
    before = len(exporter.results)
    meter.submit(SAMPLE.model_copy(update={"question": question}))
    assert meter.flush(30)
    return exporter.results[before].scores


@pytest.mark.contains_errors
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(build):
    meter, exporter = build([scorer_pid])
    first = int(asked(meter, exporter)["scorer_pid"].value)

    os.kill(first, signal.SIGKILL)
    second = int(asked(meter, exporter)["scorer_pid"].value)

    assert second != first
    assert ends(first, 60)
    assert meter.stats().internal_errors == {"worker": 1}


@pytest.mark.contains_errors
@pytest.mark.parametrize("deed", ["crash", "exit"])
def test_a_request_that_took_its_worker_down_is_blamed_and_not_tried_again(build, tmp_path, deed):
    """A second try would be fine here; there is none."""
    meter, exporter = build([misbehave, "answer_overlap"])

    scores = asked(meter, exporter, f"{deed} {tmp_path / 'done'}")

    assert (scores["misbehave"].value, scores["misbehave"].status) == (None, "metric_error")
    assert ("SIGKILL" if deed == "crash" else "exit code 3") in scores["misbehave"].explanation
    assert scores["misbehave"].error_type == "worker"
    assert scores["token_f1"].status == "missing_input"
    assert asked(meter, exporter)["misbehave"].value == 1.0
    assert meter.stats().internal_errors == {"worker": 1}


@pytest.mark.contains_errors
def test_requests_that_crash_cost_no_other_request_anything(build):
    """Every sixth of a burst takes the worker down: the others wait in the queue meanwhile."""
    meter, exporter = build([misbehave])
    questions = ["crash" if number % 6 == 3 else f"q{number}" for number in range(30)]

    for question in questions:
        meter.submit(SAMPLE.model_copy(update={"question": question}))
    assert meter.flush(120)

    found = {r.sample.question: r.scores["misbehave"].status for r in exporter.results}
    assert len(exporter.results) == 30
    assert found.pop("crash") == "metric_error"
    assert set(found.values()) == {"ok"}
    assert meter.stats().internal_errors == {"worker": 5}


@pytest.mark.contains_errors
def test_workers_that_all_crash_are_not_started_one_upon_another(build, monkeypatch):
    """Without a request that is scored in between, each waits a little longer for its worker."""
    monkeypatch.setattr(supervision, "PATIENCE_S", 0.2)
    meter, exporter = build([misbehave])

    for _ in range(4):
        meter.submit(SAMPLE.model_copy(update={"question": "crash"}))
    assert meter.flush(120)

    [statuses] = {tuple(r.scores["misbehave"].status for r in exporter.results)}
    assert statuses == ("metric_error",) * 4
    assert meter.port.pipeline._computes._not_before > 0.0
    assert asked(meter, exporter)["misbehave"].value == 1.0


@pytest.mark.contains_errors
def test_a_judged_request_that_crashes_its_worker_takes_no_other_along(build):
    """Those that were with the worker are judged one at a time then, and only one is to blame."""
    meter, exporter = build(
        [question_length, "context_utilization"], judge=EchoJudge("crash on poison"), limits=Limits(hold_s=60)
    )

    for question in ("one", "two", "poison", "three", "four"):
        meter.submit(SAMPLE.model_copy(update={"question": question}))
    assert meter.flush(120)

    found = {r.sample.question: r.scores["context_utilization"].status for r in exporter.results}
    assert found == {
        "one": "ok", "two": "ok", "three": "ok", "four": "ok", "poison": "judge_error",
    }  # fmt: skip


@pytest.mark.contains_errors
def test_a_worker_that_hangs_is_ended_and_the_next_request_is_scored(build, monkeypatch):
    monkeypatch.setattr(worker, "SCORE_S", 1.0)
    meter, exporter = build([misbehave])

    hung = asked(meter, exporter, "hang")["misbehave"]

    assert (hung.value, hung.status) == (None, "timeout")
    assert asked(meter, exporter)["misbehave"].value == 1.0


@pytest.mark.contains_errors
def test_judging_goes_on_with_the_next_worker(build, tmp_path):
    judge = EchoJudge("crash", str(tmp_path / "done"))
    meter, exporter = build([question_length, "context_utilization"], judge=judge, limits=Limits(hold_s=60))

    scores = asked(meter, exporter)

    assert scores["context_utilization"].value == 1.0
    assert scores["question_length"].value == 1.0
    assert meter.stats().judge_calls == 1


@pytest.mark.contains_errors
def test_what_no_worker_lives_to_judge_is_a_judge_error(build):
    meter, exporter = build([question_length, "context_utilization"], judge=EchoJudge("crash always"))

    scores = asked(meter, exporter)

    assert scores["question_length"].value == 1.0
    assert (scores["context_utilization"].value, scores["context_utilization"].status) == (None, "judge_error")
    assert "SIGKILL" in scores["context_utilization"].explanation


@pytest.mark.contains_errors
def test_a_frozen_worker_misses_its_deadline_and_is_ended(build, monkeypatch):
    monkeypatch.setattr(judging, "GRACE_S", 0.5)
    meter, exporter = build(
        [question_length, "context_utilization"], judge=EchoJudge("freeze"), limits=Limits(judge_deadline_s=0.5)
    )

    meter.submit(SAMPLE)
    assert meter.flush(60)

    scores = exporter.results[0].scores
    assert scores["question_length"].value == 1.0
    assert scores["context_utilization"].value is None


@pytest.mark.contains_errors
def test_a_worker_that_cannot_start_is_said_to_be_so(build, monkeypatch, capfd):
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    meter, exporter = build([question_length])

    score = asked(meter, exporter)["question_length"]

    assert score.status == "metric_error"
    assert "did not start" in score.explanation
    assert "No module named" in capfd.readouterr().err


def test_it_starts_where_subprocesses_are_forked_by_python_code(build, monkeypatch):
    """As gevent's are: what is to be dropped in a forked child is dropped in the worker's own, too."""
    by_python = partial(subprocess.Popen, preexec_fn=int)  # any function has the child run Python
    monkeypatch.setattr(subprocess, "Popen", by_python)
    meter, exporter = build([question_length])

    assert asked(meter, exporter)["question_length"].value == 1.0
    assert meter.stats().internal_errors == {}


@pytest.mark.contains_errors
def test_one_failed_start_costs_no_request_its_scores(build, monkeypatch):
    """A moment without memory or file descriptors, say: requests wait for the next start."""
    start, refusals = subprocess.Popen, [OSError("no memory")]

    def refuse_once(*arguments, **options):
        if refusals:
            raise refusals.pop()
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", refuse_once)
    meter, exporter = build(
        [question_length, "context_utilization"], judge=EchoJudge(), limits=Limits(hold_s=60)
    )

    scores = asked(meter, exporter)

    assert {score.status for score in scores.values()} == {"ok"}
    assert meter.stats().internal_errors == {"worker": 1}


def test_signals_that_stop_the_application_do_not_stop_the_worker(build):
    """Its last requests are still to be scored: Ctrl-C, and systemd's SIGTERM to the whole group."""
    meter, exporter = build([scorer_pid])
    pid = int(asked(meter, exporter)["scorer_pid"].value)

    assert os.getsid(pid) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)

    assert int(asked(meter, exporter)["scorer_pid"].value) == pid


@pytest.mark.contains_errors
def test_shutdown_ends_a_hanging_worker_within_its_time(build):
    meter, exporter = build([misbehave, scorer_pid])
    pid = int(asked(meter, exporter)["scorer_pid"].value)
    meter.submit(RagSample(question="hang"))
    time.sleep(0.3)

    began = time.monotonic()
    meter.shutdown(1.0)

    assert time.monotonic() - began < 60
    assert not is_running(pid)


def test_two_meters_have_a_worker_each(build):
    first, one = build([scorer_pid])
    second, other = build([scorer_pid])

    pids = {asked(first, one)["scorer_pid"].value, asked(second, other)["scorer_pid"].value}
    first.shutdown()

    assert len(pids) == 2
    assert asked(second, other)["scorer_pid"].value in pids


def test_many_threads_at_once_and_a_small_queue(build):
    meter, exporter = build([question_length], limits=Limits(queue_size=64))

    def send(start):
        for number in range(100):
            meter.submit(RagSample(question="x" * (start + number)))

    at_once(send, range(0, 400, 100))
    assert meter.flush(30)

    stats = meter.stats()
    assert stats.captured == 400 == stats.exported + sum(stats.dropped.values())
    assert all(
        result.scores["question_length"].value == len(result.sample.question) for result in exporter.results
    )


class Fickle(InMemoryExporter):
    """Takes some runs at once, has some offered again, refuses some for good and loses some."""

    def __init__(self):
        super().__init__()
        self.again = set()

    def export(self, batch):
        for number, one in enumerate(batch):
            kind = one.sample.question
            if kind == "later" and one.run.run_id not in self.again:
                self.again.add(one.run.run_id)
                raise TryLaterError("not now", batch[number:])
            if kind == "refused":
                raise RunsLostError("never", len(batch) - number)
            if kind == "lost":
                raise OSError("gone")
            super().export([one])

    @property
    def backlog(self):
        return sum(one.sample.question == "held" for one in self.results)

    def flush(self, timeout_s):
        return not self.backlog


@pytest.mark.contains_errors
@pytest.mark.parametrize(
    ("kind", "patience_s"),
    [
        ("taken", 0.0), ("later", 0.0), ("refused", 60.0), ("crash", 60.0), ("held", 0.0),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in [("taken", 60.0), ("lost", 0.0)]),
    ],
)  # fmt: skip
def test_what_a_flush_returns_is_what_is_counted(kind, patience_s, monkeypatch):
    """Two workers, one of which is killed: what is neither exported nor dropped is named as pending, and after
    True nothing is."""
    monkeypatch.setattr(supervision, "PATIENCE_S", 0.2)
    exporters, count = (Fickle(), Fickle()), 2 if kind == "crash" else 8
    meters = [RagMeter([misbehave, scorer_pid], exporters=[one], scoring="process") for one in exporters]
    for meter, exporter in zip(meters, exporters, strict=True):
        assert asked(meter, exporter)["misbehave"].value == 1.0
    os.kill(int(exporters[0].results[0].scores["scorer_pid"].value), signal.SIGKILL)
    for meter in meters:
        for _ in range(count):
            meter.submit(SAMPLE.model_copy(update={"question": kind}))
    for meter in meters:
        done = meter.flush(patience_s)
        stats = meter.stats()
        pending = stats.captured - stats.exported - sum(stats.dropped.values())
        assert pending == stats.in_flight
        if done:
            assert (pending, stats.export_backlog) == (0, {"Fickle": 0})
        assert meter.flush(60) is (kind != "held")
        stats = meter.stats()
        lost = count if kind in {"refused", "lost"} else 0
        assert (stats.captured, stats.exported, stats.in_flight) == (count + 1, count + 1 - lost, 0)
        assert stats.dropped == ({"export": lost} if lost else {})
        assert stats.export_backlog == {"Fickle": count if kind == "held" else 0}
        meter.shutdown(60)


PREAMBLE = """
import os, signal, sys, time
from fakes_worker import AskedPid, EchoJudge, scorer_pid, workers_of
from ragmeter import Limits, RagMeter
from ragmeter.exporters.protocol import UnbufferedExporter
from ragmeter.metrics import RagSample
SAMPLE = RagSample(question="q", contexts=["a"])
class Printing(UnbufferedExporter):
    def export(self, batch):
        for result in batch:
            os.write(1, f"{os.getpid()} {int(result.scores['scorer_pid'].value)}\\n".encode())
meter = RagMeter(
    [scorer_pid, AskedPid()], EchoJudge(), exporters=[Printing()], scoring="process",
    limits=Limits(shutdown_timeout_s=60),
)
"""


def start_python(body):
    return subprocess.Popen(
        [sys.executable, *FORKING_IS_MEANT, "-c", PREAMBLE + textwrap.dedent(body)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "core")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_forked_child_has_a_worker_of_its_own_and_the_parent_keeps_its():
    with start_python(
        """
        meter.submit(SAMPLE); meter.flush(60)
        child = os.fork()
        if child == 0:
            meter.submit(SAMPLE); meter.flush(60); meter.shutdown()
            os._exit(0)
        os.waitpid(child, 0)
        meter.submit(SAMPLE); meter.flush(60)
        meter.shutdown()
        print(meter.stats().internal_errors)
        """
    ) as process:
        out, err = process.communicate(timeout=60)

    *lines, errors = out.splitlines()
    by_process = [tuple(map(int, line.split())) for line in lines]
    assert (errors, err) == ("{}", "")
    assert len(by_process) == 3
    assert by_process[0] == by_process[2]
    assert by_process[1][0] != by_process[0][0]
    assert by_process[1][1] != by_process[0][1]
    assert all(ends(worker, 60) for _, worker in by_process)


def test_a_worker_ends_with_a_killed_application_also_when_a_child_of_it_lives_on():
    with start_python(
        """
        meter.submit(SAMPLE); meter.flush(60)
        child = os.fork()
        if child == 0:
            os.close(1); os.close(2)
            time.sleep(300)
            os._exit(0)
        print("child", child, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    ) as process:
        out, _ = process.communicate(timeout=60)

    worker = int(out.split()[1])
    child = int(out.split()[3])
    try:
        assert ends(worker, 60)
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_after_three_hundred_interrupts_nothing_is_in_flight():
    with start_python(
        """
        import threading
        from random import Random
        from ragmeter.exporters.memory import InMemoryExporter
        meter = RagMeter(
            [scorer_pid, AskedPid()], EchoJudge(), exporters=[InMemoryExporter()], scoring="process"
        )
        chance, struck, over = Random(27), 0, False
        meter.submit(SAMPLE)
        assert meter.flush(60)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        begun = threading.Event()
        def strike():
            begun.wait()
            while not over:
                time.sleep(0.004 * chance.random())
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        threading.Thread(target=strike, daemon=True).start()
        while not over:
            try:
                begun.set()
                while struck < 300:
                    meter.submit(SAMPLE)
                    meter.flush(0.002 * chance.random())
                over = True
                time.sleep(0.1)
            except KeyboardInterrupt:
                struck += 1
        assert meter.flush(60)
        stats = meter.stats()
        meter.shutdown(60)
        print("in flight", stats.in_flight, struck, stats.captured - stats.exported, stats.dropped)
        """
    ) as process:
        out, err = process.communicate(timeout=120)

    assert err == ""
    assert out.splitlines()[-1] in {f"in flight 0 {struck} 0 {{}}" for struck in range(300, 310)}
