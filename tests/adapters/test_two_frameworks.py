"""Both frameworks in one request: the outermost is the request, the inner one's retrievals are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langgraph")
pytest.importorskip("llama_index.core.agent.workflow")

from expected import check
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langchain_fakes import FixedRetriever, ScriptedModel, TellingModel, agent, call, call_tool, docs, lcel
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index_agents import agent_llm
from llama_index_fakes import DOCUMENTS, QUESTION, ListRetriever, custom, engine_of, llm, nodes, run

from ragmeter import RagMeter, request, suppress
from ragmeter.adapters import instrument, uninstrument
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")

ANSWER = "France has Paris as its capital."
REPLY = "Paris is the answer."
FRANCE = {"question": QUESTION, "answer": ANSWER, "status": "ok"}


class Both:
    """A meter that both frameworks' requests go to."""

    def __init__(self) -> None:
        self.memory = InMemoryExporter()
        self.meter = RagMeter(metrics=["retrieval_health"], exporters=[self.memory])
        self.config: Any = {}

    def expect(self, *requests: dict[str, Any]) -> list[ScoredRun]:
        """Check that these are the requests, in the order in which they began."""
        assert self.meter.flush(60)
        found = sorted(self.memory.results, key=lambda one: one.run.started_ns)
        assert len(found) == len(requests), [(one.sample.question, one.sample.answer) for one in found]
        for one, facts in zip(found, requests, strict=True):
            check(one, facts)
        assert self.meter.stats().captured == len(requests)
        return found


