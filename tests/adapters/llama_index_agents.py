"""A function-calling model that plays a script, for agents without network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.llms import CompletionResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

Step = Any
"""A text to reply, a list of ``(tool, arguments)`` to call at once, or an exception to raise."""


class ScriptedAgentLLM(FunctionCallingLLM):
    """Plays `script` step by step; records the messages it received."""

    script: list[Step] = []  # noqa: RUF012 -- a pydantic field
    seen: list[Any] = []  # noqa: RUF012

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True, model_name="script")

    def _next(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        self.seen.append("\n".join(str(message.content) for message in messages))
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        calls = [] if isinstance(step, str) else step
        message = ChatMessage(role=MessageRole.ASSISTANT, content=step if not calls else "")
        message.additional_kwargs["calls"] = list(calls)
        return ChatResponse(message=message, delta=message.content or "")

    def get_tool_calls_from_response(
        self, response: Any, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=f"call-{place}", tool_name=name, tool_kwargs=arguments)
            for place, (name, arguments) in enumerate(response.message.additional_kwargs["calls"])
        ]

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> dict[str, Any]:
        if isinstance(user_msg, str):
            user_msg = ChatMessage(role=MessageRole.USER, content=user_msg)
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return self._next(messages)

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self._next(messages)

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return iter([self._next(messages)])

    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        async def one() -> Any:
            await asyncio.sleep(0)
            yield self._next(messages)

        return one()

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        return CompletionResponse(text=str(self._next([ChatMessage(content=prompt)]).message))

    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        return self.complete(prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        return iter([self.complete(prompt)])

    async def astream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        async def one() -> Any:
            yield self.complete(prompt)

        return one()


def agent_llm(*script: Step) -> ScriptedAgentLLM:
    """Return a model with a script and its own record."""
    model = ScriptedAgentLLM()
    model.script = list(script)
    model.seen = []
    return model
