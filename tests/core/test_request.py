"""Requests told by hand, grouped, referenced and suppressed."""

import asyncio
from concurrent import futures

import pytest
from fakes_core import context_tally
from opentelemetry.sdk.trace import TracerProvider

import ragmeter
from ragmeter import RagMeter, RagRun
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import (
    ConfigurationError,
    RagSample,
    Reference,
    RetrievalFunnel,
    RetrievalStage,
    RetrievedContext,
    RightDocumentLoss,
)
from ragmeter.metrics.protocol import compute_metric
from ragmeter.requests.by_hand import SubmittedSample
from ragmeter.requests.scope import current_scope, is_suppressed, parse_scope


@pytest.fixture
def memory():
    return InMemoryExporter()


@pytest.fixture
def meter(memory):
    with RagMeter(metrics=[context_tally], exporters=[memory]) as meter:
        yield meter


def _only(meter, memory):
    assert meter.flush(60)
    (result,) = memory.results
    return result


def test_a_request_told_by_hand_is_one_sample(meter, memory):
    with meter.request("Where?", name="by-hand", session_id="s1", user_id="u1") as request:
        request.retrieved(["A", RetrievedContext(text="B", id="b")], data_source_id="kb")
        request.retrieved([], query="more")
        request.answered("Here.")

    run = _only(meter, memory).run
    assert run.sample == RagSample(
        question="Where?",
        contexts=["A", RetrievedContext(text="B", id="b")],
        answer="Here.",
        name="by-hand",
        stages=run.sample.stages,
    )
    assert [r.data_source_id for r in run.retrievals] == ["kb", None]
    assert [len(r.contexts) for r in run.retrievals] == [2, 0]
    assert run.started_ns <= run.retrievals[0].started_ns <= run.retrievals[0].ended_ns
    assert run.retrievals[0].ended_ns <= run.retrievals[1].started_ns <= run.ended_ns
    assert (run.conversation_id, run.user_id, run.framework) == ("s1", "u1", "manual")


def test_an_empty_retrieval_is_a_sample_and_none_at_all_is_not(meter, memory):
    with meter.request("Tried?") as request:
        request.retrieved([])
    with meter.request("Never tried?") as request:
        request.answered("42")

    result = _only(meter, memory)
    assert result.sample.contexts == ()
    assert result.sample.status == "retrieval_only"


def test_an_exception_passes_through_and_is_the_status(meter, memory):
    with pytest.raises(KeyError), meter.request("q") as request:
        request.retrieved(["A"])
        raise KeyError("app")

    run = _only(meter, memory).run
    assert (run.sample.status, run.error_type) == ("error", "KeyError")


def test_cancellation_is_a_status_of_its_own(meter, memory):
    async def app():
        async with meter.request("q") as request:
            request.retrieved(["A"])
            await asyncio.sleep(60)

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(app(), 0.05)

    asyncio.run(main())

    assert _only(meter, memory).sample.status == "cancelled"


def test_a_request_belongs_to_the_span_around_it(meter, memory):
    with TracerProvider().get_tracer("app").start_as_current_span("http") as span:
        with meter.request("q") as request:
            request.retrieved(["A"])

    assert _only(meter, memory).run.parent == span.get_span_context()


def _part(sample, started_ns):
    return RagRun(sample=sample, run_id="x", framework="langchain", started_ns=started_ns, ended_ns=started_ns)


def _offer(meter, sample, started_ns=1):
    meter.port.offer(lambda: _part(sample, started_ns), run_id="x", scope=current_scope())


def test_framework_runs_within_a_request_become_one_sample(meter, memory):
    with ragmeter.request("The question", reference={"answer": "R"}, tags=["t"]):
        _offer(meter, RagSample(question="rewritten", contexts=["A", "B"], status="retrieval_only"))
        _offer(meter, RagSample(question="rewritten", contexts=["B"], answer="From B."), 2)

    run = _only(meter, memory).run
    assert run.sample.question == "The question"
    assert run.sample.contexts == (RetrievedContext(text="B"),)
    assert run.sample.answer == "From B."
    assert run.sample.status == "ok"
    assert run.sample.reference == Reference(answer="R")
    assert run.tags == ("t",)
    assert run.framework == "langchain"
    assert meter.stats().captured == 1


