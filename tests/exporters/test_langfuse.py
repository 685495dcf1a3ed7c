"""What `LangfuseScores` sends; what it shares with other sinks is in test_rest_sinks."""

import base64

from ragmeter.exporters.langfuse import LangfuseScores

KEY = "sk-very-secret-key"


def langfuse(backend, **options):
    return LangfuseScores(backend.url, "pk-1", KEY, **options)


def test_langfuse_gets_one_score_each(backend, recorded):
    """With the OpenTelemetry ids in hexadecimal and basic authentication."""
    langfuse(backend, environment="production").export([recorded])
    path, headers, body, _ = backend.requests[0]

    assert path == "/api/public/scores"
    assert headers["Authorization"] == "Basic " + base64.b64encode(f"pk-1:{KEY}".encode()).decode()
    assert len(body.pop("id")) == 32
    assert body == {
        "traceId": f"{0xA1:032x}",
        "observationId": "00000000000000d1",
        "name": "context_precision",
        "value": 0.73,
        "dataType": "NUMERIC",
        "environment": "production",
        "metadata": {
            "definition": "p1",
            "method": "llm",
            "range": [0.0, 1.0],
            "direction": "higher",
            "status": "ok",
        },
    }
    assert len(backend.requests) == 3
    assert backend.requests[2][2]["metadata"]["label"] == "pass"


def test_a_label_without_a_number_is_a_category(backend, make):
    """Langfuse takes it as text, with the type that says so."""
    score = make.score("verdict", None, label="off_topic")
    langfuse(backend).export([make.scored_run((score,), target=make.span_context(span=0xC1))])
    body = backend.requests[0][2]

    assert (body["value"], body["dataType"]) == ("off_topic", "CATEGORICAL")
