"""What `PhoenixAnnotations` sends; what it shares with other sinks is in test_rest_sinks."""

from dataclasses import replace

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext, TraceFlags

from ragmeter.exporters._span_targets import JudgedSpans
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.metrics import RetrievedContext, ScoreItem, Verdict

KEY = "sk-very-secret-key"


def phoenix(backend, **options):
    return PhoenixAnnotations(backend.url, KEY, **options)


def annotated_spans(backend):
    """What was sent about spans."""
    return [
        item for path, _, body, _ in backend.requests if path == "/v1/span_annotations" for item in body["data"]
    ]


def of_documents(backend):
    """What was sent about documents, as (name, span, position, result)."""
    return [
        (item["name"], item["span_id"][-2:], item["document_position"], item["result"])
        for path, _, body, _ in backend.requests
        if path == "/v1/document_annotations"
        for item in body["data"]
    ]


def test_phoenix_gets_one_annotation_per_score_with_a_value(backend, recorded):
    """On the judged span by its hexadecimal id, with who judged, by which definition, and what it saw."""
    phoenix(backend).export([recorded])
    (headers,) = (headers for path, headers, *_ in backend.requests if "span_" in path)
    annotations = annotated_spans(backend)

    assert headers["Authorization"] == f"Bearer {KEY}"
    assert annotations[0] == {
        "span_id": "00000000000000d1",
        "name": "context_precision",
        "annotator_kind": "LLM",
        "identifier": "ragmeter:p1",
        "result": {"score": 0.73, "explanation": "1 of 2 chunks"},
        "metadata": {
            "definition": "p1",
            "method": "llm",
            "range": [0.0, 1.0],
            "direction": "higher",
            "status": "ok",
            "items": [{"id": "chunk-1", "verdict": True}],
        },
    }
    assert [(item["name"], item["span_id"][-2:]) for item in annotations] == [
        ("context_precision", "d1"),
        ("faithfulness", "c1"),
    ]
    assert annotations[1]["result"] == {"score": 0.9, "label": "pass", "explanation": "1 of 2 chunks"}


def with_verdict(run, word="bad"):
    return replace(run, verdict=Verdict(word=word))


@pytest.mark.parametrize(
    ("options", "of_spans", "of_trace"),
    [
        ({}, {("ragmeter.verdict", "c1"), ("ragmeter.verdict", "b1"), ("context_precision", "d1")},
         {"ragmeter.verdict", "faithfulness"}),
        ({"trace_annotations": True},
         {("ragmeter.verdict", "c1"), ("ragmeter.verdict", "b1"), ("context_precision", "d1")},
         {"ragmeter.verdict", "faithfulness", "context_precision"}),
        ({"scores": ["faithfulness"]}, {("faithfulness", "c1")}, set()),
    ],
    ids=["default", "trace_annotations", "scores"],
)  # fmt: skip
def test_on_the_requests_span_the_verdict_stands_alone(backend, recorded, options, of_spans, of_trace):
    """Phoenix sorts chips by name and folds them away; what they say of the answer is on the trace."""
    phoenix(backend, **options).export([with_verdict(recorded)])
    sent = {
        path: {(item["name"], item.get("span_id", "")[-2:]) for item in body["data"]}
        for path, _, body, _ in backend.requests
    }

    assert sent.get("/v1/span_annotations") == of_spans
    assert {name for name, _ in sent.get("/v1/trace_annotations", ())} == of_trace


@pytest.mark.parametrize(
    ("resource", "variable", "project"),
    [({"openinference.project.name": "a/b"}, "other", "a%2Fb"), ({}, "shop", "shop"), ({}, "", "default")],
)  # fmt: skip
def test_phoenix_is_told_which_verdict_is_better_in_the_project_of_the_spans(
    backend, recorded, monkeypatch, resource, variable, project
):
    """By the score it sorts, by the configuration it colours: bad is the last, not the first."""
    monkeypatch.setenv("PHOENIX_PROJECT", variable)
    spans = OpenTelemetryExporter(tracer_provider=TracerProvider(resource=Resource(resource)))
    sink = phoenix(backend, spans=spans)
    for word in ("good", "suspect", "bad"):
        sink.export([with_verdict(recorded, word)])

        sent = [one["result"] for one in annotated_spans(backend) if "verdict" in one["name"]]
        worth = {"good": 1.0, "suspect": 0.5, "bad": 0.0}[word]
        assert sent[-1] == {"label": word, "score": worth}
    assert [one["optimization_direction"] for one in backend.configs] == ["MAXIMIZE"]
    assert backend.puts == [f"/v1/projects/{project}/annotation_configs/ragmeter.verdict"]


