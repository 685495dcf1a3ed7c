"""Preparing documents and evaluating answers is no user's request, however it calls the engines."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Document, DocumentSummaryIndex, Settings
from llama_index.core.evaluation import (
    BatchEvalRunner,
    ContextRelevancyEvaluator,
    CorrectnessEvaluator,
    DatasetGenerator,
    EvaluationResult,
    FaithfulnessEvaluator,
    RelevancyEvaluator,
    RetrieverEvaluator,
)
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.evaluation.eval_utils import aget_responses, get_responses
from llama_index.core.extractors import KeywordExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import TransformComponent
from llama_index_fakes import (
    DOCUMENTS,
    QUESTION,
    ListRetriever,
    WordEmbedding,
    captured,
    engine_of,
    expect,
    index,
    llm,
    nodes,
    one_step,
    run,
)


@pytest.fixture(autouse=True)
def _models() -> Iterator[None]:
    before = Settings._llm, Settings._embed_model
    Settings.llm, Settings.embed_model = llm("YES"), WordEmbedding(model_name="words")
    yield
    Settings._llm, Settings._embed_model = before


def documents() -> list[Document]:
    return [Document(text=text) for text in DOCUMENTS.values()]


def summaries(**options: Any) -> Any:
    synthesizer = get_response_synthesizer(response_mode="tree_summarize", **options)
    return DocumentSummaryIndex.from_documents(documents(), response_synthesizer=synthesizer)


class AsksAnEngine(TransformComponent):
    """An extractor of the application's own."""

    def __call__(self, nodes: Any, **_: Any) -> Any:
        for node in nodes:
            node.metadata["summary"] = str(engine_of(model="Paris.").query("Summarise."))
        return nodes


class OwnEvaluator(BaseEvaluator):
    """An evaluator of the application's own, which asks an engine."""

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    async def aevaluate(self, query: Any = None, **_: Any) -> EvaluationResult:  # type: ignore[override]
        return EvaluationResult(feedback=str(await engine_of(model="Paris.").aquery("Is it so?")))


EVALUATED = {"query": "q", "response": "Paris.", "contexts": ["Paris is a city."]}
EVALUATORS = {"faithful": FaithfulnessEvaluator, "relevant": RelevancyEvaluator}


def evaluators() -> dict[str, Any]:
    return {name: kind() for name, kind in EVALUATORS.items()}


def retriever_evaluator() -> Any:
    return RetrieverEvaluator.from_metric_names(["mrr"], retriever=index().as_retriever())


PREPARATIONS: dict[str, Callable[[], Any]] = {
    "document summaries": summaries,
    "document summaries, async": lambda: summaries(use_async=True),
    "insertion": lambda: summaries().insert(Document(text="More.")),
    "pipeline": lambda: IngestionPipeline(transformations=[KeywordExtractor()]).run(documents=documents()),
    "pipeline with an own extractor": lambda: IngestionPipeline(transformations=[AsksAnEngine()]).run(
        documents=documents()
    ),
    "own extractor": lambda: AsksAnEngine()(nodes()),
    "faithfulness": lambda: FaithfulnessEvaluator().evaluate(**EVALUATED),
    "relevancy": lambda: RelevancyEvaluator().evaluate(**EVALUATED),
    "relevancy, async": lambda: asyncio.run(RelevancyEvaluator().aevaluate(**EVALUATED)),
    "context relevancy": lambda: ContextRelevancyEvaluator().evaluate(**EVALUATED),
    "correctness": lambda: CorrectnessEvaluator(llm=llm("5\nGood.")).evaluate(**EVALUATED, reference="Paris."),
    "own evaluator": lambda: OwnEvaluator().evaluate(query="q"),
    "own evaluator, async": lambda: asyncio.run(OwnEvaluator().aevaluate(query="q")),
    "retriever evaluator": lambda: retriever_evaluator().evaluate("q", expected_ids=["paris"]),
    "retriever evaluator, async": lambda: asyncio.run(
        retriever_evaluator().aevaluate("q", expected_ids=["paris"])
    ),
    "batch of queries": lambda: BatchEvalRunner(evaluators()).evaluate_queries(
        engine_of(model="Paris."), queries=["a?", "b?"]
    ),
    "batch of queries, async": lambda: asyncio.run(
        BatchEvalRunner(evaluators()).aevaluate_queries(engine_of(model="Paris."), queries=["a?", "b?"])
    ),
    "data set": lambda: DatasetGenerator(nodes(), num_questions_per_chunk=1).generate_dataset_from_nodes(num=2),
    "data set, async": lambda: asyncio.run(
        DatasetGenerator(nodes(), num_questions_per_chunk=1).agenerate_dataset_from_nodes(num=2)
    ),
    "responses": lambda: get_responses(["a?"], engine_of(model="Paris.")),
    "responses, async": lambda: asyncio.run(aget_responses(["a?"], engine_of(model="Paris."))),
}


@pytest.mark.parametrize("name", PREPARATIONS)
def test_preparing_and_evaluating_gives_no_sample(name: str) -> None:
    with captured() as capture:
        PREPARATIONS[name]()

        assert capture.runs == []
        assert capture.handler.open_entries == 0


def test_what_users_ask_beside_it_is_captured() -> None:
    """Also a synthesizer called by hand, and engines gathered by the application itself."""
    found = ListRetriever(nodes()).retrieve("x")

    async def gathered() -> None:
        await asyncio.gather(*(engine_of(model="Paris.").aquery(QUESTION) for _ in range(2)))

    with captured() as capture:
        summaries()
        get_response_synthesizer().synthesize(QUESTION, nodes=found)
        asyncio.run(gathered())

        assert [run.sample.question for run in capture.runs] == [QUESTION] * 3


@expect(question=QUESTION, ids=["paris", "rome"], retrievals=1, answer="Paris.")
def test_grading_within_a_request_leaves_nothing_in_it() -> None:
    async def graded(query: str) -> Any:
        """Have the answer graded before it is given out."""
        response = await engine_of(model="Paris.").aquery(query)
        evaluator = FaithfulnessEvaluator(llm=llm("YES"))
        verdict = await evaluator.aevaluate_response(query=query, response=response)
        return {"passed": verdict.passing, "words": str(response)}

    run(one_step(graded), query=QUESTION)
