"""Memory stays bounded and nothing of the application's is kept, whatever never ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from llama_index_fakes import QUESTION, Captured, ListRetriever, captured, engine_of, nodes
from moved_clock import MovedClock
from waiting import until

from ragmeter.adapters.llama_index import _events as _spans
from ragmeter.adapters.llama_index._answers import Readers
from ragmeter.adapters.llama_index._events import SpanFollower

A = nodes()[:2]
UUID = "-12345678-1234-1234-1234-{:012d}"


@pytest.fixture
def capture() -> Iterator[Captured]:
    made = Captured()
    yield made
    made.meter.shutdown(60)


def follow(capture: Captured, **bounds: Any) -> SpanFollower:
    """A follower with bounds of its own, fed by hand."""

    tags: Mapping[str, Any] = {}
    return SpanFollower(
        capture.meter,
        text_mode="llm",
        is_engine=None,
        active_tags=lambda: tags,
        active_span=lambda: None,
        readers=Readers(None, None, None, None, capture.meter.port.guard("test")),
        **bounds,
    )


def begin_retrieval(follower: SpanFollower, number: int) -> str:
    """Begin a retriever call that will not end by itself."""
    id_ = "ListRetriever.retrieve" + UUID.format(number)
    follower.enter(id_, {"str_or_query_bundle": str(number)}, ListRetriever(A), None, {})
    return id_


def test_requests_beyond_a_number_are_given_up_and_counted(capture: Captured) -> None:
    """The oldest go first; their later spans change nothing."""
    follower = follow(capture, max_requests=3)
    began = [begin_retrieval(follower, number) for number in range(10)]
    assert dict(capture.meter.stats().dropped) == {"evicted": 7}
    for id_ in began:
        follower.exit(id_, {}, [])

    assert len(follower) == 0
    assert sorted(str(run.sample.question) for run in capture.runs) == ["7", "8", "9"]


def test_requests_beyond_an_age_are_given_up_and_counted(capture: Captured) -> None:
    """Swept when the next request begins."""
    clock = MovedClock()
    follower = follow(capture, max_age_s=60.0, clock=clock)
    begin_retrieval(follower, 1)
    clock.now = 61.0
    kept = begin_retrieval(follower, 2)

    assert dict(capture.meter.stats().dropped) == {"evicted": 1}
    follower.exit(kept, {}, [])
    assert len(follower) == 0


def test_children_of_a_given_up_request_leave_nothing(capture: Captured) -> None:
    """Their entries go with it."""
    follower = follow(capture, max_requests=1)
    root = begin_retrieval(follower, 1)
    child = "Any.thing" + UUID.format(2)
    follower.enter(child, {}, object(), root, {})
    follower.exit(begin_retrieval(follower, 3), {}, [])
    follower.exit(child, {}, None)
    follower.exit(root, {}, [])

    assert len(follower) == 0


def test_stream_kept_open_for_ever_is_reported_as_partial(
    capture: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that the application keeps and never reads on is not lost, and not finished."""
    clock = MovedClock()
    handler = capture.handler
    handler._spans = follow(capture, max_age_s=60.0, clock=clock)
    with handler:
        engine = engine_of(streaming=True)
        kept = engine.query("kept")
        assert next(kept.response_gen) == "Paris"
        clock.now = 61.0
        ListRetriever(A).retrieve("next")
        pairs = {run.sample.question: run.sample for run in capture.runs}
        assert list(kept.response_gen) == [" is", " the", " answer."]

    assert (pairs["kept"].status, pairs["kept"].answer) == ("partial", "Paris")
    assert "evicted" not in capture.meter.stats().dropped
    assert len(capture.runs) == 2
    assert handler.open_entries == 0


def test_spans_that_never_end_are_forgotten(capture: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost exit costs an entry only until there are too many."""
    monkeypatch.setattr(_spans, "MAX_FRAMES", 100)
    follower = follow(capture)
    for number in range(1_000):
        root = begin_retrieval(follower, number)
        follower.enter("Lost.span" + UUID.format(number), {}, object(), root, {})
        follower.exit(root, {}, [])

    assert len(follower) <= 101


@pytest.mark.parametrize("streaming", [False, True])
def test_nothing_of_the_applications_is_kept(streaming: bool) -> None:
    """Engine, response and nodes can be collected while the sample waits."""
    with captured() as capture:
        engine = engine_of(streaming=streaming)
        response = engine.query(QUESTION)
        if streaming:
            list(response.response_gen)
        kept = [weakref.ref(item) for item in (engine, response, response.source_nodes[0].node)]
        del engine, response
        gc.collect()

        assert [item() for item in kept] == [None, None, None]
        assert len(capture.runs) == 1


def test_response_kept_by_the_application_does_not_keep_our_copies() -> None:
    """A chat log full of old responses holds no snapshots of ours."""
    with captured() as capture:
        engine = engine_of(streaming=True)
        response = engine.query(QUESTION)
        list(response.response_gen)
        assert len(capture.runs) == 1
        capture.memory.clear()
        text = response.response_gen._self_text
        gc.collect()

        assert text.take() == ""


def test_each_meter_lives_no_longer_than_its_owner_wants() -> None:
    """A detached handler and its meter can be collected."""
    capture = Captured()
    with capture.handler:
        asyncio.run(engine_of().aquery(QUESTION))
    capture.meter.shutdown(60)
    kept = weakref.ref(capture.meter)
    del capture
    until(lambda: gc.collect() >= 0 and kept() is None)  # its worker thread may still be on its way out
