"""What becomes of messages: the same scores as where the application scores, and nothing lost or stuck."""

import asyncio
import json
import zlib
from dataclasses import replace

import pytest
from fakes_core import FakeJudge
from fakes_quality import Runs

from ragmeter import Limits, RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun, UnbufferedExporter
from ragmeter.fleet import payload
from ragmeter.fleet.payload import MessageContent, SentRun, pack, unpack
from ragmeter.fleet.publisher import FleetPublisher
from ragmeter.fleet.worker import BatchWorker, split
from ragmeter.metrics import Reference, RetrievedContext, metric
from ragmeter.metrics.judge import JudgeError


def a_sample(number, **changes):
    fields = {
        "question": f"How high is tower {number}?",
        "contexts": [
            RetrievedContext(text=f"Tower {number} is {number} metres high.", id=str(number), score=number / 7),
            RetrievedContext(text="It was built of stone by the harbour." * (number % 3)),
        ],
        "answer": f"Tower {number} is {number} metres high." if number % 4 else "I do not know.",
        "reference": Reference(answer=f"{number} metres", context_ids=[str(number)]) if number % 2 else None,
        "status": "error" if number % 11 == 10 else "ok",
        "name": "towers",
    }
    return RagSample(**{**fields, **changes})


def sent(number=0, run_id=None, **changes):
    times = {"started_ns": 1_000 + number, "ended_ns": 2_000 + number}
    run = Runs()(sample=a_sample(number), run_id=run_id or f"run-{number}", **times)
    return SentRun(**{"run": run, **changes})


def a_worker(exporters=None, meter=None, **arguments):
    memory = InMemoryExporter()
    made = RagMeter(exporters=[memory] if exporters is None else exporters, **(meter or {}))
    return BatchWorker(made, **arguments), memory


class Kept:
    """Keeps messages."""

    def __init__(self):
        self.bodies = []

    def send(self, body, *, count):
        self.bodies.append(body)

    def close(self, timeout_s):
        return None


def test_the_scores_are_those_of_an_application_that_scores_itself():
    """Bit for bit, evidence, verdict and place in the stream included."""
    samples = [a_sample(number) for number in range(120)]
    here, there, queue = InMemoryExporter(), InMemoryExporter(), Kept()
    with RagMeter(exporters=[here]) as meter:
        for sample in samples:
            meter.submit(sample)
        assert meter.flush(60)
    with RagMeter(metrics=[], exporters=[FleetPublisher(queue, linger_s=0)]) as meter:
        for sample in samples:
            meter.submit(sample)
        assert meter.flush(60)
    worker = BatchWorker(RagMeter(exporters=[there]))
    for body in queue.bodies:
        assert worker.handle(body, 0).done
    worker.close(10)

    assert len(here.results) == len(there.results) == 120
    for one, other in zip(here.results, there.results, strict=True):
        assert one.sample == other.sample
        assert list(one.scores.items()) == list(other.scores.items())
        assert one.verdict == other.verdict
        assert (one.late, one.sample_rate, one.selection) == (other.late, other.sample_rate, other.selection)


def test_a_message_is_done_when_everything_is_exported():
    worker, memory = a_worker()

    handled = worker.handle(pack(MessageContent(runs=[sent(1), sent(2)], resource={"service.name": "shop"})), 1)

    assert (handled.done, handled.split, handled.dead) == (True, (), ())
    assert [one.run.run_id for one in memory.results] == ["run-1", "run-2"]
    assert memory.results[0].run.resource == {"service.name": "shop"}
    stats = worker.stats()
    worker.close(10)
    assert (stats.captured, stats.exported, stats.dropped) == (2, 2, {})


def test_how_a_request_was_chosen_is_what_its_scores_say():
    worker, memory = a_worker(meter={"sample_rate": 0.0})
    worker.handle(pack(MessageContent(runs=[sent(1, sample_rate=0.25), sent(2, worst=True)])), 0)
    worker.close(10)

    assert [(one.sample_rate, one.selection) for one in memory.results] == [(0.25, "sampled"), (1.0, "worst")]


@metric(needs=("answer",), target="answer")
def judged_by_a_friend(sample: RagSample) -> float:
    return 1.0


def test_a_message_that_cannot_be_read_is_dead_at_once():
    worker, memory = a_worker()

    handled = worker.handle(b"the patient's name", 0)
    newer = worker.handle(pack(MessageContent(runs=[sent()]))[:-4], 0)

    assert handled.done
    assert [one.body for one in handled.dead] == [b"the patient's name"]
    assert "patient" not in handled.dead[0].reason
    assert len(newer.dead) == 1
    assert worker.stats().dropped == {"unreadable": 2}
    assert memory.results == []
    worker.close(10)


