"""Query engines: right question, what reached the model in order, right answer, right status."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.postprocessor import MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CitationQueryEngine, CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.response_synthesizers.context_only import ContextOnly
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_fakes import (
    DOCUMENTS,
    QUESTION,
    ListRetriever,
    captured,
    engine_of,
    expect,
    ids,
    index,
    llm,
    nodes,
    retrieved_ids,
    texts,
)


def engine(model: Any = None, found: list[TextNode] | None = None, **options: Any) -> Any:
    """A retriever engine over a fixed list."""
    return engine_of(nodes() if found is None else found, model or llm(), **options)


class ByLength(BaseNodePostprocessor):
    """A reranker that overwrites scores in place and sorts, as cross-encoder rerankers do."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        for item in nodes:
            item.score = float(len(item.node.get_content()))
        nodes.sort(key=lambda item: item.score or 0.0, reverse=True)
        return nodes[:2]


def test_query_gives_one_sample_with_what_the_model_saw() -> None:
    """A plain query: question, contexts in prompt order, answer, retrieval facts and times."""
    model = llm()
    with captured() as capture:
        answer = index().as_query_engine(llm=model, similarity_top_k=2).query(QUESTION)
        scored = capture.only

    assert str(answer) == scored.sample.answer == "Paris is the answer."
    assert scored.sample.question == QUESTION
    assert scored.sample.status == "ok"
    assert scored.sample.name == "RetrieverQueryEngine"
    assert ids(scored) == ["paris", "rome"]
    prompt = model.prompts[-1]
    assert [text for text in texts(scored) if text in prompt] == texts(scored)
    assert prompt.index(texts(scored)[0]) < prompt.index(texts(scored)[1])
    run = scored.run
    assert run.framework == "llama_index"
    (retrieval,) = run.retrievals
    assert run.started_ns <= retrieval.started_ns <= retrieval.ended_ns <= run.ended_ns
    assert retrieval.query == QUESTION
    assert retrieval.name == "VectorIndexRetriever"
    assert retrieval.data_source_id == "SimpleVectorStore"
    assert retrieval.top_k == 2
    assert retrieval.embedding_model == "words"


@expect(question=QUESTION)
def test_query_bundle_gives_its_text_as_question() -> None:
    """The question of a QueryBundle is its query string."""
    engine().query(QueryBundle(QUESTION, custom_embedding_strs=["other"]))


def test_async_query_gives_the_same_sample_as_sync() -> None:
    """Sync and async differ in nothing that is captured."""
    with captured() as capture:
        query_engine = index().as_query_engine(llm=llm(), similarity_top_k=2)
        query_engine.query(QUESTION)
        asyncio.run(query_engine.aquery(QUESTION))
        first, second = capture.runs

    assert first.sample == second.sample
    assert capture.handler.open_entries == 0


@expect(contexts=(), retrieved=list(DOCUMENTS), answer="Empty Response", status="ok")
def test_nothing_survives_the_cutoff_and_the_empty_response_is_the_answer() -> None:
    """An empty context list is a sample; the user saw "Empty Response" (phoenix#4261)."""
    answer = engine(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=2.0)]).query(QUESTION)
    assert str(answer) == "Empty Response"


def test_retriever_that_finds_nothing_is_a_sample() -> None:
    """An empty retrieval is a valid sample (phoenix#4261, deepeval#3168)."""
    with captured() as capture:
        engine(found=[]).query(QUESTION)
        scored = capture.only

    assert scored.sample.contexts == ()
    assert retrieved_ids(scored) == []
    assert scored.scores["empty_retrieval"].value == 1.0


def test_reranker_that_overwrites_scores_in_place_changes_only_the_used_list() -> None:
    """Scores at retrieval time and after reranking are both kept (llama_index#20597)."""
    with captured() as capture:
        engine(node_postprocessors=[ByLength()]).query(QUESTION)
        scored = capture.only

    assert ids(scored) == ["tea", "moon"]
    assert [item.score for item in scored.sample.contexts or ()] == [
        float(len(DOCUMENTS["tea"])),
        float(len(DOCUMENTS["moon"])),
    ]
    (retrieval,) = scored.run.retrievals
    assert [item.score for item in retrieval.contexts] == pytest.approx([1.0, 0.9, 0.8, 0.7])


def test_sentence_window_gives_the_window_to_the_model_and_the_sentence_as_retrieved() -> None:
    """Text replaced in place: the model saw the window, the retriever returned the sentence."""
    found = [TextNode(id_="a", text="Short.", metadata={"window": "Before. Short. After."})]
    found[0].excluded_llm_metadata_keys = ["window"]
    model = llm()
    with captured() as capture:
        engine(
            model, found, node_postprocessors=[MetadataReplacementPostProcessor(target_metadata_key="window")]
        ).query(QUESTION)
        scored = capture.only

    assert texts(scored) == ["Before. Short. After."]
    assert "Before. Short. After." in model.prompts[-1]
    assert [item.text for item in scored.run.retrievals[0].contexts] == ["Short."]


def test_text_is_as_the_model_saw_it_with_ids_scores_and_metadata() -> None:
    """MetadataMode.LLM by default, excluded keys left out; ids, scores and metadata kept."""
    found = nodes({"a": "Body."}, metadata={"file": "f.txt", "secret": "s"})
    found[0].excluded_llm_metadata_keys = ["secret"]
    model = llm()
    with captured() as capture:
        engine(model, found).query(QUESTION)
        scored = capture.only

    (context,) = scored.sample.contexts or ()
    assert context.text == "file: f.txt\n\nBody."
    assert context.text in model.prompts[-1]
    assert (context.id, context.score) == ("a", 1.0)
    assert dict(context.metadata) == {"file": "f.txt", "secret": "s"}


