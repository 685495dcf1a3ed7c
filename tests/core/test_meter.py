"""The meter as users and adapters see it."""

import math
import re
import threading

import pytest
from fakes_core import FakeJudge, GatedExporter, GatedMetric, answer_length, context_tally, exact_answer, scored
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from ragmeter import Alarms, Limits, MeterStats, RagMeter, RagRun, Sampling, Scoring
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError, RagSample, Reference, UnknownMetricError, metric
from ragmeter.metrics.judge.protocol import JudgeCall

SAMPLE = RagSample(question="Where?", contexts=["Here.", "There."], answer="Here.")


def _meter(**changes):
    memory = InMemoryExporter()
    arguments = {"metrics": [context_tally, answer_length], "exporters": [memory], **changes}
    return RagMeter(**arguments), memory


def _reconciles(stats: MeterStats) -> bool:
    return stats.captured == stats.exported + sum(stats.dropped.values()) + stats.in_flight


def test_a_submitted_sample_is_scored_and_exported_in_the_order_of_the_metrics():
    [result], stats = scored(SAMPLE, metrics=[answer_length, context_tally])

    assert result.sample == SAMPLE
    assert [(name, score.value) for name, score in result.scores.items()] == [
        ("answer_length", 5.0),
        ("context_tally", 2.0),
    ]
    assert stats.exported == 1


def test_a_missing_input_is_a_status_and_never_zero():
    [result], _ = scored(RagSample(question="q", answer="a"), metrics=[exact_answer, context_tally])

    assert {(score.status, score.value) for score in result.scores.values()} == {("missing_input", None)}


@pytest.mark.parametrize("status", ["error", "cancelled", "partial", "interrupted", "no_answer", "refused"])
def test_answer_metrics_skip_requests_that_did_not_end_well(status):
    sample = SAMPLE.model_copy(update={"status": status})
    [result], _ = scored(sample, metrics=[context_tally, answer_length])

    assert result.scores["answer_length"].status == "skipped"
    assert result.scores["context_tally"].value == 2.0


@pytest.mark.parametrize(
    ("references", "changes"),
    [
        ({"where": "Here."}, {"question": "  WHERE?? "}),  # by normalised question
        ({"where": "There."}, {"reference": Reference(answer="Here.")}),  # the request's own wins
    ],
)
def test_a_reference_is_found_unless_the_request_brings_one(references, changes):
    sample = SAMPLE.model_copy(update=changes)
    [result], _ = scored(sample, metrics=[exact_answer], references=references)

    assert result.scores["exact_answer"].value == 1.0


@pytest.mark.contains_errors
def test_a_raising_reference_source_loses_the_reference_not_the_request(contained_errors):
    def broken(question):
        raise LookupError(question)

    [result], _ = scored(SAMPLE, metrics=[exact_answer, context_tally], references=broken)

    assert result.scores["exact_answer"].status == "missing_input"
    assert result.scores["context_tally"].value == 2.0
    assert [component for component, _ in contained_errors] == ["meter.reference"]


def test_a_raising_metric_becomes_a_status():
    @metric
    def broken(sample):
        raise ZeroDivisionError("oh")

    [result], _ = scored(SAMPLE, metrics=[broken, context_tally])

    score = result.scores["broken"]
    assert (score.status, score.value, score.error_type) == ("metric_error", None, "ZeroDivisionError")
    assert result.scores["context_tally"].value == 2.0


def test_a_hanging_exporter_delays_neither_the_others_nor_flush():
    hanging, memory = GatedExporter(), InMemoryExporter()
    meter = RagMeter(metrics=[context_tally], exporters=[hanging, memory], limits=Limits(queue_size=4))

    for number in range(20):
        meter.submit(SAMPLE)
        memory.wait_for(number + 1)
    assert hanging.entered.wait(60)

    assert memory.wait_for(20)
    assert meter.flush(0.2) is False
    hanging.gate.set()
    assert meter.flush(60)
    lost = meter.stats().export_errors.get("GatedExporter:queue_full", 0)
    assert len(hanging.exported) + lost == 20


