"""Changes of quality as OpenTelemetry: an event and a count for each, and the evidence at any time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ragmeter.exporters import semconv
from ragmeter.exporters.changes import ChangeEvidence, JudgeDrift, ObservesChanges, QualityChange
from ragmeter.exporters.otel import OpenTelemetryExporter


def _mean(mean, lower, upper):
    return SimpleNamespace(mean=mean, lower=lower, upper=upper)


FELL = QualityChange(
    score="faithfulness",
    workflow="qa",
    service="shop",
    kind="fell",
    since=1_700_000_000.0,
    at=1_700_003_600.0,
    before=_mean(0.82, 0.8, 0.84),
    now=_mean(0.71, 0.67, 0.75),
    evidence=9000.0,
)


def _evidence(value, **fields):
    return ChangeEvidence(**{"score": "faithfulness", "workflow": "qa", "evidence": value, **fields})


def _values(points):
    return {tuple(sorted(point.attributes.items())): point.value for point in points}


def _key(score="faithfulness", workflow="qa", kind="fell", segment=""):
    pairs = {
        "gen_ai.evaluation.name": score, "gen_ai.workflow.name": workflow,
        "ragmeter.change.kind": kind, "ragmeter.segment": segment,
    }  # fmt: skip
    return tuple(sorted((key, value) for key, value in pairs.items() if value))


def test_a_change_is_an_event_with_one_sentence_and_the_means_before_and_since(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    assert isinstance(exporter, ObservesChanges)
    exporter.changed(FELL, "it fell", {})
    (record,) = sdk.records()
    assert (record.event_name, record.body) == ("ragmeter.change", "it fell")
    assert record.severity_text == "WARN"
    assert record.timestamp == 1_700_003_600 * 10**9
    assert dict(record.attributes) == {
        "gen_ai.evaluation.name": "faithfulness",
        "gen_ai.workflow.name": "qa",
        "ragmeter.change.kind": "fell",
        "ragmeter.change.since": "2023-11-14T22:13:20+00:00",
        "ragmeter.change.evidence": 9000.0,
        "ragmeter.change.before": 0.82,
        "ragmeter.change.before.lower": 0.8,
        "ragmeter.change.before.upper": 0.84,
        "ragmeter.change.now": 0.71,
        "ragmeter.change.now.lower": 0.67,
        "ragmeter.change.now.upper": 0.75,
    }


def test_alarms_are_counted_by_kind_and_a_recovery_is_none(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    for change in (
        FELL,
        FELL,
        replace(FELL, kind="mix", segment="language:zh"),
        replace(FELL, kind="recovered", now=_mean(None, 0.0, 1.0)),
    ):
        exporter.changed(change, "said", {})
    assert _values(sdk.points()[semconv.CHANGE_ALARMS.name]) == {
        _key(): 2,
        _key(kind="mix", segment="language:zh"): 1,
    }
    last = sdk.records()[-1]
    assert last.severity_text == "INFO"
    assert "ragmeter.change.now" not in last.attributes


def test_the_evidence_of_all_meters_is_a_gauge_of_the_largest(sdk):
    first, second = (OpenTelemetryExporter(**sdk.providers) for _ in range(2))
    found = [_evidence(0.5), _evidence(0.1, segment="language:ru", kind="mix")]
    first.observe_changes(lambda: found)
    second.observe_changes(lambda: [_evidence(1.5)])
    assert _values(sdk.points()[semconv.CHANGE_EVIDENCE.name]) == {
        _key(): 1.5,
        _key(segment="language:ru", kind="mix"): 0.1,
    }
    found[0] = replace(found[0], evidence=2.5)
    assert _values(sdk.points()[semconv.CHANGE_EVIDENCE.name])[_key()] == 2.5
    first.shutdown(60)
    assert _values(sdk.points()[semconv.CHANGE_EVIDENCE.name]) == {_key(): 1.5}


def test_how_a_judge_has_moved_is_three_gauges(sdk):
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.observe_drift(lambda: [JudgeDrift(score="faithfulness", mean=-0.1, lower=-0.13, upper=-0.07)])
    points = sdk.points()
    found = [_values(points[gauge.name]) for gauge in semconv.DRIFT_INSTRUMENTS]
    assert [list(one.values()) for one in found] == [[-0.1], [-0.13], [-0.07]]
    assert "faithfulness" in str(list(found[0]))
    exporter.shutdown(60)
    assert semconv.DRIFT_INSTRUMENTS[0].name not in sdk.points()


@pytest.mark.parametrize(("events", "metrics"), [("off", True), ("log", False)])
def test_what_is_switched_off_is_off(sdk, events, metrics):
    exporter = OpenTelemetryExporter(**sdk.providers, events=events, metrics=metrics)
    exporter.observe_changes(lambda: [_evidence(1.5)])
    exporter.changed(FELL, "said", {})
    assert len(sdk.records()) == (events == "log")
    assert (semconv.CHANGE_ALARMS.name in sdk.points()) is metrics
    assert (semconv.CHANGE_EVIDENCE.name in sdk.points()) is metrics
