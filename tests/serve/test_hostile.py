"""Whatever is sent, the server goes on, and what it counts adds up: received = read + each reason."""

import json
import time

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from otlp_bodies import as_json, many_spans
from served import FULL, PATIENCE_S, RECORDED, served, traced_as, until

from ragmeter.adapters.opentelemetry import RetrievalTool
from ragmeter.adapters.opentelemetry.otlp import MalformedError, parse_json, parse_protobuf
from ragmeter.serve._intake import items_in

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MB = 1024 * 1024
RECORDINGS = sorted(RECORDED.glob("*/*/*.pb"))


def post(server, body, media_type=PROTOBUF, path="/v1/traces", **headers):
    return httpx.post(
        f"{server.url}{path}", content=body, headers={"Content-Type": media_type, **headers}, timeout=PATIENCE_S
    )


def adds_up(server, spans):
    """Everything that was received is accounted for."""
    stats = server.stats()
    assert sum(stats["spans"].values()) == spans, stats
    meter = server.meter.stats()
    assert meter.captured == meter.exported + sum(meter.dropped.values()) + meter.in_flight
    assert not meter.internal_errors
    assert "error" not in stats["exports"]


def still_works(server):
    body, _ = traced_as(0xABCDEF)
    before = server.stats()["requests"].get("scored", 0)
    assert post(server, body).status_code == 200
    until(lambda: server.stats()["requests"].get("scored", 0) > before)


@st.composite
def damaged(draw):
    """A recorded body, with bytes changed, cut out, doubled or put in."""
    body = bytearray(draw(st.sampled_from(RECORDINGS)).read_bytes())
    for _ in range(draw(st.integers(1, 6))):
        if not body:
            break
        place = draw(st.integers(0, len(body) - 1))
        kind = draw(st.sampled_from(["change", "cut", "double", "insert", "end"]))
        if kind == "change":
            body[place] = draw(st.integers(0, 255))
        elif kind == "cut":
            del body[place : place + draw(st.integers(1, 64))]
        elif kind == "double":
            body[place:place] = body[place : place + draw(st.integers(1, 256))]
        elif kind == "insert":
            body[place:place] = draw(st.binary(max_size=16))
        else:
            del body[place:]
    return bytes(body)


def _spans_in(parse, body):
    try:
        request = parse("traces", body)
    except MalformedError:
        return None
    return items_in(request)


def test_spans_without_times_are_of_now():
    request = ExportTraceServiceRequest.FromString(traced_as(0xC10C)[0])
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.start_time_unix_nano = span.end_time_unix_nano = 0
    sent_ns = time.time_ns()

    with served() as server:
        assert post(server, request.SerializeToString()).status_code == 200
        (scored,) = server.drained()

    assert sent_ns <= scored.run.started_ns <= time.time_ns()


KEYS = st.sampled_from(
    "resourceSpans scopeSpans spans traceId spanId attributes key value stringValue arrayValue values intValue kind "
    "status x".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def changed_json(draw):
    """A recorded body as JSON, in which values are replaced by others."""
    value = json.loads(as_json("traces", FULL.read_bytes()))
    for _ in range(draw(st.integers(1, 4))):
        at = value
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], (dict, list)) and at[key] and draw(st.integers(0, 9)):
                at = at[key]
                continue
            at[key] = draw(VALUES)
            break
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("media_type", "parse", "bodies"),
    [
        (PROTOBUF, parse_protobuf, damaged() | st.binary(max_size=300)),
        (JSON, parse_json, changed_json() | VALUES.map(lambda value: json.dumps(value).encode())),
    ],
    ids=["protobuf", "json"],
)
def test_a_damaged_body_is_taken_or_refused_and_adds_up(media_type, parse, bodies):
    with served() as server, httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        total = {"spans": 0, 200: 0, 400: 0}

        @settings(deadline=None)
        @given(body=bodies)
        def check(body):
            answer = client.post("/v1/traces", content=body, headers={"Content-Type": media_type})
            spans = _spans_in(parse, body)
            assert answer.status_code == (400 if spans is None else 200)
            total[answer.status_code] += 1
            total["spans"] += spans or 0

        check()
        still_works(server)
        assert server.server.stop(PATIENCE_S)
        adds_up(server, total["spans"] + 11)
        assert server.stats()["exports"] == {"accepted": total[200] + 1, "malformed": total[400]}


