"""The LangChain application that the benchmarks send requests to: LCEL and LangGraph.

A retriever that returns five documents of 200 words at once and a model that answers at once, so that only
the work of the framework and of attached handlers remains. Used by the overhead and the latency benchmarks;
it must not depend on what is attached.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from texts import text

ANSWER = text(30, 77)


class FixedRetriever(BaseRetriever):
    """Returns the same documents to every query."""

    documents: list[Document]
    delay_s: float = 0.0

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.delay_s:
            time.sleep(self.delay_s)
        return list(self.documents)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(self.documents)


def _join(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def make_retriever(contexts: int = 5, words: int = 200, delay_s: float = 0.0) -> FixedRetriever:
    documents = [
        Document(id=f"doc-{n}", page_content=text(words, n), metadata={"source": f"{n}.md", "page": n})
        for n in range(contexts)
    ]
    return FixedRetriever(documents=documents, delay_s=delay_s)


def make_model() -> GenericFakeChatModel:
    """Return a model that always answers the same, at once; streamed, word by word."""
    return GenericFakeChatModel(messages=itertools.repeat(AIMessage(ANSWER)))


def make_chain(retriever: BaseRetriever, model: Any = None) -> Any:
    """Return ``{"context": retriever | join, "question": ...} | prompt | model | parser``."""
    prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {question}")
    return (
        {"context": retriever | _join, "question": RunnablePassthrough()}
        | prompt
        | (make_model() if model is None else model)
        | StrOutputParser()
    )


def make_graph(retriever: BaseRetriever) -> Any:
    """Return a compiled graph with the nodes ``retrieve`` and ``generate``."""
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict, total=False):
        question: str
        documents: list[Document]
        answer: str

    prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {question}")
    answerer = prompt | make_model() | StrOutputParser()

    def retrieve(state: State) -> State:
        return {"documents": retriever.invoke(state["question"])}

    def generate(state: State) -> State:
        given = {"context": _join(state["documents"]), "question": state["question"]}
        return {"answer": answerer.invoke(given)}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    return graph.compile()


def requests(loop: Any, callbacks: list[Any]) -> dict[str, Callable[[str], Any]]:
    """Return, for each calling method, a function that sends one request and waits for its end.

    Args:
        loop: An event loop that is not running, for the asynchronous ways.
        callbacks: The callbacks of each request.
    """
    retriever = make_retriever()
    chain, graph = make_chain(retriever), make_graph(retriever)
    config: Any = {"callbacks": callbacks} if callbacks else {}

    def exhaust(stream: Iterator[Any]) -> None:
        for _ in stream:
            pass

    return {
        "LCEL invoke": lambda q: chain.invoke(q, config),
        "LCEL ainvoke": lambda q: loop.run_until_complete(chain.ainvoke(q, config)),
        "LCEL stream": lambda q: exhaust(chain.stream(q, config)),
        "LangGraph invoke": lambda q: graph.invoke({"question": q}, config),
        "LangGraph ainvoke": lambda q: loop.run_until_complete(graph.ainvoke({"question": q}, config)),
        "LangGraph stream": lambda q: exhaust(graph.stream({"question": q}, config)),
    }
