"""Packed bodies: whatever is sent, what comes out is the body or a reason, and never more than the limit."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_bodies import as_json
from served import FULL

from ragmeter.adapters.opentelemetry.assembly import TraceAssembler
from ragmeter.adapters.opentelemetry.otlp import MalformedError, parse_json, parse_protobuf, received_in
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.metrics import RagmeterError
from ragmeter.serve._bodies import TooLargeError, UnknownEncodingError, unpack

BODY = FULL.read_bytes()
ENCODINGS = ["", "gzip", "deflate", "x-gzip", "identity", "br"]


@given(st.binary(max_size=2_000), st.sampled_from(["gzip", "deflate"]))
def test_what_was_packed_is_unpacked(body, encoding):
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)

    assert unpack(packed, encoding.upper(), 2_000) == body


@given(st.binary(max_size=500), st.sampled_from(ENCODINGS), st.integers(0, 300))
def test_anything_is_a_body_within_the_limit_or_has_a_reason(body, encoding, limit):
    try:
        plain = unpack(body, encoding, limit)
    except (MalformedError, TooLargeError, UnknownEncodingError):
        return
    assert len(plain) <= limit


@pytest.mark.parametrize("size", [999, 1000, 1001])
def test_the_limit_is_exact(size):
    for encoding, pack in (("", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)):
        body = pack(b"a" * size)
        if size <= 1000:
            assert len(unpack(body, encoding, 1000)) == size
        else:
            with pytest.raises(TooLargeError):
                unpack(body, encoding, 1000)


def test_members_are_capped_and_may_be_empty():
    assert unpack(gzip.compress(b"") * 999 + gzip.compress(BODY), "gzip", len(BODY)) == BODY
    with pytest.raises(MalformedError, match="packed parts"):
        unpack(gzip.compress(b"") * 1_001, "gzip", 1000)


@given(st.data())
def test_a_damaged_body_is_read_or_refused(data):
    """Bytes cut out, put in and changed: spans are made of it or not, and nothing else happens."""
    as_text = data.draw(st.booleans())
    plain = as_json("traces", BODY) if as_text else BODY
    at = data.draw(st.integers(0, len(plain) - 1))
    gone = data.draw(st.integers(0, 40))
    body = plain[:at] + data.draw(st.binary(max_size=8)) + plain[at + gone :]
    try:
        request = (parse_json if as_text else parse_protobuf)("traces", body)
    except RagmeterError:
        return
    received = received_in(request)
    traces = []
    assembler = TraceAssembler(traces.append)
    assembler.add(received.spans, received.logs)
    assembler.drain()
    for trace in traces:
        read_trace(trace.spans, trace.logs)
    stats = assembler.stats()
    assert stats.spans == stats.delivered + sum(stats.lost.values())