@pytest.mark.parametrize("around", ["remote", "unsampled", "none"])
def test_only_a_span_of_this_process_around_the_request_gets_its_verdict(backend, make, around):
    """Another service's span is not about this request, and an unsampled one never arrives."""
    remote = SpanContext(0xA1, 0xB1, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    unsampled = make.span_context(sampled=False)
    parents = {"remote": remote, "unsampled": unsampled, "none": None}
    run = make.scored_run(target=make.span_context(span=0xC1), parent=parents[around])
    phoenix(backend).export([with_verdict(run)])

    spans = {item["span_id"][-2:] for item in annotated_spans(backend)}
    assert spans == {"c1"}


def test_two_requests_of_one_trace_have_a_verdict_each(backend, make):
    """Phoenix keeps one annotation of the same name and identifier."""
    runs = [
        with_verdict(make.scored_run(target=make.span_context(span=span)), word)
        for span, word in ((0xC1, "bad"), (0xC2, "good"))
    ]
    phoenix(backend).export(runs)
    verdicts = {
        (path, target): item["result"]["label"]
        for (path, target, name, _), item in backend.stored.items()
        if name == "ragmeter.verdict"
    }
    of_trace = [key for key in backend.stored if key[0] == "/v1/trace_annotations"]

    assert len([key for key in of_trace if key[2] == "ragmeter.verdict"]) == 2
    assert len([key for key in backend.stored if key[1] == (f"{0xB1:016x}", None)]) == 2
    assert verdicts["/v1/span_annotations", (f"{0xC1:016x}", None)] == "bad"
    assert verdicts["/v1/span_annotations", (f"{0xC2:016x}", None)] == "good"


def test_what_a_score_says_of_a_chunk_goes_to_the_document(backend, make):
    """By its place in the retrieval, which need not be that in the prompt; other pieces stay with the span."""
    first, second, third = (RetrievedContext(text=text) for text in ("one", "two", "three"))
    run = make.scored_run(
        (
            make.score(
                "lexical_context_relevance",
                0.75,
                items=(
                    ScoreItem(id="chunk-1", verdict=True, value=0.75),
                    ScoreItem(id="chunk-2", verdict=False),
                    ScoreItem(id="chunk-2/sentence-1", verdict=True),
                ),
            ),
        ),
        sample={"contexts": (third, first)},
        retrieval={"contexts": (first, second, third), "target": make.span_context(span=0xD1)},
        target=make.span_context(span=0xC1),
    )
    phoenix(backend).export([run])

    assert of_documents(backend) == [
        ("lexical_context_relevance", "d1", 2, {"score": 0.75, "label": "yes"}),
        ("lexical_context_relevance", "d1", 0, {"score": 0.0, "label": "no"}),
    ]
    # Phoenix answers 422 to an identifier here.
    sent = next(body for path, _, body, _ in backend.requests if "document_" in path)
    assert {item["identifier"] for item in sent["data"]} == {""}


def test_scores_that_say_the_same_of_every_chunk_say_it_once(backend, make):
    """Four rank scores of one list of verdicts would be four lines under each document."""
    items = (ScoreItem(id="chunk-1", verdict=True), ScoreItem(id="chunk-2", verdict=False))
    names = ("average_precision", "ndcg", "hit_rate")
    scores = tuple(make.score(name, 0.5, items=items) for name in names)
    used = make.score("lexical_context_utilization", 0.5, items=items[1:], direction="none")
    run = make.scored_run(
        (*scores, used), retrieval={"target": make.span_context(span=0xD1)}, target=make.span_context(span=0xC1)
    )
    phoenix(backend).export([run])

    assert [name for name, *_ in of_documents(backend)] == [
        "average_precision",
        "average_precision",
        "lexical_context_utilization",
    ]


def test_of_several_retrievals_each_document_is_annotated_where_it_was_found(backend, make):
    """A text that two retrievals found stands in both, one that neither found nowhere."""
    one, two, other = (RetrievedContext(text=text) for text in ("one", "two", "other"))
    run = make.scored_run()
    retrievals = tuple(replace(run.run.retrievals[0], contexts=contexts) for contexts in ((one,), (two, one)))
    items = tuple(ScoreItem(id=f"chunk-{n}", verdict=True) for n in (1, 2, 3, 4))
    run = make.scored_run(
        (make.score("judged_precision", 1.0, items=items),),
        sample={"contexts": (one, two, other)},
        retrievals=retrievals,
    )

    class Spans:
        def judged_spans(self, run, timeout_s=0.0):
            each = (make.span_context(span=0xD1), make.span_context(span=0xD2))
            return JudgedSpans(make.span_context(span=0xC1), None, each)

    phoenix(backend, spans=Spans()).export([run])

    assert [(span, place) for _, span, place, _ in of_documents(backend)] == [("d1", 0), ("d2", 1), ("d2", 0)]


def test_annotations_of_documents_are_bounded_and_can_be_left_out(backend, make):
    """A hundred chunks and a dozen scores are not twelve hundred annotations."""
    contexts = tuple(RetrievedContext(text=str(n)) for n in range(90))
    scores = tuple(
        make.score(
            f"score_{which}",
            0.5,
            items=tuple(ScoreItem(id=f"chunk-{n}", verdict=None, value=which / 10) for n in range(1, 91)),
        )
        for which in range(8)
    )
    run = make.scored_run(
        scores,
        sample={"contexts": contexts},
        retrieval={"contexts": contexts, "target": make.span_context(span=0xD1)},
        target=make.span_context(span=0xC1),
    )
    phoenix(backend).export([run])
    assert len(of_documents(backend)) == 180

    backend.requests.clear()
    phoenix(backend, document_annotations=False).export([run])
    assert of_documents(backend) == []


def test_phoenix_keeps_the_name_note_for_people(backend, make):
    """The score is renamed rather than lost."""
    target = make.span_context(span=0xC1)
    phoenix(backend).export([make.scored_run((make.score("note", 1.0),), target=target)])

    assert annotated_spans(backend)[0]["name"] == "ragmeter_note"
