"""What is written for requests that another process has captured, counted and recorded."""

import time

import pytest
from opentelemetry.trace import SpanContext, TraceFlags

from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import RagRun, ScoredRun
from ragmeter.metrics import RagSample, evaluate
from ragmeter.metrics.registry import resolve_metrics


def _written(sdk, ended_ns):
    exporter = OpenTelemetryExporter(
        **sdk.providers, span_mode="evaluation", events="off", captured_elsewhere=True
    )
    sample = RagSample(question="q?", contexts=["The tide is high."], answer="The tide is high.")
    [scores] = evaluate([sample], resolve_metrics("live"))
    target = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    run = RagRun(
        sample=sample,
        run_id="r",
        framework="manual",
        started_ns=ended_ns - 10,
        ended_ns=ended_ns,
        target=target,
        resource={"service.name": "shop"},
    )
    exporter.export([ScoredRun(run=run, scores=scores)])
    points = {
        name: [dict(point.attributes) | ({"sum": point.sum} if "delay" in name else {}) for point in points]
        for name, points in sdk.points().items()
    }
    return sdk.all_spans(), points


def test_scores_name_the_application_and_requests_are_not_counted_twice(sdk):
    (span,), points = _written(sdk, time.time_ns() - 10**9)

    assert (span.parent.trace_id, span.parent.span_id) == (1, 2)
    assert span.attributes["ragmeter.service.name"] == "shop"
    assert "ragmeter.requests" not in points
    assert "ragmeter.retrieval.context_count" not in points
    for name in ("gen_ai.evaluation.score", "ragmeter.results"):
        assert {point["ragmeter.service.name"] for point in points[name]} == {"shop"}
    assert all("ragmeter.service.name" not in point for point in points["ragmeter.missing_inputs"])


def test_a_clock_that_is_ahead_does_not_put_an_evaluation_before_its_request(sdk):
    ahead = time.time_ns() + 600 * 10**9

    (span,), _ = _written(sdk, ahead)

    assert span.start_time == span.end_time == ahead


@pytest.mark.parametrize(("before_s", "least_s"), [(90, 90.0), (-600, 0.0)])
def test_how_long_a_request_waited_is_measured_once_and_never_below_zero(sdk, before_s, least_s):
    _, points = _written(sdk, time.time_ns() - before_s * 10**9)

    [point] = points["ragmeter.evaluation.delay"]
    assert point["ragmeter.service.name"] == "shop"
    assert point["sum"] >= least_s
    assert (point["sum"] == 0.0) == (before_s < 0)
