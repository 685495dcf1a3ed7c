"""Which spans `OpenTelemetryExporter` writes, and what stands on them."""

import json
from dataclasses import replace

import pytest
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.trace import SpanKind, StatusCode, use_span

from ragmeter import RagMeter
from ragmeter.exporters._format import text_id
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RetrievedContext, Verdict

REQUEST = {
    "ragmeter.request.status": "ok",
    "ragmeter.framework": "langchain",
    "ragmeter.run_id": "run-1",
    "ragmeter.contexts_by": "given",
    "ragmeter.missing": "reference.contexts",
    "ragmeter.missing.scores": ("ndcg",),
    "gen_ai.conversation.id": "thread-7",
    "session.id": "thread-7",
    "user.id": "user-9",
    "tag.tags": ("beta",),
    "ragmeter.metadata.tenant": "acme",
    "ragmeter.metadata.turn": 3,
}
WORKFLOW = {
    "gen_ai.operation.name": "invoke_workflow",
    "openinference.span.kind": "CHAIN",
    "gen_ai.workflow.name": "support_bot",
}
SECOND = text_id("CONTEXT-TEXT 检索到的段落 two")
RETRIEVAL = {
    "gen_ai.operation.name": "retrieval",
    "openinference.span.kind": "RETRIEVER",
    "gen_ai.data_source.id": "handbook",
    "gen_ai.provider.name": "chroma",
    "gen_ai.request.model": "embed-small",
    "gen_ai.retrieval.top_k": 2,
    "retrieval.documents.0.document.id": "doc-1",
    "retrieval.documents.0.document.score": 0.8,
    "retrieval.documents.1.document.id": SECOND,
}
ITEMS = [{"id": "chunk-1", "verdict": True}]


def shown(index, name, value, *, explanation="1 of 2 chunks", items=False, label=None):
    """An evaluation on a span of ours: OpenInference's fields, with what was found of each chunk."""
    given = {
        "name": name,
        "annotator_kind": "LLM",
        "score": value,
        "label": label,
        "explanation": explanation,
        "metadata": json.dumps({"items": ITEMS}, separators=(",", ":")) if items else None,
    }
    prefix = f"evaluations.{index}.evaluation."
    return {prefix + key: said for key, said in given.items() if said is not None}


# The same was found of each chunk for the second: it is said once.
SHOWN_OF_RETRIEVAL = shown(0, "context_precision", 0.73, items=True)
SHOWN_OF_ANSWER = shown(0, "faithfulness", 0.9, label="pass")
ANSWER_SCORES = {
    "ragmeter.score.faithfulness": 0.9,
    "ragmeter.label.faithfulness": "pass",
    "ragmeter.status.answer_relevancy": "skipped",
}
RETRIEVAL_SCORES = {
    "ragmeter.score.context_precision": 0.73,
    "ragmeter.status.recall": "undefined",
    "ragmeter.score.context_count": 2.0,
    "ragmeter.status.context_recall": "judge_error",
}


def messages(content):
    """Question and answer as the GenAI conventions have them."""
    asked, answered = (
        {"role": role, "parts": [{"type": "text", "content": content[part]}]}
        for role, part in (("user", "question"), ("assistant", "answer"))
    )
    return {
        "gen_ai.input.messages": json.dumps([asked], ensure_ascii=False),
        "gen_ai.output.messages": json.dumps([{**answered, "finish_reason": "stop"}], ensure_ascii=False),
    }


def export(sdk, *runs, **options):
    exporter = OpenTelemetryExporter(**sdk.providers, **options)
    exporter.export(runs)
    return exporter


def test_a_failed_request_has_an_error_status_without_text(sdk, make):
    """Status ERROR and error.type on the spans that failed."""
    export(
        sdk,
        make.scored_run(
            sample={"status": "error", "answer": None},
            retrieval={"error_type": "ConnectionError"},
            error_type="ConnectionError",
        ),
    )

    for span in sdk.all_spans():
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "ConnectionError"
        assert span.attributes["error.type"] == "ConnectionError"


