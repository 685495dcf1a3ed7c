"""Traces put together from pieces: when they are complete, what is given up, and that all is counted."""

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moved_clock import MovedClock
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_spans import documents, openinference, span

from ragmeter.adapters.opentelemetry._repeats import RecentRequests
from ragmeter.adapters.opentelemetry._tree import SpanTree
from ragmeter.adapters.opentelemetry.assembly import TraceAssembler
from ragmeter.adapters.opentelemetry.otlp import parse_protobuf, received_in
from ragmeter.adapters.opentelemetry.requests import read_trace


def _assembler(**limits):
    clock, traces = MovedClock(), []
    return TraceAssembler(traces.append, clock=clock, **limits), clock, traces


def _of(number, *spans):
    for one in spans:
        object.__setattr__(one, "trace_id", f"{number:032x}")
    return spans


def test_a_trace_is_complete_after_the_grace():
    assembler, clock, traces = _assembler(grace_s=1.0)
    assembler.add([openinference(1, None, "CHAIN"), openinference(2, 1, "RETRIEVER")])
    assembler.tick()
    assert traces == []

    clock.now = 1.0
    assembler.tick()

    assert [len(trace.spans) for trace in traces] == [2]
    assert not traces[0].late


@pytest.mark.parametrize(
    ("more", "words", "repeats"),
    [
        ({}, "Because.", True),
        ({"scope": "langchain"}, "Because.", False),
        ({"started_ns": 1}, "Because.", False),
        ({"parent_id": "a" * 16}, "Because.", False),
        ({}, "Why not?", False),
    ],
)
def test_a_call_that_stands_in_another_trace_is_no_request_of_its_own(more, words, repeats):
    """As the OpenAI client's below LangChain, whose instrumentations make no span current; it comes first."""
    assembler, _, traces = _assembler()
    said = "llm.output_messages.0.message.content"
    root, outer = (openinference(1, None, "CHAIN"), openinference(2, 1, "LLM", **{said: "Because."}, end=9))
    inner = openinference(3, None, "LLM", **{said: words}, end=4)
    for one, fields in ((inner, {"scope": "openai", **more}), (outer, {"scope": "langchain"})):
        for key, value in fields.items():
            setattr(one, key, value)
    assembler.add([*_of(1, inner), *_of(2, outer, root)])
    assembler.drain()

    assert [one.repeats for one in traces] == [repeats, False]
    [unheard] = read_trace(traces[0].spans, repeats=traces[0].repeats).unheard
    assert (unheard.reason == "repeated") is repeats


@pytest.mark.parametrize(
    ("more", "twice"),
    [
        ({}, True),
        ({"scope": "openinference"}, False),
        ({"started_ns": 30 * 10**9, "ended_ns": 40 * 10**9}, False),
        ({"resource": {"service.name": "other"}}, False),
    ],
)
def test_a_request_that_two_instrumentations_record_in_a_trace_each_is_one(more, twice):
    recent = RecentRequests()
    readings = []
    for number, scope in ((1, "openinference"), (2, "openllmetry")):
        spans = [
            openinference(1, None, "CHAIN", input="Why?", output="Because.", end=9),
            openinference(2, 1, "RETRIEVER", input="Why?", **documents("It is so.")),
        ]
        for one in spans:
            one.scope = scope
            for key, value in more.items() if number == 2 else ():
                setattr(one, key, value)
        readings.append(read_trace(_of(number, *spans), recent=recent))

    assert [len(one.requests) for one in readings] == [1, 0 if twice else 1]
    assert [one.reason for one in readings[1].unheard] == ["repeated"] * twice


def test_what_retrieves_after_the_request_above_it_has_ended_is_another_request():
    """As below a context that an instrumentation leaves attached."""
    asked = {"Why?": "It is so.", "Who?": "The kettle said so."}
    spans = []
    for number, (question, text) in enumerate(asked.items()):
        first = 1 + 10 * number
        spans += [
            openinference(first, number or None, "CHAIN", input=question, output="Yes.", end=first + 8),
            openinference(first + 1, first, "RETRIEVER", input=question, **documents(text)),
        ]
    requests = read_trace(spans).requests

    assert {one.question: one.contexts[0].text for one in requests} == asked


