"""LangGraph: nodes, message state, checkpoints, pauses, fan-out, subgraphs and streaming."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_fakes import (
    WAYS,
    EchoRetriever,
    FixedRetriever,
    ScriptedModel,
    TellingModel,
    Watch,
    call,
    docs,
    expect,
    frameworks_deprecate,
    graph_of,
    joined,
    saw,
    texts,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

pytestmark = frameworks_deprecate


class State(TypedDict, total=False):
    """A plain state."""

    question: str
    documents: list[Document]
    answer: str


class ChatState(MessagesState, total=False):
    """A conversation with documents."""

    documents: list[Document]


def answer_of(documents: list[Document], question: str) -> str:
    """Ask the model in the usual way."""
    return TellingModel().invoke(f"{joined(documents)}\n{question}").content


def graph(retriever: Any, *between: tuple[str, Any], **compile_options: Any) -> Any:
    """retrieve → between ... → generate."""
    return graph_of(
        State,
        ("retrieve", lambda s: {"documents": retriever.invoke(s["question"])}),
        *between,
        ("generate", lambda s: {"answer": answer_of(s["documents"], s["question"])}),
        **compile_options,
    )


def chat_graph(retriever: Any, **compile_options: Any) -> Any:
    """A conversation that retrieves unless the user only says thanks."""

    def retrieve(state: ChatState) -> dict[str, Any]:
        question = str(state["messages"][-1].content)
        return {} if question == "thanks" else {"documents": retriever.invoke(question)}

    def generate(state: ChatState) -> dict[str, Any]:
        prompt = joined(state.get("documents") or []) + "\n" + str(state["messages"][-1].content)
        return {"messages": [TellingModel().invoke(prompt)]}

    return graph_of(ChatState, retrieve, generate, **compile_options)


@expect(**saw("a", "b"), name="LangGraph")
@pytest.mark.parametrize("way", WAYS)
def test_retrieve_and_generate(watch: Watch, way: str) -> None:
    """Every way to run a graph gives the same one sample."""
    app = graph(FixedRetriever(found=docs("a", "b")))
    call(app, {"question": "who?"}, watch.config, way)


@expect(**saw("a", "b"))
@pytest.mark.parametrize("mode", ["values", "updates", "messages", "debug", ["values", "messages"]])
def test_stream_modes(watch: Watch, mode: Any) -> None:
    """What the stream shows to the user changes nothing."""
    app = graph(FixedRetriever(found=docs("a", "b")))
    list(app.stream({"question": "who?"}, config=watch.config, stream_mode=mode))


@expect(**saw("c"), retrievals=2)
def test_corrective_loop(watch: Watch) -> None:
    """A second search overwrites the first: the model saw the second's documents only."""
    second = FixedRetriever(found=docs("c"))
    again = ("again", lambda s: {"documents": second.invoke("better " + s["question"])})
    graph(FixedRetriever(found=docs("a", "b")), again).invoke({"question": "who?"}, config=watch.config)


@expect(**saw("c"))
def test_second_attempt_at_an_answer(watch: Watch) -> None:
    """Retrieve, answer, reject, retrieve again, answer: the last answer had the last documents."""
    second = FixedRetriever(found=docs("c"))
    app = graph(
        FixedRetriever(found=docs("a", "b")),
        ("first_answer", lambda s: {"answer": answer_of(s["documents"], s["question"])}),
        ("again", lambda s: {"documents": second.invoke("better " + s["question"])}),
    )
    app.invoke({"question": "who?"}, config=watch.config)


@expect(**saw("a", "b"))
def test_message_state(watch: Watch) -> None:
    """The question is the last human message, the answer the last message."""
    chat_graph(FixedRetriever(found=docs("a", "b"))).invoke(
        {"messages": [HumanMessage("old"), AIMessage("answer"), HumanMessage("who?")]}, config=watch.config
    )


def test_stale_documents_of_earlier_turns(watch: Watch) -> None:
    """A turn that retrieves nothing is no sample, though the state still holds documents."""
    app = chat_graph(EchoRetriever(k=1), checkpointer=InMemorySaver())
    config = {**watch.config, "configurable": {"thread_id": "t1"}}
    for text in ("one", "thanks", "two"):
        app.invoke({"messages": [{"role": "user", "content": text}]}, config=config)

    first, second = watch.results
    assert (first.sample.question, texts(first.sample)) == ("one", ["doc-one-1"])
    assert (second.sample.question, texts(second.sample)) == ("two", ["doc-two-1"])
    assert second.sample.answer == "saw doc-two-1"
    assert first.run.conversation_id == "t1"


@expect(question="who?", status="interrupted", answer=None, texts=["doc-a", "doc-b"])
def test_interrupt_and_resume(watch: Watch) -> None:
    """langfuse#6704: a pause is not an error, and the resumed run is not another request."""

    def approve(state: State) -> dict[str, Any]:
        interrupt("go on?")
        return {}

    app = graph(FixedRetriever(found=docs("a", "b")), ("approve", approve), checkpointer=InMemorySaver())
    config = {**watch.config, "configurable": {"thread_id": "t1"}}
    app.invoke({"question": "who?"}, config=config)
    result = app.invoke(Command(resume=True), config=config)

    assert result["answer"] == "saw doc-a,doc-b"