def test_a_bare_retriever_is_one_retrieval_span_with_everything_on_it(sdk, make):
    """retrieval_only: no workflow span; request attributes and scores stand on the retrieval."""
    export(sdk, make.scored_run(sample={"status": "retrieval_only", "answer": None}))
    (span,) = sdk.all_spans()

    assert span.name == "retrieval handbook"
    assert span.parent.span_id == 0xB1
    assert dict(span.attributes) == {
        **RETRIEVAL,
        **RETRIEVAL_SCORES,
        **ANSWER_SCORES,
        **REQUEST,
        **SHOWN_OF_RETRIEVAL,
        **shown(1, "faithfulness", 0.9, label="pass"),
        "ragmeter.request.status": "retrieval_only",
    }


def test_scores_of_several_retrievals_stand_on_the_workflow(sdk, make):
    """They describe all contexts together; each retrieval still has its span and documents."""
    run = make.scored_run()
    first = run.run.retrievals[0]
    second = replace(first, data_source_id="wiki")
    export(sdk, replace(run, run=replace(run.run, retrievals=(first, second))))
    spans = sdk.spans()

    assert set(spans) == {"invoke_workflow support_bot", "retrieval handbook", "retrieval wiki"}
    assert dict(spans["invoke_workflow support_bot"].attributes) == {
        **WORKFLOW,
        **REQUEST,
        **ANSWER_SCORES,
        **RETRIEVAL_SCORES,
        **SHOWN_OF_RETRIEVAL,
        **shown(1, "faithfulness", 0.9, label="pass"),
    }
    assert dict(spans["retrieval handbook"].attributes) == RETRIEVAL


def test_beside_another_instrumentation_one_evaluation_span_per_judged_span(sdk, make):
    """Children of and linked to the spans others recorded; no second copy of the request."""
    target, found = make.span_context(span=0xC1), make.span_context(span=0xD1)
    export(sdk, make.scored_run(target=target, retrieval={"target": found}))
    by_parent = {span.parent.span_id: span for span in sdk.all_spans()}

    assert len(sdk.all_spans()) == 2
    for span, judged in ((by_parent[0xD1], found), (by_parent[0xC1], target)):
        assert span.name == "evaluation support_bot"
        assert span.kind is SpanKind.INTERNAL
        assert [link.context for link in span.links] == [judged]


def test_a_retrieval_recorded_by_others_in_a_request_nobody_recorded(sdk, make):
    """The request gets a span of ours, the retrieval an evaluation span beside theirs."""
    found = make.span_context(span=0xD1)
    export(sdk, make.scored_run(retrieval={"target": found}))
    spans = sdk.spans()

    assert set(spans) == {"invoke_workflow support_bot", "evaluation support_bot"}
    assert spans["evaluation support_bot"].parent.span_id == 0xD1
    assert "ragmeter.score.context_precision" in spans["evaluation support_bot"].attributes
    workflow = spans["invoke_workflow support_bot"].attributes
    assert dict(workflow) == {**WORKFLOW, **REQUEST, **ANSWER_SCORES, **SHOWN_OF_ANSWER}


BAD = Verdict(word="bad", codes=("unsupported_answer",), reasons=("8 % of the words are there",))


@pytest.mark.parametrize("recorded", [False, True])
def test_the_verdict_is_the_first_evaluation_of_the_requests_span(sdk, make, recorded):
    """On our own span, or on the one about the span that others recorded; never on the retrieval's."""
    changes = {}
    if recorded:
        changes["target"] = make.span_context(span=0xC1)
        changes["retrieval"] = {"target": make.span_context(span=0xD1)}
    export(sdk, replace(make.scored_run(**changes), verdict=BAD))
    firsts = [
        {
            key.rpartition(".")[2]: value
            for key, value in span.attributes.items()
            if key.startswith("evaluations.0.")
        }
        for span in sdk.all_spans()
    ]

    assert {
        "name": "ragmeter.verdict",
        "label": "bad",
        "explanation": "8 % of the words are there",
        "annotator_kind": "CODE",
    } in firsts
    assert sorted(first["name"] for first in firsts) == ["context_precision", "ragmeter.verdict"]


