"""Twelve ways in which LangChain and LangGraph applications retrieve, each with the correct report.

`rivals.py` runs them with one tool attached. The model answers by rule, from its prompt: it names exactly the
documents that it saw.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_classic.chains import create_history_aware_retriever
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langgraph.graph import END, START, StateGraph
from rival_requests import Run, one, seen, text


def document(name: str) -> Document:
    return Document(id=f"id-{name}", page_content=text(name), metadata={"source": name})


class Finds(BaseRetriever):
    """Finds the same documents for every query, or those that the query names."""

    names: tuple[str, ...] = ()

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [document(name) for name in self.names or re.findall(r"\bn\d+\b", query)]


class Model(BaseChatModel):
    """Names the documents that it saw; plays a script first, if it has one."""

    script: list[Any] = []  # noqa: RUF012 -- a pydantic field, copied for each model

    @property
    def _llm_type(self) -> str:
        return "seeing"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _say(self, messages: Sequence[Any]) -> AIMessage:
        prompt = "\n".join(str(message.content) for message in messages)
        if self.script:
            return self.script.pop(0)
        if "Relevant?" in prompt:
            return AIMessage("no" if "doc-b" in prompt else "yes")
        if "Rephrase" in prompt:
            return AIMessage("How high is the bridge?")
        return AIMessage(seen(prompt))

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._say(messages))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for part in re.findall(r"[^,\s]+[,\s]*", str(self._say(messages).content)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(part))
            if run_manager is not None:
                run_manager.on_llm_new_token(part, chunk=chunk)
            yield chunk


class DropsOne(BaseDocumentCompressor):
    """Drops the document ``b``."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        return [item for item in documents if "doc-b" not in item.page_content]


def joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(item.page_content for item in documents)


prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {question}")


def chain(retrieval: Any) -> Any:
    answering = prompt | Model() | StrOutputParser()
    return {"context": retrieval | joined, "question": RunnablePassthrough()} | answering


def plain(callbacks: list[Any]) -> None:
    chain(Finds(names=("a", "b"))).invoke("plain?", {"callbacks": callbacks})


def streamed(callbacks: list[Any]) -> None:
    for _ in chain(Finds(names=("a", "b"))).stream("streamed?", {"callbacks": callbacks}):
        pass


def concurrent(callbacks: list[Any]) -> None:
    shared = chain(Finds())
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda n: shared.invoke(f"what of n{n}?", {"callbacks": callbacks}), range(12)))