@pytest.mark.parametrize(
    ("more", "complete", "reason"),
    [
        ({}, False, "repeated"),
        ({"scope": "openai"}, False, "no_reply"),
        ({"llm.input_messages.0.message.content": "Where?"}, False, "no_reply"),
        ({"failed": True}, True, "no_retrieval_seen"),
    ],
)
def test_a_reply_may_come_in_a_trace_of_its_own(more, complete, reason):
    """As Logfire writes what was streamed: the call waits for it, and is no second request."""
    assembler, clock, traces = _assembler(grace_s=1.0, idle_s=30.0)
    sent = {"llm.input_messages.0.message.content": "Why?", "llm.input_messages.0.message.role": "user"}
    reply = {"llm.output_messages.0.message.content": "Because."}
    bare = openinference(1, None, "LLM", **sent)
    whole = openinference(2, None, "LLM", **sent | reply)
    bare.scope = whole.scope = "logfire"
    for key, value in more.items():
        if key in sent:
            bare.attributes[key] = value
        else:
            setattr(bare, key, value)
    assembler.add(_of(1, bare))
    clock.now = 2.0
    assembler.tick()
    assert bool(traces) is complete
    assembler.add(_of(2, whole))
    clock.now = 40.0
    assembler.tick()

    first, second = sorted(traces, key=lambda one: one.trace_id)
    assert not second.repeats
    [unheard] = read_trace(first.spans, repeats=first.repeats).unheard
    assert unheard.reason == reason


def test_a_trace_whose_parents_are_missing_waits_longer():
    assembler, clock, traces = _assembler(grace_s=1.0, idle_s=30.0)
    assembler.add([span(1, None, kind="server"), openinference(3, 2, "RETRIEVER")])
    clock.now = 29.0
    assembler.tick()
    assert traces == []

    clock.now = 30.0
    assembler.tick()

    assert len(traces) == 1
    assert assembler.stats().partial == 1


def test_late_spans_open_a_trace_once_more_and_no_more():
    assembler, clock, traces = _assembler(grace_s=1.0)
    for number in (1, 2, 3):
        assembler.add([openinference(number, None, "CHAIN")])
        clock.now += 2.0
        assembler.tick()

    assert [(len(trace.spans), trace.late) for trace in traces] == [(1, False), (2, True)]
    assert assembler.stats().lost == {"late": 1}


def test_of_a_trace_that_lasts_for_hours_the_parts_at_rest_are_delivered():
    assembler, clock, traces = _assembler(idle_s=30.0)
    for number in range(10, 400, 10):  # a job: a request every ten seconds, its own span still open
        assembler.add(
            [
                openinference(number + 1, number, "RETRIEVER", **documents("x")),
                openinference(number, 1, "CHAIN", input=f"Question {number}?"),
            ]
        )
        clock.now += 10
        assembler.tick()
        assert assembler.stats().open <= 20
    assembler.add([span(1, None, "job")])
    assembler.drain()

    asked = [one.question for trace in traces for one in read_trace(trace.spans).requests]
    assert sorted(asked) == sorted(f"Question {number}?" for number in range(10, 400, 10))
    stats = assembler.stats()
    assert (stats.spans, stats.delivered, stats.lost) == (79, 79, {})


def test_calls_below_one_missing_parent_are_delivered_together():
    """Whatever was exported first: alone, a retrieval would be a request without an answer."""
    assembler, clock, traces = _assembler(idle_s=30.0)
    assembler.add([openinference(3, 2, "RETRIEVER", **documents("x"))])
    clock.now = 5.0
    assembler.add([openinference(4, 2, "LLM")])
    for now in range(6, 40):
        clock.now = float(now)
        assembler.tick()

    assert [len(trace.spans) for trace in traces] == [2]