def many_tiny_spans(bodies, count):
    with served(max_held_bytes=8 * MB) as server:
        accepted = refused = 0
        for _ in range(bodies):
            answer = post(server, many_spans(count))
            if answer.status_code == 200:
                accepted += 1
            else:
                assert answer.status_code == 503
                assert answer.headers["Retry-After"]
                refused += 1
            assert server.health()["held"]["bytes"] < 64 * MB
        assert accepted > 0
        assert server.server.stop(PATIENCE_S)
        adds_up(server, count * accepted)
        exports = {"accepted": accepted, "busy": refused}
        assert server.stats()["exports"] == {name: n for name, n in exports.items() if n}


def test_many_tiny_spans_are_bounded_and_add_up():
    many_tiny_spans(4, 5_000)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_tiny_spans_are_bounded_and_add_up():
    many_tiny_spans(20, 50_000)


def nested(depth):
    """A request whose first span has a value so deep."""
    request = ExportTraceServiceRequest.FromString(traced_as(7)[0])
    span = request.resource_spans[0].scope_spans[0].spans[0]
    value = AnyValue(string_value="x")
    for level in range(depth):
        outer = AnyValue()
        if level % 2:
            outer.array_value.values.add().CopyFrom(value)
        else:
            outer.kvlist_value.values.add(key="k").value.CopyFrom(value)
        value = outer
    span.attributes.add(key="deep").value.CopyFrom(value)
    return request


def in_bytes(depth):
    """A value that is nested deeper than a parser goes, written by hand."""
    body = b""
    for _ in range(depth):
        inner = b"\x2a" + _length(len(body)) + body  # AnyValue.array_value
        body = b"\x0a" + _length(len(inner)) + inner  # ArrayValue.values
    return body


def _length(number):
    out = bytearray()
    while True:
        out.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(out)


def test_deep_nesting_ends_nothing():
    with served() as server:
        assert post(server, nested(20).SerializeToString()).status_code == 200
        assert post(server, as_json("traces", nested(8).SerializeToString()), JSON).status_code == 200
        deep_json = b'{"resourceSpans":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        assert post(server, deep_json, JSON).status_code == 400
        assert post(server, b"[" * 100_000, JSON).status_code == 400
        key_value = b"\x0a\x01k\x12" + _length(len(in_bytes(500))) + in_bytes(500)
        attributes = b"\x4a" + _length(len(key_value)) + key_value
        span = b"\x12" + _length(len(attributes)) + attributes
        scope = b"\x12" + _length(len(span)) + span
        body = b"\x0a" + _length(len(scope)) + scope
        assert post(server, body).status_code == 400
        still_works(server)
        assert server.server.stop(PATIENCE_S)
        adds_up(server, 33)


def test_two_versions_of_a_convention_in_one_trace_are_two_requests():
    """The Vercel AI SDK's spans, new and legacy, as while an application is being moved."""
    traced, spans = [], 0
    for case in ("vercel-ai-sdk-js/two_retrievals", "vercel-ai-sdk-legacy-js/streamed"):
        for path in sorted((RECORDED / case).glob("*.traces.pb")):
            body, _ = traced_as(0xC0FFEE, path)
            traced.append(body)
            spans += items_in(parse_protobuf("traces", body))
    with served(retrieval_tools=[RetrievalTool("*")]) as server:
        for body in traced:
            assert post(server, body).status_code == 200
        until(lambda: sum(server.stats()["spans"].values()) == spans)
        assert server.server.stop(PATIENCE_S)
        adds_up(server, spans)
        assert server.stats()["requests"] == {"scored": 2}