def test_a_request_that_cannot_be_read_is_dead_alone():
    message = json.loads(zlib.decompress(pack(MessageContent(runs=[sent(1), sent(2), sent(3)]))))
    message["runs"][1]["at"] = "soon"
    worker, memory = a_worker()

    handled = worker.handle(zlib.compress(json.dumps(message).encode()), 0)

    assert [one.run.run_id for one in memory.results] == ["run-1", "run-3"]
    (dead,) = handled.dead
    assert len(unpack(dead.body).unreadable) == 1
    stats = worker.stats()
    worker.close(10)
    assert (stats.captured, stats.exported, stats.dropped) == (3, 2, {"unreadable": 1})


def newer(version, *runs, **of_second):
    """Return a message of another version, whose second request may be otherwise."""
    message = json.loads(zlib.decompress(pack(MessageContent(runs=list(runs)))))
    message |= {"v": version, "trailer": {"new": 1}}
    for run in message["runs"]:
        run["later"] = ["new"]
    message["runs"][1] |= of_second
    return zlib.compress(json.dumps(message).encode())


def test_of_a_newer_minor_version_what_is_understood_is_scored_and_the_rest_is_dead_by_name(caplog):
    """A kind of request or of stage that is new cannot be guessed. Nothing is lost on the way."""
    runs = [sent(1), sent(2), sent(3)]
    worker, memory = a_worker()
    for strange in ({"kind": "replay"}, {"stages": [{"name": "s", "kind": "agent", "ctx": [0]}]}):
        body = newer([1, 9], *runs, **strange)
        handled = worker.handle(body, 0)

        assert [one.run.run_id for one in memory.results] == ["run-1", "run-3"]
        memory.clear()
        (dead,) = handled.dead
        assert dead.reason.endswith("message has version 1.9, and this worker knows 1.0")
        alone = json.loads(zlib.decompress(dead.body))
        assert (alone["v"], alone["runs"]) == ([1, 9], json.loads(zlib.decompress(body))["runs"][1:2])
    with_newest = worker.handle(newer([1, 9], *runs), 0)
    assert (with_newest.dead, len(memory.results)) == ((), 3)
    stats = worker.stats()
    worker.close(10)
    assert (stats.captured, stats.exported, stats.dropped) == (9, 7, {"unreadable": 2})
    told = [one.getMessage() for one in caplog.records if "update the workers" in one.getMessage()]
    assert len(told) == 1
    assert "version 1.9" in told[0]


def test_a_newer_major_version_is_dead_whole_and_scored_once_by_a_worker_that_reads_it(monkeypatch):
    worker, memory = a_worker()
    body = newer([2, 0], sent(1), sent(2), sent(3))
    (dead,) = worker.handle(body, 0).dead
    assert (dead.body, memory.results) == (body, [])
    assert "version 2, and this worker reads 0 and 1" in dead.reason
    assert worker.stats().dropped == {"unreadable": 3}

    monkeypatch.setattr(payload, "VERSION", (2, 0))
    monkeypatch.setattr(payload, "_READABLE", (1, 2))
    for one in (dead.body, pack(MessageContent(runs=[sent(4)]))):
        assert worker.handle(one, 0).dead == ()
    worker.close(10)
    assert [one.run.run_id for one in memory.results] == ["run-1", "run-2", "run-3", "run-4"]


@pytest.mark.parametrize(("deaths", "runs", "alone"), [(0, 3, 0), (1, 3, 0), (2, 3, 3), (5, 3, 3), (2, 1, 0)])
def test_after_the_second_death_each_request_is_tried_alone(deaths, runs, alone):
    batch = MessageContent(
        runs=[sent(number) for number in range(runs)], resource={"service.name": "s"}, published_ns=7
    )

    bodies = split(pack(batch), batch, deaths)

    assert len(bodies) == alone
    for body, one in zip(bodies, batch.runs, strict=False):
        assert unpack(body) == replace(batch, runs=[one], unreadable=[])


def test_a_newer_message_stays_what_it_is_when_it_is_split():
    """A newer worker may be the next to take it: its version and what is new in it are still there."""
    worker, _ = a_worker()

    handled = worker.handle(newer([1, 9], sent(1), sent(2), sent(3), kind="replay"), 2)

    said = [json.loads(zlib.decompress(one)) for one in handled.split]
    assert [(one["v"], one["trailer"], len(one["runs"])) for one in said] == [([1, 9], {"new": 1}, 1)] * 2  # fmt: skip
    assert [one["runs"][0]["later"] for one in said] == [["new"]] * 2
    assert [unpack(one).version for one in handled.split] == [(1, 9)] * 2
    assert len(handled.dead) == 1
    worker.close(10)


def test_a_split_message_is_not_scored():
    worker, memory = a_worker()

    handled = worker.handle(pack(MessageContent(runs=[sent(1), sent(2)])), 2)

    assert (handled.done, len(handled.split), memory.results) == (True, 2, [])
    of_three = worker.handle(newer([1, 0], sent(1), sent(2), sent(3), at="soon"), 2)
    assert (len(of_three.split), len(of_three.dead)) == (2, 1)
    assert worker.stats().dropped == {"unreadable": 1}
    worker.close(10)


