"""Eight ways in which LlamaIndex applications retrieve, each with the correct report.

`rivals.py` runs them with one tool attached; LlamaIndex has no callbacks per request, so the runs ignore
theirs. The model answers by rule, from its prompt: it names exactly the documents that it saw.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import CompletionResponse, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool
from rival_requests import Run, one, seen, text


class Model(FunctionCallingLLM):
    """Names the documents that it saw; calls the tools of its script first, if it has one."""

    script: list[Any] = []  # noqa: RUF012 -- a pydantic field, copied for each model

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="seeing", is_chat_model=True, is_function_calling_model=True)

    def _say(self, text: str) -> str:
        return seen(text)

    def _next(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        calls = self.script.pop(0) if self.script else []
        # A chat contains earlier turns, whose answers name documents, too: only retrieved ones count.
        told = "\n".join(str(item.content) for item in messages if item.role != MessageRole.ASSISTANT)
        message = ChatMessage(role=MessageRole.ASSISTANT, content="" if calls else self._say(told))
        message.additional_kwargs["calls"] = calls
        return ChatResponse(message=message, delta=message.content)

    def get_tool_calls_from_response(
        self, response: Any, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=f"call-{n}", tool_name=name, tool_kwargs=given)
            for n, (name, given) in enumerate(response.message.additional_kwargs["calls"])
        ]

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> dict[str, Any]:
        if isinstance(user_msg, str):
            user_msg = ChatMessage(role=MessageRole.USER, content=user_msg)
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return self._next(messages)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return self._next(messages)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return self._words(str(self._next(messages).message.content))

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        answer = self._next(messages)

        async def whole() -> Any:
            yield answer

        return whole()

    def _words(self, text: str) -> Any:
        so_far = ""
        for part in re.findall(r"[^,\s]+[,\s]*", text):
            so_far += part
            message = ChatMessage(role=MessageRole.ASSISTANT, content=so_far)
            yield ChatResponse(message=message, delta=part)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._say(prompt))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._say(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError("these runs stream chats only")

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError("these runs stream chats only")


class Finds(BaseRetriever):
    """Finds the same nodes for every query, with falling scores."""

    def __init__(self, *names: str) -> None:
        self.names = names
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=f"id-{n}", text=text(n)), score=0.9 - place / 10)
            for place, n in enumerate(self.names)
        ]


class Reverses(BaseNodePostprocessor):
    """Reranks in place, in the same list that it received, as many do."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes.reverse()
        return nodes


class AsksBoth(BaseQuestionGenerator):
    """Asks each tool one thing."""

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    def generate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return [SubQuestion(sub_question=f"ask {t.name}", tool_name=t.name) for t in tools]

    async def agenerate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.generate(tools, query)


def engine(retriever: BaseRetriever, **options: Any) -> RetrieverQueryEngine:
    streaming = options.pop("streaming", False)
    synthesizer = get_response_synthesizer(llm=Model(), streaming=streaming)
    return RetrieverQueryEngine(retriever, synthesizer, **options)


def tool(name: str, *names: str) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(engine(Finds(*names)), name=name, description=f"What {name} knows.")


def plain(_: list[Any]) -> None:
    engine(Finds("a", "b")).query("plain?")


def reranked(_: list[Any]) -> None:
    engine(Finds("a", "b", "c"), node_postprocessors=[Reverses()]).query("reranked?")


def streamed(_: list[Any]) -> None:
    for _part in engine(Finds("a", "b"), streaming=True).query("streamed?").response_gen:
        pass


def chat(_: list[Any]) -> None:
    talking = ContextChatEngine.from_defaults(retriever=Finds("a", "b"), llm=Model())
    talking.chat("first turn?")
    talking.chat("second turn?")


def sub_questions(_: list[Any]) -> None:
    SubQuestionQueryEngine(
        question_gen=AsksBoth(),
        response_synthesizer=get_response_synthesizer(llm=Model()),
        query_engine_tools=[tool("left", "a", "b"), tool("right", "c")],
        use_async=False,
    ).query("both sides?")


def fusion(_: list[Any]) -> None:
    fused = QueryFusionRetriever(
        [Finds("a", "b"), Finds("c")],
        llm=Model(),
        num_queries=1,
        similarity_top_k=3,
        use_async=False,
        mode="reciprocal_rerank",
    )
    engine(fused).query("fused?")


def agent(_: list[Any]) -> None:
    from llama_index.core.agent.workflow import FunctionAgent

    async def ask() -> None:
        script = [[("left", {"input": "ask left"})], [("right", {"input": "ask right"})]]
        tools = [tool("left", "a", "b"), tool("right", "c")]
        await FunctionAgent(tools=tools, llm=Model(script=script)).run("what does the agent know?")

    asyncio.run(ask())


def no_retrieval(_: list[Any]) -> None:
    Model().complete("hello?")


def runs() -> dict[str, Run]:
    """Return the runs by name."""
    both = ("a", "b", "c")
    return {
        "plain": Run(plain, (one("plain?", "a", "b"),)),
        "rerank in place": Run(reranked, (one("reranked?", "c", "b", "a"),)),
        "streamed": Run(streamed, (one("streamed?", "a", "b"),)),
        "chat of two turns": Run(chat, (one("first turn?", "a", "b"), one("second turn?", "a", "b"))),
        "sub-questions": Run(sub_questions, (one("both sides?", *both),)),
        "fusion": Run(fusion, (one("fused?", "a", "c", "b"),)),
        "agent with two tools": Run(agent, (one("what does the agent know?", *both),)),
        "no retrieval": Run(no_retrieval),
    }
