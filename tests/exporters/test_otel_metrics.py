"""The instruments of `OpenTelemetryExporter`: values, units, attributes, exemplars, cardinality."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from at_once import at_once
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest

from ragmeter import RagMeter
from ragmeter.exporters import semconv
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.otel._metrics import MAX_DISTINCT, MAX_SERIES, MAX_STAGES, OTHER, Limiter, SeriesBound
from ragmeter.exporters.protocol import MeterStats
from ragmeter.metrics import ScoreItem, Verdict
from ragmeter.metrics.judge.protocol import JudgeCall

SCORES = "gen_ai.evaluation.score"
STATS = MeterStats(
    captured=10,
    exported=4,
    dropped={"queue_full": 2, "sampled_out": 3},
    judge_skipped={"budget": 1},
    queue_size=5,
    queue_bytes=640,
    export_backlog={"InMemoryExporter": 3},
    internal_errors={"meter.score": 1},
    export_errors={"PhoenixAnnotations": 2},
    amendments={"applied": 3},
    in_flight=1,
)


def values(points):
    """Point values by attribute items, for counters."""
    return {tuple(sorted(point.attributes.items())): point.value for point in points}


def test_scores_are_a_histogram_with_advised_buckets(sdk, make):
    """Only scores whose range is 0 to 1, by name, operation and workflow."""
    OpenTelemetryExporter(**sdk.providers).export([make.scored_run()])
    points = sdk.points()["gen_ai.evaluation.score"]

    assert {tuple(sorted(point.attributes.items())): point.sum for point in points} == {
        (
            ("gen_ai.evaluation.name", "context_precision"),
            ("gen_ai.operation.name", "retrieval"),
            ("gen_ai.workflow.name", "support_bot"),
            ("ragmeter.evaluation.direction", "higher"),
            ("ragmeter.selection", "sampled"),
        ): 0.73,
        (
            ("gen_ai.evaluation.name", "faithfulness"),
            ("gen_ai.operation.name", "invoke_workflow"),
            ("gen_ai.workflow.name", "support_bot"),
            ("ragmeter.evaluation.direction", "higher"),
            ("ragmeter.selection", "sampled"),
        ): 0.9,
    }
    assert tuple(points[0].explicit_bounds) == semconv.SCORE_BUCKETS


def test_zero_and_one_have_buckets_of_their_own(sdk, make):
    """A dashboard can tell 'nothing found' from 'a little found'."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    for value in (0.0, 0.05, 0.995, 1.0):
        exporter.export([make.scored_run((make.score("recall", value),))])
    (point,) = sdk.points()["gen_ai.evaluation.score"]

    assert point.bucket_counts[:2] == (1, 1)
    assert point.bucket_counts[-2:] == (2, 0)


def test_results_and_requests_are_counted_by_how_they_ended(sdk, make):
    """Scores without a value count, too; a late export counts no second request; what lacked an
    input is counted by that input, once a request."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.export([make.scored_run(make.scores[1:])])
    exporter.export([make.scored_run(make.scores[:1], late=True)])
    exporter.export([make.scored_run((), sample={"status": "error"}, error_type="ValueError")])
    points = sdk.points()

    assert values(points["ragmeter.requests"]) == {
        (
            ("gen_ai.workflow.name", "support_bot"),
            ("ragmeter.framework", "langchain"),
            ("ragmeter.request.status", "ok"),
        ): 1,
        (
            ("error.type", "ValueError"),
            ("gen_ai.workflow.name", "support_bot"),
            ("ragmeter.framework", "langchain"),
            ("ragmeter.request.status", "error"),
        ): 1,
    }
    results = points["ragmeter.results"]
    by_name = {point.attributes["gen_ai.evaluation.name"]: point for point in results}
    assert {name: point.attributes["ragmeter.status"] for name, point in by_name.items()} == {
        score.name: score.status for score in make.scores if score.status != "missing_input"
    }
    assert values(points["ragmeter.missing_inputs"]) == {
        (("gen_ai.workflow.name", "support_bot"), ("ragmeter.missing", "reference.contexts")): 1
    }
    assert by_name["context_recall"].attributes["error.type"] == "RateLimitError"
    assert by_name["faithfulness"].attributes["gen_ai.evaluation.score.label"] == "pass"
    (counts,) = points["ragmeter.retrieval.context_count"]
    assert (counts.sum, counts.count) == (4, 2)


def test_retrieval_that_was_not_captured_is_not_counted_as_empty(sdk, make):
    """None is not 0."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.export([make.scored_run((), sample={"contexts": None})])
    exporter.export([make.scored_run((), sample={"contexts": ()})])
    (point,) = sdk.points()["ragmeter.retrieval.context_count"]

    assert (point.count, point.bucket_counts[0]) == (1, 1)