def test_a_delivered_trace_is_forgotten_after_a_while():
    assembler, clock, _ = _assembler(grace_s=1.0, late_s=10.0)
    assembler.add([openinference(1, None, "CHAIN")])
    for clock.now in (2.0, 12.0):
        assembler.tick()

    assert assembler.stats().bytes == 0


def test_the_oldest_traces_are_given_up_and_counted():
    assembler, _, traces = _assembler(max_traces=2)
    for number in range(5):
        assembler.add(_of(number, span(1, 0), span(2, 1)))
    assembler.drain()

    stats = assembler.stats()
    assert [int(trace.trace_id, 16) for trace in traces] == [3, 4]
    assert stats.evicted == {"traces": 3}
    assert stats.spans == stats.delivered + sum(stats.lost.values()) == 10


def test_many_tiny_spans_take_a_bounded_room():
    assembler, _, _ = _assembler(max_spans=1_000, max_bytes=10_000_000)
    for number in range(0, 20_000, 100):
        assembler.add(
            _of(number % 7, *(span(number + one, 1, attributes={"x": "y" * 99}) for one in range(100)))
        )
        assert assembler.stats().open <= 1_000
        assert assembler.stats().bytes <= 10_000_000

    stats = assembler.stats()
    assert stats.spans == stats.delivered + sum(stats.lost.values()) + stats.open == 20_000


def test_large_spans_take_a_bounded_room():
    assembler, _, _ = _assembler(max_bytes=1_000_000)
    for number in range(100):
        assembler.add(_of(number, openinference(1, None, "CHAIN", input="x" * 50_000)))

        assert assembler.stats().bytes <= 1_000_000


