"""Composed engines and retrievers: one sample, the documents behind it, nothing made up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core import QueryBundle, Settings, SummaryIndex
from llama_index.core.evaluation import EvaluationResult, RelevancyEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.query_engine import (
    MultiStepQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index_fakes import (
    CORE,
    DOCUMENTS,
    QUESTION,
    Choose,
    ListRetriever,
    Questions,
    captured,
    engine_of,
    expect,
    ids,
    llm,
    nodes,
    since,
)

A, B = nodes()[:2], nodes()[2:]


def tool(query_engine: Any, name: str) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(query_engine, name=name, description=name)


def ask(query_engine: Any, is_async: bool) -> Any:
    return asyncio.run(query_engine.aquery(QUESTION)) if is_async else query_engine.query(QUESTION)


both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def router(*places: int) -> RouterQueryEngine:
    return RouterQueryEngine(
        Choose(*places),
        [tool(engine_of(A, "From a."), "a"), tool(engine_of(B, "From b."), "b")],
        llm=llm("Both."),
        summarizer=TreeSummarize(llm=llm("Both.")),
    )


@expect(ids=["tea", "moon"], answer="From b.", name="RouterQueryEngine")
@both_ways
def test_router_with_one_selection(is_async: bool) -> None:
    """The chosen engine's documents and answer, once, under the router's name."""
    ask(router(1), is_async)


@expect(ids=["tea", "moon", "paris", "rome"], retrievals=2, answer="Both.")
@both_ways
def test_router_with_several_selections(is_async: bool) -> None:
    """All chosen engines' documents in selection order, and the combined answer."""
    if is_async and CORE < (0, 14, 9):
        pytest.skip("the selected engines' context is lost before llama-index-core 0.14.9")
    ask(router(1, 0), is_async)


def sub_question(*engines: Any, use_async: bool) -> SubQuestionQueryEngine:
    return SubQuestionQueryEngine.from_defaults(
        [tool(item, f"t{place}") for place, item in enumerate(engines)],
        llm=llm("Joined."),
        question_gen=Questions(),
        response_synthesizer=get_response_synthesizer(llm=llm("Joined."), use_async=False),
        use_async=use_async,
        verbose=False,
    )


@pytest.mark.parametrize("use_async", [False, True])
@both_ways
def test_sub_questions_report_documents_not_question_answer_nodes(is_async: bool, use_async: bool) -> None:
    """The documents behind the sub-answers; the user's question; the final answer."""
    with captured() as capture:
        ask(sub_question(engine_of(A), engine_of(B), use_async=use_async), is_async)
        scored = capture.only

    assert sorted(map(str, ids(scored))) == sorted(DOCUMENTS)
    assert (scored.sample.question, scored.sample.answer) == (QUESTION, "Joined.")
    assert sorted(str(item.query) for item in scored.run.retrievals) == ["ask t0", "ask t1"]


@expect(question=QUESTION, any_order=sorted(DOCUMENTS), answer="Joined.")
@since(0, 14, 9)
def test_sub_questions_asked_synchronously_inside_a_running_loop() -> None:
    """They run on another thread, with the context copied since 0.14.9 (llama_index PR 20286)."""

    async def call() -> None:
        sub_question(engine_of(A), engine_of(B), use_async=True).query(QUESTION)

    asyncio.run(call())


def test_sub_question_that_failed_and_was_swallowed_leaves_the_request_ok() -> None:
    """LlamaIndex logs a failing sub-question and goes on: so does the sample."""
    broken = engine_of(ListRetriever([], error=RuntimeError("store down")))
    with captured() as capture:
        try:
            sub_question(engine_of(A), broken, use_async=False).query(QUESTION)
        except RuntimeError:
            pytest.skip("this version of llama-index-core passes the error on")
        scored = capture.only

    assert scored.sample.status == "ok"
    assert ids(scored) == ["paris", "rome"]
    assert [item.error_type for item in scored.run.retrievals] == [None, "RuntimeError"]


@expect(contexts=())
def test_sub_questions_that_found_nothing_do_not_report_made_up_nodes() -> None:
    """Sub-answers from empty retrievals: the contexts are empty, not question/answer texts."""
    sub_question(engine_of([]), engine_of([]), use_async=False).query(QUESTION)


@expect(question=QUESTION, ids=["paris", "rome"], retrievals=2, answer="Joined.")
def test_multi_step_engine() -> None:
    """One sample; documents of all steps without repetition; the user's question (openinference#678)."""
    transform = StepDecomposeQueryTransform(llm=llm("next step?"), verbose=False)
    MultiStepQueryEngine(
        engine_of(A),
        transform,
        response_synthesizer=get_response_synthesizer(llm=llm("Joined.")),
        index_summary="x",
        num_steps=2,
        early_stopping=False,
    ).query(QUESTION)


class Verdicts(RelevancyEvaluator):
    """Passes from the n-th response on."""

    def __init__(self, passes_at: int) -> None:
        self.calls = 0
        self.passes_at = passes_at

    def evaluate_response(self, query: Any = None, response: Any = None, **_: Any) -> Any:
        self.calls += 1
        return EvaluationResult(
            query=str(query), response=str(response), passing=self.calls >= self.passes_at, feedback="NO"
        )


class Changing(BaseRetriever):
    """Returns other documents at each call."""

    def __init__(self, *lists: list[TextNode]) -> None:
        self.lists = list(lists)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=item, score=1.0) for item in self.lists.pop(0)]


def test_retry_engine_reports_the_accepted_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejected attempts leave nothing behind; the question stays the user's."""
    monkeypatch.setattr(Settings, "_llm", llm())
    inner = engine_of(Changing(A, B))
    with captured() as capture:
        RetryQueryEngine(inner, Verdicts(2)).query(QUESTION)
        scored = capture.only

    assert ids(scored) == ["tea", "moon"]
    assert scored.sample.question == QUESTION
    assert [[item.id for item in r.contexts] for r in scored.run.retrievals] == [["tea", "moon"]]


@expect(ids=["paris", "rome"], retrievals=1, answer="Paris is the answer.")
def test_evaluator_inside_an_engine_leaves_nothing_in_the_sample() -> None:
    """LlamaIndex's relevancy evaluator runs an engine of its own within the request."""
    inner = engine_of(A)
    evaluator = RelevancyEvaluator(llm=llm("YES"))
    RetryQueryEngine(inner, evaluator).query(QUESTION)


@expect(question=QUESTION, ids=["paris", "rome"], name="TransformQueryEngine")
@both_ways
def test_hyde_transform_keeps_the_users_question(is_async: bool) -> None:
    """Two nested query spans are one request; the transformed text is the retrieval's affair."""
    ask(TransformQueryEngine(engine_of(A), HyDEQueryTransform(llm=llm("made up"))), is_async)


@expect(ids=["paris", "rome"], source=None)
def test_summary_index_engine() -> None:
    """Engines without a vector store are captured alike."""
    SummaryIndex(A).as_query_engine(llm=llm()).query(QUESTION)