@pytest.mark.parametrize(
    ("limits", "waiting"), [(Limits(queue_size=5), 5), (Limits(queue_bytes=3_000), 4)], ids=["number", "bytes"]
)
def test_a_full_queue_drops_the_oldest_and_counts_them(limits, waiting):
    gate = threading.Event()

    @metric(range=(0.0, None))
    def blocked(sample):
        gate.wait(60)
        return 1.0

    meter, memory = _meter(metrics=[blocked], limits=limits)
    for number in range(20):
        meter.submit(RagSample(question=str(number), contexts=["x" * 400]))
    assert meter.stats().queue_bytes <= limits.queue_bytes
    gate.set()

    assert meter.flush(60)
    stats = meter.stats()
    assert stats.captured == 20
    assert 13 <= stats.dropped["queue_full"] == 20 - stats.exported
    assert [r.sample.question for r in memory.results][-waiting:] == [str(n) for n in range(20 - waiting, 20)]
    assert _reconciles(stats)


def test_sampling_is_by_trace_id_and_the_same_for_every_meter():
    first, first_memory = _meter(sample_rate=0.3)
    second, second_memory = _meter(sample_rate=0.3)
    tracer = TracerProvider().get_tracer("app")
    for _ in range(200):
        with tracer.start_as_current_span("request"):
            first.submit(SAMPLE)
            second.submit(SAMPLE)
    first.flush(60)
    second.flush(60)

    traces = [result.run.trace_id for result in first_memory.results]
    assert traces == [result.run.trace_id for result in second_memory.results]
    assert 20 < len(traces) < 110
    assert first.stats().dropped["sampled_out"] == 200 - len(traces)
    assert all(result.sample_rate == 0.3 for result in first_memory.results)


def test_judged_scores_in_time_go_out_with_the_rest():
    gate = threading.Event()
    gate.set()
    metrics = [context_tally, GatedMetric(gate)]
    [result], _ = scored(SAMPLE, metrics=metrics, judge=FakeJudge(), limits=Limits(hold_s=30))

    assert not result.late
    assert set(result.scores) == {"context_tally", "gated"}


def test_late_judged_scores_follow_on_their_own():
    gate = threading.Event()
    meter, memory = _meter(
        metrics=[context_tally, GatedMetric(gate)], judge=FakeJudge(), limits=Limits(hold_s=0.05)
    )

    meter.submit(SAMPLE)
    (first,) = memory.wait_for(1)
    assert (first.late, set(first.scores)) == (False, {"context_tally"})
    gate.set()
    assert meter.flush(60)

    second = memory.results[1]
    assert (second.late, set(second.scores)) == (True, {"gated"})
    assert second.run.run_id == first.run.run_id
    assert meter.stats().exported == 1


def test_shutdown_exports_what_the_judge_did_not_get_to():
    never, asked = threading.Event(), threading.Event()

    class Asked(GatedMetric):
        async def measure(self, sample, judge):
            asked.set()
            return await super().measure(sample, judge)

    judge = FakeJudge()
    meter, memory = _meter(metrics=[context_tally, Asked(never)], judge=judge, limits=Limits(hold_s=60))

    meter.submit(SAMPLE)
    assert asked.wait(60)
    meter.shutdown(1.0)

    (result,) = memory.results
    assert result.scores["context_tally"].value == 2.0
    assert result.scores["gated"].status == "skipped"
    assert meter.stats().judge_skipped == {"shutdown": 1}
    assert judge.closed == 1


def test_shutdown_is_idempotent_and_later_requests_are_counted():
    meter, memory = _meter()
    meter.submit(SAMPLE)
    meter.shutdown(60)
    meter.shutdown(60)

    meter.submit(SAMPLE)

    assert len(memory.results) == 1
    assert meter.stats().dropped == {"shutdown": 1}
    assert _reconciles(meter.stats())


def test_a_sample_belongs_to_the_span_that_is_current():
    meter, memory = _meter()
    with TracerProvider().get_tracer("app").start_as_current_span("request") as span:
        meter.submit(SAMPLE)
    meter.flush(60)

    assert memory.results[0].run.parent == span.get_span_context()
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_an_adapter_that_has_nothing_to_report_leaves_no_trace_in_the_counts():
    meter, memory = _meter()

    meter.port.offer(lambda: None, run_id="r")
    meter.flush(60)

    assert memory.results == []
    assert meter.stats() == MeterStats(export_backlog={"InMemoryExporter": 0})


@pytest.mark.contains_errors
def test_a_builder_that_raises_is_counted_and_does_not_stop_the_worker(contained_errors):
    meter, memory = _meter()

    def broken() -> RagRun:
        raise ValueError("no")

    meter.port.offer(broken, run_id="r")
    meter.submit(SAMPLE)

    assert meter.flush(60)
    assert len(memory.results) == 1
    assert meter.stats().dropped == {"error": 1}
    assert [component for component, _ in contained_errors] == ["meter.build"]


