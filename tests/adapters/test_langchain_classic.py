"""langchain-classic: the ready-made chains, with their own keys and their own rewriting."""

from typing import Any

import pytest
from expected import check
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_fakes import (
    EchoRetriever,
    FixedRetriever,
    TellingModel,
    Watch,
    call,
    classic,
    docs,
    expect,
    frameworks_deprecate,
    saw,
)

pytestmark = frameworks_deprecate

QA = ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{input}")])
CONDENSE = ChatPromptTemplate.from_messages(
    [("system", "rewrite"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
)
HISTORY = [HumanMessage("an old question"), AIMessage("an old answer")]


def retrieval_chain(retriever: Any) -> Any:
    """`create_retrieval_chain` over a stuffing chain."""
    stuff = classic("chains.combine_documents", "create_stuff_documents_chain")(TellingModel(), QA)
    return classic("chains", "create_retrieval_chain")(retriever, stuff)


@expect(**saw("a", "b"), name="retrieval_chain")
def test_create_retrieval_chain(watch: Watch) -> None:
    """The question stands beside the chat history, the answer beside the documents."""
    chain = retrieval_chain(FixedRetriever(found=docs("a", "b")))
    chain.invoke({"input": "who?", "chat_history": HISTORY}, config=watch.config)


@expect(**saw("a", "b"))
def test_streamed_create_retrieval_chain(watch: Watch) -> None:
    """The same, streamed."""
    chain = retrieval_chain(FixedRetriever(found=docs("a", "b")))
    list(chain.stream({"input": "who?"}, config=watch.config))


@expect(**saw("a", "b"), query="rewritten query", search_query="rewritten query")
@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_history_aware_retriever(watch: Watch, way: str) -> None:
    """The rewritten query is the retrieval's, the question is the user's."""
    retriever = FixedRetriever(found=docs("a", "b"))
    aware = classic("chains", "create_history_aware_retriever")(TellingModel(), retriever, CONDENSE)
    chain = retrieval_chain(aware)
    given = {"input": "who?", "chat_history": HISTORY}
    call(chain, given, watch.config, way)

    assert retriever.queries == ["rewritten query"]


@expect(question="who?", texts=["doc-x-1", "doc-y-1"], answer="saw doc-x-1 and saw doc-y-1")
def test_sub_questions_each_with_a_chain_of_its_own(watch: Watch) -> None:
    """All sub-questions' documents belong to the request."""
    chain = retrieval_chain(EchoRetriever(k=1))

    def ask(question: str) -> str:
        parts = [chain.invoke({"input": part})["answer"] for part in ("x", "y")]
        return " and ".join(parts)

    RunnableLambda(ask).invoke("who?", config=watch.config)


@expect(**saw("a", "b"))
@pytest.mark.parametrize("sources", [False, True])
def test_retrieval_qa(watch: Watch, sources: bool) -> None:
    """``query`` is the question, ``result`` the answer, with or without source documents."""
    chain = classic("chains", "RetrievalQA").from_chain_type(
        TellingModel(), retriever=FixedRetriever(found=docs("a", "b")), return_source_documents=sources
    )
    chain.invoke({"query": "who?"}, config=watch.config)


@expect(**saw("a", "b"))
def test_handler_in_the_constructor_sees_input_and_output_only(watch: Watch) -> None:
    """langchain#8786: constructor callbacks do not reach children; source documents still tell."""
    chain = classic("chains", "RetrievalQA").from_chain_type(
        TellingModel(),
        retriever=FixedRetriever(found=docs("a", "b")),
        return_source_documents=True,
        callbacks=[watch.handler],
    )
    chain.invoke({"query": "who?"})


@expect(**saw("a", "b"), query="rewritten query")
def test_conversational_retrieval_chain(watch: Watch) -> None:
    """langchain#7290: from the second turn on a condensing call precedes the retrieval."""
    chain = classic("chains", "ConversationalRetrievalChain").from_llm(
        TellingModel(),
        retriever=FixedRetriever(found=docs("a", "b")),
        condense_question_prompt=PromptTemplate.from_template("rewrite {chat_history} {question}"),
    )
    chain.invoke({"question": "who?", "chat_history": [("old", "answer")]}, config=watch.config)


@pytest.mark.parametrize("kind", ["map_reduce", "refine"])
def test_map_reduce_and_refine(watch: Watch, kind: str) -> None:
    """Many model calls over the documents are one request with all documents, answered last."""
    chain = classic("chains", "RetrievalQA").from_chain_type(
        TellingModel(), retriever=FixedRetriever(found=docs("a", "b")), chain_type=kind
    )
    result = chain.invoke({"query": "who?"}, config=watch.config)

    check(watch.only, saw("a", "b") | {"answer": result["result"]})
