"""Retrievers within retrievers: the outermost one's final list counts, once."""

import asyncio
from typing import Any

import pytest
from expected import check
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_fakes import (
    EchoRetriever,
    FixedRetriever,
    HangingRetriever,
    TellingModel,
    Watch,
    Wrapper,
    call,
    classic,
    docs,
    expect,
    frameworks_deprecate,
    lcel,
    saw,
)

pytestmark = frameworks_deprecate


def test_contextual_compression(watch: Watch) -> None:
    """The compressed documents reach the model, with the score the reranker left."""
    compressor = classic("retrievers.document_compressors", "DocumentCompressorPipeline")

    class Keep(classic("retrievers.document_compressors.base", "BaseDocumentCompressor")):  # type: ignore[misc]
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            return [
                Document(d.page_content, metadata={**d.metadata, "relevance_score": 0.75})
                for d in documents[-1:]
            ]

    retriever = classic("retrievers", "ContextualCompressionRetriever")(
        base_compressor=compressor(transformers=[Keep()]), base_retriever=FixedRetriever(found=docs("a", "b"))
    )
    lcel(retriever).invoke("who?", config=watch.config)

    check(watch.only, saw("b"))
    assert (watch.sample.contexts or ())[0].score == 0.75


@expect(**saw("a", "b", "c"), retrievals=1)
def test_merger(watch: Watch) -> None:
    """Lists merged in turns."""
    retriever = classic("retrievers.merger_retriever", "MergerRetriever")(
        retrievers=[FixedRetriever(found=docs("a", "c")), FixedRetriever(found=docs("b"))]
    )
    lcel(retriever).invoke("who?", config=watch.config)


@expect(**saw("a"), retrievals=1)
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_wrapper_of_a_wrapper_that_forwards_no_callbacks(watch: Watch, way: str) -> None:
    """openinference#239: parent ids show siblings here; the outermost one is the retrieval."""
    inner = Wrapper(base=FixedRetriever(found=docs("a", "b", "c")), keeps=slice(2))
    call(lcel(Wrapper(base=inner, keeps=slice(1))), "who?", watch.config, way)


@expect(texts=["doc-a"], answer="saw doc-a")
def test_a_cancelled_wrapper_leaves_the_next_retriever_its_own(watch: Watch) -> None:
    """A retriever that timed out and never ended does not hide the one that came to its aid."""

    slow, quick = HangingRetriever(), FixedRetriever(found=docs("a"))

    async def search(query: str) -> list[Document]:
        task = asyncio.ensure_future(slow.ainvoke(query))
        await slow.entered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await quick.ainvoke(query)

    asyncio.run(lcel(RunnableLambda(search)).ainvoke("who?", config=watch.config))


@expect(texts=["doc-a"], answer="saw doc-a", status="ok")
@pytest.mark.parametrize("how", ["with_retry", "with_fallbacks"])
def test_retried_and_replaced_retrievers(watch: Watch, how: str) -> None:
    """Wrappers around a retriever are chains: the attempt that worked counts."""
    good, bad = FixedRetriever(found=docs("a")), FixedRetriever(found=[], error=True)
    retriever: Any = good.with_retry() if how == "with_retry" else bad.with_fallbacks([good])
    lcel(retriever).invoke("who?", config=watch.config)


@expect(**saw("q-1", "q-2", "q-3") | {"question": "q", "retrievals": 1})
def test_configurable_retriever(watch: Watch) -> None:
    """``configurable_fields`` changes nothing."""
    retriever = EchoRetriever(k=1).configurable_fields(k=ConfigurableField(id="k"))
    chain = lcel(retriever)
    chain.invoke("q", config={**watch.config, "configurable": {"k": 3}})


@expect(question="who?", answer=None, status="retrieval_only", texts=["doc-a", "doc-b"])
def test_bare_retriever(watch: Watch) -> None:
    """A retriever alone is a sample without an answer."""
    FixedRetriever(found=docs("a", "b")).invoke("who?", config=watch.config)


@expect(status="retrieval_only", texts=["doc-a"])
def test_handler_on_the_retriever_only(watch: Watch) -> None:
    """Attached to the retriever of a chain, it sees retrievals and no more."""
    retriever = FixedRetriever(found=docs("a")).with_config(**watch.config)
    lcel(retriever).invoke("who?")


@expect(contexts=(), status="ok")
def test_empty_retrieval_is_a_sample(watch: Watch) -> None:
    """Nothing found is found out: contexts are (), not unknown."""
    lcel(FixedRetriever(found=[])).invoke("who?", config=watch.config)


@expect(texts=["doc-a", "doc-a"], question="who?")
def test_same_documents_found_twice_are_kept_twice(watch: Watch) -> None:
    """Several retrievals of one request are concatenated as they came."""
    retriever = FixedRetriever(found=docs("a"))

    def ask(question: str) -> str:
        found = retriever.invoke(question) + retriever.invoke("again")
        return TellingModel().invoke("\n".join(d.page_content for d in found)).content

    RunnableLambda(ask).invoke("who?", config=watch.config)
