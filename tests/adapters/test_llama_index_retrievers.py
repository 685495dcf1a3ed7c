"""Retrievers and synthesizers on their own, and retrievers made of others: the final list counts once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from llama_index.core import PromptTemplate, QueryBundle, VectorStoreIndex
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    BaseRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
)
from llama_index.core.schema import IndexNode, NodeRelationship, NodeWithScore, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.storage_context import StorageContext
from llama_index_fakes import (
    DOCUMENTS,
    QUESTION,
    ListRetriever,
    ScriptedLLM,
    WordEmbedding,
    captured,
    custom,
    engine_of,
    expect,
    ids,
    index,
    llm,
    nodes,
    retrieved_ids,
    texts,
)

A, B = nodes()[:2], nodes()[2:]


both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@expect(
    question=QUESTION, ids=["paris", "rome"], retrieved=["paris", "rome"], answer=None, status="retrieval_only"
)
@both_ways
def test_bare_retriever_is_retrieval_only(is_async: bool) -> None:
    """A retriever alone gives a sample without an answer."""
    retriever = index().as_retriever(similarity_top_k=2)
    if is_async:
        asyncio.run(retriever.aretrieve(QUESTION))
    else:
        retriever.retrieve(QUESTION)


@both_ways
def test_a_model_that_is_called_by_itself_answers_from_what_a_retriever_found_before(is_async: bool) -> None:
    """Nothing is around the two. What is summed up, or stands in an earlier turn, was not asked about."""
    retriever, model = index().as_retriever(similarity_top_k=2), llm("It is Paris.")

    async def retrieve() -> str:
        got = await retriever.aretrieve(QUESTION) if is_async else retriever.retrieve(QUESTION)
        return "\n\n".join(item.get_content() for item in got)

    async def ask() -> None:
        pasted = await retrieve()
        prompt = f"Context:\n{pasted}\n\nQuestion: {QUESTION}\nAnswer:"
        for one in (prompt, f"Shorten this:\n{pasted}", "And?"):
            await model.acomplete(one) if is_async else model.complete(one)
        turns = (("user", pasted), ("assistant", "Paris."), ("user", "Thanks."))
        said = [ChatMessage(role=role, content=text) for role, text in turns]
        await model.achat(said) if is_async else model.chat(said)
        for _ in model.stream_complete(prompt):
            pass

    with captured() as capture:
        asyncio.run(ask())
        runs = capture.runs

    (answered,) = runs
    sample = answered.sample
    assert (sample.question, sample.answer, sample.status) == (QUESTION, "It is Paris.", "ok")
    assert (ids(answered), sample.contexts_by) == (["paris", "rome"], "prompt")
    assert retrieved_ids(answered) == ["paris", "rome"]


class EventfulLLM(ScriptedLLM):
    """Fires LlamaIndex's events, as integrations do."""

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return self._words(prompt)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def words() -> Any:
            for item in self._words(prompt):
                yield item

        return words()


@pytest.mark.parametrize(
    ("ends", "status", "answer"),
    [("read", "ok", "It is Paris."), ("left", "partial", None), ("fails", "error", None)],
)
@pytest.mark.parametrize("way", ["stream_chat", "stream_complete", "astream_chat", "astream_complete"])
def test_a_stream_that_a_model_was_asked_for_by_itself_is_a_request(
    way: str, ends: str, status: str, answer: str | None
) -> None:
    """The application retrieves, fills a prompt and hands the pieces on."""
    failure = {"fail_with": RuntimeError("reset"), "fail_after": 1} if ends == "fails" else {}
    model = EventfulLLM(reply=lambda _: "It is Paris.", prompts=[], **failure)

    async def ask() -> None:
        pasted = "\n\n".join(item.get_content() for item in ListRetriever(nodes()).retrieve(QUESTION))
        prompt = f"Context:\n{pasted}\n\nQuestion: {QUESTION}\nAnswer:"
        sent = [ChatMessage(role="user", content=prompt)] if way.endswith("chat") else prompt
        stream = getattr(model, way)(sent)
        if way.startswith("a"):
            stream = await stream
            async for _ in stream:
                if ends == "left":
                    break
            await stream.aclose()
        else:
            for _ in stream:
                if ends == "left":
                    break
            stream.close()

    with captured() as capture:
        with suppress(RuntimeError):
            asyncio.run(ask())
        scored = capture.only

    sample = scored.sample
    assert (sample.question, sample.status, sample.answer) == (QUESTION, status, answer)
    assert ids(scored) == retrieved_ids(scored) == [item.node_id for item in nodes()]


@expect(question=QUESTION, status="error", ids=["paris", "rome"], retrieved=["paris", "rome"])
def test_a_model_that_fails_by_itself_failed_to_answer_from_what_was_found_before() -> None:
    pasted = "\n\n".join(
        item.get_content() for item in index().as_retriever(similarity_top_k=2).retrieve(QUESTION)
    )
    with suppress(RuntimeError):
        llm(fail_with=RuntimeError("overloaded")).complete(
            f"Context:\n{pasted}\n\nQuestion: {QUESTION}\nAnswer:"
        )


@expect(
    question=QUESTION, answer="It is Paris.", status="ok", ids=["paris", "rome"], retrieved=["paris", "rome"]
)
@both_ways
def test_a_model_that_fills_a_template_by_itself_is_a_call_like_any_other(is_async: bool) -> None:
    retriever, model = index().as_retriever(similarity_top_k=2), llm("It is Paris.")
    template = PromptTemplate("Context:\n{context}\n\nQuestion: {question}\nAnswer:")

    async def ask() -> None:
        found = "\n\n".join(item.get_content() for item in retriever.retrieve(QUESTION))
        if is_async:
            await model.apredict(template, context=found, question=QUESTION)
        else:
            model.predict(template, context=found, question=QUESTION)

    asyncio.run(ask())


