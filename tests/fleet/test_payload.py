"""Messages: what is captured comes back as it was, whatever else comes back as an error without a text."""

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.fleet.payload import (
    MAX_BYTES,
    MAX_RUNS,
    MessageContent,
    MessageTooLargeError,
    SentRun,
    UnreadableError,
    pack,
    unpack,
)
from ragmeter.metrics import RagSample, Reference, RetrievalStage, RetrievedContext

SECRET = "the patient's name"


def span(trace_id=1, span_id=2, state=None):
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)


def a_run(**changes):
    chunk, other = RetrievedContext(text=SECRET, id="7", score=0.5), RetrievedContext(text="b")
    fields = {
        "sample": RagSample(
            question="who?",
            contexts=(chunk, other),
            contexts_by="prompt",
            answer="she",
            stages=(
                RetrievalStage(name="r", kind="retriever", contexts=(chunk, other)),
                RetrievalStage(name="p", kind="postprocessor", contexts=(chunk,), inputs=(0,)),
            ),
            reference=Reference(answer="he", contexts=("x",)),
            name="qa",
        ),
        "run_id": "run-1",
        "framework": "langchain",
        "started_ns": 10,
        "ended_ns": 20,
        "retrievals": (
            Retrieval(
                started_ns=11,
                ended_ns=12,
                contexts=(other, chunk),
                query="who",
                name="r",
                data_source_id="d",
                top_k=3,
                embedding_model="e",
                provider="p",
                error_type=None,
                target=span(1, 3),
            ),
        ),
        "parent": span(1, 4, TraceState([("vendor", "x")])),
        "target": span(1, 5),
        "conversation_id": "c",
        "user_id": "u",
        "tags": ("a", "b"),
        "metadata": {"tenant": "t", "n": 1, "deep": {"list": [1, None]}},
        "framework_metadata": {"k": "v"},
        "resource": {"service.name": "inner"},
    }
    return RagRun(**{**fields, **changes})


def raw(body):
    return json.loads(zlib.decompress(body))


def message(**changes):
    written = raw(pack(MessageContent(runs=[SentRun(run=a_run())], resource={"service.name": "shop"})))
    return {**written, **changes}


def packed(written):
    return zlib.compress(json.dumps(written).encode())


def test_a_request_comes_back_as_it_was():
    sent = SentRun(run=a_run(), kind="again", revision="2", sample_rate=0.5, judge_sample_rate=0.25, worst=True)
    sample = RagSample(question="And?", contexts=["a"], carried=["b"], answer="b")
    in_a_chat = a_run(sample=sample, run_id="chat")
    batch = MessageContent(
        runs=[sent, SentRun(run=a_run(run_id="other")), SentRun(run=in_a_chat)],
        resource={"service.name": "shop"},
        published_ns=99,
    )

    read = unpack(pack(batch))

    assert read == replace(batch, runs=list(batch.runs), unreadable=[])
    assert read.runs[0].run.parent.trace_state == TraceState([("vendor", "x")])


def test_a_chunk_that_several_places_hold_is_in_the_message_once_and_one_object_afterwards():
    body = pack(MessageContent(runs=[SentRun(run=a_run())]))

    assert json.dumps(raw(body)).count(SECRET) == 1
    run = unpack(body).runs[0].run
    assert run.sample.contexts[0] is run.retrievals[0].contexts[1]
    assert run.sample.contexts[0] is run.sample.stages[1].contexts[0]


@pytest.mark.parametrize(
    "sample",
    [
        RagSample(question=None),
        RagSample(question="q", contexts=None, answer=None, reference=None, stages=None),
        RagSample(question="q", contexts=(), answer="", stages=(), reference=Reference()),
        RagSample(question="q", reference=Reference(answer=None, contexts=(), context_ids=())),
        RagSample(question="q", contexts=(RetrievedContext(text="", id=None, score=None),)),
    ],
)
def test_what_was_never_given_is_not_what_was_given_as_nothing(sample):
    run = a_run(sample=sample, retrievals=())

    read = unpack(pack(MessageContent(runs=[SentRun(run=run)]))).runs[0].run.sample

    assert read == sample
    assert read.model_fields_set == sample.model_fields_set
    if sample.reference is not None:
        assert read.reference.model_fields_set == sample.reference.model_fields_set
    for ours, theirs in zip(sample.contexts or (), read.contexts or (), strict=True):
        assert ours.model_fields_set == theirs.model_fields_set


