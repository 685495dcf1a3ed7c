"""LlamaIndex applications that are each called once; independent of the watching."""

import asyncio
import inspect
from typing import Any

from llama_index.core import Settings, get_response_synthesizer
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.postprocessor import MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import ImageNode, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index_agents import ScriptedAgentLLM
from llama_index_fakes import Choose, ListRetriever, Questions, ScriptedLLM
from pydantic import BaseModel

TEXTS = {
    "refund": "Refunds are paid back within 14 days of receiving the returned item, to the original card.",
    "shipping": "Standard shipping takes 3 to 5 working days; express shipping takes one and costs 9 euros.",
    "warranty": "All coffee machines carry a two year warranty on pump and boiler, unless they were opened.",
    "hours": "The shop in Oslo opens at nine and closes at five in the evening, on Sundays at three.",
}
QUESTION = "How long do refunds take?"
ANSWER = "Refunds are paid back within 14 days to the original card."
PLAIN = ("refund", "shipping")


def with_events(model: Any) -> Any:
    """Return the model with events, as every model of LlamaIndex's fires."""
    methods = {}
    for way in ("", "a", "stream_", "astream_"):
        for verb, callback in (("chat", llm_chat_callback), ("complete", llm_completion_callback)):
            own = model.__dict__.get(way + verb)
            if own is not None:
                methods[way + verb] = callback()(inspect.unwrap(own))
    return type(model.__name__, (model,), {"__module__": __name__, **methods})


Model, AgentModel = with_events(ScriptedLLM), with_events(ScriptedAgentLLM)


def found(*names: str, error: BaseException | None = None, **metadata: Any) -> ListRetriever:
    """Return a retriever that finds these texts."""
    hidden = list(metadata)
    nodes = [
        TextNode(id_=name, text=TEXTS[name], metadata=metadata, excluded_llm_metadata_keys=hidden)
        for name in names
    ]
    return ListRetriever(nodes, error)


def says(*script: str, **fields: Any) -> Any:
    """Return a model that replies with these, one after the other, then with the last one."""
    left = list(script or (ANSWER,))
    model = Model(reply=lambda _: left.pop(0) if len(left) > 1 else left[0], **fields)
    model.prompts = []
    return model


def calls(*script: Any) -> AgentModel:
    """Return a model that calls these tools, or replies with these."""
    model = AgentModel()
    model.script, model.seen = [*script], []
    return model


Settings.llm = says()  # some parts request OpenAI's where there is none


def engine(retriever: Any = None, *script: str, **options: Any) -> RetrieverQueryEngine:
    """Return the usual tutorial engine."""
    options.setdefault("llm", says(*script))
    return RetrieverQueryEngine.from_args(retriever or found(*PLAIN), **options)


def streamed_asynchronously() -> None:
    async def read() -> None:
        response = await engine(streaming=True).aquery(QUESTION)
        async for _ in response.async_response_gen():
            pass

    asyncio.run(read())


DRAFT = "Refunds are paid back within 14 days, as it seems so far."


def condensed_chat() -> None:
    told = [
        ChatMessage("I returned my grinder.", role=MessageRole.USER),
        ChatMessage("Thank you for telling us.", role=MessageRole.ASSISTANT),
    ]
    model = says(QUESTION, ANSWER, chats=True)
    CondensePlusContextChatEngine.from_defaults(found(*PLAIN), llm=model, chat_history=told).chat(
        "And how long?"
    )


def tools(*engines: Any) -> list[QueryEngineTool]:
    """Return engines as tools, by name."""
    return [
        QueryEngineTool.from_defaults(one, name=f"terms_{place}", description="The terms.")
        for place, one in enumerate(engines)
    ]


def sub_questions() -> None:
    first = engine(found("refund"), "Money comes back within 14 days of the return.")
    second = engine(found("shipping"), "Express shipping costs 9 euros.")
    SubQuestionQueryEngine(
        Questions(), get_response_synthesizer(llm=says()), tools(first, second), use_async=False, verbose=False
    ).query(QUESTION)


def fused() -> None:
    both = QueryFusionRetriever(
        [found(*PLAIN), found("shipping", "hours")],
        llm=says(),
        num_queries=1,
        similarity_top_k=3,
        use_async=False,
    )
    engine(both).query(QUESTION)


def sentence_window() -> None:
    window = found("refund", window=f"{TEXTS['refund']} Shipping is not paid back, however.")
    engine(window, node_postprocessors=[MetadataReplacementPostProcessor("window")]).query(QUESTION)


