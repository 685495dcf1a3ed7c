"""The application's limits and sampler hold for ragmeter's spans, and nothing is evicted for them."""

import pytest
from memory_sdk import memory_sdk
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from ragmeter.exporters.otel import OpenTelemetryExporter


@pytest.mark.parametrize("limit", [8, 16, 128])
def test_scores_come_before_metadata_when_the_attribute_limit_bites(make, limit):
    """Nothing is evicted: what does not fit is left out, and the essentials and scores stay."""
    sdk = memory_sdk(span_limits=SpanLimits(max_span_attributes=limit))
    exporter = OpenTelemetryExporter(**sdk.providers)
    scores = tuple(make.score(f"metric_{n}", 0.5, target="answer") for n in range(100))
    metadata = {f"key_{n}": n for n in range(100)}
    exporter.export([make.scored_run(scores, metadata=metadata)])
    workflow = next(s for s in sdk.all_spans() if s.name.startswith("invoke"))

    assert workflow.dropped_attributes == 0
    assert len(workflow.attributes) <= limit
    assert workflow.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert "ragmeter.score.metric_0" in workflow.attributes


def test_the_limit_variable_is_honoured(make, monkeypatch):
    """OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT holds for our spans as for any."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "40")
    sdk = memory_sdk()
    exporter = OpenTelemetryExporter(**sdk.providers)
    scores = tuple(make.score(f"metric_{n}", 0.5) for n in range(100))
    exporter.export([make.scored_run(scores, target=make.span_context(span=0xC1))])
    (span,) = sdk.all_spans()

    assert span.dropped_attributes == 0
    assert len(span.attributes) == 32


def evaluations_of(span):
    """The indices of OpenInference's evaluations on a span, and the score names they carry."""
    return {
        int(key.split(".")[1]): value
        for key, value in span.attributes.items()
        if key.startswith("evaluations.") and key.endswith(".evaluation.name")
    }


@pytest.mark.parametrize("count", [1, 12, 20, 27])
def test_every_score_is_an_evaluation_whatever_metadata_there_is(make, sdk, count):
    """Metadata and tags make room first, then what an evaluation can do without; 128 is the default."""
    scores = tuple(make.score(f"metric_{n:03}", 0.5) for n in range(count))
    metadata = {f"key_{n}": n for n in range(100)}
    OpenTelemetryExporter(**sdk.providers).export(
        [make.scored_run(scores, target=make.span_context(span=0xC1), metadata=metadata)]
    )
    (span,) = sdk.all_spans()

    assert span.dropped_attributes == 0
    assert len(span.attributes) <= 120
    assert evaluations_of(span) == {n: f"metric_{n:03}" for n in range(count)}
    assert "ragmeter.run_id" in span.attributes
    for n in range(count):
        prefix = f"evaluations.{n}.evaluation."
        assert span.attributes[prefix + "score"] == 0.5
        assert span.attributes[prefix + "annotator_kind"] == "CODE"


def test_lists_that_do_not_fit_end_without_a_gap(make, sdk):
    """Readers of such lists stop at the first index that is missing."""
    scores = tuple(make.score(f"metric_{n:03}", 0.5, label="pass" if n % 3 else None) for n in range(60))
    OpenTelemetryExporter(**sdk.providers).export(
        [make.scored_run(scores, target=make.span_context(span=0xC1))]
    )
    (span,) = sdk.all_spans()
    indices = list(evaluations_of(span))

    assert indices == list(range(len(indices)))


def test_sampling_decisions_of_the_application_hold_for_roots(make):
    """A root of ours passes the application's sampler like any other."""
    sdk = memory_sdk(sampler=TraceIdRatioBased(0.0))
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.export([make.scored_run(parent=None)])

    assert sdk.all_spans() == ()
    assert exporter.n_unsampled == 1