texts = st.text(st.characters(), max_size=20)  # lone surrogates among them
maybe = st.none() | texts
contexts = st.builds(
    RetrievedContext,
    text=texts,
    id=maybe,
    score=st.none() | st.floats(allow_nan=False),
    metadata=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=3),
)
samples = st.builds(
    RagSample,
    question=maybe,
    contexts=st.none() | st.lists(contexts, max_size=3).map(tuple),
    answer=maybe,
    search_query=maybe,
    name=maybe,
    reference=st.none() | st.builds(Reference, answer=maybe, contexts=st.lists(texts, max_size=2).map(tuple)),
)


@settings(deadline=None)
@given(sample=samples, tags=st.lists(texts, max_size=2).map(tuple), user=maybe, at=st.integers(0, 2**62))
def test_any_request_comes_back_as_it_was(sample, tags, user, at):
    run = a_run(
        sample=sample,
        tags=tags,
        user_id=user,
        started_ns=at,
        ended_ns=at + 1,
        retrievals=(Retrieval(started_ns=at, ended_ns=at, contexts=sample.contexts or ()),),
    )

    assert unpack(pack(MessageContent(runs=[SentRun(run=run)]))).runs[0].run == run


def test_metadata_that_json_does_not_know_becomes_text():
    run = a_run(metadata={"kind": Exception, "set": {1}, 3: "three", "nan": float("nan")})

    read = unpack(pack(MessageContent(runs=[SentRun(run=run)]))).runs[0].run

    assert read.metadata == {"kind": "<class 'Exception'>", "set": [1], "3": "three", "nan": None}


def test_a_newer_minor_version_is_read_and_its_fields_passed_over():
    written = message(v=[1, 9], extra={"x": 1})
    written["runs"][0]["later"] = [1]
    written["runs"][0]["chunks"][0]["later"] = 1
    written["runs"][0]["ref"]["later"] = 1

    read = unpack(packed(written))
    assert read.runs[0].run == a_run()
    assert (read.version, read.is_newer) == ((1, 9), True)


@pytest.mark.parametrize("version", [7, 2, -1])
@pytest.mark.parametrize(
    ("changes", "requests"),
    [({}, 1), ({"runs": [{}, {}, {}]}, 3), ({"runs": {"a": 1}}, 1), ({"pub": "now", "res": []}, 1)],
)
def test_another_major_version_is_refused_by_its_name_however_it_looks(version, changes, requests):
    with pytest.raises(UnreadableError, match=f"version {version}, and this worker reads 0 and 1") as caught:
        unpack(packed(message(v=[version, 0], **changes)))
    assert caught.value.requests == requests
    without = {key: value for key, value in message(v=[version]).items() if key != "runs"}
    with pytest.raises(UnreadableError, match=f"version {version}"):
        unpack(packed(without))


def test_what_was_written_in_version_1_0_is_read_by_every_version_that_reads_it():
    """The file was written on 2026-11-23 and is not to be written again."""
    kept = Path(__file__).with_name("message-1.0.json").read_bytes()
    sent = SentRun(run=a_run(), kind="again", revision="2", sample_rate=0.5, judge_sample_rate=0.25, worst=True)

    read = unpack(zlib.compress(kept))

    assert (read.runs, read.unreadable, read.is_newer) == ([sent], [], False)
    assert (read.resource, read.published_ns) == ({"service.name": "shop"}, 99)