def test_judge_calls_are_counted():
    judge = FakeJudge()
    meter, _ = _meter(judge=judge)

    judge.report(JudgeCall("m", "fake-model", 0.1, 100, 10))
    judge.report(JudgeCall("m", "fake-model", 0.0, 0, 0, cached=True))

    stats = meter.stats()
    assert (stats.judge_calls, stats.input_tokens, stats.output_tokens) == (1, 100, 10)
    assert stats.judge_cache_hits == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": ["context_tally_typo"]}, "`ragmeter metrics` lists all"),
        ({"metrics": [context_tally, context_tally]}, "prefixed"),
        ({"sample_rate": 1.5}, "sample_rate is 1.5"),
        ({"judge_sample_rate": -0.1}, "judge_sample_rate"),
        ({"limits": {"queue_size": 9}}, "limits is {'queue_size': 9}; pass ragmeter.Limits(...)"),
        ({"sampling": "worst"}, "sampling is 'worst'; pass ragmeter.Sampling(...)"),
        ({"sample_rate": 0.5, "sampling": Sampling(rate=0.2)}, "name the same rate"),
        ({"references": "nowhere.jsonl"}, "nowhere.jsonl"),
        ({"references": "golden.txt"}, ".jsonl"),
        ({"references": 5}, "references is a int"),
        ({"metrics": 5}, "metrics"),
        ({"sample_rate": "often"}, "sample_rate"),
        ({"judge_sample_rate": None}, "judge_sample_rate"),
        ({"exporters": 5}, "exporters"),
        ({"exporters": [5]}, "exporters"),
        ({"alarms": 5}, "alarms"),
        ({"scoring": 5}, "scoring"),
        ({"judge": 5}, "judge"),
        ({"scoring": Scoring(objectives=[5])}, "objectives"),
        ({"scoring": Scoring(objectives=5)}, "is no list"),
        ({"metrics": [GatedMetric(threading.Event())]}, "OpenAIJudge"),
        ({"judge": "gpt-4o-mini"}, "judge: 'gpt-4o-mini' is no judge"),
        ({"exporters": ["otlp"]}, "exporters: 'otlp' is unknown; did you mean 'otel'"),
        ({"exporters": [InMemoryExporter]}, "is a class; pass an object"),
    ],
)
def test_misconfiguration_raises_at_construction_with_the_fix(arguments, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        _meter(**arguments)


@pytest.mark.parametrize(
    ("group", "arguments", "message"),
    [
        (Limits, {"queue_size": 0}, "queue_size is 0"),
        (Limits, {"max_text_chars": 0}, "max_text_chars"),
        (Limits, {"hold_s": -1}, "hold_s"),
        (Limits, {"hold_s": "x"}, "hold_s"),
        (Limits, {"hold_s": None}, "hold_s"),
        (Limits, {"queue_size": None}, "queue_size"),
        (Limits, {"queue_bytes": math.inf}, "queue_bytes"),
        (Limits, {"queue_size": math.nan}, "queue_size"),
        (Limits, {"shutdown_timeout_s": "soon"}, "shutdown_timeout_s"),
        (Limits, {"late_window": "many"}, "late_window"),
        (Sampling, {"keep": "best"}, "'none' or 'worst'"),
        (Sampling, {"keep": ["worst"]}, "keep"),
        (Sampling, {"rate": 1.5}, "rate is 1.5"),
        (Sampling, {"cascade": "all"}, "cascade is 'all'"),
        (Scoring, {"mode": "fork"}, "scoring"),
        (Scoring, {"redact": "secrets"}, "redact"),
        (Scoring, {"verdict": 1}, "verdict"),
        (Alarms, {"check_every_s": 1}, "check_every_s"),
    ],
)
def test_a_group_of_arguments_refuses_what_is_wrong(group, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        group(**arguments)


def test_an_unknown_metric_name_says_which_are_near():
    with pytest.raises(UnknownMetricError) as caught:
        RagMeter(metrics=["retrieval_helth"], exporters=[])

    assert caught.value.name == "retrieval_helth"
    assert "Did you mean 'retrieval_health'" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_detector_is_asked_beside_the_other_metrics():
    [result], _ = scored(SAMPLE, detector=lambda question, contexts, answer: [(0, 4, 0.9)])

    assert result.scores["span_support"].value == pytest.approx(0.2)  # 1 - 4 / 5
    assert "context_tally" in result.scores
    with pytest.raises(ConfigurationError, match="detector is int"):
        RagMeter(detector=5)
