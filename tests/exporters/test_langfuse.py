"""What `LangfuseScores` sends; what it shares with other sinks is in test_rest_sinks."""

import base64
import json
import sys

import pytest

from ragmeter.exporters import langfuse as module
from ragmeter.exporters._http import DeliveryError
from ragmeter.exporters.langfuse import LangfuseScores
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import RunsLostError

KEY = "sk-very-secret-key"


def langfuse(backend, **options):
    return LangfuseScores(backend.url, "pk-1", KEY, **options)


def runs_of(make, count):
    """Return runs whose spans another instrumentation recorded, one score each."""
    return [
        make.scored_run((make.score("faithfulness", 0.5),), target=make.span_context(span=0xC0 + n))
        for n in range(count)
    ]


def test_langfuse_gets_all_scores_in_one_call(backend, recorded):
    """With the OpenTelemetry ids in hexadecimal and basic authentication."""
    langfuse(backend, environment="production").export([recorded])
    ((path, headers, sent, _),) = backend.requests
    bodies = [event["body"] for event in sent["batch"]]
    first = bodies[0]

    assert path == "/api/public/ingestion"
    assert headers["Authorization"] == "Basic " + base64.b64encode(f"pk-1:{KEY}".encode()).decode()
    assert {event["type"] for event in sent["batch"]} == {"score-create"}
    assert len({event["id"] for event in sent["batch"]}) == 2
    assert len(first.pop("id")) == 32
    assert {
        "traceId": f"{0xA1:032x}",
        "observationId": "00000000000000d1",
        "name": "context_precision",
        "value": 0.73,
        "dataType": "NUMERIC",
        "environment": "production",
    }.items() <= first.items()
    assert (first["metadata"]["definition"], first["metadata"]["direction"]) == ("p1", "higher")
    assert len(bodies) == 2
    assert bodies[1]["metadata"]["label"] == "pass"


def test_a_label_without_a_number_is_a_category(backend, make):
    """Langfuse takes it as text, with the type that says so."""
    score = make.score("verdict", None, label="off_topic")
    langfuse(backend).export([make.scored_run((score,), target=make.span_context(span=0xC1))])
    body = backend.requests[0][2]["batch"][0]["body"]

    assert (body["value"], body["dataType"]) == ("off_topic", "CATEGORICAL")


def test_a_batch_of_requests_is_one_call(backend, make):
    """Langfuse's limits count calls: thirty a minute on its smallest plan."""
    langfuse(backend).export(runs_of(make, 64))

    assert len(backend.requests) == 1
    assert len(backend.stored) == 64


@pytest.mark.parametrize(("limit", "value"), [("PER_REQUEST", 10), ("BYTES_PER_REQUEST", 3_000)])
def test_a_call_is_bounded_and_never_divides_a_run(backend, make, monkeypatch, limit, value):
    """By scores and by bytes; Langfuse refuses bodies above 3.5 MB."""
    monkeypatch.setattr(module, limit, value)
    langfuse(backend).export(runs_of(make, 25))
    sizes = [len(body["batch"]) for _, _, body, _ in backend.requests]

    assert len(backend.stored) == sum(sizes) == 25
    assert len(sizes) >= 3
    if limit == "PER_REQUEST":
        assert max(sizes) == 10
    else:
        assert all(len(json.dumps(body)) < 2 * value for _, _, body, _ in backend.requests)


def test_of_a_batch_only_what_is_refused_is_lost(backend, make):
    """The answer tells event by event; its message, which may quote what was sent, is not repeated."""
    backend.refuses = lambda body: body["observationId"].endswith("c1")
    with pytest.raises(RunsLostError, match="refused 1 scores: status 400") as caught:
        langfuse(backend).export(runs_of(make, 3))

    assert isinstance(caught.value, DeliveryError)
    assert caught.value.lost == 1
    assert "not valid" not in str(caught.value)
    assert len(backend.stored) == 2


def test_a_changed_score_replaces_the_one_before(backend, make):
    """Same id of the score, another id of the event, which Langfuse would otherwise forget."""
    one = langfuse(backend)
    for value in (0.2, 0.9):
        score = make.score("faithfulness", value)
        one.export([make.scored_run((score,), target=make.span_context(span=0xC1))])

    (stored,) = backend.stored.values()
    assert stored["value"] == 0.9


@pytest.mark.parametrize("package", [False, True])
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("content", [False, True])
def test_the_list_of_traces_has_name_question_and_answer(
    backend, sdk, make, monkeypatch, within, content, package
):
    """Where the request is part of a trace, that has a name, and what Langfuse's own package says of it stands."""
    if package:
        monkeypatch.setitem(sys.modules, "langfuse", sys)
    spans = OpenTelemetryExporter(tracer_provider=sdk.tracer_provider, capture_content=content)
    langfuse(backend, spans=spans)
    spans.export([make.scored_run(parent=make.span_context() if within else None)])
    [span] = [one for one in sdk.all_spans() if one.name.startswith("invoke_workflow")]
    said = {key: one for key, one in span.attributes.items() if key.startswith("langfuse.")}

    texts = {"langfuse.trace.input": "question", "langfuse.trace.output": "answer"}
    shown = set(texts) if content and not (within and package) else set()
    assert set(said) == shown | (set() if within else {"langfuse.trace.name"})
    assert all(said[key] == make.content[texts[key]] for key in shown)
