"""References and feedback that come after the fact."""

import threading

import pytest
from fakes_core import FakeJudge, GatedMetric, context_tally, exact_answer
from fakes_quality import Runs
from memory_sdk import memory_sdk
from opentelemetry.sdk.trace import TracerProvider

from ragmeter import Limits, RagMeter, Sampling
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RagSample, Reference
from ragmeter.pipeline.late import LateWindow
from ragmeter.requests.size import weight_of_run

SAMPLE = RagSample(question="q", contexts=["a"], answer="Here.")


def _run(run_id, text="a"):
    return Runs()(run_id=run_id, sample=RagSample(question="q", contexts=[text]))


@pytest.fixture
def memory():
    return InMemoryExporter()


def _meter(memory, **changes):
    return RagMeter(metrics=[context_tally, exact_answer], exporters=[memory], **changes)


def test_a_late_reference_is_scored_by_the_metrics_that_need_one(memory):
    meter = _meter(memory)
    with meter.request("q") as request:
        request.retrieved(["a"])
        request.answered("Here.")
    meter.flush(60)

    meter.attach_reference(request.run_id, "Here.")
    assert meter.flush(60)

    first, second = memory.results
    assert first.scores["exact_answer"].status == "missing_input"
    assert (second.late, second.run.run_id) == (True, request.run_id)
    assert {name: score.value for name, score in second.scores.items()} == {"exact_answer": 1.0}
    assert second.sample.reference == Reference(answer="Here.")
    assert meter.stats().amendments == {"applied": 1}
    assert meter.stats().exported == 1


def test_a_request_is_found_by_its_trace_too(memory):
    meter = _meter(memory)
    with TracerProvider().get_tracer("app").start_as_current_span("http") as span:
        meter.submit(SAMPLE)
    trace_id = span.get_span_context().trace_id

    meter.attach_reference(trace_id, {"answer": "Here."})
    meter.feedback(f"{trace_id:032x}", "thumbs_up", 1.0, label="up")
    assert meter.flush(60)

    assert [list(result.scores) for result in memory.results[1:]] == [["exact_answer"], ["thumbs_up"]]
    score = memory.results[2].scores["thumbs_up"]
    assert (score.value, score.method, score.target, score.label) == (1.0, "human", "answer", "up")


def test_judged_metrics_are_asked_again_only_if_they_need_a_reference(memory):
    gate = threading.Event()
    gate.set()
    with_reference = GatedMetric(gate, name="judged", needs=("reference.answer",))
    meter = RagMeter(metrics=[context_tally, with_reference], judge=FakeJudge(), exporters=[memory])
    meter.submit(SAMPLE)
    meter.flush(60)

    meter.attach_reference(memory.results[0].run.run_id, "Here.")
    assert meter.flush(60)

    assert {name: s.value for name, s in memory.results[1].scores.items()} == {"gated": 0.5}


def test_each_revision_is_exported_under_an_id_of_its_own(memory):
    """A second reference is a second result: backends keep the first span of an id."""
    sdk = memory_sdk()
    telemetry = OpenTelemetryExporter(**sdk.providers)
    meter = RagMeter(metrics=[exact_answer], exporters=[memory, telemetry])
    meter.submit(SAMPLE)
    assert meter.flush(60)
    run_id = memory.results[0].run.run_id

    for answer in ("Here.", "There.", "There.", "Here."):
        meter.attach_reference(run_id, answer)
    for value in (0.0, 1.0):
        meter.feedback(run_id, "thumbs_up", value)
    assert meter.flush(60)

    assert [result.revision for result in memory.results] == ["", "1", "2", "2", "3", "4", "5"]
    late = [span for span in sdk.all_spans() if span.name == "evaluation"]
    ids = [span.context.span_id for span in late]
    # What was said twice in a row is one thing, and one span at the backend.
    assert len(ids) == 6
    assert len(set(ids)) == 5
    assert ids[1] == ids[2]
    points = {
        point.attributes["gen_ai.evaluation.name"]: (point.count, point.sum)
        for point in sdk.points()["gen_ai.evaluation.score"]
    }
    assert points == {"exact_answer": (1, 1.0), "thumbs_up": (1, 0.0)}


