"""What the application says about a request: references, sessions, tags, suppression, grouping."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import QueryBundle
from llama_index_fakes import QUESTION, ListRetriever, captured, engine_of, expect, ids, llm, nodes

import ragmeter
from ragmeter import RagMeter
from ragmeter.adapters.llama_index import LlamaIndexRequest, RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter

A = nodes()[:2]
NOTE = {
    "ragmeter": {
        "reference": {"answer": "Paris", "context_ids": ["paris"]},
        "session_id": "s-1",
        "user_id": "u-1",
        "tags": ["beta"],
        "release": "7",
    }
}


@pytest.mark.parametrize("is_async", [False, True])
def test_instrument_tags_carry_reference_session_user_and_tags(is_async: bool) -> None:
    """Everything told in the nested dictionary arrives at the run."""
    with captured() as capture:
        with instrument_tags(NOTE):
            asyncio.run(engine_of().aquery(QUESTION)) if is_async else engine_of().query(QUESTION)
        engine_of().query("without")
        with_note, without = capture.runs

    reference = with_note.sample.reference
    assert reference is not None
    assert (reference.answer, reference.context_ids) == ("Paris", ("paris",))
    run = with_note.run
    assert (run.conversation_id, run.user_id, run.tags) == ("s-1", "u-1", ("beta",))
    assert dict(run.metadata) == {"release": "7"}
    assert without.sample.reference is None
    assert without.run.conversation_id is None


def test_instrument_tags_make_segments_and_go_nowhere_else() -> None:
    memory = InMemoryExporter()
    meter = RagMeter(
        metrics=["lexical_groundedness"], exporters=[memory],
        segments=["language", "metadata.tenant", "retriever"],
    )  # fmt: skip
    with meter, RagMeterHandler(meter):
        with instrument_tags({"tenant": "acme"}):
            engine_of().query("Что это?")
        assert meter.flush(60)
        keys = meter.quality()
    assert [dict(one.run.metadata) for one in memory.results] == [{}]
    assert {key.segment for key in keys} == {
        "", "language:ru", "metadata.tenant:acme", "retriever:ListRetriever",
    }  # fmt: skip


@expect(question="asked", name="support")
def test_name_and_question_can_be_told() -> None:
    """The application knows better what the user asked and what the request is called."""
    with instrument_tags({"ragmeter": {"question": "asked", "name": "support"}}):
        engine_of().query("prompt with the question inside")


def test_reference_block_adds_to_the_tags_in_force() -> None:
    """``ragmeter.reference`` and instrument tags are merged, in either nesting."""
    with captured() as capture:
        with instrument_tags({"ragmeter": {"session_id": "s"}, "other": 1}):
            with ragmeter.reference(answer="Paris"):
                engine_of().query(QUESTION)
        with ragmeter.reference(answer="Rome"), instrument_tags({"ragmeter": {"user_id": "u"}}):
            engine_of().query(QUESTION)
        first, second = capture.runs

    assert (first.run.conversation_id, second.run.user_id) == ("s", "u")
    assert [item.sample.reference and item.sample.reference.answer for item in (first, second)] == [
        "Paris",
        "Rome",
    ]


@expect(conversation_id="begin")
def test_tags_are_those_in_force_when_the_request_started() -> None:
    """Not those in force when its stream ended."""
    with instrument_tags({"ragmeter": {"session_id": "begin"}}):
        response = engine_of(streaming=True).query(QUESTION)
    with instrument_tags({"ragmeter": {"session_id": "end"}}):
        list(response.response_gen)


def test_references_do_not_mix_between_concurrent_requests() -> None:
    """Each gathered task, and each to_thread call, keeps its own reference."""

    async def one(number: int) -> None:
        with ragmeter.reference(answer=f"answer {number}"):
            if number % 2:
                await engine_of().aquery(f"question {number}")
            else:
                await asyncio.to_thread(engine_of().query, f"question {number}")

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(10)))

    with captured() as capture:
        asyncio.run(main())
        pairs = {
            run.sample.question: run.sample.reference and run.sample.reference.answer for run in capture.runs
        }

    assert pairs == {f"question {n}": f"answer {n}" for n in range(10)}


def test_bare_thread_loses_the_reference_and_a_copied_context_keeps_it() -> None:
    """Context variables do not follow bare threads: documented, and nothing breaks."""
    with captured() as capture:
        with ragmeter.reference(answer="Paris"):
            context = contextvars.copy_context()
            for target in (lambda: engine_of().query("bare"), lambda: context.run(engine_of().query, "copied")):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
        samples = {run.sample.question: run.sample.reference for run in capture.runs}

    assert samples["bare"] is None
    assert samples["copied"] is not None


@pytest.mark.contains_errors
def test_malformed_note_loses_the_note_not_the_request() -> None:
    """A wrong type under "ragmeter" is counted; the request is captured without it."""
    with captured() as capture:
        for note in ("text", {"reference": {"no such field": 1}}):
            with instrument_tags({"ragmeter": note}):
                engine_of().query(QUESTION)
        assert len(capture.runs) == 2
        errors = capture.meter.stats().internal_errors

    assert errors == {"llama_index.scope": 2}


def test_suppressed_requests_are_not_captured_nor_are_their_children() -> None:
    """Within ``suppress()`` nothing is a request, not even nested queries."""
    with captured() as capture:
        with ragmeter.suppress():
            engine_of().query(QUESTION)
            ListRetriever(A).retrieve(QUESTION)
            asyncio.run(engine_of().aquery(QUESTION))
        assert capture.runs == []
        engine_of().query(QUESTION)

        assert len(capture.runs) == 1
    assert capture.handler.open_entries == 0


@expect(ids=["paris", "rome"], retrievals=1)
def test_suppress_inside_a_request_leaves_that_part_out() -> None:
    """A request that grades itself with another engine."""

    class Grading(RetrieverQueryEngine):
        def _query(self, query_bundle: QueryBundle) -> Any:
            response = super()._query(query_bundle)
            with ragmeter.suppress():
                engine_of(nodes()[2:]).query("good?")
            return response

    Grading.from_args(ListRetriever(A), llm=llm()).query(QUESTION)


def test_requests_can_be_excluded_by_a_filter() -> None:
    """The hook sees kind, instance, question, arguments and tags of each beginning request."""
    seen: list[LlamaIndexRequest] = []

    def mine(request: LlamaIndexRequest) -> bool:
        seen.append(request)
        return request.question == QUESTION

    with captured(filter=mine) as capture:
        engine_of().query("Are you there?")
        engine_of().query(QUESTION)

        assert capture.only.sample.question == QUESTION
    assert len(seen) == 2
    assert seen[0].kind == "query"
    assert isinstance(seen[0].instance, RetrieverQueryEngine)


@pytest.mark.contains_errors
def test_hook_that_raises_does_not_lose_the_request() -> None:
    """A broken filter or question hook is counted, and the request captured by the rules."""

    def broken(request: LlamaIndexRequest) -> Any:
        raise RuntimeError("mine")

    with captured(filter=broken, question=broken) as capture:
        engine_of().query(QUESTION)

        assert capture.only.sample.question == QUESTION
        assert capture.meter.stats().internal_errors == {"llama_index.hook": 2}


def test_hand_made_pipeline_is_one_request_when_grouped() -> None:
    """``ragmeter.request()`` unites retrieve and synthesize called by hand."""
    with captured() as capture:
        with ragmeter.request(question="What the user typed"):
            found = ListRetriever(A).retrieve("rewritten")
            get_response_synthesizer(llm=llm()).synthesize("rewritten", found[:1])
        scored = capture.only

    assert scored.sample.question == "What the user typed"
    assert scored.sample.answer == "Paris is the answer."
    assert (scored.sample.status, ids(scored)) == ("ok", ["paris"])
    assert [item.query for item in scored.run.retrievals] == ["rewritten"]
    assert len(scored.run.retrievals[0].contexts) == 2


@expect(status="ok", retrievals=1)
def test_hand_made_pipeline_without_grouping_is_one_request() -> None:
    """The synthesis is given what the bare retrieval found."""
    query_engine = engine_of()
    found = query_engine.retrieve(QueryBundle(QUESTION))
    query_engine.synthesize(QueryBundle(QUESTION), found)


def test_sampled_out_requests_are_counted() -> None:
    """Sampling is the meter's: nothing is exported, everything is accounted for."""
    memory = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[memory], sample_rate=0.0)
    with RagMeterHandler(meter) as handler:
        engine_of().query(QUESTION)
        assert handler.open_entries == 0
    meter.flush(60)
    stats = meter.stats()
    meter.shutdown(60)

    assert memory.results == []
    assert (stats.captured, dict(stats.dropped)) == (1, {"sampled_out": 1})
