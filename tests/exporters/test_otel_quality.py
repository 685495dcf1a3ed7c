"""The sums behind the means of quality as counters: added up over meters, of one moment, never falling."""

import os

import pytest
from forked import in_child

from ragmeter import RagMeter, RagSample
from ragmeter.exporters import semconv
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import QualitySums
from ragmeter.metrics import metric


def _sums(value, score="faithfulness", workflow="qa", judge="a", names=semconv.JUDGED_SUMS, **more):
    return QualitySums(score=score, workflow=workflow, judge=judge, sums=dict.fromkeys(names, value), **more)


def _values(points):
    return {tuple(sorted(point.attributes.items())): point.value for point in points}


def _attributes(score="faithfulness", workflow="qa", judge="a"):
    pairs = {
        "gen_ai.evaluation.name": score, "gen_ai.workflow.name": workflow, "ragmeter.judge": judge,
        "ragmeter.evaluation.direction": "higher",
    }  # fmt: skip
    return tuple(sorted((key, value) for key, value in pairs.items() if value))


def test_every_sum_is_a_counter_with_what_it_is_of(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    free = _sums(2.0, "lexical_groundedness", "", "", semconv.FREE_SUMS)
    exporter.observe_quality(lambda: [_sums(1.5, design_effect=2.5, budget=0.1), free])
    points = sdk.points()
    assert set(points) == {str(one.name) for one in semconv.QUALITY_INSTRUMENTS}
    of_free = _attributes("lexical_groundedness", "", "")
    for name, instrument in semconv.QUALITY_SUMS.items():
        expected = {_attributes(): 1.5} | ({of_free: 2.0} if name in semconv.FREE_SUMS else {})
        assert _values(points[instrument.name]) == expected
        keys = {key for point in points[instrument.name] for key in point.attributes}
        assert keys <= set(instrument.attributes)
    assert _values(points[semconv.DESIGN_EFFECT.name]) == {_attributes(): 2.5}
    assert _values(points[semconv.QUALITY_BUDGET.name]) == {_attributes(): 0.1}


def test_two_meters_add_up_and_one_that_is_gone_stays(sdk):
    first, second = (OpenTelemetryExporter(**sdk.providers) for _ in range(2))
    first.observe_quality(lambda: [_sums(1.0)])
    second.observe_quality(lambda: [_sums(2.0), _sums(4.0, judge="b")])
    expected = {_attributes(): 3.0, _attributes(judge="b"): 4.0}
    assert _values(sdk.points()["ragmeter.quality.n"]) == expected
    first.shutdown(60)
    second.shutdown(60)
    assert _values(sdk.points()["ragmeter.quality.n"]) == expected


def test_all_sums_of_a_collection_are_of_one_moment(sdk):
    """The meter goes on counting while it is read."""
    reads = iter(range(1, 100))
    OpenTelemetryExporter(**sdk.providers).observe_quality(lambda: [_sums(float(next(reads)))])
    for moment in (1.0, 2.0):
        points = sdk.points()
        found = {one.value for each in semconv.QUALITY_SUMS.values() for one in points[each.name]}
        assert found == {moment}


def test_a_design_effect_that_is_over_is_taken_back(sdk):
    effects = iter((1.0, 3.0, 1.0))
    OpenTelemetryExporter(**sdk.providers).observe_quality(lambda: [_sums(1.0, design_effect=next(effects))])
    found = [sdk.points().get(semconv.DESIGN_EFFECT.name, ()) for _ in range(3)]
    assert [[one.value for one in points] for points in found] == [[], [3.0], [1.0]]


def test_many_workflows_stay_below_the_sdks_limit(sdk):
    OpenTelemetryExporter(**sdk.providers).observe_quality(
        lambda: [_sums(1.0, workflow=f"w{number}", names=semconv.FREE_SUMS) for number in range(5_000)]
    )
    found = _values(sdk.points()["ragmeter.quality.n"])
    assert len(found) < 2_000
    assert sum(found.values()) == 5_000


def test_many_segments_stay_below_the_sdks_limit_and_leave_room_for_workflows(sdk):
    """What does not fit counts with the others, and never falls."""
    told = [
        _sums(1.0, score=f"s{score}", workflow=f"w{workflow}", segment=segment, names=semconv.FREE_SUMS)
        for workflow in range(3)
        for score in range(20)
        for segment in ("", *(f"tenant:t{number}" for number in range(60)), "tenant:other")
    ]
    OpenTelemetryExporter(**sdk.providers).observe_quality(lambda: told)
    earlier = {}
    for _ in range(2):
        found = _values(sdk.points()["ragmeter.quality.n"])
        assert len(found) < 2_000
        assert all(found[key] >= value for key, value in earlier.items())
        earlier = found
        told += [_sums(1.0, workflow=f"more{number}") for number in range(50)]
    wholes = [value for key, value in found.items() if "ragmeter.segment" not in dict(key)]
    assert sum(wholes) == 3 * 20 + 50
    assert len(wholes) == 3 * 20 + 50


def test_segments_are_an_attribute(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    with RagMeter(metrics=["lexical_groundedness"], exporters=[exporter], segments=["language"]) as meter:
        for question in ("what is it", "что это", "что это"):
            meter.submit(RagSample(question=question, contexts=["a cat"], answer="a cat", name="qa"))
        assert meter.flush(60)
        points = sdk.points()["ragmeter.quality.n"]
    found = {point.attributes.get("ragmeter.segment"): point.value for point in points}
    assert found == {None: 3, "language:en": 1, "language:ru": 2}


def test_metrics_switched_off_are_off(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers, metrics=False)
    exporter.observe_quality(lambda: [_sums(1.0)])
    assert sdk.points() == {}
    exporter.shutdown(60)


@metric(needs=("answer",), target="answer", name="shortness")
def shortness(sample):
    return 1.0 / len(sample.answer)


def test_a_meter_publishes_what_it_counted(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    meter = RagMeter(metrics=[shortness], exporters=[exporter])
    for _ in range(4):
        meter.submit(RagSample(question="q", contexts=["c"], answer="aa", name="qa"))
    assert meter.flush(60)
    points = sdk.points()
    key = _attributes("shortness", "qa", "")
    assert _values(points["ragmeter.quality.n"]) == {key: 4.0}
    assert _values(points["ragmeter.quality.x"]) == {key: 2.0}
    meter.shutdown()
    assert _values(sdk.points()["ragmeter.quality.n"]) == {key: 4.0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_export_what_its_parent_counted(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.observe_quality(lambda: [_sums(1.0)])
    exporter.shutdown(60)
    assert _values(sdk.points()["ragmeter.quality.n"]) == {_attributes(): 1.0}
    assert in_child(lambda: "ragmeter.quality.n" in sdk.points()) == "False"


def test_without_an_objective_no_series_of_bad_requests(sdk):
    with RagMeter(
        metrics=["lexical_groundedness"], exporters=[OpenTelemetryExporter(**sdk.providers)]
    ) as meter:
        meter.submit(RagSample(question="q", contexts=["a cat"], answer="a cat"))
        assert meter.flush(60)
        points = sdk.points()
        assert points["ragmeter.quality.n"]
        assert not {"ragmeter.quality.low", "ragmeter.quality.budget"} & set(points)
