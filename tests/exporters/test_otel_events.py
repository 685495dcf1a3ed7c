"""The ``gen_ai.evaluation.result`` events, as log records and as span events."""

import time

import pytest
from opentelemetry._logs import SeverityNumber

from ragmeter.exporters.otel import OpenTelemetryExporter

BASE = {
    "ragmeter.evaluation.target": "retrieval",
    "ragmeter.evaluation.direction": "higher",
    "ragmeter.evaluation.score.min": 0.0,
    "ragmeter.evaluation.score.max": 1.0,
    "gen_ai.workflow.name": "support_bot",
    "gen_ai.conversation.id": "thread-7",
    "ragmeter.run_id": "run-1",
    "ragmeter.evaluation.summary": "1 of 2 chunks",
    "gen_ai.evaluation.explanation": "1 of 2 chunks",
    "ragmeter.evaluation.items": '{"items":[{"id":"chunk-1","verdict":true}]}',
}
JUDGED = {
    "ragmeter.evaluator.type": "llm_judge",
    "ragmeter.evaluation.method": "llm",
    "ragmeter.selection": "sampled",
}
COMPUTED = {"ragmeter.evaluator.type": "deterministic", "ragmeter.evaluation.method": "exact"}
EXPECTED = {
    "context_precision": {
        **BASE,
        **JUDGED,
        "gen_ai.evaluation.name": "context_precision",
        "gen_ai.evaluation.score.value": 0.73,
        "ragmeter.evaluator.version": "p1",
    },
    "recall": {
        **BASE,
        **COMPUTED,
        "gen_ai.evaluation.name": "recall",
        "gen_ai.evaluation.score.label": "not_applicable",
        "ragmeter.evaluator.version": "d1",
        "ragmeter.status": "undefined",
    },
    "context_count": {
        **{key: value for key, value in BASE.items() if not key.endswith("max")},
        **COMPUTED,
        "gen_ai.evaluation.name": "context_count",
        "gen_ai.evaluation.score.value": 2.0,
        "ragmeter.evaluator.version": "d1",
    },
    "faithfulness": {
        **BASE,
        **JUDGED,
        "ragmeter.evaluation.target": "answer",
        "gen_ai.evaluation.name": "faithfulness",
        "gen_ai.evaluation.score.value": 0.9,
        "gen_ai.evaluation.score.label": "pass",
        "ragmeter.evaluator.version": "d1",
    },
    "context_recall": {
        **BASE,
        **JUDGED,
        "gen_ai.evaluation.name": "context_recall",
        "ragmeter.evaluator.version": "d1",
        "ragmeter.status": "judge_error",
        "error.type": "RateLimitError",
    },
}


def export(sdk, run, **options):
    OpenTelemetryExporter(**sdk.providers, **options).export([run])


def test_records_are_in_the_context_of_the_span_they_judge(sdk, make):
    """Retrieval scores point at the retrieval span, answer scores at the workflow's."""
    export(sdk, make.scored_run())
    spans = sdk.spans()
    homes = {"faithfulness": spans["invoke_workflow support_bot"].context}

    for record in sdk.records():
        name = record.attributes["gen_ai.evaluation.name"]
        home = homes.get(name, spans["retrieval handbook"].context)
        assert (record.trace_id, record.span_id) == (home.trace_id, home.span_id)


def test_records_have_a_time_a_severity_and_a_readable_body(sdk, make):
    """The SDK would leave the time at 0; a failing judge is a warning."""
    before = time.time_ns()
    export(sdk, make.scored_run())
    by_name = {r.attributes["gen_ai.evaluation.name"]: r for r in sdk.records()}

    assert all(before <= record.timestamp <= time.time_ns() for record in by_name.values())
    assert by_name["context_precision"].body == "context_precision=0.73"
    assert by_name["context_precision"].severity_number is SeverityNumber.INFO
    assert by_name["context_recall"].body == "context_recall=judge_error"
    assert by_name["context_recall"].severity_number is SeverityNumber.WARN
    assert by_name["recall"].severity_number is SeverityNumber.INFO


def test_a_score_that_says_nothing_of_itself_has_no_sentence_and_no_items(sdk, make):
    """A metric of one's own need not have any."""
    score = make.score("politeness", 0.5, summary=None, explanation=None, items=())
    export(sdk, make.scored_run((score,)), capture_content=True)
    (record,) = sdk.records()

    absent = {"ragmeter.evaluation.summary", "ragmeter.evaluation.items", "gen_ai.evaluation.explanation"}
    assert not absent & set(record.attributes)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("exact", "deterministic"), ("embedding", "embedding"), ("llm", "llm_judge"), ("human", "human")],
)
def test_the_event_says_what_kind_of_evaluator_it_was(sdk, make, method, kind):
    """A model's cosine is no rule, and a person is no machine."""
    export(sdk, make.scored_run((make.score("one", method=method),)))
    (record,) = sdk.records()

    assert record.attributes["ragmeter.evaluator.type"] == kind


def test_a_partial_score_tells_its_bounds(sdk, make):
    """Some verdicts are unknown: the event says how far the value could move."""
    partial = make.score("recall", 0.5, status="partial", lower=0.25, upper=0.75)
    export(sdk, make.scored_run((partial,), rates=(0.5, 0.1)))
    (record,) = sdk.records()

    assert record.attributes["ragmeter.status"] == "partial"
    assert record.attributes["ragmeter.evaluation.score.lower"] == 0.25
    assert record.attributes["ragmeter.evaluation.score.upper"] == 0.75
    assert record.attributes["ragmeter.sample_rate"] == 0.5
    assert record.attributes["ragmeter.judge_sample_rate"] == 0.1


def test_span_events_carry_the_same_on_the_judged_span(sdk, make):
    """events='span_event' serves backends that take traces only."""
    export(sdk, make.scored_run(), events="span_event")
    found = {
        event.attributes["gen_ai.evaluation.name"]: (span.name, dict(event.attributes))
        for span in sdk.all_spans()
        for event in span.events
    }

    assert {name: attributes for name, (_, attributes) in found.items()} == EXPECTED
    assert found["faithfulness"][0] == "invoke_workflow support_bot"
    assert found["context_precision"][0] == "retrieval handbook"
    assert {e.name for s in sdk.all_spans() for e in s.events} == {"gen_ai.evaluation.result"}
    assert sdk.records() == []