@both_ways
def test_fusion_retriever_counts_once_and_children_are_not_counted(is_async: bool) -> None:
    """The fused list; scores that fusion writes into its children do not matter."""
    fusion = QueryFusionRetriever(
        [index().as_retriever(similarity_top_k=3), ListRetriever(nodes())],
        llm=llm("first query\nsecond query"),
        num_queries=3,
        similarity_top_k=2,
        mode="reciprocal_rerank",
        use_async=is_async,
    )
    with captured() as capture:
        result = asyncio.run(fusion.aretrieve(QUESTION)) if is_async else fusion.retrieve(QUESTION)
        scored = capture.only

    assert ids(scored) == [item.node_id for item in result]
    assert [item.score for item in scored.sample.contexts or ()] == [item.score for item in result]
    (retrieval,) = scored.run.retrievals
    assert (retrieval.name, retrieval.top_k) == ("QueryFusionRetriever", 2)
    assert retrieval.data_source_id == "SimpleVectorStore"


@expect(source="handbook", retrievals=1)
def test_a_retrieval_names_the_collection() -> None:
    """What the store's object keeps comes before its class."""
    retriever = index().as_retriever()
    vars(retriever._vector_store)["collection_name"] = "handbook"
    retriever.retrieve(QUESTION)


@expect(ids=["parent"], retrievals=1)
def test_auto_merging_retriever_gives_the_parents() -> None:
    """The outermost retriever's result: merged parents, not the leaves."""
    parent = TextNode(id_="parent", text="All about Paris.")
    leaves = nodes({f"leaf-{place}": f"Sentence {place} about Paris." for place in range(4)})
    parent.relationships[NodeRelationship.CHILD] = [leaf.as_related_node_info() for leaf in leaves]
    for leaf in leaves:
        leaf.relationships[NodeRelationship.PARENT] = parent.as_related_node_info()
    store = SimpleDocumentStore()
    store.add_documents([parent, *leaves])
    context = StorageContext.from_defaults(docstore=store)
    base = VectorStoreIndex(leaves, storage_context=context, embed_model=WordEmbedding()).as_retriever(
        similarity_top_k=12
    )
    result = AutoMergingRetriever(base, context, verbose=False).retrieve("Paris")
    assert [item.node_id for item in result] == ["parent"]


def test_recursive_retrieval_into_an_engine_reports_what_the_outer_model_saw() -> None:
    """The nested engine's answer is the context; its own retrieval is not the request's."""
    pointer = IndexNode(id_="pointer", text="table", index_id="table")
    recursive = RecursiveRetriever(
        "root",
        retriever_dict={"root": ListRetriever([pointer])},
        query_engine_dict={"table": engine_of(B, "Nested answer.")},
    )
    model = llm()
    with captured() as capture:
        engine_of(recursive, model).query(QUESTION)
        scored = capture.only

    assert len(texts(scored)) == 1
    assert "Nested answer." in texts(scored)[0]
    assert "Nested answer." in model.prompts[-1]
    assert len(scored.run.retrievals) == 1


class Reversed(BaseRetriever):
    """A user's wrapper: calls two retrievers and orders their results itself."""

    def __init__(self, *inner: BaseRetriever) -> None:
        self.inner = inner
        super().__init__()

    def retrieve(self, str_or_query_bundle: Any) -> list[NodeWithScore]:
        return super().retrieve(str_or_query_bundle)[::-1]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [item for inner in self.inner for item in inner.retrieve(query_bundle)]


@expect(ids=list(DOCUMENTS)[::-1], retrievals=1)
def test_user_written_wrapper_counts_once() -> None:
    """The wrapper's final list, in its order."""
    Reversed(ListRetriever(A), ListRetriever(B)).retrieve(QUESTION)


@expect(question=QUESTION, answer="Paris is the answer.", ids=["paris", "rome"], retrievals=0)
def test_synthesizer_called_alone_is_a_sample() -> None:
    """It carries question, contexts and answer, and no retrieval."""
    get_response_synthesizer(llm=llm()).synthesize(QUESTION, [NodeWithScore(node=item) for item in A])


class Filtering(TreeSummarize):
    """A user's synthesizer that drops nodes before it hands on to its base."""

    def synthesize(self, query: Any, nodes: Any, **options: Any) -> Any:
        return super().synthesize(query, nodes[:1], **options)


@expect(ids=["paris"])
def test_overridden_synthesizer_that_filters_reports_what_its_base_was_given() -> None:
    """The inner call's nodes are what reached the model."""
    model = llm()
    RetrieverQueryEngine(ListRetriever(A), Filtering(llm=model)).query(QUESTION)
    assert "Rome" not in model.prompts[-1]


@expect(ids=["paris"], retrieved=["paris", "rome"], answer="1 documents")
def test_postprocessors_without_synthesizer_decide_the_contexts() -> None:
    """Summary engine over a retriever and cutoff, answered without LlamaIndex's synthesizer."""

    def count(question: str) -> str:
        kept = SimilarityPostprocessor(similarity_cutoff=0.95).postprocess_nodes(
            ListRetriever(A).retrieve(question)
        )
        return f"{len(kept)} documents"

    custom(count).query(QUESTION)
