"""What `PhoenixAnnotations` sends; what it shares with other sinks is in test_rest_sinks."""

from ragmeter.exporters.phoenix import PhoenixAnnotations

KEY = "sk-very-secret-key"


def phoenix(backend, **options):
    return PhoenixAnnotations(backend.url, KEY, **options)


def test_phoenix_gets_one_annotation_per_score_with_a_value(backend, recorded):
    """On the judged span by its hexadecimal id, with who judged and by which definition."""
    phoenix(backend).export([recorded])
    ((path, headers, body, _),) = backend.requests

    assert path == "/v1/span_annotations"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body["data"][0] == {
        "span_id": "00000000000000d1",
        "name": "context_precision",
        "annotator_kind": "LLM",
        "identifier": "ragmeter:p1",
        "result": {"score": 0.73},
        "metadata": {
            "definition": "p1",
            "method": "llm",
            "range": [0.0, 1.0],
            "direction": "higher",
            "status": "ok",
        },
    }
    assert [(item["name"], item["span_id"][-2:]) for item in body["data"]] == [
        ("context_precision", "d1"),
        ("faithfulness", "c1"),
    ]
    assert body["data"][1]["result"] == {"score": 0.9, "label": "pass"}


def test_phoenix_can_annotate_the_trace_as_well(backend, recorded):
    """Its default view averages root spans and traces only."""
    phoenix(backend, trace_annotations=True).export([recorded])

    assert [path for path, *_ in backend.requests] == [
        "/v1/span_annotations",
        "/v1/trace_annotations",
    ]
    assert backend.requests[1][2]["data"][0]["trace_id"] == f"{0xA1:032x}"


def test_phoenix_keeps_the_name_note_for_people(backend, make):
    """The score is renamed rather than lost."""
    target = make.span_context(span=0xC1)
    phoenix(backend).export([make.scored_run((make.score("note", 1.0),), target=target)])

    assert backend.requests[0][2]["data"][0]["name"] == "ragmeter_note"