@expect(options={"text_mode": "none"}, texts=["Body."])
def test_text_mode_none_gives_the_bare_text() -> None:
    """``text_mode="none"`` leaves the metadata out."""
    engine(found=nodes({"a": "Body."}, metadata={"file": "f.txt"})).query(QUESTION)


def test_nodes_changed_after_the_query_do_not_change_the_sample() -> None:
    """Texts and metadata are copied when seen: the application may change its objects at once."""
    with captured() as capture:
        response = engine(found=nodes({"a": "Body."}, metadata={"k": "v"})).query(QUESTION)
        for item in response.source_nodes:
            item.node.metadata.clear()
            item.node.set_content("changed")
            item.score = 0.0
        response.source_nodes.clear()
        (context,) = capture.only.sample.contexts or ()

    assert context.text == "k: v\n\nBody."
    assert dict(context.metadata) == {"k": "v"}
    assert context.score == 1.0


@expect(ids=list(DOCUMENTS), answer=None, status="retrieval_only")
def test_no_text_mode_is_retrieval_only() -> None:
    """``response_mode="no_text"`` asks for no answer."""
    RetrieverQueryEngine(ListRetriever(nodes()), NoText(llm=llm())).query(QUESTION)


@expect(ids=list(DOCUMENTS), answer=None, status="retrieval_only")
@pytest.mark.parametrize("is_async", [False, True])
def test_context_only_mode_is_retrieval_only(is_async: bool) -> None:
    """The texts pasted together are no answer: no model was asked."""
    pasting = RetrieverQueryEngine(ListRetriever(nodes()), ContextOnly(llm=llm()))
    answer = asyncio.run(pasting.aquery(QUESTION)) if is_async else pasting.query(QUESTION)
    assert all(text in str(answer) for text in DOCUMENTS.values())


class Capital(BaseModel):
    """A structured answer."""

    city: str


@expect(answer='{"city":"Paris"}', status="ok")
def test_structured_output_gives_its_json_as_answer() -> None:
    """A pydantic response is reported as the JSON its ``str()`` gives."""
    model = llm('{"city": "Paris"}')
    answer = engine(model, output_cls=Capital, response_mode="compact").query(QUESTION)
    assert str(answer) == '{"city":"Paris"}'


def test_citation_engine_reports_the_numbered_sources_the_model_saw() -> None:
    """Contexts are the "Source n:" nodes, the originals are the list as retrieved."""
    model = llm()
    with captured() as capture:
        CitationQueryEngine.from_args(index(), llm=model, similarity_top_k=2).query(QUESTION)
        scored = capture.only

    assert [text.split("\n")[0] for text in texts(scored)] == ["Source 1:", "Source 2:"]
    assert all(text.strip() in model.prompts[-1] for text in texts(scored))
    assert retrieved_ids(scored) == ["paris", "rome"]


class StringEngine(CustomQueryEngine):
    """The documentation's custom engine: own retriever, own model call, a string."""

    retriever: Any
    llm: Any

    def custom_query(self, query_str: str) -> str:
        found = self.retriever.retrieve(query_str)
        context = "\n".join(item.node.get_content() for item in found)
        return str(self.llm.complete(f"{context}\n{query_str}"))


def test_custom_engine_without_synthesizer_or_sources() -> None:
    """No Query events, no synthesizer, no source nodes: still one right sample (phoenix#3408)."""
    with captured() as capture:
        custom = StringEngine(retriever=ListRetriever(nodes()[:2]), llm=llm())
        custom.query(QUESTION)
        asyncio.run(custom.aquery(QUESTION))
        first, second = capture.runs

    assert ids(first) == ids(second) == ["paris", "rome"]
    assert first.sample.question == QUESTION
    assert first.sample.answer == "Paris is the answer."
    assert first.sample.name == "StringEngine"


@expect(answer=None, status="no_answer")
def test_empty_model_answer_is_no_answer() -> None:
    """A model that says nothing gave no answer."""
    StringEngine(retriever=ListRetriever(nodes()), llm=llm("")).query(QUESTION)


class Logging(RetrieverQueryEngine):
    """A user's subclass that overrides the public method."""

    def query(self, str_or_query_bundle: Any) -> Any:
        response = super().query(str_or_query_bundle)
        response.response = response.response.upper()
        return response


@expect(answer="PARIS IS THE ANSWER.")
def test_overridden_query_that_calls_super_is_one_sample_with_what_the_user_got() -> None:
    """Two nested spans of the same name are one request; the outer result counts (langfuse#7777)."""
    custom = Logging(ListRetriever(nodes()[:1]), response_synthesizer=get_response_synthesizer(llm=llm()))
    custom.query(QUESTION)


def test_odd_nodes_and_scores_are_captured() -> None:
    """Unicode, huge, empty and duplicate texts, scores that are no finite numbers."""
    found = nodes({"ru": "Столица — Париж.", "zh": "巴黎是首都。", "big": "x" * 100_000, "none": ""})
    found.append(found[0])
    with captured() as capture:
        retriever = ListRetriever(found)
        result = retriever.retrieve(QUESTION)
        result[0].score = float("nan")
        query_engine = engine_of(retriever, llm(window=200_000))
        query_engine.synthesize(QueryBundle(QUESTION), nodes=result)
        scored = capture.only

    assert ids(scored) == ["ru", "zh", "big"]  # an empty text stands in no prompt
    assert (scored.sample.contexts or ())[0].score is None