def test_judge_calls_are_measured(sdk):
    """Duration in seconds, tokens by type, calls, cache hits."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.judge_called(JudgeCall("context_recall", "gpt-x", 1.5, 900, 40))
    exporter.judge_called(JudgeCall("context_recall", "gpt-x", 0.5, 900, 0, error_type="Timeout"))
    exporter.judge_called(JudgeCall("context_recall", "gpt-x", 0.0, 0, 0, cached=True))
    points = sdk.points()
    base = (("gen_ai.evaluation.name", "context_recall"), ("gen_ai.request.model", "gpt-x"))

    assert values(points["ragmeter.judge.calls"]) == {base: 1, (("error.type", "Timeout"), *base): 1}
    assert values(points["ragmeter.judge.cache_hits"]) == {base: 1}
    assert values(points["ragmeter.judge.tokens"]) == {
        (*base, ("gen_ai.token.type", "input")): 1800,
        (*base, ("gen_ai.token.type", "output")): 40,
    }
    durations = points["ragmeter.judge.duration"]
    assert sorted(point.sum for point in durations) == [0.5, 1.5]
    assert tuple(durations[0].explicit_bounds) == semconv.DURATION_BUCKETS


def test_cost_is_counted_for_calls_whose_price_is_known(sdk):
    """A call without a price has no cost rather than a wrong one."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.judge_called(JudgeCall("recall", "gpt-x", 1.0, 1_000_000, 500_000, cost=1.5))
    exporter.judge_called(JudgeCall("recall", "other", 1.0, 1_000_000, 500_000))
    (point,) = sdk.points()["ragmeter.judge.cost"]

    assert (point.value, point.attributes["gen_ai.request.model"]) == (1.5, "gpt-x")


def test_the_meters_own_counters_are_observable(sdk):
    """Read when metrics are collected, not when a request happens to be exported."""
    OpenTelemetryExporter(**sdk.providers).observe_meter(lambda: STATS)
    points = sdk.points()

    assert values(points["ragmeter.captured"]) == {(): 10}
    assert values(points["ragmeter.dropped"]) == {
        (("ragmeter.reason", "queue_full"),): 2,
        (("ragmeter.reason", "sampled_out"),): 3,
    }
    assert values(points["ragmeter.judge.skipped"]) == {(("ragmeter.reason", "budget"),): 1}
    assert values(points["ragmeter.internal.errors"]) == {(("ragmeter.component", "meter.score"),): 1}
    assert values(points["ragmeter.export.errors"]) == {(("ragmeter.exporter", "PhoenixAnnotations"),): 2}
    assert values(points["ragmeter.amendments"]) == {(("ragmeter.outcome", "applied"),): 3}
    assert values(points["ragmeter.in_flight"]) == {(): 1}
    assert values(points["ragmeter.queue.size"]) == {(): 5}
    assert values(points["ragmeter.queue.bytes"]) == {(): 640}
    assert list(values(points["ragmeter.export.backlog"]).values()) == [3]