class Retrieved(Event):
    """The event that one step passes to the next."""

    nodes: Any
    query: str


class Flow(Workflow):
    """Retrieve in one step, answer in the next."""

    @step
    async def retrieve(self, ev: StartEvent) -> Retrieved:
        return Retrieved(nodes=await found(*PLAIN).aretrieve(ev.query), query=ev.query)

    @step
    async def answer(self, ev: Retrieved) -> StopEvent:
        return StopEvent(result=await get_response_synthesizer(llm=says()).asynthesize(ev.query, ev.nodes))


class PromptFlow(Workflow):
    """One step that retrieves and writes its own prompt; the result is a text."""

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        nodes = await found(*PLAIN).aretrieve(ev.query)
        prompt = "\n\n".join(one.get_content() for one in nodes) + f"\n\nQuestion: {ev.query}"
        return StopEvent(result=(await says().acomplete(prompt)).text)


def ran(flow: Any, **given: Any) -> None:
    """Run a workflow, or an agent, to its end."""

    async def main() -> None:
        await flow.run(**given)

    asyncio.run(main())


def agent_with_engine() -> None:
    model = calls([("terms_0", {"input": "refunds"})], ANSWER)
    engines = tools(engine(None, "Money comes back within 14 days of the return."))
    ran(FunctionAgent(tools=engines, llm=model, streaming=False), user_msg=QUESTION)


def agent_with_a_search_of_its_own() -> None:
    def look_up(query: str) -> list[dict[str, str]]:
        """Look the terms up."""
        return [{"id": name, "text": TEXTS[name]} for name in PLAIN]

    model = calls([("look_up", {"query": "refunds"})], ANSWER)
    ran(
        FunctionAgent(tools=[FunctionTool.from_defaults(look_up)], llm=model, streaming=False),
        user_msg=QUESTION,
    )


def retriever_tool() -> None:
    search = RetrieverTool.from_defaults(found(*PLAIN), name="search", description="The terms.")
    model = calls([("search", {"input": "refunds"})], ANSWER)
    ran(FunctionAgent(tools=[search], llm=model, streaming=False), user_msg=QUESTION)


def two_engines() -> None:
    """Two engines are called by a function, and a model joins their answers."""

    async def flow() -> None:
        first = await engine(found("refund"), "Money comes back within 14 days of the return.").aquery(QUESTION)
        second = await engine(found("shipping"), "Express shipping costs 9 euros.").aquery(QUESTION)
        await says().acomplete(f"{first}\n{second}\nQuestion: {QUESTION}")

    asyncio.run(flow())


def many_at_once() -> None:
    async def both() -> None:
        await asyncio.gather(
            engine().aquery(QUESTION), engine(found("hours"), "At nine.").aquery("When is it open?")
        )

    asyncio.run(both())


class Graded(Workflow):
    """A model decides for each text whether it is used."""

    @step
    async def retrieve(self, ev: StartEvent) -> Retrieved:
        grades = says("no", "yes", "yes")
        nodes = await found("hours", *PLAIN).aretrieve(ev.query)
        words = [
            (await grades.acomplete(f"Is this about {ev.query}\n{one.text}\nyes or no?")).text for one in nodes
        ]
        kept = [one for one, word in zip(nodes, words, strict=True) if word == "yes"]
        return Retrieved(nodes=kept, query=ev.query)

    @step
    async def answer(self, ev: Retrieved) -> StopEvent:
        return StopEvent(result=await get_response_synthesizer(llm=says()).asynthesize(ev.query, ev.nodes))


class Rephrased(Workflow):
    """The question under a custom name, rewritten for the search; the result is a mapping."""

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        better = (await says("time until money is paid back").acomplete(f"Rewrite: {ev.question}")).text
        nodes = await found(*PLAIN).aretrieve(better)
        said = await get_response_synthesizer(llm=says()).asynthesize(ev.question, nodes)
        return StopEvent(result={"answer": str(said), "sources": [one.node_id for one in nodes]})


