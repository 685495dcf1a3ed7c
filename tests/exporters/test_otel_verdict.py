"""The verdict in OpenTelemetry: on one span of the request, as one event, on two counters."""

import json
from dataclasses import replace

import pytest
from memory_sdk import memory_sdk
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import SpanContext, TraceFlags

from ragmeter import Verdict
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.otel import OpenTelemetryExporter

BAD = Verdict(
    word="bad",
    codes=("unsupported_answer", "off_topic_context"),
    reasons=("20% of the words", "relevance 0.12"),
)
GOOD = Verdict(word="good")
ON_SPAN = {"ragmeter.verdict": "bad", "ragmeter.verdict.codes": ("unsupported_answer", "off_topic_context")}


def export(sdk, *runs, verdict=BAD, **options):
    exporter = OpenTelemetryExporter(**sdk.providers, **options)
    exporter.export([replace(run, verdict=verdict) for run in runs])
    return exporter


def verdicts(span):
    return {key: value for key, value in span.attributes.items() if key.startswith("ragmeter.verdict")}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, "invoke_workflow support_bot"),
        ({"sample": {"status": "retrieval_only"}}, "retrieval handbook"),
        (
            {"retrieval": {"target": SpanContext(0xA1, 0xD1, is_remote=False, trace_flags=TraceFlags(1))}},
            "invoke_workflow support_bot",
        ),
    ],
    ids=["a request", "a retriever alone", "a retrieval that others recorded"],
)
def test_it_stands_on_our_span_of_the_request_and_on_no_other(sdk, make, changes, place):
    export(sdk, make.scored_run(**changes))

    assert {span.name: verdicts(span) for span in sdk.all_spans() if verdicts(span)} == {place: ON_SPAN}


def test_it_stands_beside_a_request_that_others_recorded(sdk, make):
    """One evaluation span judges the retrieval, one the request: the verdict is the request's."""
    target, retrieval = make.span_context(span=0xC1), make.span_context(span=0xD1)
    export(sdk, make.scored_run(target=target, retrieval={"target": retrieval}))

    found = [span for span in sdk.all_spans() if verdicts(span)]
    assert len(sdk.all_spans()) == 2
    assert [(verdicts(span), span.parent.span_id) for span in found] == [(ON_SPAN, 0xC1)]


def test_a_late_verdict_stands_on_one_late_span(sdk, make):
    export(sdk, make.scored_run(late=True))

    (span,) = [span for span in sdk.all_spans() if verdicts(span)]
    assert span.attributes["ragmeter.late"] is True


@pytest.mark.parametrize(("verdict", "expected"), [(GOOD, {"ragmeter.verdict": "good"}), (None, {})])
def test_good_has_no_codes_and_none_is_absent(sdk, make, verdict, expected):
    export(sdk, make.scored_run(), verdict=verdict)

    assert verdicts(sdk.spans()["invoke_workflow support_bot"]) == expected
    assert {"bad", "suspect"}.isdisjoint(str(record.attributes) for record in sdk.records())


def test_it_is_an_event_that_backends_know(sdk, make):
    """A result named ragmeter.verdict with the word as its label, in the request's context."""
    export(sdk, make.scored_run())

    (record,) = [r for r in sdk.records() if r.attributes["gen_ai.evaluation.name"] == "ragmeter.verdict"]
    assert dict(record.attributes) == {
        "gen_ai.evaluation.name": "ragmeter.verdict",
        "gen_ai.evaluation.score.label": "bad",
        "gen_ai.evaluation.explanation": "20% of the words; relevance 0.12",
        "gen_ai.workflow.name": "support_bot",
        "gen_ai.conversation.id": "thread-7",
        "ragmeter.run_id": "run-1",
        "ragmeter.evaluator.type": "deterministic",
        "ragmeter.evaluator.version": "verdict-3",
        **ON_SPAN,
    }
    assert (record.event_name, record.body) == ("gen_ai.evaluation.result", "ragmeter.verdict=bad")
    assert record.span_id == sdk.spans()["invoke_workflow support_bot"].context.span_id


def test_as_a_span_event_it_stands_where_the_attributes_do(sdk, make):
    export(sdk, make.scored_run(), events="span_event")

    found = [
        (span.name, event.attributes["gen_ai.evaluation.score.label"])
        for span in sdk.all_spans()
        for event in span.events
        if event.attributes["gen_ai.evaluation.name"] == "ragmeter.verdict"
    ]
    assert found == [("invoke_workflow support_bot", "bad")]


def test_it_labels_the_request_counter_and_has_one_by_strongest_code(sdk, make):
    exporter = export(sdk, make.scored_run(), make.scored_run(run_id="run-2"))
    exporter.export([replace(make.scored_run(run_id="run-3"), verdict=GOOD), make.scored_run(run_id="run-4")])
    points = sdk.points()

    def counted(name, *keys):
        return {tuple(point.attributes.get(key) for key in keys): point.value for point in points[name]}

    assert counted("ragmeter.requests", "ragmeter.verdict") == {("bad",): 2, ("good",): 1, (None,): 1}
    assert counted("ragmeter.verdicts", "ragmeter.verdict", "ragmeter.verdict.code") == {
        ("bad", "unsupported_answer"): 2,
        ("good", None): 1,
    }


def test_a_request_counts_with_its_first_verdict(sdk, make):
    """Also when that comes late, and not again when it changes: a counter takes nothing back."""
    exporter = export(sdk, make.scored_run(), verdict=None)
    exporter.export([replace(make.scored_run(late=True), verdict=BAD)])
    exporter.export([replace(make.scored_run(late=True), verdict=GOOD)])

    (point,) = sdk.points()["ragmeter.verdicts"]
    assert (point.value, point.attributes["ragmeter.verdict"]) == (1, "bad")


def test_a_measured_request_is_counted_too(sdk, make):
    exporter = OpenTelemetryExporter(**sdk.providers)
    exporter.measure(replace(make.scored_run(), verdict=BAD))

    assert [point.value for point in sdk.points()["ragmeter.verdicts"]] == [1]


def test_the_verdict_is_among_the_last_things_to_be_left_out(make):
    """A span with little room keeps it before any score."""
    sdk = memory_sdk(span_limits=SpanLimits(max_span_attributes=6))
    export(sdk, make.scored_run())

    workflow = next(s for s in sdk.all_spans() if s.name.startswith("invoke_workflow"))
    assert verdicts(workflow) == ON_SPAN


def test_a_line_of_json_carries_it(make, tmp_path):
    path = tmp_path / "scores.jsonl"
    exporter = JsonlExporter(path)
    exporter.export([replace(make.scored_run(), verdict=BAD), make.scored_run()])

    first, second = map(json.loads, path.read_text("utf-8").splitlines())
    assert first["verdict"] == {"word": "bad", "codes": list(BAD.codes), "reasons": list(BAD.reasons)}
    assert second["verdict"] is None