def test_bare_retrievals_within_a_request_are_joined_in_order(meter, memory):
    with ragmeter.request() as request:
        _offer(meter, RagSample(question="first", contexts=["A"], status="retrieval_only"))
        _offer(meter, RagSample(question="second", contexts=["B"], status="retrieval_only"), 2)
        request.answered("Both.")

    sample = _only(meter, memory).sample
    assert [context.text for context in sample.contexts] == ["A", "B"]
    assert (sample.question, sample.answer, sample.status) == ("first", "Both.", "ok")


def test_how_the_contexts_are_known_is_that_of_the_parts_that_count(meter, memory):
    """Told by hand: given. Else the weakest rule of the runs whose contexts count."""
    parts = {
        "by prompt": RagSample(question="q", contexts=["A"], answer="a", contexts_by="prompt"),
        "by runs": RagSample(question="q", contexts=["B"], answer="a", contexts_by="runs"),
        "retriever": RagSample(question="q", contexts=["C"], contexts_by="runs"),
    }
    for expected, names in {
        "given": (),
        "prompt": ("retriever", "by prompt"),
        "runs": ("by prompt", "by runs"),
    }.items():
        with meter.request("q") as request:
            if not names:
                request.retrieved(["A"])
            for name in names:
                _offer(meter, parts[name])
        assert _only(meter, memory).sample.contexts_by == expected
        memory.clear()


def test_a_run_that_ends_after_its_request_stands_alone(meter, memory):
    with ragmeter.request("group"):
        scope = current_scope()
    meter.port.offer(lambda: _part(RagSample(question="late", contexts=[]), 1), run_id="x", scope=scope)

    assert _only(meter, memory).sample.question == "late"


def test_references_nest_and_merge_with_requests():
    with ragmeter.reference(answer="outer", context_ids=["1"]):
        assert current_scope().reference == Reference(answer="outer", context_ids=("1",))
        with ragmeter.request(name="flow"):
            assert current_scope().reference.answer == "outer"
            assert current_scope().name == "flow"
            with ragmeter.reference(answer="inner"):
                assert current_scope().reference == Reference(answer="inner")
                assert current_scope().group is not None
    assert current_scope() is None


def test_suppressed_requests_are_not_captured(meter, memory):
    with ragmeter.suppress():
        assert is_suppressed()
        with meter.request("q") as request:
            request.retrieved(["A"])
    assert not is_suppressed()

    meter.flush(60)
    assert memory.results == []


def test_our_own_threads_are_suppressed(memory):
    seen = []

    from ragmeter.metrics import metric

    @metric
    def look(sample):
        seen.append(is_suppressed())
        return 1.0

    with RagMeter(metrics=[look], exporters=[memory]) as meter:
        meter.submit(RagSample(question="q"))
        meter.flush(60)

    assert seen == [True]


def test_the_note_in_framework_metadata():
    scope = parse_scope(
        {
            "reference": {"answer": "a", "context_ids": [1]},
            "session_id": 5,
            "user_id": "u",
            "tags": "one",
            "team": "search",
        }
    )

    assert scope.reference == Reference(answer="a", context_ids=("1",))
    assert (scope.conversation_id, scope.user_id, scope.tags) == ("5", "u", ("one",))
    assert scope.metadata == {"team": "search"}
    assert parse_scope(None) is None


def test_a_malformed_note_says_what_to_pass():
    with pytest.raises(ConfigurationError, match="pass a dictionary"):
        parse_scope(["reference"])


def test_a_surrounding_reference_holds_for_what_is_told_by_hand(meter, memory):
    with ragmeter.reference(answer="gold"):
        with meter.request("q") as request:
            request.retrieved(["A"])
        meter.submit(RagSample(question="q", contexts=["A"]))
        with meter.request("q", reference="its own") as request:
            request.retrieved(["A"])

    assert meter.flush(60)
    assert [r.sample.reference.answer for r in memory.results] == ["gold", "gold", "its own"]