def test_evaluations_on_own_spans_give_way_to_documents(sdk, make):
    """The numbers are there already; a list of documents with gaps would mislead."""
    contexts = tuple(RetrievedContext(text="t", id=str(n), score=0.5) for n in range(55))
    export(sdk, make.scored_run(retrieval={"contexts": contexts}))
    attributes = sdk.spans()["retrieval handbook"].attributes

    assert "retrieval.documents.49.document.score" in attributes
    assert not [key for key in attributes if key.startswith("evaluations.")]
    assert attributes["ragmeter.score.context_precision"] == 0.73


def test_an_evaluation_that_starts_its_trace_shows_question_and_answer(sdk, make):
    """No span of the application shows them; with the opt-in, as ever."""
    run = make.scored_run(parent=None)
    export(sdk, run, span_mode="evaluation", capture_content="SPAN_ONLY")
    (span,) = sdk.all_spans()

    assert span.attributes["input.value"] == make.content["question"]
    assert span.attributes["output.value"] == make.content["answer"]


def test_evaluation_mode_never_records_the_request(sdk, make):
    """span_mode='evaluation' hangs the scores on the application's span around the request."""
    export(sdk, make.scored_run(), span_mode="evaluation")
    (span,) = sdk.all_spans()

    assert span.name == "evaluation support_bot"
    assert span.parent.span_id == span.links[0].context.span_id == 0xB1
    assert span.attributes["ragmeter.score.context_precision"] == 0.73
    assert span.attributes["ragmeter.score.faithfulness"] == 0.9


def test_off_mode_writes_no_span_and_events_still_point_at_the_known_one(sdk, make):
    """span_mode='off' is about spans only."""
    export(sdk, make.scored_run(), span_mode="off")

    assert sdk.all_spans() == ()
    assert {record.span_id for record in sdk.records()} == {0xB1}
    assert sdk.points()["ragmeter.requests"][0].value == 1


def test_late_scores_go_on_a_span_linked_to_the_one_sent_before(sdk, make):
    """The judged scores of a held request find the spans of its first export."""
    early, late = make.scores[1:3], make.scores[:1]
    exporter = export(sdk, make.scored_run(early))
    exporter.export([make.scored_run(late, late=True)])
    spans = sdk.spans()
    retrieval, evaluation = spans["retrieval handbook"], spans["evaluation support_bot"]

    assert len(sdk.all_spans()) == 3
    assert evaluation.parent.span_id == retrieval.context.span_id
    assert [link.context.span_id for link in evaluation.links] == [retrieval.context.span_id]
    assert evaluation.attributes["ragmeter.late"] is True
    assert evaluation.attributes["ragmeter.score.context_precision"] == 0.73
    assert sdk.records()[-1].span_id == retrieval.context.span_id


def test_late_scores_of_a_forgotten_request_hang_on_the_applications_span(sdk, make):
    """Another exporter object never saw the first export."""
    export(sdk, make.scored_run(late=True))
    (span,) = sdk.all_spans()

    assert span.parent.span_id == 0xB1


def test_an_evaluation_sent_twice_has_the_same_id(sdk, make):
    """Backends keep the first span of an id, so a re-send is harmless; other scores differ."""
    run = make.scored_run(target=make.span_context(span=0xC1))
    other = make.scored_run(make.scores[:1], target=make.span_context(span=0xC1))
    export(sdk, run, run, other)
    ids = [span.context.span_id for span in sdk.all_spans()]

    assert ids[0] == ids[1] != ids[2]


def test_other_spans_keep_the_applications_id_generator(sdk, make):
    """Only evaluation spans have pinned ids; own spans and the application's do not."""
    export(sdk, make.scored_run(), make.scored_run(target=make.span_context(span=0xC1)))
    app = sdk.tracer_provider.get_tracer("app")
    own = sdk.tracer_provider.get_tracer("ragmeter")

    assert len({app.start_span("x").context.span_id for _ in range(10)}) == 10
    assert len({own.start_span("x").context.span_id for _ in range(10)}) == 10


