"""Agents: retrieval behind tools, in one call or in many."""

from typing import Annotated, Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, create_retriever_tool, tool
from langchain_fakes import (
    ByQuery,
    EchoRetriever,
    FixedRetriever,
    ScriptedModel,
    Watch,
    agent,
    call,
    call_tool,
    docs,
    expect,
    frameworks_deprecate,
    texts,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

pytestmark = frameworks_deprecate


@tool(response_format="content_and_artifact")
def search_store(query: str) -> tuple[str, list[Document]]:
    """Search the store directly, as LangChain's own tutorial does."""
    found = docs(query + "-1", query + "-2")
    return "\n".join(document.page_content for document in found), found


@expect(question="who?", answer="the answer", status="ok", texts=["doc-a", "doc-b"])
@pytest.mark.parametrize("given", [HumanMessage("who?"), ("user", "who?"), {"role": "user", "content": "who?"}])
def test_retriever_tool(watch: Watch, given: Any) -> None:
    """The documents, not the string they are glued into; the question in any spelling."""
    tool_ = create_retriever_tool(FixedRetriever(found=docs("a", "b")), "search", "Search.")
    app = agent(ScriptedModel(script=[call_tool("q"), "the answer"]), [tool_])
    app.invoke({"messages": [given]}, config=watch.config)


@expect(texts=["doc-a"], retrievals=1)
def test_retriever_tool_with_artifact_counts_once(watch: Watch) -> None:
    """The same documents as event and as artifact are one retrieval."""
    tool_ = create_retriever_tool(
        FixedRetriever(found=docs("a")), "search", "Search.", response_format="content_and_artifact"
    )
    agent(ScriptedModel(script=[call_tool("q"), "the answer"]), [tool_]).invoke(
        {"messages": [("user", "who?")]}, config=watch.config
    )


@expect(texts=["doc-q-1", "doc-q-2"], question="who?", answer="the answer", retriever="search_store")
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_tool_that_calls_the_store_directly(watch: Watch, way: str) -> None:
    """openinference#2627: the documents are only in the tool message's artifact."""
    app = agent(ScriptedModel(script=[call_tool("q", name="search_store"), "the answer"]), [search_store])
    given = {"messages": [("user", "who?")]}
    call(app, given, watch.config, way)


@expect(texts=["doc-q"], question="who?", answer="the answer")
def test_tool_that_updates_the_state_by_a_command(watch: Watch) -> None:
    """Then the artifact is on the tool message within the command."""

    @tool
    def look_up(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Search the store, and say so in the state."""
        message = ToolMessage("found", artifact=docs(query), tool_call_id=tool_call_id)
        return Command(update={"messages": [message]})

    app = agent(ScriptedModel(script=[call_tool("q", name="look_up"), "the answer"]), [look_up])
    app.invoke({"messages": [("user", "who?")]}, config=watch.config)


@expect(texts=["doc-x-1", "doc-y-1"], queries=["x", "y"])
def test_successive_tool_calls_accumulate(watch: Watch) -> None:
    """Each call's documents, in call order."""
    tool_ = create_retriever_tool(EchoRetriever(k=1), "search", "Search.")
    app = agent(ScriptedModel(script=[call_tool("x"), call_tool("y"), "the answer"]), [tool_])
    app.invoke({"messages": [("user", "who?")]}, config=watch.config)


@expect(query="kettles", search_query="kettles", retriever="find_kettles")
def test_a_tool_that_no_one_named_was_asked_what_the_model_asked_it(watch: Watch) -> None:
    """Its result is recognised by its shape."""

    @tool
    def find_kettles(query: str, most: int = 3) -> list[dict[str, Any]]:
        """Find kettles."""
        return [{"id": most, "text": "Kettle 4711 boils in three minutes, as long as it is not full."}]

    app = agent(ScriptedModel(script=[call_tool("kettles", name="find_kettles"), "Three."]), [find_kettles])
    app.invoke({"messages": [("user", "How long does it take?")]}, config=watch.config)


@expect(any_order=["x-1", "y-1"], retrievals=2)
def test_parallel_tool_calls(watch: Watch) -> None:
    """One message that calls twice is two retrievals of one request."""
    tool_ = create_retriever_tool(EchoRetriever(k=1), "search", "Search.")
    app = agent(ScriptedModel(script=[call_tool("x", "y"), "the answer"]), [tool_])
    app.invoke({"messages": [("user", "who?")]}, config=watch.config)


@expect(texts=["doc-x-1", "doc-y-1", "doc-y-2"])
def test_both_kinds_of_tool_in_one_request(watch: Watch) -> None:
    """A retriever behind one tool does not hide another tool's artifact."""
    tool_ = create_retriever_tool(EchoRetriever(k=1), "search", "Search.")
    script = [call_tool("x"), call_tool("y", name="search_store"), "the answer"]
    agent(ScriptedModel(script=script), [tool_, search_store]).invoke(
        {"messages": [("user", "who?")]}, config=watch.config
    )


def test_what_an_earlier_turn_found_supports_the_answer_and_is_no_retrieval(watch: Watch) -> None:
    facts = [
        "Refunds take five working days and go back to the original card.",
        "Parcels to the islands travel by ferry twice a week in winter.",
    ]
    script = [call_tool("x"), "Five.", call_tool("y"), "Five days for refunds; a ferry for parcels."]
    retriever = ByQuery(found={"x": [Document(facts[0])], "y": [Document(facts[1])]})
    tool_ = create_retriever_tool(retriever, "search", "Search.")
    app = agent(ScriptedModel(script=script), [tool_], checkpointer=InMemorySaver())
    config = {**watch.config, "configurable": {"thread_id": "t1"}}
    for question in ("How long?", "And parcels? Sum up."):
        app.invoke({"messages": [("user", question)]}, config=config)

    first, second = watch.samples
    assert (texts(first), [item.text for item in first.carried]) == (facts[:1], [])
    assert (texts(second), [item.text for item in second.carried]) == (facts[1:], facts[:1])


def test_an_agent_that_never_searched_is_no_sample(watch: Watch) -> None:
    """It answered from what it knew."""
    app = agent(ScriptedModel(script=["the answer"]), [search_store])
    app.invoke({"messages": [("user", "who?")]}, config=watch.config)

    assert watch.results == []


@expect(status="retrieval_only", texts=["doc-q-1", "doc-q-2"])
def test_a_bare_tool_is_a_retrieval_without_an_answer(watch: Watch) -> None:
    """A tool called by hand."""
    search_store.invoke(
        {"type": "tool_call", "id": "1", "name": "search_store", "args": {"query": "q"}}, config=watch.config
    )