class Marks:
    """Marks in memory."""

    def __init__(self):
        self.known = set()

    def seen(self, ids):
        return self.known & set(ids)

    def add(self, ids):
        self.known |= set(ids)

    def close(self):
        return None


def test_what_is_marked_is_not_scored_again_but_a_later_reference_is():
    worker, memory = a_worker(marks=Marks())
    body = pack(MessageContent(runs=[sent(1)]))
    for _ in range(3):
        assert worker.handle(body, 0).done
    again = sent(1, kind="again", revision="1")
    worker.handle(pack(MessageContent(runs=[again])), 0)
    worker.handle(pack(MessageContent(runs=[again])), 0)
    worker.handle(pack(MessageContent(runs=[replace(again, revision="2")])), 0)
    worker.close(10)

    assert [(one.late, one.revision) for one in memory.results] == [(False, ""), (True, "1"), (True, "2")]


def test_a_later_reference_is_scored_as_where_the_application_scores():
    """Also by a worker that has never seen the request before."""
    here, queue = InMemoryExporter(), Kept()
    results = []
    for exporter, metrics in ((here, None), (FleetPublisher(queue, linger_s=0), [])):
        with RagMeter(metrics=metrics, exporters=[exporter]) as meter:
            meter.submit(a_sample(2))
            assert meter.flush(60)
            run_id = (here.results[0] if metrics is None else unpack(queue.bodies[0]).runs[0]).run.run_id
            meter.attach_reference(run_id, "2 metres")
            assert meter.flush(60)
    first, later = queue.bodies
    for bodies in ((first, later), (later,), (later, first)):
        worker, memory = a_worker()
        for body in bodies:
            worker.handle(body, 0)
        worker.close(10)
        results.append(next(one for one in memory.results if one.late))

    _, wanted = here.results
    for result in results:
        assert result.scores == wanted.scores
        assert result.revision == wanted.revision == "1"
    assert results[0].verdict == wanted.verdict


class Failing(UnbufferedExporter):
    """An exporter that fails as long as it is told to."""

    def __init__(self):
        self.fails = True
        self.runs = []

    def export(self, batch):
        if self.fails:
            raise OSError("away")
        self.runs += [one.run.run_id for one in batch]


@pytest.mark.contains_errors
@pytest.mark.parametrize("required", [True, False])
def test_scores_that_could_not_be_exported_come_back_only_where_that_is_wanted(required):
    failing = Failing()
    worker, _ = a_worker([failing], require_export=required)
    body = pack(MessageContent(runs=[sent(1)]))

    assert worker.handle(body, 0).done is not required
    failing.fails = False
    assert worker.handle(body, 0).done

    assert failing.runs == ["run-1"]
    assert worker.stats().export_errors == {"Failing": 1}
    worker.close(10)


class Broken(FakeJudge):
    """A judge that answers 429, or never."""

    async def ask(self, ask):
        if self.answers:
            raise JudgeError("too many requests", "rate_limited")
        await asyncio.Event().wait()

    def __init__(self, *, answers):
        super().__init__()
        self.answers = answers


@pytest.mark.parametrize(("answers", "status"), [(True, "judge_error"), (False, "timeout")])
def test_a_judge_that_fails_or_hangs_is_a_status_and_the_message_is_done(answers, status):
    """A queue that came back to a failing judge would multiply what the failure costs."""
    worker, memory = a_worker(
        meter={
            "metrics": ["context_relevancy"],
            "judge": Broken(answers=answers),
            "limits": Limits(judge_deadline_s=0.2),
        },
        judge_deadline_s=0.2,
    )

    handled = worker.handle(pack(MessageContent(runs=[sent(1), sent(2)])), 0)

    worker.close(10)
    assert (handled.done, handled.split, handled.dead) == (True, (), ())
    scores = [one.scores["context_relevancy"] for one in memory.results if one.scores]
    assert [(one.value, one.status) for one in scores] == [(None, status)] * 2


@pytest.mark.contains_errors
def test_a_message_that_the_worker_fails_over_is_a_dead_letter(monkeypatch):
    worker, _ = a_worker()
    monkeypatch.setattr(worker, "_score", lambda *_: 1 / 0)
    body = pack(MessageContent(runs=[sent(1)]))

    handled = worker.handle(body, 0)

    assert [one.body for one in handled.dead] == [body]
    worker.close(10)


def test_a_run_sent_by_hand_needs_no_more_than_a_run():
    """What `take_over` is given is a result without scores."""
    memory = InMemoryExporter()
    meter = RagMeter(metrics=[judged_by_a_friend], exporters=[memory])
    meter.port.take_over(ScoredRun(run=sent(1).run, scores={}))
    assert meter.flush(60)
    meter.shutdown()

    assert memory.results[0].scores["judged_by_a_friend"].value == 1.0