def test_the_major_version_before_is_read():
    read = unpack(packed(message(v=[0, 3])))
    assert (read.runs[0].run, read.is_newer) == (a_run(), False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"{}",
        SECRET.encode(),
        zlib.compress(b""),
        zlib.compress(b"[]"),
        zlib.compress(b"{"),
        zlib.compress(SECRET.encode()),
        zlib.compress(b"\xff\xfe"),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b"1" * 10_000),
        pack(MessageContent(runs=[SentRun(run=a_run())]))[:-9],
        *(
            packed(message(v=v))
            for v in (None, 1, "1", [], ["1"], [True, 0], [[1]], {"0": 1}, [None], [1, "0"], [1, None])
        ),
        *(packed(message(runs=r)) for r in (5, "runs", {"0": {}})),
        *(packed(message(res=r)) for r in (5, "x", ["y"])),
        packed(message(pub="now")),
        packed({"v": [1, 0]}),
    ],
)
def test_a_message_that_cannot_be_read_says_so_without_a_word_of_it(body):
    with pytest.raises(UnreadableError) as caught:
        unpack(body)

    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_message_does_not_unpack_to_more_than_it_may():
    bomb = zlib.compress(b" " * (MAX_BYTES + 1))

    with pytest.raises(UnreadableError, match="unpacks to more than"):
        unpack(bomb)


STRANGE = (None, 5, -1, 1.5, True, "text", [], ["x"], [1], [-1], {}, {"x": 1}, [None, None], [[]])


def _wrong():
    run = message()["runs"][0]
    for key in run:
        for value in STRANGE:
            yield key, value
    for key in run["ret"][0]:
        for value in STRANGE:
            yield "ret", [{**run["ret"][0], key: value}]
    for key in run["chunks"][0]:
        for value in STRANGE:
            yield "chunks", [{**run["chunks"][0], key: value}, *run["chunks"][1:]]
    for key in run["stages"][0]:
        for value in STRANGE:
            yield "stages", [{**run["stages"][0], key: value}]


def test_a_field_of_any_type_costs_at_most_its_own_request():
    for key, value in _wrong():
        good, strange = message()["runs"][0], {**message()["runs"][0], key: value}

        read = unpack(packed(message(runs=[good, strange, good])))

        assert len(read.runs) + len(read.unreadable) == 3
        assert read.runs[0].run == read.runs[-1].run == a_run()
        for sent in read.runs:
            pack(MessageContent(runs=[sent]))  # what was read can be written


@pytest.mark.parametrize("field", ["kind", "id", "at"])
def test_a_request_without_what_it_needs_is_a_message_of_its_own(field):
    good, strange = message()["runs"][0], message()["runs"][0]
    del strange[field]

    read = unpack(packed(message(runs=[good, strange], pub=4)))

    assert len(read.runs) == 1
    (alone,) = read.unreadable
    assert raw(alone) == {"v": [1, 0], "res": {"service.name": "shop"}, "pub": 4, "runs": [strange]}


def test_every_other_field_may_be_absent():
    whole = message()["runs"][0]
    for field in set(whole) - {"kind", "id", "at", "chunks"}:
        less = {key: value for key, value in whole.items() if key != field}

        assert len(unpack(packed(message(runs=[less]))).runs) == 1
    least = {"kind": "run", "id": "x", "at": [1, 2]}
    (sent,) = unpack(packed({"v": [1, 0], "runs": [least]})).runs
    assert sent == SentRun(
        run=RagRun(sample=RagSample(question=None), run_id="x", framework="manual", started_ns=1, ended_ns=2)
    )


def test_a_message_holds_no_more_than_it_may():
    run = SentRun(run=a_run())

    with pytest.raises(MessageTooLargeError):
        pack(MessageContent(runs=[run] * (MAX_RUNS + 1)))
    huge = a_run(sample=RagSample(question="x" * (MAX_BYTES + 1)))
    with pytest.raises(MessageTooLargeError):
        pack(MessageContent(runs=[SentRun(run=huge)]))