@expect(**saw("a", "b"))
def test_resumed_run_that_retrieves_finds_its_question_in_the_state(watch: Watch) -> None:
    """A ``Command`` asks nothing; the state it ends with still knows."""

    def approve(state: State) -> dict[str, Any]:
        interrupt("go on?")
        return {}

    retriever = FixedRetriever(found=docs("a", "b"))
    app = graph_of(
        State,
        approve,
        ("retrieve", lambda s: {"documents": retriever.invoke("rewritten")}),
        ("generate", lambda s: {"answer": answer_of(s["documents"], s["question"])}),
        checkpointer=InMemorySaver(),
    )
    config = {**watch.config, "configurable": {"thread_id": "t1"}}
    app.invoke({"question": "who?"}, config=config)
    app.invoke(Command(resume=True), config=config)


class TopicState(TypedDict, total=False):
    """A state whose question has a name of its own."""

    topic: str
    found: str
    answer: str


@expect(question="Which towers lean?", answer="So.")
def test_a_resumed_run_keeps_the_question_of_the_run_that_was_interrupted(watch: Watch) -> None:
    def approve(state: TopicState) -> dict[str, Any]:
        interrupt("go on?")
        return {}

    def retrieve(state: TopicState) -> dict[str, Any]:
        return {"found": FixedRetriever(found=docs("a")).invoke("rewritten")[0].page_content}

    def generate(state: TopicState) -> dict[str, Any]:
        prompt = f"About {state['topic']}, by {state['found']}"
        return {"answer": ScriptedModel(script=["So."]).invoke(prompt).content}

    app = graph_of(TopicState, approve, retrieve, generate, checkpointer=InMemorySaver())
    config = {**watch.config, "configurable": {"thread_id": "t7"}}
    app.invoke({"topic": "Which towers lean?"}, config=config)
    app.invoke(Command(resume=True), config=config)


class FanState(TypedDict, total=False):
    """A state that several nodes add to."""

    queries: list[str]
    question: str
    documents: Annotated[list[Document], operator.add]
    answer: str


@expect(**saw("x-1", "y-1", "z-1"), retrievals=3)
def test_send_fan_out(watch: Watch) -> None:
    """Parallel searches of one graph are retrievals of one request."""
    retriever = EchoRetriever(k=1)
    builder = StateGraph(FanState)
    builder.add_node("plan", lambda s: {"queries": ["x", "y", "z"]})
    builder.add_node("search", lambda s: {"documents": retriever.invoke(s["query"])})
    builder.add_node("generate", lambda s: {"answer": answer_of(s["documents"], s["question"])})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges(
        "plan", lambda s: [Send("search", {"query": q}) for q in s["queries"]], ["search"]
    )
    builder.add_edge("search", "generate")
    builder.compile().invoke({"question": "who?"}, config=watch.config)


@expect(**saw("a", "b"), name="outer")
def test_subgraph(watch: Watch) -> None:
    """A graph within a graph is part of the request."""
    outer = graph_of(State, ("inner", graph(FixedRetriever(found=docs("a", "b")))), name="outer")
    outer.invoke({"question": "who?"}, config=watch.config)


@expect(**saw("a", "b"))
def test_functional_api(watch: Watch) -> None:
    """``@entrypoint`` and ``@task`` make one request, too."""
    retriever = FixedRetriever(found=docs("a", "b"))

    @task
    def search(question: str) -> list[Document]:
        return retriever.invoke(question)

    @entrypoint()
    def workflow(question: str) -> str:
        return answer_of(search(question).result(), question)

    workflow.invoke("who?", config=watch.config)


@expect(status="cancelled", texts=["doc-a", "doc-b"])
def test_abandoned_graph_stream(watch: Watch) -> None:
    """langgraph#4996: a stream that is broken off is a cancelled request."""
    stream = graph(FixedRetriever(found=docs("a", "b"))).stream({"question": "who?"}, config=watch.config)
    next(stream)
    stream.close()


@expect(status="error", error_type="ValueError")
def test_failing_node(watch: Watch) -> None:
    """An error in a node is the request's."""

    def broken(state: State) -> dict[str, Any]:
        raise ValueError("broken node")

    with pytest.raises(ValueError, match="broken node"):
        graph(FixedRetriever(found=docs("a")), ("broken", broken)).invoke(
            {"question": "who?"}, config=watch.config
        )


@expect(**saw("a", "b"), retriever="retrieve")
def test_vector_store_called_in_a_node(watch: Watch) -> None:
    """Documents that a node puts into the state without a retriever are the contexts."""

    class Plain:
        def invoke(self, question: str) -> list[Document]:
            return docs("a", "b")

    graph(Plain()).invoke({"question": "who?"}, config=watch.config)