def test_nothing_tried_makes_no_evaluation_span(sdk, make):
    """A span that says only 'skipped' helps nobody."""
    export(sdk, make.scored_run(make.scores[-2:], target=make.span_context(span=0xC1)))

    assert sdk.all_spans() == ()
    assert sdk.records() == []


@pytest.mark.parametrize("span_mode", ["own", "evaluation", "off"])
def test_spans_follow_an_unsampled_parent_while_metrics_and_events_go_out(sdk, make, span_mode):
    """The caller decided not to record this trace; the numbers count all the same, and the meter says how often."""
    telemetry = OpenTelemetryExporter(**sdk.providers, span_mode=span_mode)
    with RagMeter(metrics=[], exporters=[telemetry]) as meter:
        telemetry.export([make.scored_run(parent=make.span_context(sampled=False))])
        telemetry.export([make.scored_run(parent=make.span_context(sampled=False), late=True)])
        assert meter.stats().unsampled == (0 if span_mode == "off" else 1)

    assert sdk.all_spans() == ()
    assert {record.trace_id for record in sdk.records()} == {0xA1}
    assert len(sdk.points()["gen_ai.evaluation.score"]) == 2


def test_a_request_without_a_parent_starts_its_own_trace(sdk, make):
    """Scripts without tracing around the chain still get the two spans."""
    export(sdk, make.scored_run(parent=None))
    spans = sdk.spans()

    assert spans["invoke_workflow support_bot"].parent is None
    assert spans["retrieval handbook"].parent.span_id == (spans["invoke_workflow support_bot"].context.span_id)


def test_the_exporting_threads_context_does_not_leak_in(sdk, make):
    """Neither a current span nor the suppression key of the thread that exports matters."""
    foreign = sdk.tracer_provider.get_tracer("app").start_span("foreign")
    token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        with use_span(foreign):
            export(sdk, make.scored_run(parent=None))
    finally:
        detach(token)

    assert sdk.spans()["invoke_workflow support_bot"].parent is None
    assert foreign.get_span_context().trace_id not in {r.trace_id for r in sdk.records()}


def test_sampling_rates_below_one_are_visible(sdk, make):
    """Whoever averages the scores must know what share of requests they stand for."""
    export(sdk, make.scored_run(rates=(0.25, 0.5)))
    attributes = sdk.spans()["invoke_workflow support_bot"].attributes

    assert attributes["ragmeter.sample_rate"] == 0.25
    assert attributes["ragmeter.judge_sample_rate"] == 0.5


@pytest.mark.parametrize("selection", ["sampled", "worst"])
def test_spans_tell_who_was_exported_or_judged_only_for_being_bad(sdk, make, selection):
    """What was chosen by chance says nothing."""
    run = replace(make.scored_run(), selection=selection, judge_selection="worst")
    export(sdk, run)
    export(sdk, make.scored_run(run_id="by-chance"))
    kept, by_chance = (
        {key: value for key, value in span.attributes.items() if key.endswith("selection")}
        for span in sdk.all_spans()
        if span.name == "invoke_workflow support_bot"
    )

    only_judged = {"ragmeter.judge_selection": "worst"}
    assert kept == (only_judged if selection == "sampled" else {"ragmeter.selection": "worst"})
    assert by_chance == {}


def test_scores_of_which_lower_is_better_are_listed(sdk, make):
    scores = (
        make.score("noise", 0.2, direction="lower"),
        make.score("size", 3.0, direction="none", range=(0.0, None)),
        make.score("fit", 0.5),
    )
    export(sdk, make.scored_run(scores))
    attributes = sdk.spans()["retrieval handbook"].attributes

    assert attributes["ragmeter.direction.lower"] == ("noise",)
    assert attributes["ragmeter.direction.none"] == ("size",)
