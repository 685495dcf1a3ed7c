"""What senders tell of requests that nobody would measure: kept as far as it says something, and nothing fails for it.

Each is told of a service of its own, in one store, so that what one of them spoils the others show.
"""

import json

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from stored import pieces_of, scored, told
from test_api import PROTOBUF, ask, running

from ragmeter.exporters import semconv

VALUE = semconv.GEN_AI_EVALUATION_SCORE_VALUE
NAMES = ("values", "items", "keys", "a:b", "<img src=x>", "\u202eevil", "a\0b", "worst", "newest", "x" * 256)
TEXT = "a\0b\u202e<script>alert(1)</script>"


def _saying(**said):
    """Return what is put on every span and record instead of what was there."""
    return {semconv.__dict__[name]: value for name, value in said.items()}


TELLINGS = {
    "not_a_number": _saying(SCORE_ITEMS='{"items":[{"id":"chunk-1","value":NaN}]}'),
    "endless_item": _saying(SCORE_ITEMS='{"items":[{"id":"chunk-1","value":1e999}]}'),
    "endless_rest": _saying(SCORE_ITEMS='{"items":[],"left_out":1e999}'),
    "long_item": _saying(SCORE_ITEMS='{"items":[{"id":"a","value":1' + "0" * 400 + "}]}"),
    "deep_items": _saying(SCORE_ITEMS="[" * 30_000),
    "half_a_character": _saying(SCORE_ITEMS='{"items":[{"id":"\\ud800","evidence":["\\udfff"]}]}'),
    "items_of_nothing": _saying(
        SCORE_ITEMS='{"items":[{"id":"answer-9","value":7,"evidence":["chunk-0#0","x"]}],"left_out":-5}'
    ),
    "endless_range": _saying(SCORE_MIN=-1.7e308, SCORE_MAX=1.7e308),
    "no_range": _saying(SCORE_MIN=1.0, SCORE_MAX=1.0),
    "range_the_other_way": _saying(SCORE_MIN=1.0, SCORE_MAX=0.0),
    "out_of_range": {VALUE: -55.0, **_saying(SCORE_MIN=0.0, SCORE_MAX=1.0)},
    "greatest": {VALUE: 1.7e308},
    "greatest_whole": {VALUE: 2**63 - 1},
    "sideways": _saying(SCORE_DIRECTION="sideways"),
    "verdict": _saying(VERDICT="ugly", VERDICT_CODES="<b>"),
    "status": _saying(SCORE_STATUS="<i>"),
    "dear": _saying(SCORE_COST=1e308),
    "endlessly_dear": _saying(SCORE_COST=float("inf")),
    "many_tokens": _saying(SCORE_INPUT_TOKENS=2**53 - 1, SCORE_JUDGE_CALLS=2**63 - 1),
    "metadata": {semconv.SPAN_METADATA_PREFIX + name: "v<&" for name in NAMES}
    | {semconv.SPAN_METADATA_PREFIX + "x": float("nan")},
    "segments": {semconv.SPAN_SEGMENT_PREFIX + name: "v:w<&" for name in NAMES},
    "scores": {semconv.SPAN_SCORE_PREFIX + name: 0.3 for name in NAMES},
    "texts": {
        semconv.INPUT_VALUE: TEXT, semconv.OUTPUT_VALUE: TEXT, semconv.GEN_AI_WORKFLOW_NAME: TEXT,
        semconv.USER_ID: TEXT, semconv.GEN_AI_CONVERSATION_ID: TEXT, semconv.FRAMEWORK: TEXT,
        semconv.REQUEST_STATUS: TEXT,
    },
    "own_id": {semconv.RUN_ID: "a/../b?c#d"},
}  # fmt: skip


def _value(said):
    kind = {str: "string_value", int: "int_value", float: "double_value"}[type(said)]
    return AnyValue(**{kind: said})


def _many(service):
    """How many requests: what is usual is said of 20 at least, and one id is of one request."""
    return {"endless_range": 21, "own_id": 1}.get(service, 2)


def _told(service, said):
    """Requests of a service, of which all spans and records say that, too."""
    for request in told(scored(_many(service)), service=service):
        for piece in pieces_of(request):
            for group in getattr(piece, "resource_spans", None) or piece.resource_logs:
                for scoped in getattr(group, "scope_spans", None) or group.scope_logs:
                    for item in getattr(scoped, "spans", None) or scoped.log_records:
                        kept = [one for one in item.attributes if one.key not in said]
                        del item.attributes[:]
                        item.attributes.extend(kept)
                        item.attributes.extend(
                            KeyValue(key=key, value=_value(value)) for key, value in said.items()
                        )
            yield piece


@pytest.fixture(scope="module")
def strange():
    """A server that was told all of it."""
    with running() as (_, client):
        for service, said in TELLINGS.items():
            together = {}
            for piece in _told(service, said):
                signal = "traces" if hasattr(piece, "resource_spans") else "logs"
                together.setdefault(signal, type(piece)()).MergeFrom(piece)
            for signal, request in together.items():
                answer = client.post(f"/v1/{signal}", content=request.SerializeToString(), headers=PROTOBUF)
                assert answer.status_code == 200, service
        yield client


@pytest.mark.parametrize("service", TELLINGS)
def test_what_is_told_strangely_is_answered_and_shown(strange, service):
    overview = ask(strange, "/api/overview", service=service)
    listed = ask(strange, "/api/requests", service=service, limit=500)
    assert overview["requests"] == listed["total"] == _many(service)
    row = listed["requests"][0]
    one = ask(strange, f"/api/requests/{row['trace_id']}")
    for score in one["scores"]:
        assert score["direction"] in ("higher", "lower", "none", None)
        assert all(item["value"] is None or abs(item["value"]) < 1e100 for item in score["items"])
    assert set(overview["verdicts"]) <= {"good", "suspect", "bad", "none"}
    for path in ("/", "/requests", f"/request/{row['trace_id']}"):
        page = strange.get(path, params={"service": service, "lang": "en"})
        assert page.status_code == 200, path
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
    lines = strange.get("/export.jsonl", params={"service": service}).text.splitlines()
    assert [json.loads(line) for line in lines]


def test_nothing_of_it_stays_where_all_are_looked_at(strange):
    assert ask(strange, "/api/overview")["requests"] == sum(map(_many, TELLINGS))
    judge = ask(strange, "/api/overview", service="dear")["judge"]
    assert (judge["cost"], judge["priced"]) == (None, 0)