def history_aware(callbacks: list[Any]) -> None:
    asking = ChatPromptTemplate.from_messages(
        [("system", "Rephrase"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    aware = create_history_aware_retriever(Model(), Finds(names=("a", "b")), asking)
    whole = RunnablePassthrough.assign(context=aware | joined) | (
        ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {input}")
        | Model()
        | StrOutputParser()
    )
    history = [HumanMessage("Which bridge?"), AIMessage("The long one.")]
    whole.invoke({"input": "and how high?", "chat_history": history}, {"callbacks": callbacks})


# Called, not declared: LangGraph looks up a class's annotations in the module, and these are not there.
found = Annotated[list[Document], operator.add]
fields = {"question": str, "documents": found, "kept": list[Document], "answer": str}
State = TypedDict("State", fields, total=False)


def answered(state: Any) -> Any:
    given = state.get("kept") or state["documents"]
    asked = prompt.invoke({"context": joined(given), "question": state["question"]})
    return {"answer": str(Model().invoke(asked).content)}


def retrieving(*names: str) -> Any:
    retriever = Finds(names=names)
    return lambda state: {"documents": retriever.invoke(state["question"])}


def graph(callbacks: list[Any]) -> None:
    made = StateGraph(State)
    made.add_node("retrieve", retrieving("a", "b"))
    made.add_node("generate", answered)
    made.add_edge(START, "retrieve")
    made.add_edge("retrieve", "generate")
    made.add_edge("generate", END)
    made.compile().invoke({"question": "graph?"}, {"callbacks": callbacks})


def fan_out(callbacks: list[Any]) -> None:
    made = StateGraph(State)
    made.add_node("first", retrieving("a", "b"))
    made.add_node("second", retrieving("c"))
    made.add_node("generate", answered)
    made.add_edge(START, "first")
    made.add_edge(START, "second")
    made.add_edge(["first", "second"], "generate")
    made.add_edge("generate", END)
    made.compile().invoke({"question": "fan out?"}, {"callbacks": callbacks})


def grader(callbacks: list[Any]) -> None:
    def grade(state: Any) -> Any:
        model = Model()
        verdicts = [str(model.invoke(f"Relevant? {item.page_content}").content) for item in state["documents"]]
        pairs = zip(state["documents"], verdicts, strict=True)
        return {"kept": [item for item, verdict in pairs if verdict == "yes"]}

    made = StateGraph(State)
    made.add_node("retrieve", retrieving("a", "b", "c"))
    made.add_node("grade", grade)
    made.add_node("generate", answered)
    made.add_edge(START, "retrieve")
    made.add_edge("retrieve", "grade")
    made.add_edge("grade", "generate")
    made.add_edge("generate", END)
    made.compile().invoke({"question": "graded?"}, {"callbacks": callbacks})


def agent(callbacks: list[Any]) -> None:
    tool = create_retriever_tool(Finds(names=("a", "b")), "search", "Finds documents.")
    call = {"name": "search", "args": {"query": "the bridge"}, "id": "call-1"}
    model = Model(script=[AIMessage("", tool_calls=[call])])
    create_agent(model, [tool]).invoke(
        {"messages": [("user", "what does the agent know?")]}, {"callbacks": callbacks}
    )


def compression(callbacks: list[Any]) -> None:
    inner = Finds(names=("a", "b", "c"))
    outer = ContextualCompressionRetriever(base_retriever=inner, base_compressor=DropsOne())
    chain(outer).invoke("compressed?", {"callbacks": callbacks})


def plain_rerank(callbacks: list[Any]) -> None:
    def rerank(documents: list[Document]) -> list[Document]:
        return list(reversed(documents))[:2]

    chain(Finds(names=("a", "b", "c")) | RunnableLambda(rerank)).invoke("reranked?", {"callbacks": callbacks})


def abandoned(callbacks: list[Any]) -> None:
    stream = chain(Finds(names=("a", "b"))).stream("abandoned?", {"callbacks": callbacks})
    next(iter(stream))
    stream.close()


def no_retrieval(callbacks: list[Any]) -> None:
    without = ChatPromptTemplate.from_template("{question}") | Model() | StrOutputParser()
    without.invoke({"question": "hello?"}, {"callbacks": callbacks})


def runs() -> dict[str, Run]:
    """Return the runs by name."""
    return {
        "plain": Run(plain, (one("plain?", "a", "b"),)),
        "streamed": Run(streamed, (one("streamed?", "a", "b"),)),
        "12 at once": Run(concurrent, tuple(one(f"what of n{n}?", f"n{n}") for n in range(12))),
        "history-aware": Run(history_aware, (one("and how high?", "a", "b"),)),
        "graph": Run(graph, (one("graph?", "a", "b"),)),
        "graph, fan-out": Run(fan_out, (one("fan out?", "a", "b", "c"),)),
        "graph, grader drops one": Run(grader, (one("graded?", "a", "c"),)),
        "agent with a retriever tool": Run(agent, (one("what does the agent know?", "a", "b"),)),
        "compression retriever": Run(compression, (one("compressed?", "a", "c"),)),
        "rerank in a plain function": Run(plain_rerank, (one("reranked?", "c", "b"),)),
        "stream abandoned": Run(abandoned),
        "no retrieval": Run(no_retrieval),
    }