def test_without_metrics_an_attached_reference_is_still_exported(memory):
    """Scores may be made elsewhere, by whoever reads what is exported."""
    meter = RagMeter(metrics=[], exporters=[memory])
    meter.submit(SAMPLE)
    assert meter.flush(60)
    meter.attach_reference(memory.results[0].run.run_id, "Here.")
    assert meter.flush(60)

    _, late = memory.results
    assert (late.late, dict(late.scores), late.revision) == (True, {}, "1")
    assert late.sample.reference == Reference(answer="Here.")
    assert meter.stats().exported == 1


def test_late_truth_about_a_request_kept_for_being_bad_says_so(memory):
    """The chances of a request are those it was chosen with, also when it is scored again."""
    meter = RagMeter(
        metrics=[exact_answer], exporters=[memory], sample_rate=0.0, sampling=Sampling(keep="worst")
    )
    meter.submit(SAMPLE.model_copy(update={"contexts": ()}))
    assert meter.flush(60)
    meter.attach_reference(memory.results[0].run.run_id, "Here.")
    assert meter.flush(60)

    assert [(one.selection, one.sample_rate) for one in memory.results] == [("worst", 1.0)] * 2


def test_an_unknown_request_is_counted(memory):
    meter = _meter(memory)

    meter.attach_reference("nobody", "x")
    meter.feedback(7, "thumbs_up", 1.0)
    assert meter.flush(60)

    assert meter.stats().amendments == {"unknown": 2}
    assert memory.results == []


@pytest.mark.contains_errors
@pytest.mark.parametrize(("name", "value"), [("Thumbs up", 1.0), ("ok", float("nan")), ("ok", float("inf"))])
def test_malformed_feedback_is_contained(memory, contained_errors, name, value):
    meter = _meter(memory)

    meter.feedback("r", name, value)

    assert [component for component, _ in contained_errors] == ["meter.amend"]


@pytest.mark.contains_errors
def test_a_malformed_late_reference_is_contained(memory, contained_errors):
    _meter(memory).attach_reference("r", {"anwser": "typo"})

    assert [component for component, _ in contained_errors] == ["meter.amend"]


def test_the_window_is_bounded_by_number_bytes_and_age():
    now = [0.0]
    recent = LateWindow(max_runs=3, max_bytes=2_000, max_age_s=10, clock=lambda: now[0])

    def remember(*of_run):
        run = _run(*of_run)
        recent.remember(run, 1.0, "sampled", weight_of_run(run))

    for number in range(10):
        remember(str(number))
    assert len(recent) == 3
    assert recent.find("6") is None
    assert recent.find("7") is not None

    remember("big", "x" * 1_500)
    assert len(recent) == 1

    now[0] = 11
    assert recent.find("big") is None
    remember("new")
    assert len(recent) == 1


def test_no_window_remembers_nothing(memory):
    meter = _meter(memory, limits=Limits(late_window=0))
    meter.submit(SAMPLE)
    meter.flush(60)

    meter.attach_reference(memory.results[0].run.run_id, "Here.")
    meter.flush(60)

    assert meter.stats().amendments == {"unknown": 1}


def test_a_late_reference_says_where_a_right_document_was_lost(memory):
    meter = RagMeter(metrics=["right_document_loss"], exporters=[memory])
    with meter.request("q") as request:
        request.retrieved([{"id": "1", "text": "one"}, {"id": "2", "text": "two"}])
        request.kept([{"id": "2", "text": "two"}], stage="rerank")
        request.answered("Here.")
    meter.flush(60)

    meter.attach_reference(request.run_id, {"context_ids": ["1"]})
    assert meter.flush(60)

    first, second = memory.results
    assert first.scores["right_documents_dropped"].status == "missing_input"
    score = second.scores["right_documents_dropped"]
    assert (score.value, score.label) == (1.0, "rerank")
    assert second.verdict is not None
    assert second.verdict.codes == ("right_document_dropped",)
    meter.shutdown(60)
