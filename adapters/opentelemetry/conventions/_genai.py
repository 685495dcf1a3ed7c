"""The GenAI semantic conventions, and the agent frameworks whose spans follow them.

A retrieval by these conventions has ids and scores, and no texts; some emitters add them. Pydantic AI and the
Vercel AI SDK use the same names and differ in the places of the request's question and answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.documents import Document, documents_in
from ragmeter.adapters.reading.messages import last_of, messages_in
from ragmeter.adapters.reading.request_texts import answer_in, question_in
from ragmeter.adapters.reading.values import is_hidden, opened

from ._any import AnySpan
from ._messages import said_in, sent_in
from ._reader import Documents, Reader, Role, reported_documents

_OPERATION = "gen_ai.operation.name"
_ROLES: Mapping[str, Role] = {
    "invoke_workflow": "step",
    "invoke_agent": "step",
    "create_agent": "other",
    "retrieval": "retrieval",
    "rerank": "rerank",
    "execute_tool": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "other",
    "search_memory": "other",
}
_ANY = AnySpan()
_VARIABLE = "gen_ai.prompt.variable."
_RECORDS = "gen_ai.memory.records"
_OUTPUTS = "gen_ai.output.messages"


class GenAI(Reader):
    """Reads spans of the GenAI semantic conventions."""

    name = "gen_ai"
    switch = "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
    input_key = "gen_ai.input.messages"
    output_key = _OUTPUTS

    def role(self, span: SpanRecord) -> Role | None:
        operation = span.attributes.get(_OPERATION)
        return _ROLES.get(operation) if isinstance(operation, str) else None

    def tool_name(self, span: SpanRecord) -> str:
        return str(span.attributes.get("gen_ai.tool.name") or span.name.removeprefix("execute_tool "))

    def question(self, span: SpanRecord) -> str | None:
        asked = last_of(sent_in(span), "user")
        if asked is None:
            return _ANY.question(span) if self.role(span) == "step" else None
        return question_in(opened(asked))  # the input of a chain is JSON there

    def query(self, span: SpanRecord) -> str | None:
        query = span.attributes.get("gen_ai.retrieval.query.text")
        if isinstance(query, str):
            return None if is_hidden(query) or not query else query
        return _ANY.query(span) if self.role(span) == "tool" else None

    def answer(self, span: SpanRecord) -> str | None:
        # The text of all steps is in one message, before the tools' calls and results.
        said = said_in(span)
        is_own = self.role(span) == "step" and _OUTPUTS not in span.attributes
        return _ANY.answer(span) if said is None and is_own else said

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        return sent_in(span)

    def documents(self, span: SpanRecord) -> Documents:
        if self.role(span) == "rerank" and "gen_ai.retrieval.documents" not in span.attributes:
            return Documents(missing="rerank_invisible")
        asked = "gen_ai.retrieval.query.text" in span.attributes
        found = reported_documents(
            span,
            span.attributes.get("gen_ai.retrieval.documents", span.attributes.get(_RECORDS)),
            "convention_has_no_text" if asked else "content_off",
            "convention_has_no_text",
        )
        is_whole = found.items and all(item.text is not None for item in found.items)
        if found.missing is not None or is_whole:
            return found
        return found._replace(missing="convention_has_no_text")

    def result(self, span: SpanRecord) -> Any:
        value = opened(span.attributes.get("gen_ai.tool.call.result", span.attributes.get(_RECORDS)))
        if value is not None:
            return value
        # Under separate names, or in an event: of the tool's call, or of its choice.
        other = _ANY.result(span)
        return said_in(span) if other is None else other

    def variables(self, span: SpanRecord) -> Mapping[str, Any]:
        homes = (span.attributes, *(event.attributes for event in span.events))
        return {
            key[len(_VARIABLE) :]: value
            for home in homes
            for key, value in home.items()
            if key.startswith(_VARIABLE)
        }


class PydanticAI(GenAI):
    """Reads Pydantic AI's spans: the whole conversation and the final result are on the agent's span."""

    name = "pydantic_ai"
    switch = "let Instrumentation include content"

    def role(self, span: SpanRecord) -> Role | None:
        ours = span.scope == "pydantic-ai" or "pydantic_ai.all_messages" in span.attributes
        return super().role(span) if ours else None

    def question(self, span: SpanRecord) -> str | None:
        value = opened(span.attributes.get("pydantic_ai.all_messages"))
        if isinstance(value, list):
            begun = span.attributes.get("pydantic_ai.new_message_index")
            found = messages_in(value[begun:] if isinstance(begun, int) else value)
            return last_of(found, "user") or last_of(messages_in(value), "user")
        return super().question(span)

    def answer(self, span: SpanRecord) -> str | None:
        value = span.attributes.get("final_result")
        if isinstance(value, str) and value:
            return None if is_hidden(value) else answer_in(opened(value)) or value
        return super().answer(span) or last_of(
            messages_in(span.attributes.get("pydantic_ai.all_messages")), "assistant"
        )


class VercelAI(GenAI):
    """Reads the spans of the Vercel AI SDK, by the conventions or in its older form."""

    name = "vercel_ai_sdk"
    switch = "leave recordInputs and recordOutputs on"

    def role(self, span: SpanRecord) -> Role | None:
        operation = span.attributes.get("ai.operationId")
        if isinstance(operation, str):
            if operation == "ai.toolCall":
                return "tool"
            if operation.startswith("ai.rerank"):
                return "rerank"
            if "embed" in operation:
                return "other"
            return "model" if ".do" in operation else "step"
        return super().role(span) if span.scope == "ai" else None

    def tool_name(self, span: SpanRecord) -> str:
        named = span.attributes.get("ai.toolCall.name")
        return str(named) if named else super().tool_name(span)

    def question(self, span: SpanRecord) -> str | None:
        prompt = opened(span.attributes.get("ai.prompt"))
        if isinstance(prompt, dict):
            asked = prompt.get("prompt")
            if isinstance(asked, str):
                return None if is_hidden(asked) else asked
            return last_of(messages_in(asked if asked is not None else prompt), "user")
        return super().question(span)

    def answer(self, span: SpanRecord) -> str | None:
        for key in ("ai.response.text", "ai.response.object"):
            text = span.attributes.get(key)
            if isinstance(text, str) and text.strip():
                return None if is_hidden(text) else text
        return super().answer(span)

    def documents(self, span: SpanRecord) -> Documents:
        if self.role(span) != "rerank":
            return super().documents(span)
        given, ranking = self.reranked(span), opened(span.attributes.get("ai.ranking"))
        places = [opened(item) for item in ranking] if isinstance(ranking, (list, tuple)) else []
        kept = [
            given[item["index"]]._replace(score=item.get("relevanceScore"))
            for item in places
            if isinstance(item, dict) and item.get("index") in range(len(given))
        ]
        if not places or len(kept) < len(places):
            return Documents(missing="rerank_invisible")
        return Documents(tuple(kept))

    def reranked(self, span: SpanRecord) -> tuple[Document, ...]:
        return documents_in(span.attributes.get("ai.documents")) or ()

    def result(self, span: SpanRecord) -> Any:
        if "ai.toolCall.result" in span.attributes:
            return opened(span.attributes["ai.toolCall.result"])
        return super().result(span)

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        return messages_in(span.attributes.get("ai.prompt.messages")) or super().prompt(span)
