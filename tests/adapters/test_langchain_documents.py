"""Documents that pass through functions: what the model saw wins, what was retrieved is kept."""

from operator import itemgetter
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import (
    PROMPT,
    ByQuery,
    EchoRetriever,
    FixedRetriever,
    TellingModel,
    Watch,
    call,
    docs,
    expect,
    joined,
    lcel,
    store_of,
    texts,
    watching,
)


def test_vector_store_called_in_a_function(watch: Watch) -> None:
    """openinference#2627: no retriever runs, the function's documents are the contexts."""
    store = store_of("a", "b")
    search = RunnableLambda(lambda question: store.similarity_search(question, k=2)).with_config(
        run_name="search"
    )
    lcel(search).invoke("a", config=watch.config)

    sample = watch.sample
    assert sorted(texts(sample) or []) == ["doc-a", "doc-b"]
    assert sample.status == "ok"
    (retrieval,) = watch.only.run.retrievals
    assert retrieval.name == "search"
    assert retrieval.started_ns <= retrieval.ended_ns


def test_scores_of_pairs_are_kept(watch: Watch) -> None:
    """``similarity_search_with_score`` gives pairs; the second is the score."""
    store = store_of("a", "b")
    chain = (
        RunnablePassthrough.assign(found=lambda x: store.similarity_search_with_score(x["question"], k=2))
        | (lambda x: {"context": joined([d for d, _ in x["found"]]), "question": x["question"]})
        | PROMPT
        | TellingModel()
    )
    chain.invoke({"question": "a"}, config=watch.config)

    contexts = watch.sample.contexts or ()
    assert len(contexts) == 2
    assert all(isinstance(context.score, float) for context in contexts)


def test_an_ingestion_pipeline_is_no_request(watch: Watch) -> None:
    """Loading and splitting gives lists of documents, too, without a question."""
    pipeline = RunnableLambda(lambda path: docs("a", "b")) | (lambda loaded: loaded + docs("c"))
    pipeline.invoke("some/path", config=watch.config)

    assert watch.results == []


@expect(answer="saw doc-c,doc-b,doc-a", texts=["doc-c", "doc-b", "doc-a"], retrievals=3)
@pytest.mark.parametrize("way", ["invoke", "stream"])
@pytest.mark.parametrize("pairs", [False, True])
def test_results_of_several_queries_fused_by_a_function(watch: Watch, way: str, pairs: bool) -> None:
    """RAG fusion: ``retriever.map()`` gives a list per query, and a function makes one of them."""

    def fused(lists: list[list[Document]]) -> list[Any]:
        best = sorted({doc.page_content: doc for found in lists for doc in found}.items())
        return [(doc, 0.5) if pairs else doc for _, doc in reversed(best)]

    found = {"x": docs("a", "b"), "y": docs("b", "c"), "z": []}

    search = (
        RunnableLambda(lambda _: ["z", "x", "y"])
        | ByQuery(found=found).map()
        | fused
        | (lambda items: [item[0] if pairs else item for item in items])
    )
    chain = lcel(search)
    call(chain, "who?", watch.config, way)


@expect(texts=["doc-x-1", "doc-y-1"])
def test_results_of_several_queries_in_their_order(watch: Watch) -> None:
    """Without a fusing function: list by list, in the order of the queries."""
    chain = lcel(
        RunnableLambda(lambda _: ["x", "y"])
        | EchoRetriever(k=1).map()
        | (lambda lists: [doc for found in lists for doc in found])
    )
    chain.invoke("who?", config=watch.config)


@expect(texts=["doc-a", "doc-b"], answer="saw doc-a,doc-b")
def test_citations_after_the_answer_change_nothing(watch: Watch) -> None:
    """Documents chosen after the model answered are not what it saw."""
    chain = (
        RunnablePassthrough.assign(context=itemgetter("question") | FixedRetriever(found=docs("a", "b")))
        .assign(answer=PROMPT | TellingModel() | StrOutputParser())
        .pipe(RunnableLambda(lambda x: {"answer": x["answer"], "context": x["context"][:1]}))
    )
    chain.invoke({"question": "who?"}, config=watch.config)


def test_documents_are_copied_when_seen(watch: Watch) -> None:
    """The application may empty its list and edit the metadata right after the call."""
    found = docs("a", "b")

    class Shared(FixedRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return found

    def use(question: str) -> str:
        documents = Shared(found=[]).invoke(question)
        answer = TellingModel().invoke(joined(documents)).content
        documents[0].metadata["source"] = "changed"
        documents.clear()
        return answer

    RunnableLambda(use).invoke("who?", config=watch.config)

    assert texts(watch.sample) == ["doc-a", "doc-b"]
    assert (watch.sample.contexts or ())[0].metadata == {"source": "a"}


@expect(texts=["doc-a-short", "doc-b-short"], answer="saw doc-a-short,doc-b-short")
def test_text_changed_in_place_is_what_the_model_saw(watch: Watch) -> None:
    """A function that shortens the very documents it was given."""

    def shorten(documents: list[Document]) -> list[Document]:
        for document in documents:
            document.page_content = document.page_content[:5] + "-short"
        return documents

    lcel(FixedRetriever(found=docs("a", "b")) | shorten).invoke("who?", config=watch.config)


def test_what_was_found_for_an_earlier_turn_makes_no_request_of_a_thank_you(watch: Watch) -> None:
    """In a later prompt it stands in the history, as what a tool or the user said."""
    fact = "Refunds take five working days and go back to the original card."
    FixedRetriever(found=[Document(fact)]).invoke("refunds", watch.config)
    said = [HumanMessage(fact + " How long?"), AIMessage("Five days."), HumanMessage("Thank you.")]
    (TellingModel() | StrOutputParser()).invoke(said, config=watch.config)

    assert [sample.status for sample in watch.samples] == ["retrieval_only"]


@pytest.mark.parametrize("text", ["", "x" * 10_000_000], ids=["empty", "10 MB"])
def test_extreme_texts(watch: Watch, text: str) -> None:
    """Empty and huge chunks pass."""
    lcel(FixedRetriever(found=[Document(text)])).invoke("who?", config=watch.config)

    assert texts(watch.sample) == [text]


def test_a_document_that_is_none(watch: Watch) -> None:
    """Content that is no string and a query that is none lose nothing."""
    odd = [Document.model_construct(page_content=t, metadata=None, id=7) for t in (None, 12345)]
    FixedRetriever(found=odd).invoke(None, config=watch.config)  # type: ignore[arg-type]

    found = watch.sample.contexts or ()
    assert [(context.text, context.id) for context in found] == [("", "7"), ("12345", "7")]
    assert watch.sample.question is None


def test_strict_takes_retrievers_at_their_word() -> None:
    """``strict=True`` counts retriever events only, as they are."""
    with watching(strict=True) as watch:
        retriever = FixedRetriever(found=docs("a", "b"))
        lcel(retriever | (lambda found: found[:1])).invoke("who?", config=watch.config)
        store = store_of("a")
        lcel(RunnableLambda(store.similarity_search)).invoke("who?", config=watch.config)

        assert texts(watch.sample) == ["doc-a", "doc-b"]
