"""What an application publishes, and what it says of what it could not."""

import threading
from dataclasses import replace

import pytest
from fakes_quality import Runs
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmeter import RagMeter, RagSample, Scoring
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import RunsLostError, ScoredRun, UnbufferedExporter
from ragmeter.fleet.payload import unpack
from ragmeter.fleet.publisher import FleetPublisher
from ragmeter.fleet.transport import TransportDownError
from ragmeter.metrics import ConfigurationError, Reference


class Queue:
    """A queue that can be away."""

    def __init__(self):
        self.bodies = []
        self.is_down = False
        self.failures = 0
        self.closed = 0

    def send(self, body, *, count):
        if self.is_down:
            self.failures += 1
            raise TransportDownError("away")
        assert len(unpack(body).runs) == count
        self.bodies.append(body)

    def close(self, timeout_s):
        self.closed += 1

    @property
    def runs(self):
        return [sent for body in self.bodies for sent in unpack(body).runs]


def scored(run_id="r", **changes):
    run = Runs()(run_id=run_id, sample=RagSample(question="q", answer="a"))
    return ScoredRun(**{"run": run, "scores": {}, **changes})


def a_meter(queue, exporters=(), **arguments):
    publisher = FleetPublisher(queue, linger_s=0, **arguments)
    return RagMeter(metrics=[], exporters=[*exporters, publisher])


def test_requests_go_out_whole_and_at_most_32_a_message():
    queue = Queue()
    FleetPublisher(queue, linger_s=0, resource={"service.name": "shop"}).export(
        [scored(str(number)) for number in range(70)]
    )

    assert [len(unpack(body).runs) for body in queue.bodies] == [32, 32, 6]
    assert [sent.run.run_id for sent in queue.runs] == [str(number) for number in range(70)]
    assert unpack(queue.bodies[0]).resource == {"service.name": "shop"}
    assert unpack(queue.bodies[0]).published_ns > 0


def test_how_a_request_was_chosen_travels_with_it():
    queue = Queue()
    FleetPublisher(queue, linger_s=0, judge_sample_rate=0.25).export(
        [scored(sample_rate=0.5, selection="worst"), scored(sample_rate=0.5)]
    )

    assert [(one.sample_rate, one.judge_sample_rate, one.worst) for one in queue.runs] == [
        (0.5, 0.25, True),
        (0.5, 0.25, False),
    ]


def test_redaction_and_references_come_before():
    queue = Queue()
    meter = RagMeter(
        metrics=[],
        exporters=[FleetPublisher(queue, linger_s=0)],
        references={"my name is Ann": "I know"},
        scoring=Scoring(redact=lambda text: text.replace("Ann", "***")),
    )
    meter.submit(RagSample(question="my name is Ann", answer="hello Ann"))
    assert meter.flush(60)
    meter.shutdown()

    (sent,) = queue.runs
    assert (sent.run.sample.question, sent.run.sample.answer) == ("my name is ***", "hello ***")
    assert sent.run.sample.reference == Reference(answer="I know")


def test_a_later_reference_is_published_again_and_feedback_is_not():
    queue = Queue()
    meter = a_meter(queue)
    meter.submit(RagSample(question="q", answer="a"))
    assert meter.flush(60)
    run_id = queue.runs[0].run.run_id
    meter.feedback(run_id, "thumbs_up", 1.0)
    meter.attach_reference(run_id, "b")
    meter.attach_reference(run_id, "c")
    assert meter.flush(60)
    meter.shutdown()

    first, again, third = queue.runs
    assert (first.kind, first.revision, first.run.sample.reference) == ("run", "", None)
    assert (again.kind, again.run.run_id, again.run.sample.reference.answer) == ("again", run_id, "b")
    assert third.run.sample.reference.answer == "c"
    assert again.revision != third.revision != ""


def test_the_spans_that_were_written_are_those_that_scores_will_find():
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    spans = OpenTelemetryExporter(tracer_provider=provider)
    queue = Queue()
    meter = a_meter(queue, [spans], spans=spans)
    with meter.request("q") as request:
        request.retrieved(["one"])
        request.answered("a")
    assert meter.flush(60)
    meter.shutdown()

    written = {span.name: span.context for span in memory.get_finished_spans()}
    (sent,) = queue.runs
    assert sent.run.target.span_id == written["invoke_workflow"].span_id
    retrieval = next(span for name, span in written.items() if name.startswith("retrieval"))
    assert sent.run.retrievals[0].target.span_id == retrieval.span_id


def test_without_an_sdk_nothing_waits_for_spans():
    queue = Queue()
    spans = OpenTelemetryExporter()
    publisher = FleetPublisher(queue, linger_s=0, spans=spans)

    publisher.export([scored()])

    assert queue.runs[0].run.target is None


@pytest.mark.parametrize(("variable", "name"), [(None, "a shop"), ("bakery", "bakery")])
def test_without_an_sdk_the_resource_is_that_of_the_variables(monkeypatch, variable, name):
    monkeypatch.setattr(trace, "get_tracer_provider", object)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=a%20shop, service.version=2,other=x")
    if variable is not None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", variable)
    queue = Queue()
    FleetPublisher(queue, linger_s=0).export([scored()])

    assert unpack(queue.bodies[0]).resource == {"service.name": name, "service.version": "2"}