@pytest.mark.parametrize("in_a_trace", [1, 5, 50])
@pytest.mark.parametrize("texts", [0, 3])
def test_what_it_says_that_spans_take_is_what_they_take(in_a_trace, texts):
    """Else a bound in bytes bounds something else."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(2_000):
        one = spans.add(name="GET", start_time_unix_nano=number + 10**18)
        one.trace_id = (number // in_a_trace + 1).to_bytes(16, "big")
        one.span_id = (number + 1).to_bytes(8, "big")
        one.end_time_unix_nano = one.start_time_unix_nano + 1
        one.attributes.add(key="openinference.span.kind").value.string_value = "RETRIEVER"
        for text in range(texts):
            told = one.attributes.add(key=f"retrieval.documents.{text}.document.content")
            told.value.string_value = f"chunk {number}.{text}, " * 20
    body = request.SerializeToString()
    assembler, _, _ = _assembler()
    received_in(parse_protobuf("traces", body))  # what is made once
    tracemalloc.start()
    try:
        assembler.add(received_in(parse_protobuf("traces", body)).spans)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * taken < assembler.stats().bytes < 1.7 * taken  # two bytes a character


def test_what_nobody_reads_is_not_kept():
    assembler, _, traces = _assembler()
    assembler.add([span(1, None, attributes={"db.statement": "x" * 999, "http.response.status_code": 500})])
    assembler.drain()

    assert traces[0].spans[0].attributes == {"http.response.status_code": 500}


def test_our_own_spans_are_never_taken_in():
    assembler, _, traces = _assembler()
    assembler.add([span(1, None, scope="ragmeter")])
    assembler.drain()

    assert traces == []
    assert assembler.stats().lost == {"own": 1}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), max_size=60
    ),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_every_span_is_delivered_once_or_counted(steps, max_spans, max_traces):
    assembler, clock, traces = _assembler(max_spans=max_spans, max_traces=max_traces, late_s=3.0, idle_s=2.0)
    for trace, number, parent, pause in steps:
        assembler.add(_of(trace, openinference(number, parent, "CHAIN", **documents("x"))))
        clock.now += pause
        assembler.tick()
    stats = assembler.stats()

    assert stats.spans == stats.delivered + sum(stats.lost.values()) + stats.open == len(steps)
    assert stats.open <= max_spans
    assembler.drain()
    assert assembler.stats().open == 0
    clock.now += 99
    assembler.tick()
    assert assembler.stats().bytes == 0
    assert stats.open_traces <= max_traces
    assert all(trace.spans for trace in traces)


def _steps(shape, size, monkeypatch):
    """Look-ups of parents while the requests in a trace of `size` spans are found."""
    taken = []
    ask = SpanTree.parent
    monkeypatch.setattr(SpanTree, "parent", lambda tree, one: (taken.append(1), ask(tree, one))[1])
    spans = [openinference(1, None, "CHAIN", input="Why?", end=size + 9)]
    for number in range(2, size):
        parent = {"deep": number - 1, "wide": 1, "flat": None}[shape]
        kind = "RETRIEVER" if number % 3 == 0 and shape != "deep" else "CHAIN"
        spans.append(openinference(number, parent, kind, input="Why?", **documents(f"text {number}")))
    read_trace(spans)
    monkeypatch.setattr(SpanTree, "parent", ask)
    return len(taken)


@pytest.mark.parametrize("shape", ["deep", "wide", "flat"])
def test_the_work_grows_as_the_number_of_spans(shape, monkeypatch):
    few, many = (_steps(shape, size, monkeypatch) for size in (200, 800))

    assert many < few * 4.2


def test_what_is_sent_twice_counts_once():
    """A sender that got no answer sends the same again, before the trace is complete or after."""
    assembler, _clock, traces = _assembler()
    assembler.add([span(1, None), span(2, 1)])
    assembler.add([span(1, None), span(2, 1)])
    assembler.drain()
    assembler.add([span(2, 1)])
    assembler.drain()

    assert [len(trace.spans) for trace in traces] == [2]
    stats = assembler.stats()
    assert (stats.spans, stats.delivered, dict(stats.lost)) == (5, 2, {"duplicate": 3})


def test_bytes_of_open_traces_are_known():
    assembler, _clock, traces = _assembler()
    assembler.add([span(1, None), span(2, 1)])
    assert assembler.stats().open_bytes == assembler.stats().bytes > 0

    assembler.drain()

    assert assembler.stats().open_bytes == 0
    assert assembler.stats().bytes == traces[0].bytes > 0
    assert traces[0].fresh == 2


EVALUATION = {"gen_ai.operation.name": "evaluation"}


@pytest.mark.parametrize("first", [True, False])
def test_what_ragmeter_scored_in_the_application_is_noted_with_the_trace(first):
    assembler, _clock, traces = _assembler()
    own = [span(9, 2, scope="ragmeter", attributes=EVALUATION)]
    others = [span(1, None), span(2, 1)]
    for batch in (own, others) if first else (others, own):
        assembler.add(batch)
    assembler.drain()

    [trace] = traces
    assert len(trace.spans) == 2
    assert trace.scored.covers({f"{2:016x}"}, 0, 0)
    assert not trace.scored.covers({f"{1:016x}"}, 0, 0)


def test_a_request_that_ragmeter_wrote_spans_for_is_known_by_its_time():
    assembler, _clock, traces = _assembler()
    assembler.add([span(1, None), span(9, 1, scope="ragmeter", start=5, end=6)])
    assembler.drain()

    scored = traces[0].scored
    assert scored.covers(set(), int(5.5e9), int(7e9))
    assert not scored.covers(set(), int(7e9), int(8e9))


def test_traces_that_another_process_gets_whole_are_given_up_and_counted():
    assembler, clock, traces = _assembler(grace_s=1.0)
    half, whole = f"{2:032x}", f"{1:032x}"
    assembler.add(_of(1, span(1, None)))
    assembler.add(_of(2, span(4, 3)))
    assembler.forget([half, "unknown"])
    stats = assembler.stats()
    assert (stats.lost, stats.open, stats.open_traces) == ({"revoked": 1}, 1, 1)
    assembler.add(_of(2, span(4, 3), span(3, None)))
    clock.now = 1.0
    assembler.tick()
    assert [trace.trace_id for trace in traces] == [whole, half]
    assert len(traces[1].spans) == 2