def reranked() -> None:
    class Last(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            return nodes[::-1][:2]

    engine(found("hours", *PLAIN), node_postprocessors=[Last()]).query(QUESTION)


def cited() -> None:
    CitationQueryEngine.from_args(None, retriever=found(*PLAIN), llm=says(f"{ANSWER} [1]")).query(QUESTION)


def with_metadata() -> None:
    """Templates put metadata before each text."""
    nodes = [TextNode(id_=name, text=TEXTS[name], metadata={"file": f"{name}.md"}) for name in PLAIN]
    engine(ListRetriever(nodes)).query(QUESTION)


def react_agent() -> None:
    """It calls its tool, an engine, in words."""
    act = 'Thought: I have to look.\nAction: terms_0\nAction Input: {"input": "refunds"}'
    model = says(act, f"Thought: I can answer.\nAnswer: {ANSWER}", chats=True)
    engines = tools(engine(None, "Money comes back within 14 days of the return."))
    ran(ReActAgent(tools=engines, llm=model, streaming=False), user_msg=QUESTION)


class Fields(BaseModel):
    """What an engine fills."""

    days: int
    paid_to: str


def with_picture() -> None:
    nodes = [TextNode(id_=name, text=TEXTS[name]) for name in PLAIN]
    engine(ListRetriever([*nodes, ImageNode(id_="picture", image="aGk=")])).query(QUESTION)


def shared_node() -> None:
    """Two sub-questions find one node; the second one's postprocessor drops it."""

    class First(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            return nodes[:1]

    first = engine(found(*PLAIN), "Money comes back within 14 days of the return.")
    second = engine(found("warranty", "refund"), "Two years on the pump.", node_postprocessors=[First()])
    SubQuestionQueryEngine(
        Questions(), get_response_synthesizer(llm=says()), tools(first, second), use_async=False, verbose=False
    ).query(QUESTION)


APPLICATIONS = {
    "query": lambda: engine().query(QUESTION),
    "asynchronous": lambda: asyncio.run(engine().aquery(QUESTION)),
    "streamed": lambda: list(engine(streaming=True).query(QUESTION).response_gen),
    "streamed asynchronously": streamed_asynchronously,
    "refined": lambda: engine(None, DRAFT, ANSWER, response_mode="refine").query(QUESTION),
    "summarized": lambda: engine(response_mode="tree_summarize").query(QUESTION),
    "accumulated": lambda: engine(
        None, "Within 14 days of the return.", "This says nothing of refunds.", response_mode="accumulate"
    ).query(QUESTION),
    "without text": lambda: engine(response_mode="no_text").query(QUESTION),
    "chat": lambda: ContextChatEngine.from_defaults(found(*PLAIN), llm=says(chats=True)).chat(QUESTION),
    "condensed chat": condensed_chat,
    "streamed chat": lambda: list(
        ContextChatEngine.from_defaults(found(*PLAIN), llm=says(chats=True)).stream_chat(QUESTION).response_gen
    ),
    "sub questions": sub_questions,
    "routed": lambda: RouterQueryEngine(Choose(1), tools(engine(found("hours")), engine()), llm=says()).query(
        QUESTION
    ),
    "fused": fused,
    "hypothetical document": lambda: TransformQueryEngine(
        engine(), HyDEQueryTransform(llm=says("Money comes back in two weeks."))
    ).query(QUESTION),
    "cut off": lambda: engine(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.95)]).query(
        QUESTION
    ),
    "sentence window": sentence_window,
    "nothing found": lambda: engine(found()).query(QUESTION),
    "retriever fails": lambda: engine(found(error=LookupError("the store is down"))).query(QUESTION),
    "model fails": lambda: engine(llm=says(fail_with=RuntimeError("model failed"))).query(QUESTION),
    "retriever alone": lambda: found(*PLAIN).retrieve(QUESTION),
    "workflow": lambda: ran(Flow(timeout=60), query=QUESTION),
    "workflow with its own prompt": lambda: ran(PromptFlow(timeout=60), query=QUESTION),
    "agent with engine": agent_with_engine,
    "agent with a search of its own": agent_with_a_search_of_its_own,
    "retriever tool": retriever_tool,
    "two engines": two_engines,
    "many at once": many_at_once,
    "graded workflow": lambda: ran(Graded(timeout=60), query=QUESTION),
    "rephrasing workflow": lambda: ran(Rephrased(timeout=60), question=QUESTION),
    "reranked": reranked,
    "cited": cited,
    "with metadata": with_metadata,
    "agent in words": react_agent,
    "fields": lambda: engine(None, '{"days": 14, "paid_to": "the card"}', output_cls=Fields).query(QUESTION),
    "with a picture": with_picture,
    "shared node": shared_node,
    "context only": lambda: engine(response_mode="context_only").query(QUESTION),
}