@pytest.mark.contains_errors
def test_what_cannot_be_published_in_time_is_a_drop_of_the_request(caplog):
    queue = Queue()
    queue.is_down = True
    meter = a_meter(queue, [_Taking()], patience_s=0)
    meter.submit(RagSample(question="secret text", answer="a"))
    assert meter.flush(60)

    stats = meter.stats()
    meter.shutdown()
    assert (stats.captured, stats.exported, dict(stats.dropped)) == (1, 0, {"export": 1})
    assert stats.export_errors == {"FleetPublisher": 1}
    assert "secret" not in caplog.text


class _Taking(UnbufferedExporter):
    """An exporter that takes everything."""

    def export(self, batch):
        return None


def test_a_queue_that_comes_back_gets_what_waited():
    queue = Queue()
    queue.is_down = True
    publisher = FleetPublisher(queue, linger_s=0, patience_s=60)
    thread = threading.Thread(target=publisher.export, args=([scored()],))
    thread.start()
    while not queue.failures:
        thread.join(0.01)

    queue.is_down = False
    thread.join(60)

    assert len(queue.runs) == 1


def test_shutdown_does_not_wait_for_a_queue_that_is_away():
    queue = Queue()
    queue.is_down = True
    publisher = FleetPublisher(queue, patience_s=10_000)
    lost = []

    def export():
        with pytest.raises(RunsLostError) as caught:
            publisher.export([scored(), scored()])
        lost.append(caught.value.lost)

    thread = threading.Thread(target=export)
    thread.start()
    while not queue.failures:
        thread.join(0.01)

    publisher.shutdown(5.0)

    thread.join(60)
    assert lost == [2]
    assert queue.closed == 1


def test_with_a_spool_nothing_is_lost_and_the_order_is_kept(tmp_path):
    queue = Queue()
    queue.is_down = True
    publisher = FleetPublisher(queue, linger_s=0, patience_s=0, spool=tmp_path)
    for number in range(3):
        publisher.export([scored(str(number))])
    assert queue.failures == 1  # after the first failure it was left alone for a while
    assert not publisher.flush(0)

    queue.is_down = False
    assert publisher.flush(60)
    publisher._down_until = 0.0
    publisher.export([scored("3")])
    publisher.shutdown(5.0)

    assert [sent.run.run_id for sent in queue.runs] == ["0", "1", "2", "3"]


def test_what_a_process_left_in_the_spool_is_sent_by_the_next(tmp_path):
    queue = Queue()
    queue.is_down = True
    before = FleetPublisher(queue, linger_s=0, patience_s=0, spool=tmp_path)
    before.export([scored("left")])
    before.shutdown(5.0)

    queue.is_down = False
    after = FleetPublisher(queue, linger_s=0, spool=tmp_path)
    after.export([scored("new")])
    after.shutdown(5.0)

    assert [sent.run.run_id for sent in queue.runs] == ["left", "new"]


def test_requests_that_are_too_large_together_go_alone():
    queue = Queue()
    text = "x" * (30 * 2**20)
    large = [
        replace(one, run=replace(one.run, sample=RagSample(question=text)))
        for one in (scored("1"), scored("2"), scored("3"))
    ]
    too_large = replace(scored("4"), run=replace(scored("4").run, sample=RagSample(question=text * 3)))
    publisher = FleetPublisher(queue, linger_s=0)

    with pytest.raises(RunsLostError) as caught:
        publisher.export([*large, too_large])

    assert caught.value.lost == 1
    assert [sent.run.run_id for sent in queue.runs] == ["1", "2", "3"]


@pytest.mark.parametrize("batch", [0, 33])
def test_a_message_of_another_size_is_refused(batch):
    with pytest.raises(ConfigurationError, match="1 to 32"):
        FleetPublisher(Queue(), batch=batch)


def test_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("RAGMETER_SCORING", "queue")
    with pytest.raises(ConfigurationError, match="RAGMETER_QUEUE_URL"):
        RagMeter.from_env()
    monkeypatch.setenv("RAGMETER_QUEUE_URL", "amqp:user:hidden@host")
    with pytest.raises(ConfigurationError) as caught:
        RagMeter.from_env()
    assert "hidden" not in str(caught.value)

    monkeypatch.setenv("RAGMETER_QUEUE_URL", f"spool://{tmp_path}/queue")
    # Of the worker, which may share the variables: they are none of this meter's.
    monkeypatch.setenv("RAGMETER_METRICS", "faithfulness")
    monkeypatch.setenv("RAGMETER_JUDGE_MODEL", "m")
    monkeypatch.setenv("RAGMETER_JSONL", str(tmp_path / "scores.jsonl"))
    meter = RagMeter.from_env()
    meter.submit(RagSample(question="q"))
    assert meter.flush(60)
    meter.shutdown()

    assert meter.stats().exported == 1
    assert not (tmp_path / "scores.jsonl").exists()
    assert len(list((tmp_path / "queue").glob("*.messages.db"))) == 1


@pytest.mark.parametrize("theirs", [{"metrics": "live"}, {"alarms": True}, {"embedder": len}])
def test_what_is_the_workers_is_refused_in_code(monkeypatch, tmp_path, theirs):
    monkeypatch.setenv("RAGMETER_QUEUE_URL", f"spool://{tmp_path}/queue")

    with pytest.raises(ConfigurationError, match=f"takes no {next(iter(theirs))}: `ragmeter worker`"):
        RagMeter(scoring="queue", **theirs)