def test_a_score_of_a_request_is_recorded_once(sdk, make):
    """Late truth told twice, or in other words, goes to spans and events; the sums keep the first."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    first = make.score("rouge_l", None, status="missing_input", missing="reference.answer")
    exporter.export([make.scored_run((first,))])
    for revision, value in (("1", 0.25), ("2", 0.75)):
        late = make.scored_run((make.score("rouge_l", value),), late=True)
        exporter.export([replace(late, revision=revision)])
    exporter.export([make.scored_run((make.score("rouge_l", 0.5),), run_id="another")])
    points = sdk.points()

    (histogram,) = points["gen_ai.evaluation.score"]
    assert (histogram.count, histogram.sum) == (2, 0.75)
    assert sum(point.value for point in points["ragmeter.results"]) == 2
    assert points["ragmeter.missing_inputs"][0].value == 1


def test_scores_of_requests_judged_for_being_bad_stand_apart(sdk, make):
    """Free scores are measured of every request and stand together."""
    exporter = OpenTelemetryExporter(**sdk.providers, span_mode="off", events="off")
    scores = (make.score("judged", 0.1, method="llm"), make.score("free", 0.5))
    for judge_selection in ("sampled", "worst", "worst"):
        run = make.scored_run(scores)
        exporter.export([replace(run, selection="worst", judge_selection=judge_selection)])
    exporter.measure(make.scored_run(scores[1:]))

    assert {
        (p.attributes["gen_ai.evaluation.name"], p.attributes.get("ragmeter.selection")): p.count
        for p in sdk.points()["gen_ai.evaluation.score"]
    } == {("judged", "sampled"): 1, ("judged", "worst"): 2, ("free", None): 4}


def test_what_is_learned_of_kept_requests_only_is_no_score_of_every_request(sdk, make):
    """A late reference is known of exported requests; those kept for being bad stand apart."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    for selection in ("sampled", "worst"):
        run = make.scored_run((make.score("rouge_l", 0.5),), late=True, run_id=selection)
        exporter.export([replace(run, selection=selection, revision="1")])

    selections = [p.attributes.get("ragmeter.selection") for p in sdk.points()[SCORES]]
    assert selections == [None, "worst"]