def test_contexts_may_be_fields_or_documents_and_keep_their_ids(meter, memory):
    class Document:
        def __init__(self):
            self.page_content, self.id, self.metadata = "C", 3, {"source": "c.md"}

        @property
        def text(self):
            raise RuntimeError("not on the request's path")

    with meter.request("q") as request:
        request.retrieved([{"text": "A", "id": 1, "score": 0.5}, {"text": ""}, Document()])

    contexts = _only(meter, memory).sample.contexts
    assert contexts == (
        RetrievedContext(text="A", id="1", score=0.5),
        RetrievedContext(text=""),
        RetrievedContext(text="C", id="3", metadata={"source": "c.md"}),
    )


def test_one_text_is_one_context_not_its_letters(meter, memory):
    with meter.request("q") as request:
        request.retrieved("one text")

    assert [c.text for c in _only(meter, memory).sample.contexts] == ["one text"]


def test_a_note_may_give_the_answer_alone():
    assert parse_scope({"reference": "a"}).reference == Reference(answer="a")


def test_a_malformed_reference_in_a_note_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="reference: anwser"):
        parse_scope({"reference": {"anwser": "typo"}})


def test_a_request_within_a_request_belongs_to_it(meter, memory):
    with meter.request("Outer?") as outer:
        with meter.request("Inner?") as inner:
            inner.retrieved(["A"])
            inner.answered("Part.")
        outer.answered("Whole.")

    sample = _only(meter, memory).sample
    assert (sample.question, sample.answer) == ("Outer?", "Whole.")
    assert [context.text for context in sample.contexts] == ["A"]
    assert meter.stats().captured == 1


def _flow(sample):
    (score,) = compute_metric(RetrievalFunnel(), sample)
    return score.summary


@pytest.mark.parametrize("error", [asyncio.CancelledError, futures.CancelledError, KeyboardInterrupt, OSError])
def test_errors_by_which_a_caller_ends_a_request_are_those_of_spans(meter, memory, error):
    with pytest.raises(error), meter.request("who?") as request:
        request.retrieved(["a text"])
        raise error

    assert _only(meter, memory).sample.status == ("error" if error is OSError else "cancelled")


def test_stages_told_by_hand(meter, memory):
    """What a stage kept is what reached the model, and the same objects."""
    with meter.request("Where?", reference={"context_ids": ["b", "c", "d"]}) as request:
        request.retrieved([{"id": "a", "text": "A"}, {"id": "b", "text": "B"}], name="dense")
        request.retrieved([{"id": "c", "text": "C"}], name="lexical")
        request.kept([{"id": "c", "text": "C"}, {"id": "a", "text": "A"}], stage="rerank")
        request.answered("Here.")

    sample = _only(meter, memory).sample
    assert [context.id for context in sample.contexts] == ["c", "a"]
    assert _flow(sample) == "dense 2 and lexical 1 → rerank 2 → prompt 2"
    assert sample.contexts[0] is sample.stages[1].contexts[0]
    dropped, _ = compute_metric(RightDocumentLoss(), sample)
    assert [item.reason for item in dropped.items] == ["dropped_by rerank", "in_prompt", "never_found"]


def test_a_stage_after_the_frameworks_retriever(meter, memory):
    with meter.request("Where?") as request:
        offered = RagSample(
            question="Where?",
            contexts=["A", "B"],
            contexts_by="runs",
            status="retrieval_only",
            stages=[
                RetrievalStage(
                    name="store",
                    kind="retriever",
                    contexts=(RetrievedContext(text="A"), RetrievedContext(text="B")),
                )
            ],
        )
        request.collect(meter, SubmittedSample(offered), size_bytes=0)
        request.kept(["B"], stage="rerank", kind="postprocessor")
        request.answered("Here.")

    sample = _only(meter, memory).sample
    assert _flow(sample) == "store 2 → rerank 1 → prompt 1"
    assert sample.stages[1].kind == "postprocessor"


@pytest.mark.contains_errors
def test_a_stage_told_wrongly_is_counted_and_not_lost(meter, memory):
    with meter.request("Where?") as request:
        request.retrieved(["A", "B"])
        request.kept(["B"], stage="rerank", kind="magic")
        request.kept(None, stage="nothing")
    request.answered("B")  # too late

    assert meter.stats().internal_errors == {"request": 2}
    sample = _only(meter, memory).sample
    assert [stage.kind for stage in sample.stages] == ["retriever", "unknown"]
    assert [context.text for context in sample.contexts] == ["B"]
