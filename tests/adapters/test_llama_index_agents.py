"""Agents: one sample per run, the user's message, the documents of all tools, the last message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("llama_index.core.agent.workflow", reason="agents came with core 0.12.11")
from llama_index.core import VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.objects import ObjectIndex
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index_agents import agent_llm
from llama_index_fakes import (
    DOCUMENTS,
    QUESTION,
    ListRetriever,
    WordEmbedding,
    captured,
    engine_of,
    expect,
    ids,
    nodes,
    since,
)

A, B = nodes()[:2], nodes()[2:]


def query_tool(name: str, found: Any, answer: str = "Tool answer.") -> QueryEngineTool:
    return QueryEngineTool.from_defaults(engine_of(found, answer), name=name, description=name)


def agent(tools: Any, *script: Any, **options: Any) -> FunctionAgent:
    return FunctionAgent(name="helper", description="helps", tools=tools, llm=agent_llm(*script), **options)


def run(runner: Any, *args: Any, **kwargs: Any) -> str:
    async def main() -> str:
        kwargs.setdefault("memory", ChatMemoryBuffer.from_defaults(token_limit=3000))
        return str(await runner.run(*args, **kwargs))

    return asyncio.run(main())


def call(name: str, text: str = "capital") -> list[tuple[str, dict[str, str]]]:
    return [(name, {"input": text})]


@expect(
    question=QUESTION,
    answer="It is Paris.",
    status="ok",
    ids=["paris", "rome"],
    name="FunctionAgent",
    query="capital",
)
@pytest.mark.parametrize("streaming", [True, False])
def test_function_agent_with_a_query_engine_tool(streaming: bool) -> None:
    """Question: the user's message. Answer: the last message, not the tool's. Contexts: the tool's."""
    helper = agent([query_tool("docs", A)], call("docs"), "It is Paris.", streaming=streaming)
    assert run(helper, user_msg=QUESTION) == "It is Paris."


@expect(any_order=sorted(DOCUMENTS), retrievals=3)
def test_parallel_and_repeated_tool_calls_belong_to_one_sample() -> None:
    """Two tools at once, then one again: one sample, documents of all, without repetition."""
    helper = agent(
        [query_tool("a", A), query_tool("b", B)],
        [("a", {"input": "x"}), ("b", {"input": "y"})],
        call("a", "z"),
        "Done.",
    )
    run(helper, user_msg=QUESTION)


@expect(question=QUESTION, ids=["paris", "rome"], answer="Paris.")
@since(0, 14, 22)
def test_sync_function_tool_that_queries_on_an_executor_thread() -> None:
    """Since core 0.14.22 the context follows into the thread (llama_index PR 21555, 21558)."""
    engine = engine_of()

    def search(text: str) -> str:
        """Search the documents."""
        return str(engine.query(text))

    helper = agent([FunctionTool.from_defaults(search)], [("search", {"text": "x"})], "Paris.")
    run(helper, user_msg=QUESTION)


def tool_finder(*tools: Any) -> Any:
    return ObjectIndex.from_objects(
        list(tools), index_cls=VectorStoreIndex, embed_model=WordEmbedding()
    ).as_retriever(similarity_top_k=1)


@expect(ids=["paris", "rome"], queries=["capital"])
def test_search_for_a_tool_is_no_retrieval() -> None:
    """An agent that looks its tools up: only what the tool found is context."""
    finder = tool_finder(query_tool("docs", A))
    helper = agent([], call("docs"), "Paris.", tool_retriever=finder)
    run(helper, user_msg=QUESTION)
    run(agent([], "Hello.", tool_retriever=finder), user_msg="Hi")


def test_agent_that_never_retrieved_gives_no_sample() -> None:
    """No retrieval, no sample."""
    with captured() as capture:
        run(agent([query_tool("docs", A)], "Hello."), user_msg="Hi")

        assert capture.runs == []
        assert capture.handler.open_entries == 0


@expect(question=QUESTION, ids=["paris", "rome"], answer="From the second.", name="AgentWorkflow")
def test_agent_workflow_with_hand_off_is_one_sample() -> None:
    """A second agent's retrieval and answer belong to the one run."""
    first = agent([], [("handoff", {"to_agent": "second", "reason": "knows"})])
    first.name, first.can_handoff_to = "first", ["second"]
    second = agent([query_tool("docs", A)], call("docs"), "From the second.")
    second.name = "second"
    flow = AgentWorkflow(agents=[first, second], root_agent="first")
    assert run(flow, user_msg=QUESTION) == "From the second."


def test_message_object_and_history_as_input() -> None:
    """A ChatMessage, or only a chat history, whose last user message is the question."""
    history = [
        ChatMessage(role="user", content="earlier"),
        ChatMessage(role="assistant", content="yes?"),
        ChatMessage(role="user", content=QUESTION),
    ]
    with captured() as capture:
        for given in ({"user_msg": ChatMessage(content=QUESTION)}, {"chat_history": history}):
            run(agent([query_tool("docs", A)], call("docs"), "Paris."), **given)
        questions = [item.sample.question for item in capture.runs]

    assert questions == [QUESTION, QUESTION]


@expect(status="ok", retrieval_error="OSError", contexts=None)
def test_tool_error_that_the_agent_survives() -> None:
    """The agent answers anyway: status ok, the failed retrieval says what it raised."""
    broken = QueryEngineTool.from_defaults(
        engine_of(ListRetriever([], error=OSError("down"))), name="docs", description="d"
    )
    run(agent([broken], call("docs"), "I could not find out."), user_msg=QUESTION)


@expect(ids=["paris", "rome"], status="error")
def test_model_error_after_retrieval_reaches_the_caller() -> None:
    """A failing run is a sample with status error; its exception is unchanged in kind."""
    helper = agent([query_tool("docs", A)], call("docs"), RuntimeError("model down"))
    with pytest.raises(Exception, match="model down"):
        run(helper, user_msg=QUESTION)


def test_concurrent_agent_runs_do_not_mix() -> None:
    """Runs in one loop, each with its own tool documents."""

    async def main() -> None:
        runs = []
        for number in range(6):
            own = nodes({f"doc-{number}": f"Document {number}."})
            helper = agent([query_tool("docs", own)], call("docs"), f"answer {number}")
            memory = ChatMemoryBuffer.from_defaults(token_limit=3000)
            runs.append(helper.run(user_msg=f"question {number}", memory=memory))
        await asyncio.gather(*runs)

    with captured() as capture:
        asyncio.run(main())
        found = {item.sample.question: (item.sample.answer, tuple(ids(item))) for item in capture.runs}

    assert found == {f"question {n}": (f"answer {n}", (f"doc-{n}",)) for n in range(6)}
    assert capture.handler.open_entries == 0