def test_a_measured_request_leaves_no_span_and_no_event(sdk, make):
    """It was sampled out: its free scores go into the sums and nowhere else."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.measure(make.scored_run((make.score("free", 0.5),)))

    assert sdk.all_spans() == ()
    assert sdk.records() == []
    points = sdk.points()
    assert points[SCORES][0].sum == 0.5
    assert points["ragmeter.requests"][0].value == 1


def test_workflows_times_scores_stay_below_the_limit_of_the_sdk(sdk, make):
    """What does not fit stands under `other`, is told, and no measurement is lost."""
    exporter = OpenTelemetryExporter(**sdk.providers, span_mode="off", events="off")
    scores = tuple(make.score(f"score_{n}", 0.5) for n in range(28))
    for workflow in range(100):
        sample = {"name": f"workflow-{workflow}", "status": "ok"}
        exporter.export([make.scored_run(scores, sample=sample, run_id=f"run-{workflow}")])
    points = sdk.points()

    for name in (SCORES, "ragmeter.results"):
        assert len(points[name]) <= MAX_SERIES + 28
        assert not any("otel.metric.overflow" in point.attributes for point in points[name])
    assert sum(point.count for point in points[SCORES]) == 2_800
    by_workflow = Counter(point.attributes["gen_ai.workflow.name"] for point in points[SCORES])
    # A workflow has all of its scores or stands under `other` with all of them.
    assert set(by_workflow.values()) == {28}
    assert len(by_workflow) == MAX_SERIES // 28 + 1
    told = {p.attributes["ragmeter.instrument"]: p.value for p in points["ragmeter.overflow"]}
    others = [p for p in points[SCORES] if p.attributes["gen_ai.workflow.name"] == OTHER]
    assert told[SCORES] == sum(point.count for point in others) == 28 * (100 - MAX_SERIES // 28)


def test_exporters_that_share_a_provider_share_its_room(sdk, make):
    """They write to the same instruments, and the SDK's limit is the instruments'."""
    exporters = [OpenTelemetryExporter(**sdk.providers, span_mode="off") for _ in range(3)]
    scores = tuple(make.score(f"score_{n}", 0.5) for n in range(28))
    for number in range(90):
        run = make.scored_run(scores, sample={"name": f"workflow-{number}"})
        exporters[number % 3].export([run])
    points = sdk.points()

    assert len(points[SCORES]) <= MAX_SERIES + 28
    assert sum(point.count for point in points[SCORES]) == 90 * 28


def test_errors_and_labels_cannot_overflow_an_instrument_either():
    """Whatever is combined, an instrument stays below the limit, and known series stay themselves."""
    bound = SeriesBound()
    first = {
        "gen_ai.workflow.name": "a", "gen_ai.evaluation.name": "recall", "ragmeter.status": "ok",
    }  # fmt: skip
    assert bound.fit("results", first) == first
    series = set()
    for number in range(20_000):
        attributes = {
            "gen_ai.workflow.name": f"w{number % 97}",
            "gen_ai.evaluation.name": f"s{number % 89}",
            "ragmeter.status": ("ok", "judge_error", "timeout")[number % 3],
            "error.type": f"E{number % 83}",
        }
        series.add(tuple(bound.fit("results", attributes).items()))

    assert len(series) < 2_000
    assert bound.fit("results", dict(first)) == first


def test_two_meters_of_one_process_add_up(sdk):
    """OpenTelemetry alone would keep the first meter's callback and ignore the second's."""
    first, second = (OpenTelemetryExporter(**sdk.providers) for _ in range(2))
    first.observe_meter(lambda: STATS)
    second.observe_meter(lambda: STATS)

    assert values(sdk.points()["ragmeter.captured"]) == {(): 20}
    assert values(sdk.points()["ragmeter.queue.size"]) == {(): 10}
    first.shutdown(60)
    assert values(sdk.points()["ragmeter.captured"]) == {(): 20}
    assert values(sdk.points()["ragmeter.queue.size"]) == {(): 5}


def test_every_instrument_is_emitted_as_it_is_listed(sdk, make):
    """The table in semconv and what leaves are one: names, units, attribute keys."""
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.observe_meter(lambda: STATS)
    verdict = Verdict(word="bad", codes=("unsupported_answer",), reasons=("r",))
    stages = make.score("retrieval_funnel", 1.0, items=(ScoreItem("prompt", None, value=2.0),))
    fates = make.score(
        "right_documents_dropped", 0.0, items=(ScoreItem("document-1", True, reason="in_prompt"),)
    )
    exporter.export([make.scored_run((stages, fates))])
    exporter.export([replace(make.scored_run(error_type="ValueError"), verdict=verdict)])
    exporter.judge_called(JudgeCall("faithfulness", "m", 1.0, 1, 1, error_type="Timeout", cost=0.1))
    exporter.judge_called(JudgeCall("faithfulness", "m", 0.0, 0, 0, cached=True))
    exporter.gap_found("retriever_misses", "en")
    points = sdk.points()

    # One is of requests that ran in another process: test_otel_elsewhere.py.
    here = [one for one in semconv.INSTRUMENTS if one is not semconv.EVALUATION_DELAY]
    assert set(points) == {str(instrument.name) for instrument in here}
    for instrument in here:
        keys = {key for point in points[instrument.name] for key in point.attributes}
        assert keys <= set(instrument.attributes)


def test_metrics_can_be_switched_off(sdk, make):
    """metrics=False leaves spans and events."""
    exporter = OpenTelemetryExporter(**sdk.providers, metrics=False)
    exporter.observe_meter(lambda: STATS)
    exporter.export([make.scored_run()])
    exporter.judge_called(JudgeCall("faithfulness", "m", 1.0, 1, 1))

    assert sdk.points() == {}
    assert sdk.all_spans()


def test_thousands_of_everything_add_no_series_beyond_the_bound(sdk, make):
    """Questions, users, documents, conversations and run ids never become series; names are capped."""
    exporter = OpenTelemetryExporter(**sdk.providers, span_mode="off", events="off")
    run = make.scored_run()
    for n in range(2_000):
        exporter.export(
            [
                make.scored_run(
                    make.scores[:4],
                    sample={"question": f"q{n}", "answer": f"a{n}", "name": f"workflow-{n}"},
                    retrieval={"contexts": (), "data_source_id": f"store-{n}"},
                    run_id=f"run-{n}",
                    user_id=f"user-{n}",
                    conversation_id=f"thread-{n}",
                    tags=(f"tag-{n}",),
                    metadata={"n": n},
                    parent=make.span_context(span=n + 1),
                )
            ]
        )
    points = sdk.points()
    names = {point.attributes["gen_ai.workflow.name"] for point in points["ragmeter.requests"]}

    assert len(names) == MAX_DISTINCT + 1
    assert OTHER in names
    assert len(points["ragmeter.requests"]) == MAX_DISTINCT + 1
    assert len(points["ragmeter.results"]) == 4 * (MAX_DISTINCT + 1)
    assert len(points["gen_ai.evaluation.score"]) == 2 * (MAX_DISTINCT + 1)
    assert len(points["ragmeter.retrieval.context_count"]) == MAX_DISTINCT + 1
    assert sum(point.value for point in points["ragmeter.requests"]) == 2_000
    del run


@given(st.lists(st.text(), max_size=200), st.integers(1, 20))
def test_a_limiter_never_admits_more_than_its_bound(names, bound):
    """What was admitted once is admitted always."""
    limiter = Limiter(bound)
    first = [limiter.admit("workflow", name) for name in names]

    assert len(set(first) - {OTHER}) <= bound
    assert [limiter.admit("workflow", name) for name in names] == first


def test_a_limiter_holds_under_threads():
    """Eight threads with the same thousand names in different orders see one bound."""
    limiter = Limiter(50)
    admitted = set()

    def work(seed):
        names = [f"n{n}" for n in range(1000)]
        random.Random(seed).shuffle(names)
        admitted.update(limiter.admit("workflow", name) for name in names)

    at_once(work, range(8))

    assert len(admitted) == 51


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_prometheus_pulls_them_in_one_line(sdk, make):
    """The names that the dashboards use, as Prometheus sees them."""
    reader = PrometheusMetricReader()
    provider = MeterProvider([reader])
    try:
        exporter = OpenTelemetryExporter(**{**sdk.providers, "meter_provider": provider})
        exporter.observe_meter(lambda: STATS)
        exporter.export([make.scored_run()])
        exporter.judge_called(JudgeCall("faithfulness", "m", 1.0, 10, 1))
        page = generate_latest(REGISTRY).decode()
    finally:
        provider.shutdown()

    for name in (
        'gen_ai_evaluation_score_bucket{gen_ai_evaluation_name="context_precision"',
        "ragmeter_results_total{",
        "ragmeter_requests_total{",
        "ragmeter_judge_duration_seconds_bucket{",
        "ragmeter_judge_tokens_total{",
        "ragmeter_dropped_total{",
        "\nragmeter_queue_size",
        "\nragmeter_queue_bytes",
        "ragmeter_retrieval_context_count_bucket{",
    ):
        assert name in page


def test_documents_are_counted_by_stage_and_right_ones_by_fate(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    metrics = ["retrieval_funnel", "right_document_loss"]
    with RagMeter(metrics=metrics, exporters=[exporter]) as meter:
        for _ in range(2):
            with meter.request("q", reference={"context_ids": ["1", "2", "3"]}) as request:
                request.retrieved([{"id": "1", "text": "a"}, {"id": "2", "text": "b"}], name="bm25")
                request.kept([{"id": "2", "text": "b"}], stage="rerank", kind="postprocessor")
                request.answered("yes")
        with meter.request("q") as late:
            late.retrieved([{"id": "1", "text": "a"}], name="bm25")
        assert meter.flush(60)
        meter.attach_reference(late.run_id, {"context_ids": ["9"]})
        assert meter.flush(60)
    points = sdk.points()

    assert values(points["ragmeter.documents"]) == {
        (("ragmeter.stage", "bm25"), ("ragmeter.stage.kind", "retriever")): 5,
        (("ragmeter.stage", "rerank"), ("ragmeter.stage.kind", "postprocessor")): 2,
        (("ragmeter.stage", "prompt"), ("ragmeter.stage.kind", "prompt")): 3,
    }
    assert values(points["ragmeter.right_documents"]) == {
        (("ragmeter.fate", "dropped_by"), ("ragmeter.stage", "rerank")): 2,
        (("ragmeter.fate", "in_prompt"),): 2,
        (("ragmeter.fate", "never_found"),): 3,
    }


def test_stages_whose_names_never_end_are_counted_together(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    with RagMeter(metrics=["retrieval_funnel"], exporters=[exporter]) as meter:
        for number in range(50):
            with meter.request("q") as request:
                request.retrieved(["a"], name=f"retriever of {number}")
        assert meter.flush(60)
    names = {point.attributes["ragmeter.stage"] for point in sdk.points()["ragmeter.documents"]}

    assert len(names) == MAX_STAGES + 1
    assert OTHER in names