@pytest.fixture(params=["instrument", "handlers"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """Yield a meter of both frameworks, attached in either way."""
    made = Both()
    if request.param == "instrument":
        instrument(made.meter)
        yield made
        uninstrument()
    else:
        made.config = {"callbacks": [RagMeterCallbackHandler(made.meter)]}
        with RagMeterHandler(made.meter) as handler:
            yield made
            assert handler.open_entries == 0
    made.meter.shutdown(60)


def engine_tool(engine: Any) -> Any:
    @tool
    def search(query: str) -> str:
        """Ask the engine."""
        return str(engine.query(query))

    return search


def ask_agent(both: Both, tools: list[Any], *script: Any, way: str = "invoke") -> None:
    """Ask LangChain's agent the question."""
    script = script or (call_tool("capital"), ANSWER)
    app = agent(ScriptedModel(script=list(script)), tools)
    call(app, {"messages": [("user", QUESTION)]}, both.config, way)


def ask_function_agent(tools: list[Any], *script: Any) -> None:
    """Ask LlamaIndex's agent the question."""
    script = script or ([("search", {"query": "capital"})], ANSWER)
    helper = FunctionAgent(name="helper", description="helps", tools=tools, llm=agent_llm(*script))
    run(helper, user_msg=QUESTION, memory=ChatMemoryBuffer.from_defaults(token_limit=3000))


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream", "batch"])
def test_an_agent_asks_an_engine_of_the_other_framework(both: Both, way: str) -> None:
    """The engine's answer stands in the agent's prompt: behind it stand the engine's documents."""
    ask_agent(both, [engine_tool(engine_of())], way=way)

    [one] = both.expect(
        {**FRANCE, "ids": ["paris", "rome"], "contexts_by": "prompt", "queries": ["capital"], "retrievals": 1}
    )
    assert one.run.framework == "langchain"
    assert one.run.retrievals[0].name == "ListRetriever"


def test_an_asynchronous_tool(both: Both) -> None:
    """The engine is awaited within the agent's loop."""

    @tool
    async def search(query: str) -> str:
        """Ask the engine."""
        return str(await engine_of().aquery(query))

    ask_agent(both, [search], way="ainvoke")
    both.expect({**FRANCE, "ids": ["paris", "rome"]})


def test_a_streaming_engine_within_a_tool(both: Both) -> None:
    """The tool reads the engine's stream."""

    @tool
    def search(query: str) -> str:
        """Ask the engine."""
        return "".join(engine_of(streaming=True).query(query).response_gen)

    ask_agent(both, [search])
    both.expect({**FRANCE, "ids": ["paris", "rome"]})


def test_a_chat_engine_within_a_tool(both: Both) -> None:
    """Its documents stand in its system prompt."""
    memory = ChatMemoryBuffer.from_defaults(token_limit=3000)

    @tool
    def search(query: str) -> str:
        """Chat."""
        chat = ContextChatEngine.from_defaults(ListRetriever(nodes()[:2]), llm=llm(), memory=memory)
        return str(chat.chat(query))

    ask_agent(both, [search])
    both.expect({**FRANCE, "ids": ["paris", "rome"]})


def test_only_retrieved_within_a_tool(both: Both) -> None:
    """What the tool cut off did not reach the agent."""

    @tool
    def search(query: str) -> str:
        """Retrieve, and hand out the first."""
        return "\n\n".join(one.text for one in ListRetriever(nodes()[:3]).retrieve(query)[:1])

    ask_agent(both, [search])
    both.expect({**FRANCE, "ids": ["paris"], "retrieved": ["paris", "rome", "tea"], "retrievals": 1})


def test_an_ignored_reply_is_no_evidence(both: Both) -> None:
    """Two engines are asked; only one reply stands in the prompt of the call that answered."""
    second = engine_of(nodes()[2:], "Tea is brewed with water that does not boil.")
    replies: list[str] = []

    def choose(question: str) -> str:
        replies.extend(
            (str(engine_of(model=f"{REPLY} It is in France.").query(question)), str(second.query(question)))
        )
        return f"Notes: {replies[0]}\nQuestion: {question}"

    chain = RunnableLambda(choose) | ScriptedModel(script=[ANSWER]) | (lambda message: message.content)
    call(chain, QUESTION, both.config, "invoke")
    both.expect({**FRANCE, "ids": ["paris", "rome"], "retrievals": 2})


def test_both_frameworks_retrieve(both: Both) -> None:
    """The chain's own documents and the engine's, in the prompt's order."""
    asks = RunnableLambda(lambda question: str(engine_of(model=f"{REPLY} It is in France.").query(question)))
    finds = FixedRetriever(found=docs("a")) | (lambda found: found[0].page_content)
    chain = (
        RunnableParallel(notes=asks, found=finds, question=RunnableLambda(str))
        | RunnableLambda(lambda state: "{notes}\n\n{found}\n\nQuestion: {question}".format(**state))
        | ScriptedModel(script=[ANSWER])
        | (lambda message: message.content)
    )
    call(chain, QUESTION, both.config, "invoke")
    both.expect({**FRANCE, "ids": ["paris", "rome", "id-a"], "retrievals": 2})


def test_an_engines_answer_handed_on_as_it_is(both: Both) -> None:
    """No model of the chain's own: the engine's call answered."""
    chain = RunnableLambda(lambda question: str(engine_of().query(question)))
    call(chain, QUESTION, both.config, "invoke")
    both.expect({"question": QUESTION, "answer": REPLY, "status": "ok", "ids": ["paris", "rome"]})


def test_a_tool_without_a_request_around_it(both: Both) -> None:
    """Nothing is the user's request but the engine's own."""
    engine_tool(engine_of()).invoke({"query": QUESTION}, both.config)
    both.expect(
        {"question": QUESTION, "answer": REPLY, "ids": ["paris", "rome"], "name": "RetrieverQueryEngine"}
    )


def test_an_engine_on_its_own_is_a_request(both: Both) -> None:
    """Before, after and beside a chain, whose stream its reader interrupts."""
    engine_of().query(QUESTION)
    chain = lcel(FixedRetriever(found=docs("a")))
    for at, _ in enumerate(chain.stream("who?", both.config)):
        if at == 0:
            engine_of().query(QUESTION)
    engine_of().query(QUESTION)
    alone = {"question": QUESTION, "answer": REPLY, "ids": ["paris", "rome"]}
    both.expect(alone, {"question": "who?", "answer": "saw doc-a", "ids": ["id-a"]}, alone, alone)


def chain_tool(both: Both, chain: Any) -> FunctionTool:
    def search(query: str) -> str:
        """Ask the chain."""
        return str(chain.invoke(query, both.config))

    return FunctionTool.from_defaults(search, name="search")


def paris() -> list[Document]:
    return [Document(text, id=id_) for id_, text in list(DOCUMENTS.items())[:2]]


def test_an_agent_of_the_other_framework_asks_a_chain(both: Both) -> None:
    """Called in a thread, with the agent's context."""
    model = ScriptedModel(script=[REPLY])
    ask_function_agent([chain_tool(both, lcel(FixedRetriever(found=paris()), model))])

    [one] = both.expect(
        {**FRANCE, "ids": ["paris", "rome"], "contexts_by": "prompt", "queries": ["capital"], "retrievals": 1}
    )
    assert one.run.framework == "llama_index"
    assert one.run.retrievals[0].name == "FixedRetriever"


def test_an_agent_of_the_other_framework_awaits_a_retriever(both: Both) -> None:
    """Its documents stand in the agent's prompt themselves."""

    async def search(query: str) -> str:
        """Retrieve."""
        return "\n\n".join(
            one.page_content for one in await FixedRetriever(found=paris()).ainvoke(query, both.config)
        )

    ask_function_agent([FunctionTool.from_defaults(async_fn=search, name="search")])
    both.expect({**FRANCE, "ids": ["paris", "rome"], "retrievals": 1})


def test_a_query_engine_that_runs_a_chain(both: Both) -> None:
    """A custom engine is the request, the chain's answer its answer."""
    chain = lcel(FixedRetriever(found=paris()), ScriptedModel(script=[REPLY]))
    custom(lambda question: chain.invoke(question, both.config)).query(QUESTION)
    both.expect({"question": QUESTION, "answer": REPLY, "ids": ["paris", "rome"], "name": "Custom"})


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
def test_a_workflow_whose_model_is_the_other_frameworks(both: Both, way: str) -> None:
    """What stood in the model's prompt reached it, and no more."""

    class Flow(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            found = await ListRetriever(nodes()[:3]).aretrieve(ev.query)
            prompt = f"Context:\n{found[0].text}\n\n{found[1].text}\n\nQuestion: {ev.query}"
            model = ScriptedModel(script=[ANSWER])
            if way == "ainvoke":
                reply = (await model.ainvoke(prompt, both.config)).content
            elif way == "stream":
                reply = "".join(str(one.content) for one in model.stream(prompt, both.config))
            else:
                reply = model.invoke(prompt, both.config).content
            return StopEvent(result=reply)

    run(Flow(timeout=60), query=QUESTION)
    both.expect({**FRANCE, "ids": ["paris", "rome"], "contexts_by": "prompt", "name": "Flow"})


def test_many_at_once_do_not_mix(both: Both) -> None:
    """Each agent's engine is its own."""

    async def one(place: int) -> None:
        found = nodes({f"n{place}": f"City number {place} is the capital of country number {place}."})

        @tool
        async def search(query: str) -> str:
            """Ask the engine."""
            return str(await engine_of(found, f"The capital is city number {place}.").aquery(query))

        app = agent(ScriptedModel(script=[call_tool("capital"), f"It is city number {place}."]), [search])
        await app.ainvoke({"messages": [("user", f"What is capital {place}?")]}, both.config)

    async def main() -> None:
        await asyncio.gather(*[one(place) for place in range(8)])

    asyncio.run(main())
    assert both.meter.flush(60)
    found = {one.sample.question: one for one in both.memory.results}
    assert len(found) == len(both.memory.results) == 8
    for place in range(8):
        check(
            found[f"What is capital {place}?"], {"ids": [f"n{place}"], "answer": f"It is city number {place}."}
        )


def test_an_engine_that_failed_is_followed_by_another(both: Both) -> None:
    """The agent is told of the failure and asks again."""

    @tool
    def search(query: str) -> str:
        """Ask the engine."""
        if query == "broken":
            try:
                return str(engine_of(ListRetriever([], LookupError("store is down"))).query(query))
            except LookupError:
                return "failed"
        return str(engine_of().query(query))

    ask_agent(both, [search], call_tool("broken"), call_tool("capital"), ANSWER)
    both.expect({**FRANCE, "ids": ["paris", "rome"], "retrievals": 2})


def test_a_model_without_retrieval_within_a_chain(both: Both) -> None:
    """It rewrites the question; the chain's own retrieval is the only one."""
    rewrites = RunnableLambda(lambda question: (llm("capital France").complete(question), question)[1])
    call(rewrites | lcel(FixedRetriever(found=docs("a"))), "who?", both.config, "invoke")
    both.expect({"question": "who?", "answer": "saw doc-a", "ids": ["id-a"], "retrievals": 1})


def test_a_group_of_the_application_holds_the_outermost(both: Both) -> None:
    """The inner engine is a part of the agent's part."""
    with request(QUESTION, meter=both.meter.port):
        ask_agent(both, [engine_tool(engine_of())])
        call(lcel(FixedRetriever(found=docs("a")), TellingModel()), "who?", both.config, "invoke")
    both.expect({"question": QUESTION, "answer": "saw doc-a", "any_order": ["id-a", "paris", "rome"]})


def test_a_retriever_that_asks_the_other_frameworks_is_one_retrieval(both: Both) -> None:
    """The outer one returns what the inner one found."""

    class Adapted(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(one.text, id=one.node_id) for one in ListRetriever(nodes()[:2]).retrieve(query)]

    call(lcel(Adapted(), ScriptedModel(script=[REPLY])), QUESTION, both.config, "invoke")
    both.expect({"question": QUESTION, "answer": REPLY, "ids": ["paris", "rome"], "retrievals": 1})


def test_the_inner_engines_stages_are_kept(both: Both) -> None:
    """Its reranker dropped a document before its model."""

    class First(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            return nodes[:1]

    ask_agent(both, [engine_tool(engine_of(node_postprocessors=[First()]))])
    [one] = both.expect({**FRANCE, "ids": ["paris"], "retrieved": ["paris", "rome"]})
    stages = [(stage.name, stage.kind, len(stage.contexts or ())) for stage in one.sample.stages or ()]
    assert stages == [("ListRetriever", "retriever", 2), ("First", "postprocessor", 1)]


def test_what_is_not_captured_hides_what_is_within(both: Both) -> None:
    """The application asked to ignore the agent's request."""
    with suppress():
        ask_agent(both, [engine_tool(engine_of())])
    app = agent(ScriptedModel(script=[call_tool("capital"), ANSWER]), [engine_tool(engine_of())])
    given = {"messages": [("user", QUESTION)]}
    app.invoke(given, {**both.config, "tags": ["ragmeter:ignore"]})
    both.expect()


def test_an_engine_that_outlives_the_agent_is_a_request(both: Both) -> None:
    """The tool only began its stream, which is read later."""
    streams: list[Any] = []

    @tool
    def search(query: str) -> str:
        """Begin a stream."""
        streams.append(engine_of(streaming=True).query(query))
        return "The answer is being written to the page."

    ask_agent(both, [search])
    assert "".join(streams[0].response_gen) == REPLY
    both.expect({"question": "capital", "answer": REPLY, "ids": ["paris", "rome"]})


def test_another_meters_handler_sees_its_own_request(both: Both) -> None:
    """A meter that only one framework reports to has that framework's request."""
    memory = InMemoryExporter()
    other = RagMeter(metrics=["retrieval_health"], exporters=[memory])
    with RagMeterHandler(other):
        ask_agent(both, [engine_tool(engine_of())])
    assert other.flush(60)
    [one] = memory.results
    check(one, {"question": "capital", "answer": REPLY, "ids": ["paris", "rome"]})
    other.shutdown(60)
    both.expect({**FRANCE, "ids": ["paris", "rome"]})
